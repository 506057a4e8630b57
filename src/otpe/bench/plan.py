"""From the settings to what is measured: heats of points, each point with the axes it lies on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, get_args

from otpe import check
from otpe.bench.config import BenchConfig, Mode
from otpe.bench.growth import Axis
from otpe.bench.points import Point, applies
from otpe.rulebook import rules as all_rules

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
    for what, known, given in (("rule", all_rules(), config.rules), ("mode", get_args(Mode), config.modes)):
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
