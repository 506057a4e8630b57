"""The points of a sweep: every combination of the values, by every rule, in every mode."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from otpe import check, files
from otpe.lab.runs import build_network, check_settings, compare
from otpe.lab.runs.custom import NONE, Own
from otpe.lab.settings import FREE, CompareConfig, SweepConfig, TrainConfig

Axes = dict[str, tuple[Any, ...]]  # settings and their values
SHAPE = ("width", "depth")
OTHERWISE = {
    "rule": "rules is for that",
    "mode": "modes is for that",
    "seeds": "it is the same at every point, and so is the number of accuracies",
    "start": "it is the same at every point",
    **dict.fromkeys((*FREE, "snapshots", "align"), "no accuracy depends on it"),
}
KINDS = {**get_type_hints(TrainConfig), "width": int, "depth": int}
EXAMPLE = "such as slope=5,10,25"


@dataclass(frozen=True)
class Point:
    """One run of the sweep."""

    at: dict[str, Any]  # its value of every setting that is swept
    run: TrainConfig

    @property
    def name(self) -> str:
        """Of its folder, such as otpe-offline-slope=5-width=128."""
        words = [self.run.rule, self.run.mode, *(f"{name}={text(value)}" for name, value in self.at.items())]
        name = re.sub(r"[^\w.=+-]+", "-", "-".join(words))
        if name == files.short_name(name):
            return name
        return f"{files.short_name(name)}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"  # others may begin like it


def text(value: Any) -> str:
    """A value as it is given: the layers of a network joined by x."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def axes(over: Any) -> Axes:
    """What is swept over."""
    if not isinstance(over, tuple | list) or not over or not all(isinstance(part, str) for part in over):
        raise ValueError(f"over is {over!r}, expected settings and their values, {EXAMPLE} width=128,256.")
    found: Axes = {}
    for part in over:
        given, _, values = part.partition("=")
        name = given.strip().replace("-", "_")
        if not values:
            raise ValueError(f"over has {part!r}, expected a setting and its values, {EXAMPLE}.")
        if name in OTHERWISE:
            raise ValueError(f"over has {name!r}: {OTHERWISE[name]}. Sweep over another setting, {EXAMPLE}.")
        check.one_of("setting", name, [known for known in KINDS if known not in OTHERWISE])
        if name in found:
            raise ValueError(f"over has {name!r} twice, expected all its values at once: {name}=A,B.")
        found[name] = tuple(_value(name, value.strip()) for value in values.split(","))
        if len(set(found[name])) < len(found[name]):
            raise ValueError(f"over has {part!r}, expected no value twice.")
    return found


def points(config: SweepConfig, own: Own = NONE) -> tuple[list[Point], list[str]]:
    """Every point, found in order, those on the same data one behind the other; and what is left out."""
    found = axes(config.over)
    _check_together(config, found, own)
    made, left_out = [], []
    for values in product(*found.values()):
        at = dict(zip(found, values, strict=True))
        there = _settings(config, at)
        runs, left_out = compare.planned(there, own)
        if own.net is None:
            build_network.check_network(there)
        made += [Point(at, run) for run in runs]
    order = {key: i for i, key in enumerate(dict.fromkeys(map(data_key, made)))}
    return sorted(made, key=lambda point: order[data_key(point)]), left_out


def data_key(point: Point) -> tuple[Any, ...]:
    """Equal where two points have the same data."""
    return tuple(getattr(point.run, name) for name in DATA)


DATA = ("dataset", *(name for name in check_settings.USED_BY if not name.endswith("_samples")))


def spans_a_decade(values: Sequence[Any]) -> bool:
    return min(values) > 0 and math.log10(max(values) / min(values)) >= 1


