"""How time and memory grow: powers fitted to what was measured, beside those of the paper.

On a log-log plot a power law is a straight line, and its exponent the slope. A real program is a sum of such laws and a
constant: at small sizes its slope is smaller than the one it tends to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from otpe import check
from otpe.lab.bench.points import Point, applies
from otpe.lab.settings import BenchConfig, BenchMode
from otpe.rulebook import rules as all_rules

Axis = Literal["width", "steps", "batch", "depth"]
Form = BenchMode | Literal["steps"]
AXES: tuple[Axis, ...] = ("width", "steps", "batch", "depth")
SYMBOLS = {"width": "n", "steps": "T", "batch": "B", "depth": "L"}


class Powers(NamedTuple):
    """Exponents over n units per layer, T time steps, B samples and L layers."""

    width: int
    steps: int
    batch: int
    depth: int


class Expected(NamedTuple):
    time: Powers
    memory: Powers | None  # beyond weights, gradients and the data; None where it depends on the choice of traces


# Table 1 of the paper, "for calculating gradients at time-step T", one layer of n inputs and n neurons, batch 1;
# RTRL from its introduction.
PAPER = {
    "bptt": ("O(T n)", "O(T n²)"),
    "ottt": ("O(n)", "O(T n + n²)"),
    "ostl": ("O(n²)", "O(T n²)"),
    "approx-otpe": ("O(n)", "O(T n + n²)"),
    "otpe": ("O(n²)", "O(T n²)"),
    "rtrl": ("O(n³)", "O(n⁴) a step"),
}

# Ours, counted in the same way: a trace for each of L layers above.
OURS = {
    "deep-otpe": ("O(L n²)", "O(T L n²)"),
    "approx-deep-otpe": ("O(L n)", "O(T L n + n²)"),
}

# The same for one time step: T n² becomes n², and T n + n² becomes n + n², which tends to n²: the forward pass and the
# gradient of a dense layer are n² whatever the trace. Samples and layers, of which the paper takes one, stand side by
# side, except where a trace spans layers: the deep rules keep one per layer above, RTRL one per weight and neuron.
_PER_WEIGHT = Expected(time=Powers(2, 0, 1, 1), memory=Powers(2, 0, 1, 1))
_PER_INPUT = Expected(time=Powers(2, 0, 1, 1), memory=Powers(1, 0, 1, 1))
STEP = {
    "rtrl": Expected(time=Powers(4, 0, 1, 3), memory=Powers(3, 0, 1, 2)),
    "ostl": _PER_WEIGHT,
    "ottt": _PER_INPUT,
    "otpe": _PER_WEIGHT,
    "approx-otpe": _PER_INPUT,
    "f-otpe": _PER_WEIGHT,
    "f-approx-otpe": _PER_INPUT,
    "deep-otpe": Expected(time=Powers(2, 0, 1, 2), memory=Powers(2, 0, 1, 2)),
    "approx-deep-otpe": Expected(time=Powers(2, 0, 1, 1), memory=Powers(1, 0, 1, 2)),
    "f-deep-otpe": Expected(time=Powers(2, 0, 1, 2), memory=Powers(2, 0, 1, 2)),
    "f-approx-deep-otpe": Expected(time=Powers(2, 0, 1, 1), memory=Powers(1, 0, 1, 2)),
}
# Offline, in the whole-sequence form, every rule has BPTT's orders.
_WHOLE = Expected(time=Powers(2, 1, 1, 1), memory=Powers(1, 1, 1, 1))


def form(mode: BenchMode, options: Mapping[str, Any]) -> Form:
    """What theory takes a point for. `gradients(form="steps")` does what online training does, less the updates."""
    if mode != "offline" or options.get("form") != "steps":
        return mode
    return "steps" if options.get("traces") == "dense" else "online"


def expected(rule: str, mode: Form) -> Expected | None:
    """The exponents that theory gives a rule; None for one that is not in the table, such as a user's own."""
    if mode == "offline" and rule != "rtrl":
        return _WHOLE if rule in STEP or rule == "bptt" else None
    if rule not in STEP:
        return None
    one_step = STEP[rule]
    if mode == "step":
        return one_step
    return Expected(time=one_step.time._replace(steps=1), memory=one_step.memory if mode == "steps" else None)


