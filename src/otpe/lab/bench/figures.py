"""The figures of a benchmark, and its section of a report: time and kept bytes beside the paper's table 1.

The bytes that a rule keeps are counted, not measured, so they are known at sizes that no clock could reach.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from otpe import files
from otpe.lab.bench.growth import AXES, QUANTITIES, SYMBOLS, expected, exponent, form_of, orders
from otpe.lab.bench.measurements import MODES, fit_text, remarks, where
from otpe.lab.bench.points import Point, kept, state
from otpe.lab.report.content import Figure, Section, Table
from otpe.lab.report.panels import Line, Lines
from otpe.lab.runs.folder import provenance

AXIS_LABELS = {"width": "units per layer, n", "steps": "time steps, T", "batch": "samples, B", "depth": "layers, L"}
DRAWN = {"time": ("milliseconds of a call", 1e3), "peak": ("peak memory, MB", 1e-6), "state": ("state, MB", 1e-6)}
GRID = {  # where kept bytes are counted
    "width": (64, 128, 256, 512, 1024, 2048, 4096),
    "steps": (10, 100, 1_000, 10_000),
}
FORMS = {
    "offline": "whole sequence",
    "steps": "T single steps",
    "online": "T single steps, with updates",
    "step": "one step, after T",
}
CLOSE = 0.05  # largest difference between an exponent and that of theory

Key = tuple[str, str, str]  # mode, rule, axis


def plot(path: Path, measured: dict[str, Any]) -> list[Path]:
    """Draw a figure beside the JSON file for every mode in which an axis was swept. Returns the paths."""
    from otpe.lab.report import drawing

    drawn = []
    for mode in dict.fromkeys(point["mode"] for point in measured["points"]):
        points = [point for point in measured["points"] if point["mode"] == mode]
        axes = [axis for axis in AXES if len({p["axes"][axis] for p in points if axis in p["axes"]}) > 1]
        panels = [
            _panel(axis, label, _lines(points, quantity, axis, scale))
            for quantity, (label, scale) in DRAWN.items()
            if all(QUANTITIES[quantity](point) for point in points)
            for axis in axes
        ]
        if panels:
            picture = path.with_name(f"{path.stem}-{mode}.png")
            files.write_atomically(picture, drawing.png(Figure(name=mode, caption="", panels=panels)))
            drawn.append(picture)
    return drawn


def _panel(axis: str, y: str, lines: list[Line]) -> Lines:
    return Lines(title=f"over {SYMBOLS[axis]}", x=AXIS_LABELS[axis], y=y, lines=lines, log_x=True, log_y=True)


def _lines(points: list[dict[str, Any]], quantity: str, axis: str, scale: float, fewest: int = 1) -> list[Line]:
    """A line for each rule that was measured at `fewest` or more values on the axis."""
    lines = []
    for rule in dict.fromkeys(point["rule"] for point in points):
        own = sorted(
            (p["axes"][axis], scale * QUANTITIES[quantity](p))
            for p in points
            if p["rule"] == rule and axis in p["axes"]
        )
        if len(own) >= fewest:
            lines.append(Line(name=rule, x=[value for value, _ in own], y=[amount for _, amount in own]))
    return lines


# --------------------
# The section of a report.


class Growth(NamedTuple):
    """The bytes that a rule keeps at each value of an axis, their exponent, and that of theory."""

    bytes: list[int]
    exponent: float
    theory: int | None


def section(measured: dict[str, Any], bases: Sequence[Point], *, name: str, title: str, command: str) -> Section:
    """Return the section. `bases` are the rules to show, in their modes, at the base place."""
    counts: dict[Key, Growth] = {(base.mode, base.rule, axis): count(base, axis) for base in bases for axis in GRID}
    fits = {(f["mode"], f["rule"], f["axis"]): f for f in measured["growth"] if f["quantity"] == "time"}
    return Section(
        name=name,
        title=title,
        lead=_lead(counts),
        where="Table 1",
        figures=_figures(measured["points"], bases, counts),
        tables=[_table(bases, counts, fits)],
        remarks=remarks(measured, bases, {axis: _span(values) for axis, values in GRID.items()}),
        command=command,
        settings={key: value for key, value in measured["config"].items() if key not in ("out", "quick")},
        machine={**provenance(), "cores": os.cpu_count()},
        seconds=measured["seconds"],
    )


def count(base: Point, axis: str) -> Growth:
    """Count the bytes that the rule keeps along an axis."""
    depth = len(base.sizes)
    changes = [{"steps": value} if axis == "steps" else {"sizes": (value,) * depth} for value in GRID[axis]]
    counted = [kept(replace(base, **change)) for change in changes]
    known = expected(base.rule, form_of(base.mode, base.options))
    theory = None if known is None or known.memory is None else getattr(known.memory, axis)
    fitted = exponent(GRID[axis], counted)
    assert fitted is not None
    return Growth(counted, fitted, theory)


def _span(values: Sequence[int]) -> str:
    return f"{min(values):,}–{max(values):,}"


def _lead(counts: dict[Key, Growth]) -> str:
    off = dict.fromkeys(
        rule
        for (_, rule, _), found in counts.items()
        if found.theory is not None and abs(found.exponent - found.theory) > CLOSE
    )
    outcome = f"other than expected for {', '.join(off)}" if off else "as theory predicts"
    return (
        "What each rule has to keep, counted, and the time it takes, measured, over n units per layer and T time"
        f" steps, beside the orders of the paper. What is kept grows {outcome}. The remarks say what the times show."
    )


def _figures(points: list[dict[str, Any]], bases: Sequence[Point], counts: dict[Key, Growth]) -> list[Figure]:
    figures = []
    for mode in dict.fromkeys(base.mode for base in bases):
        own = [base for base in bases if base.mode == mode]
        order = [base.rule for base in own]
        timed = sorted(
            (p for p in points if p["mode"] == mode and p["rule"] in order), key=lambda p: order.index(p["rule"])
        )
        state_lines = {
            axis: [Line(name=rule, x=GRID[axis], y=counts[mode, rule, axis].bytes) for rule in order] for axis in GRID
        }
        time_lines = {axis: _lines(timed, "time", axis, 1e3, fewest=2) for axis in GRID}
        for name, y, lines in (("state", "bytes kept", state_lines), ("time", DRAWN["time"][0], time_lines)):
            panels = [_panel(axis, y, of_axis) for axis, of_axis in lines.items() if of_axis]
            if panels:
                figures.append(Figure(name=f"{name}-{mode}", caption=_caption(y, own), panels=panels))
    return figures


def _caption(y: str, bases: list[Point]) -> str:
    rules: dict[str, list[str]] = {}
    for base in bases:
        rules.setdefault(_form(base), []).append(base.rule)
    forms = "; ".join(f"{form}: {', '.join(names)}" for form, names in rules.items())
    place = where(vars(bases[0]))
    return f"{y.capitalize()}, {MODES[bases[0].mode]}. Other sizes: {place}. Measured as {forms}."


def _form(base: Point) -> str:
    """Return the form in which the rule was measured.

    Offline this is the per-step form if the rule has no other one, or if the options select it.
    """
    by_steps = base.mode == "offline" and state(base) is not None
    return FORMS["steps" if by_steps else base.mode]


def _table(bases: Sequence[Point], counts: dict[Key, Growth], fits: dict[Key, dict[str, Any]]) -> Table:
    measured = {axis: [v for fit in fits.values() if fit["axis"] == axis for v in fit["values"]] for axis in GRID}
    spans = {axis: _span(values) if values else "" for axis, values in measured.items()}
    rows = []
    for base in bases:
        space, time = orders(base.rule)
        state_cells = (fit_text(counts[base.mode, base.rule, axis]._asdict()).strip() for axis in GRID)
        time_cells = (_time_cell(fits.get((base.mode, base.rule, axis)), spans[axis]) for axis in GRID)
        rows.append((base.rule, _form(base), space, *state_cells, time, *time_cells))
    return Table(
        name="complexity",
        caption="Orders of the paper's table 1 (one layer, one sample), and exponents: the slopes of lines fitted to"
        " logarithms over the given sizes. In brackets the exponents of theory for what was counted and measured here.",
        columns=(
            "rule", "measured", "paper: space", *(f"kept over {SYMBOLS[a]}, {_span(GRID[a])}" for a in GRID),
            "paper: time", *(f"time over {SYMBOLS[a]}" + f", {spans[a]}" * bool(spans[a]) for a in GRID),
        ),
        rows=rows,
    )  # fmt: skip


def _time_cell(fit: dict[str, Any] | None, span: str) -> str:
    """The exponent, with its range of sizes if the rule was left out at some of them."""
    if fit is None:
        return "not measured"
    own = _span(fit["values"])
    return fit_text(fit).strip() + (f", {own} only" if own != span else "")