def is_number(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _value(name: str, given: str) -> Any:
    """As the setting has it."""
    kind = KINDS[name]
    if NoneType in get_args(kind):
        if given == "None":
            return None
        kind = next(part for part in get_args(kind) if part is not NoneType)
    try:
        if get_origin(kind) is tuple:
            return tuple(int(part) for part in given.split("x"))
        return {"True": True, "False": False}[given] if kind is bool else kind(given) if kind in (int, float) else given
    except (ValueError, KeyError):
        expected = {int: "a whole number", float: "a number", bool: "True or False"}.get(kind, "numbers joined by x")
        raise ValueError(f"over has {given!r} as a value of {name}, expected {expected}.") from None


def _settings(config: SweepConfig, at: Mapping[str, Any]) -> CompareConfig:
    """Of the runs at one combination of values."""
    shared = {field.name: getattr(config, field.name) for field in fields(CompareConfig)}
    given = {name: value for name, value in at.items() if name not in SHAPE}
    if any(name in at for name in SHAPE):
        hidden = config.hidden
        width = at.get("width", hidden[0] if hidden else None)
        depth = check.count("depth", at.get("depth", len(hidden) + 1))
        given["hidden"] = (check.count("width", width),) * (depth - 1)
    return CompareConfig(**{**shared, **given})


def _check_together(config: SweepConfig, found: Axes, own: Own) -> None:
    """What contradicts another setting, or would be without effect."""
    shape = [name for name in SHAPE if name in found]
    if shape and "hidden" in found:
        raise ValueError(f"over has hidden and {shape[0]}, which both say how wide the layers are. Use one of them.")
    if "width" in found and (min(found["depth"]) if "depth" in found else len(config.hidden) + 1) < 2:
        raise ValueError("over has width, but a network of depth 1 has no hidden layer. Use depth=2 or more.")
    if (shape and len({*config.hidden}) > 1) or (len(shape) == 2 and config.hidden != SweepConfig.hidden):
        raise ValueError(f"over has {shape[0]}, but hidden is {config.hidden!r}: it contradicts it. Leave hidden out.")
    if "depth" in found and "width" not in found and not config.hidden:
        raise ValueError("over has depth, but hidden is (), which does not say how wide. Sweep over width too.")
    if "learning_rate" in found and config.online_learning_rate is not None:
        raise ValueError(
            f"over has learning_rate, but online_learning_rate is {config.online_learning_rate!r}: online it would"
            " change nothing. Leave online_learning_rate out."
        )
    for name in ("every", "traces"):
        if name in found and tuple(config.modes) != ("online",):
            raise ValueError(f"over has {name}, which is for mode 'online', but modes is {config.modes!r}.")
    for name in found:
        if own.data is not None and name in DATA:
            raise ValueError(f"over has {name}, but the data is your own, which does not depend on it.")
        if own.net is not None and name in (*build_network.NETWORK, *SHAPE):
            raise ValueError(f"over has {name}, but the network is your own, which does not depend on it.")
        if own.loss is not None and name == "loss":
            raise ValueError("over has loss, but the loss is your own. Leave one of them out.")


# --------------------
# What comes out of a sweep.


@dataclass(frozen=True)
class SweepResult:
    """Accuracies over rules, modes, every setting that was swept, and seeds; NaN where a run is missing."""

    axes: Axes  # settings and their values, in the order of the arrays' axes
    rules: tuple[str, ...]
    modes: tuple[str, ...]
    accuracy: np.ndarray  # of the test, [rules, modes, *axes, seeds]
    valid_accuracy: np.ndarray  # the same of validation, by which the best point is chosen
    points: list[dict[str, Any]]  # as sweep.json has them
    left_out: list[str]
    folder: Path
    dataset: str

    def best(self, rule: str, mode: str) -> dict[str, Any] | None:
        """The point that validated best, the mean over seeds; None where there is none."""
        finished = [p for p in self.points if (p["rule"], p["mode"], p["state"]) == (rule, mode, "finished")]
        return max(finished, key=lambda point: np.mean(point["valid_accuracy"]), default=None)

    @property
    def diverged(self) -> list[str]:
        return [f"{point['name']}: {point['why']}" for point in self.points if point["state"] == "diverged"]

    def __str__(self) -> str:
        over = ", ".join(f"{name} of {', '.join(map(text, values))}" for name, values in self.axes.items())
        return f"{len(self.points)} runs over {over}, in {self.folder}"

    def __repr__(self) -> str:
        return f"<SweepResult of {self}>"


def gathered(
    config: SweepConfig, axes: Axes, points: Sequence[dict[str, Any]], left_out: list[str], folder: Path
) -> SweepResult:
    """The arrays, from the records of the points."""
    rules, modes = (tuple(dict.fromkeys(point[what] for point in points)) for what in ("rule", "mode"))
    shape = (len(rules), len(modes), *map(len, axes.values()), config.seeds)
    found = {name: np.full(shape, np.nan) for name in ("test_accuracy", "valid_accuracy")}
    for point in points:
        if point["state"] == "finished":
            where = [values.index(point["at"][name]) for name, values in axes.items()]
            for name, array in found.items():
                array[rules.index(point["rule"]), modes.index(point["mode"]), *where] = point[name]
    accuracy, valid = found.values()
    return SweepResult(axes, rules, modes, accuracy, valid, [*points], left_out, folder, config.dataset)