def exponent(values: Sequence[float], measured: Sequence[float]) -> float | None:
    """The slope of the least-squares line through log(measured) over log(values); None from less than two values."""
    x, y = np.asarray(values, float), np.asarray(measured, float)
    if len(set(values)) < 2 or (y <= 0).any():
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


# --------------------
# From the settings to what is measured: heats of points, each point with the axes it lies on.


MOST = 2**31 - 1


class Place(NamedTuple):
    sizes: tuple[int, ...]
    steps: int
    batch: int


class Heat(NamedTuple):
    """Points that are timed against each other: all rules in one mode at one place."""

    points: list[Point]
    axes: dict[Axis, int]  # where the place lies on each axis that it is on


def checked(config: BenchConfig) -> BenchConfig:
    """The settings with quick worked in and nothing twice, if they make sense."""
    config = config.resolved()
    rules = tuple(r for r in all_rules() if r != "rtrl") if config.rules == ("all",) else config.rules
    config = replace(config, rules=_once(rules), modes=_once(config.modes), sizes=tuple(check.sizes(config.sizes)))
    for what, known, given in (("rule", all_rules(), config.rules), ("mode", get_args(BenchMode), config.modes)):
        for name in given:
            check.one_of(what, name, known)
        if not given:
            raise ValueError(f"{what}s is empty, expected at least one of: {', '.join(known)}.")
    check.count("base steps", config.base_steps, MOST)
    check.count("base batch", config.base_batch, MOST)
    for what, values in (
        ("width", config.widths), ("steps", config.steps), ("batch", config.batches), ("depth", config.depths)
    ):  # fmt: skip
        for value in values:
            check.count(what, value, MOST)
    for what, value in (("seconds", config.seconds), ("max gb", config.max_gb)):
        if not value > 0:
            raise ValueError(f"{what} is {value}, expected a number above 0.")
    if not any(applies(rule, mode) for rule in config.rules for mode in config.modes):
        raise ValueError(
            f"rules {', '.join(config.rules)} in modes {', '.join(config.modes)} leave nothing to measure: they have no"
            " per-step form. Add the mode offline, or a rule that learns online, such as otpe."
        )
    return config


def heats(config: BenchConfig, options: Mapping[str, Any] | None = None) -> list[Heat]:
    """What to measure, each place once however many axes it is on. `options` go to every function that is measured."""
    found = []
    for mode in config.modes:
        for place, axes in places(config).items():
            points = [
                Point(*place, rule=rule, mode=mode, options=dict(options or {}))
                for rule in config.rules
                if applies(rule, mode)
            ]
            if points:
                found.append(Heat(points, axes))
    return found


def bases(config: BenchConfig, heats: list[Heat]) -> list[Point]:
    """Every rule in every mode, at the base."""
    first = {(point.mode, point.rule): point for heat in heats for point in heat.points}
    at_base = {"sizes": config.sizes, "steps": config.base_steps, "batch": config.base_batch}
    return [replace(point, **at_base) for point in first.values()]


def places(config: BenchConfig) -> dict[Place, dict[Axis, int]]:
    """All places with the axes each of them is on; the base alone where no axis is swept."""
    base = Place(config.sizes, config.base_steps, config.base_batch)
    swept: list[tuple[Axis, int, Place]] = [
        *(("width", n, base._replace(sizes=(n,) * len(base.sizes))) for n in config.widths),
        *(("steps", T, base._replace(steps=T)) for T in config.steps),
        *(("batch", B, base._replace(batch=B)) for B in config.batches),
        *(("depth", L, base._replace(sizes=(base.sizes[1],) * (L + 1))) for L in config.depths),
    ]
    found: dict[Place, dict[Axis, int]] = {} if swept else {base: {}}
    for axis, value, place in swept:
        found.setdefault(place, {})[axis] = value
    return found


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(values))
