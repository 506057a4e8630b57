"""The text table of what was measured."""

from collections.abc import Sequence
from typing import Any

from otpe.bench.growth import AXES, PAPER, SYMBOLS
from otpe.bench.results import MEMORY
from otpe.tables import columns

MODES = {
    "offline": "offline: the gradient of a mini-batch",
    "online": "online: a pass over a mini-batch, with an Adamax update per time step",
    "step": "step: one time step of a stream that has seen T before, with dense traces",
}
QUANTITIES = {
    "time": "time",
    "peak": "peak memory: arguments, results and working memory",
    "working": "working memory: neither given nor returned",
    "state": "state: what is carried from one step to the next",
}


def text(measured: dict[str, Any]) -> str:
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
    table = [header, *([row[name] for name in header] for row in rows)]
    return f"{MODES[mode]}\n\n{columns(table, left=(0, 3))}"


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
        rows = [("", *(f"{SYMBOLS[axis]}" for axis in axes))]
        rows += [(rule, *(cells.get((quantity, rule, axis), "") for axis in axes)) for rule in rules]
        if rules:
            parts.append(f"{QUANTITIES[quantity]}\n{columns(rows, left=(0,))}")
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
    rows = [("", "space", "time"), *((rule, space, time) for rule, (space, time) in PAPER.items())]
    return (
        "The paper's table 1: the gradient at time step T, one layer of n inputs and n neurons, one sample\n\n"
        + columns(rows, left=(0, 1, 2))
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
