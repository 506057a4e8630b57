"""What was measured, as one JSON file that is whole after every heat."""

import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

import otpe
from otpe import contents, files
from otpe.lab.bench.points import Point, Program, Times, sequence_bytes
from otpe.lab.bench.schedule import AXES, OURS, PAPER, SYMBOLS, Form, expected, exponent, form
from otpe.lab.settings import BenchConfig
from otpe.tables import Table, as_text

# How a point says what grows, and which of the theory's columns belongs to it, by mode.
QUANTITIES = {
    "time": lambda point: point["seconds"]["median"],
    "peak": lambda point: point["peak_bytes"],
    "working": lambda point: point["bytes"]["working"],
    "state": lambda point: point["state_bytes"],
}
MEMORY: dict[str, str] = {"offline": "working", "online": "state", "step": "state", "steps": "state"}


def blank(config: BenchConfig) -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "format": 1,
        "finished": False,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "otpe": otpe.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "backend": device.platform,
        "device": device.device_kind,
        "seconds": 0.0,
        "config": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()},
        "points": [],
        "left_out": [],
        "growth": [],
    }


def save(path: Path, results: dict[str, Any]) -> None:
    results["growth"] = growth(results["points"])
    files.write_atomically(path, json.dumps(results, indent=1) + "\n")


