"""The results of a benchmark: the JSON file, which is complete after every heat, its text table, and remarks."""

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
from otpe.lab.bench import growth
from otpe.lab.bench.points import Point, Program, Times, sequence_bytes
from otpe.lab.settings import BenchConfig
from otpe.rulebook import rule
from otpe.tables import Table, as_text


def blank(config: BenchConfig) -> dict[str, Any]:
    """Return results without points: the settings and the machine."""
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
    """Write the results, with exponents fitted to all points."""
    results["growth"] = growth.fitted(results["points"])
    files.write_json(path, results)


def checked(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Return results from a file, with exponents fitted again. Raises ContentError if `save` did not write them."""
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
        found["growth"] = growth.fitted(found["points"])
    return found


def entry(
    point: Point, axes: dict[Any, int], program: Program, first: float, times: Times, state: int | None
) -> dict[str, Any]:
    """Return the entry of a measured point. `first`: seconds of the first call. `state`: bytes of the state."""
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


def _device_peak() -> int | None:
    """The largest memory use of the device in this process. None if the device does not count it, such as a CPU."""
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


# --------------------
# The text table.

MODES = {
    "offline": "offline: the gradient of a mini-batch",
    "online": "online: a pass over a mini-batch, with an Adamax update per time step",
    "step": "step: one time step of a stream after T earlier ones, with dense traces",
}
QUANTITY_NAMES = {
    "time": "time",
    "peak": "peak memory: arguments, results and working memory",
    "working": "working memory: neither arguments nor results",
    "state": "state: carried from one step to the next",
}


def text_table(measured: dict[str, Any]) -> str:
    """Return all results as text: points and exponents of each mode, points left out, and the paper's table."""
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


def where(place: Mapping[str, Any]) -> str:
    """Return the place of a point or of an entry as text."""
    return f"{sizes(place['sizes'])}, T {place['steps']}, batch {place['batch']}"


def _head(measured: dict[str, Any]) -> str:
    state = "" if measured["finished"] else ", not finished"
    return (
        f"otpe {measured['otpe']}, jax {measured['jax']}, python {measured['python']}\n"
        f"{measured['device']} ({measured['backend']}), {measured['cores']} cores, {measured['platform']}\n"
        f"{measured['date']}{state}"
    )


def _points(mode: str, points: list[dict[str, Any]]) -> str:
    bptt = {place(point): point["seconds"]["median"] for point in points if point["rule"] == "bptt"}
    rows = [_row(point, bptt.get(place(point))) for point in points]
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
    """The fitted exponents, each with that of theory."""
    axes = [axis for axis in growth.AXES if any(fit["axis"] == axis for fit in fits)]
    cells = {(fit["quantity"], fit["rule"], fit["axis"]): fit_text(fit) for fit in fits}
    parts = []
    for quantity in dict.fromkeys(("time", growth.MEMORY[mode], "peak")):
        rules = dict.fromkeys(fit["rule"] for fit in fits if fit["quantity"] == quantity)
        if rules:
            rows = [(name, *(cells.get((quantity, name, axis), "") for axis in axes)) for name in rules]
            table = Table(columns=("", *(growth.SYMBOLS[axis] for axis in axes)), rows=rows)
            parts.append(f"{QUANTITY_NAMES[quantity]}\n{as_text(table)}")
    legend = "exponents over n units per layer, T time steps, B samples, L layers; in brackets those of theory"
    return "\n\n".join([f"{mode}: {legend}", *parts]) if parts else ""


def _left_out(left_out: list[dict[str, Any]]) -> str:
    lines = [f"  {point['mode']}, {point['rule']}, {where(point)}: {point['why']}" for point in left_out]
    return "\n".join(["left out", *lines]) if lines else ""


def _paper() -> str:
    table = Table(columns=("", "space", "time"), rows=[(name, *orders) for name, orders in growth.PAPER.items()])
    return (
        "The paper's table 1: the gradient at time step T, one layer of n inputs and n neurons, one sample\n\n"
        + as_text(table, left=(0, 1, 2))
    )


def fit_text(fit: Mapping[str, Any]) -> str:
    """Return a fitted exponent, and in brackets that of theory."""
    theory = "   " if fit["theory"] is None else f"({fit['theory']})"
    return f"{round(fit['exponent'], 2) + 0.0:.2f} {theory}"


def place(point: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the place of a point or of an entry. All rules at one place are measured together."""
    return tuple(point["sizes"]), point["steps"], point["batch"]


def _number(value: float) -> str:
    """Round to three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _megabytes(count: int | None) -> str:
    return "" if count is None else _number(count / 1e6)


# --------------------
# The remarks beside the table: what the exponents show at these sizes.


def remarks(measured: dict[str, Any], bases: Sequence[Point], grid: Mapping[Any, str]) -> list[str]:
    """Return the remarks. `grid` is the range of n and of T over which the kept bytes are counted."""
    forms = {growth.form_of(base.mode, base.options) for base in bases}
    deep = [base.rule for base in bases if growth.is_deep(rule(base.rule))]
    depth = len(bases[0].sizes) - 1
    texts = [
        "The paper counts one dense layer of n inputs and n neurons. Here it is a network of"
        f" {depth} layer{'s' * (depth > 1)}, batch {bases[0].batch}: over n and T the orders are the same, the"
        " constants are not.",
        f"What is kept is counted exactly, over n {grid['width']} and T {grid['steps']}, without weights, gradients"
        " and data. For a rule in the per-step form it is the state between two steps. For a rule on the whole"
        " sequence, such as BPTT, it is a float for each neuron and step, T·Σn for each sample: the least that the"
        " backward pass needs." + _planned(measured["points"]),
        "The exponent of a time is the slope between the sizes that were measured, on this machine. It shows how this"
        " program grows there, and is not an order. Small programs are mostly constants (calls, memory, idle cores),"
        " so slopes begin near 0 and rise towards those in brackets. They can rise above them where a cache becomes"
        " too small, and they scatter on a machine with other work.",
    ]
    if forms - {"offline"}:
        texts.append(
            "The paper's T n + n² of OTTT and Approx OTPE counts the traces and one gradient at the end. Here the time"
            " includes the forward pass, n² a step for every rule, and a gradient at every step, so theory in brackets"
            " is n² over n for them too. These rules save memory, and have a smaller factor in front."
        )
    if any(base.mode == "offline" for base in bases):
        texts.append(
            "Offline training uses the whole-sequence form, which is another algorithm with the same gradient: it keeps"
            " the sequence as BPTT does, and has BPTT's orders in time and memory for every rule that has this form."
            + (" The times here are those of the per-step form instead." if "steps" in forms else "")
        )
    if "step" in forms:
        texts.append(
            "For one step, T is the number of earlier steps. Exponent 0 over T for one step is"
            " the paper's T for all steps together."
        )
    if deep:
        names = ", ".join(dict.fromkeys(deep))
        texts.append(f"Ours, not the paper's: {names}. They keep a trace for each layer above.")
    return [*texts, *_missing(measured, bases)]


def _planned(points: list[dict[str, Any]]) -> str:
    """Return a sentence: the memory that the compiled program of BPTT plans, divided by `sequence_bytes`, a minimum."""
    shares = sorted(
        p["bytes"]["working"] / sequence_bytes(p["sizes"], p["steps"], p["batch"])
        for p in points
        if p["rule"] == "bptt"
    )
    ends = dict.fromkeys(f"{share:.1f}" for share in (*shares[:1], *shares[-1:]))
    return f" The compiled BPTT plans {' to '.join(ends)} times that." if shares else ""


def _missing(measured: dict[str, Any], bases: Sequence[Point]) -> list[str]:
    timed = {(point["mode"], point["rule"]) for point in measured["points"]}
    untimed = dict.fromkeys(base.rule for base in bases if (base.mode, base.rule) not in timed)
    texts = [
        f"Left out: {p['rule']}, {p['mode']}, {sizes(p['sizes'])}, T {p['steps']}: {p['why']}."
        for p in measured["left_out"]
    ]
    if untimed:
        texts.append(f"Counted but not timed here: {', '.join(untimed)}.")
    if not measured["finished"]:
        texts.append("Stopped before all was measured.")
    return texts
