"""The points of a sweep: one run for each combination of values, rule and mode."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from types import NoneType
from typing import Any, get_args, get_origin

from otpe import check, files
from otpe.lab.nested_settings import field_names, field_types
from otpe.lab.runs import build_network, compare
from otpe.lab.runs.custom import NONE, CustomParts
from otpe.lab.settings import FREE, CompareConfig, DataSettings, NetworkSettings, SweepConfig, TrainConfig
from otpe.lab.studies.study import settings_as

Axes = dict[str, tuple[Any, ...]]  # the settings that are swept, and their values
SHAPE = ("width", "depth")  # both set `hidden`
NOT_SWEPT = {  # name of the setting -> reason
    "rule": "list the rules in rules instead",
    "mode": "list the modes in modes instead",
    "seeds": "every point has the same number of networks",
    "start": "every point starts from the same weights",
    **dict.fromkeys((*FREE, "snapshots", "align"), "no accuracy depends on it"),
}
KINDS = {**field_types(TrainConfig), "width": int, "depth": int}
EXAMPLE = "such as slope=5,10,25"


@dataclass(frozen=True)
class Point:
    """One run of the sweep."""

    at: dict[str, Any]  # the value of each swept setting at this point
    run: TrainConfig

    @property
    def name(self) -> str:
        """The name of its folder, such as otpe-offline-slope=5-width=128. A long name is cut and gets a hash."""
        words = [self.run.rule, self.run.mode, *(f"{name}={text(value)}" for name, value in self.at.items())]
        name = re.sub(r"[^\w.=+-]+", "-", "-".join(words))
        short = files.short_name(name)
        return name if name == short else f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def text(value: Any) -> str:
    """Return a value as the user writes it. Sizes of layers are joined by x: 128x128."""
    if isinstance(value, tuple):
        return "x".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def axes(over: Any) -> Axes:
    """Return the settings and values of `over`, such as ("slope=5,10", "width=64,128")."""
    if not isinstance(over, tuple | list) or not over or not all(isinstance(part, str) for part in over):
        raise ValueError(f"over is {over!r}, expected settings and their values, {EXAMPLE} width=128,256.")
    found: Axes = {}
    for part in over:
        given, _, values = part.partition("=")
        name = given.strip().replace("-", "_")
        if not values:
            raise ValueError(f"over has {part!r}, expected a setting and its values, {EXAMPLE}.")
        if name in NOT_SWEPT:
            raise ValueError(f"over has {name!r}: {NOT_SWEPT[name]}. Sweep over another setting, {EXAMPLE}.")
        check.one_of("setting", name, [known for known in KINDS if known not in NOT_SWEPT])
        if name in found:
            raise ValueError(f"over has {name!r} twice, expected all its values at once: {name}=A,B.")
        found[name] = tuple(_value(name, value.strip()) for value in values.split(","))
        if len(set(found[name])) < len(found[name]):
            raise ValueError(f"over has {part!r}, expected no value twice.")
    return found


def points(config: SweepConfig, own: CustomParts = NONE) -> tuple[list[Point], list[str]]:
    """Return every point, and a sentence for each rule that is left out. Raises for any invalid setting.

    Points on the same data are consecutive, so that data is made once.
    """
    found = axes(config.over)
    _check_combination(config, found, own)
    made, left_out = [], []
    for values in product(*found.values()):
        at = dict(zip(found, values, strict=True))
        settings = _settings(config, at)
        runs, left_out = compare.planned(settings, own)
        if own.net is None:
            build_network.check_network(settings)
        made += [Point(at, run) for run in runs]
    keys = list(dict.fromkeys(map(data_key, made)))
    return sorted(made, key=lambda point: keys.index(data_key(point))), left_out


def data_key(point: Point) -> tuple[Any, ...]:
    """The settings of the data. They are equal for two points on the same data."""
    return tuple(getattr(point.run, name) for name in DATA)


DATA = field_names(DataSettings)


def _value(name: str, given: str) -> Any:
    """Convert one value to the type of the setting."""
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
    """The settings of all runs at one combination of values."""
    given = {name: value for name, value in at.items() if name not in SHAPE}
    if any(name in at for name in SHAPE):
        hidden = config.hidden
        width = at.get("width", hidden[0] if hidden else None)
        depth = check.count("depth", at.get("depth", len(hidden) + 1))
        given["hidden"] = (check.count("width", width),) * (depth - 1)
    return settings_as(CompareConfig, config, **given)


def _check_combination(config: SweepConfig, found: Axes, own: CustomParts) -> None:
    """Raise for a swept setting that contradicts another setting or has no effect."""
    shape = [name for name in SHAPE if name in found]
    if shape and "hidden" in found:
        raise ValueError(f"over has hidden and {shape[0]}, which both set the width of the layers. Use one of them.")
    if "width" in found and (min(found["depth"]) if "depth" in found else len(config.hidden) + 1) < 2:
        raise ValueError("over has width, but a network of depth 1 has no hidden layer. Use depth=2 or more.")
    if (shape and len({*config.hidden}) > 1) or (len(shape) == 2 and config.hidden != SweepConfig.hidden):
        raise ValueError(f"over has {shape[0]}, but hidden is {config.hidden!r}: it contradicts it. Leave hidden out.")
    if "depth" in found and "width" not in found and not config.hidden:
        raise ValueError("over has depth, but hidden is (), which has no width. Sweep over width too.")
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
        if own.net is not None and name in (*field_names(NetworkSettings), *SHAPE):
            raise ValueError(f"over has {name}, but the network is your own, which does not depend on it.")
        if own.loss is not None and name == "loss":
            raise ValueError("over has loss, but the loss is your own. Leave one of them out.")