def checked(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """What was found in a file, if it is what `save` wrote."""
    with contents.reading(path, "Name another folder."):
        contents.typed(found, {"config": dict, "seconds": float, "finished": bool, "points": list, "left_out": list})
        for point in (*found["points"], *found["left_out"]):
            contents.typed(point, {"rule": str, "mode": str, "sizes": list[int], "steps": int, "batch": int})
        for point in found["left_out"]:
            contents.typed(point, {"why": str})
        for point in found["points"]:
            contents.typed(
                point, {"axes": dict, "peak_bytes": int, "state_bytes": int | None, "seconds": dict, "bytes": dict}
            )
            contents.typed(point["axes"], dict.fromkeys(point["axes"], int))
            contents.typed(point["seconds"], {"median": float, "min": float})
            contents.typed(point["bytes"], {"working": int})
        found["growth"] = growth(found["points"])
    return found


def entry(
    point: Point, axes: dict[Any, int], program: Program, first: float, times: Times, state: int | None
) -> dict[str, Any]:
    return {
        **asdict(point),
        "axes": axes,
        "seconds": times._asdict(),
        "first_call_seconds": first,
        "peak_bytes": program.bytes.peak,
        "bytes": program.bytes._asdict(),
        "state_bytes": state,
        "device_peak_bytes": _device_peak(),
    }


def growth(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fitted exponents of every quantity, for every mode and rule over every axis, beside those of theory."""
    found = []
    for mode, rule in dict.fromkeys((point["mode"], point["rule"]) for point in points):
        own = [point for point in points if (point["mode"], point["rule"]) == (mode, rule)]
        as_form = form(mode, own[0].get("options", {}))
        for axis in AXES:
            on_axis = sorted((p for p in own if axis in p["axes"]), key=lambda p: p["axes"][axis])
            values = [point["axes"][axis] for point in on_axis]
            for quantity, of in QUANTITIES.items():
                measured = [of(point) for point in on_axis]
                fitted = None if None in measured else exponent(values, measured)
                if fitted is not None:
                    found.append({"mode": mode, "rule": rule, "axis": axis, "quantity": quantity, "values": values,
                                  "exponent": fitted, "theory": theory(as_form, rule, axis, quantity)})  # fmt: skip
    return found


def theory(as_form: Form, rule: str, axis: str, quantity: str) -> int | None:
    known = expected(rule, as_form)
    if known is None or quantity not in ("time", MEMORY[as_form]):
        return None
    powers = known.time if quantity == "time" else known.memory
    return None if powers is None else getattr(powers, axis)


def _device_peak() -> int | None:
    """The most that the device ever had in use in this process, where it counts: a GPU does, a CPU does not."""
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


# --------------------
# The text table of what was measured.


MODES = {
    "offline": "offline: the gradient of a mini-batch",
    "online": "online: a pass over a mini-batch, with an Adamax update per time step",
    "step": "step: one time step of a stream that has seen T before, with dense traces",
}
QUANTITY_NAMES = {
    "time": "time",
    "peak": "peak memory: arguments, results and working memory",
    "working": "working memory: neither given nor returned",
    "state": "state: what is carried from one step to the next",
}


def text_table(measured: dict[str, Any]) -> str:
    parts = [_head(measured)]
    for mode in dict.fromkeys(point["mode"] for point in measured["points"]):
        parts.append(_points(mode, [point for point in measured["points"] if point["mode"] == mode]))
        parts.append(_growth(mode, [fit for fit in measured["growth"] if fit["mode"] == mode]))
    parts.append(_left_out(measured["left_out"]))
    if measured["growth"]:
        parts.append(_paper())
    return "\n\n".join(part for part in parts if part) + "\n"


def sizes(sizes: Sequence[int]) -> str:
    return "-".join(map(str, sizes))


def _head(measured: dict[str, Any]) -> str:
    state = "" if measured["finished"] else ", not finished"
    return (
        f"otpe {measured['otpe']}, jax {measured['jax']}, python {measured['python']}\n"
        f"{measured['device']} ({measured['backend']}), {measured['cores']} cores, {measured['platform']}\n"
        f"{measured['date']}{state}"
    )


def _points(mode: str, points: list[dict[str, Any]]) -> str:
    bptt = {_place(point): point["seconds"]["median"] for point in points if point["rule"] == "bptt"}
    rows = [_row(point, bptt.get(_place(point))) for point in points]
    header = [name for name in rows[0] if any(row[name] for row in rows)]
    table = Table(columns=header, rows=[[row[name] for name in header] for row in rows])
    return f"{MODES[mode]}\n\n{as_text(table, left=(0, 3))}"


def _row(point: dict[str, Any], bptt: float | None) -> dict[str, str]:
    seconds = point["seconds"]
    return {
        "network": sizes(point["sizes"]),
        "T": str(point["steps"]),
        "batch": str(point["batch"]),
        "rule": point["rule"],
        "ms": _number(1e3 * seconds["median"]),
        "fastest": _number(1e3 * seconds["min"]),
        "/ bptt": "" if bptt is None else f"{seconds['median'] / bptt:.2f}",
        "first call s": f"{point['first_call_seconds']:.2f}",
        "peak MB": _megabytes(point["peak_bytes"]),
        "working MB": _megabytes(point["bytes"]["working"]),
        "state MB": _megabytes(point["state_bytes"]),
    }


def _growth(mode: str, fits: list[dict[str, Any]]) -> str:
    """Fitted exponents, and those of theory behind them."""
    axes = [axis for axis in AXES if any(fit["axis"] == axis for fit in fits)]
    cells = {(fit["quantity"], fit["rule"], fit["axis"]): fit_text(fit) for fit in fits}
    parts = []
    for quantity in dict.fromkeys(("time", MEMORY[mode], "peak")):
        rules = dict.fromkeys(fit["rule"] for fit in fits if fit["quantity"] == quantity)
        rows = [(rule, *(cells.get((quantity, rule, axis), "") for axis in axes)) for rule in rules]
        if rules:
            table = Table(columns=("", *(SYMBOLS[axis] for axis in axes)), rows=rows)
            parts.append(f"{QUANTITY_NAMES[quantity]}\n{as_text(table)}")
    if not parts:
        return ""
    legend = "exponents over n units per layer, T time steps, B samples, L layers; in brackets what theory tends to"
    return f"{mode}: {legend}\n\n" + "\n\n".join(parts)


def _left_out(left_out: list[dict[str, Any]]) -> str:
    lines = [
        f"  {point['mode']}, {point['rule']}, {sizes(point['sizes'])}, T {point['steps']}, batch {point['batch']}:"
        f" {point['why']}"
        for point in left_out
    ]
    return "\n".join(["left out", *lines]) if lines else ""


def _paper() -> str:
    table = Table(columns=("", "space", "time"), rows=[(rule, *growth) for rule, growth in PAPER.items()])
    return (
        "The paper's table 1: the gradient at time step T, one layer of n inputs and n neurons, one sample\n\n"
        + as_text(table, left=(0, 1, 2))
    )


def fit_text(fit: dict[str, Any]) -> str:
    theory = "   " if fit["theory"] is None else f"({fit['theory']})"
    return f"{round(fit['exponent'], 2) + 0.0:.2f} {theory}"


def _place(point: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(point["sizes"]), point["steps"], point["batch"]


def _number(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _megabytes(count: int | None) -> str:
    return "" if count is None else _number(count / 1e6)


# --------------------
# What exponents of these sizes show, and what they do not: the remarks beside the table.


def remarks(measured: dict[str, Any], bases: Sequence[Point], grid: Mapping[Any, str]) -> list[str]:
    """`grid` says over which n and T it was counted what is kept."""
    forms = {form(base.mode, base.options) for base in bases}
    deep = [base.rule for base in bases if base.rule.removeprefix("f-") in OURS]
    said = [
        _network(bases[0]),
        f"What is kept is counted exactly, over n {grid['width']} and T {grid['steps']}, without weights, gradients"
        " and data. For a rule in the per-step form it is the state between two steps; for one that goes back through"
        " the whole sequence, such as BPTT, a float for each neuron and step, T·Σn for each sample: the least that"
        " the way back needs." + _planned(measured["points"]),
        "A time's exponent is the slope between the sizes that were measured, on this machine: it shows how this"
        " program grows there. It is no order. Small programs are mostly constants (calls, memory, cores that are not"
        " full), so slopes begin near 0 and rise towards those in brackets; where a cache becomes too small they can"
        " rise above them, and on a machine with other work they scatter.",
    ]
    if forms - {"offline"}:
        said.append(
            "The paper's T n + n² of OTTT and Approx OTPE counts the traces and one gradient at the end. Here the"
            " forward pass, n² a step for every rule, and a gradient at every step are in the time, so theory in"
            " brackets is n² over n for them too; what these rules save is memory and the factor in front."
        )
    if any(base.mode == "offline" for base in bases):
        said.append(
            "Offline we train in the whole-sequence form, which is another algorithm with the same gradient: it keeps"
            " the sequence as BPTT does, and has BPTT's orders in time and memory for every rule that has this form."
            + (" The times here are those of the per-step form instead." if "steps" in forms else "")
        )
    if "step" in forms:
        said.append("Of one step, T is how many were seen before: 0 over T is the paper's T for all of them together.")
    if deep:
        said.append(f"Ours, not the paper's: {', '.join(dict.fromkeys(deep))}. They keep a trace for each layer above.")
    return [*said, *_missing(measured, bases)]


def _network(base: Point) -> str:
    depth = len(base.sizes) - 1
    return (
        "The paper counts one dense layer of n inputs and n neurons. Here it is a network of"
        f" {depth} layer{'s' * (depth > 1)}, batch {base.batch}: over n and T the orders are the same, the"
        " constants are not."
    )


def _planned(points: list[dict[str, Any]]) -> str:
    """How much the compiled program of BPTT really takes."""
    shares = [
        p["bytes"]["working"] / sequence_bytes(p["sizes"], p["steps"], p["batch"])
        for p in points
        if p["rule"] == "bptt"
    ]
    ends = dict.fromkeys(f"{share:.1f}" for share in sorted(shares)[:: max(1, len(shares) - 1)])
    return f" The compiled BPTT plans {' to '.join(ends)} times that." if shares else ""


def _missing(measured: dict[str, Any], bases: Sequence[Point]) -> list[str]:
    timed = {(point["mode"], point["rule"]) for point in measured["points"]}
    untimed = [base.rule for base in bases if (base.mode, base.rule) not in timed]
    said = [
        f"Left out: {p['rule']}, {p['mode']}, {sizes(p['sizes'])}, T {p['steps']}: {p['why']}."
        for p in measured["left_out"]
    ]
    if untimed:
        said.append(f"Counted but not timed here: {', '.join(dict.fromkeys(untimed))}.")
    if not measured["finished"]:
        said.append("Stopped before all was measured.")
    return said
