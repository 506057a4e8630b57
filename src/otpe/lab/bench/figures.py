"""The figures: one per mode, a column per axis, a row per quantity, a line per rule, both scales logarithmic."""

import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import figure as mpl
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from otpe import files
from otpe.lab.bench.measurements import MODES, QUANTITIES, fit_text, remarks, sizes
from otpe.lab.bench.points import Point, kept, state
from otpe.lab.bench.schedule import AXES, OURS, PAPER, SYMBOLS, Axis, expected, exponent, form
from otpe.lab.report.content import Figure, Line, Lines, Section, Table
from otpe.lab.report.palette import looks
from otpe.lab.runs.folder import provenance

AXIS_LABELS = {"width": "units per layer, n", "steps": "time steps, T", "batch": "samples, B", "depth": "layers, L"}
ROWS = {"time": ("milliseconds of a call", 1e3), "peak": ("peak memory, MB", 1e-6), "state": ("state, MB", 1e-6)}


def plot(path: Path, measured: dict[str, Any]) -> list[Path]:
    """Figures beside the JSON file, for every mode in which an axis was swept."""
    drawn = []
    for mode in dict.fromkeys(point["mode"] for point in measured["points"]):
        points = [point for point in measured["points"] if point["mode"] == mode]
        axes: list[Axis] = [axis for axis in AXES if len({p["axes"][axis] for p in points if axis in p["axes"]}) > 1]
        if axes:
            picture = path.with_name(f"{path.stem}-{mode}.png")
            files.write_atomically(picture, _plot_figure(mode, points, axes, _where(measured)))
            drawn.append(picture)
    return drawn


def _plot_figure(mode: str, points: list[dict[str, Any]], axes: Sequence[Axis], where: str) -> bytes:
    rows = [quantity for quantity in ROWS if all(QUANTITIES[quantity](point) for point in points)]
    rules = list(dict.fromkeys(point["rule"] for point in points))
    figure = mpl.Figure(figsize=(3 + 2.6 * len(axes), 1.4 + 2.3 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), len(axes), squeeze=False, sharey="row", sharex="col")
    for i, quantity in enumerate(rows):
        for j, axis in enumerate(axes):
            _plot_panel(panels[i, j], quantity, axis, points, rules)
        label, scale = ROWS[quantity]
        panels[i, 0].set_ylabel(label)
        amounts = [scale * QUANTITIES[quantity](point) for point in points]
        _plain_numbers(panels[i, 0].yaxis, max(amounts) / min(amounts))
    for j, axis in enumerate(axes):
        panels[-1, j].set_xlabel(AXIS_LABELS[axis])
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False)
    figure.suptitle(f"{MODES[mode]}\n{where}", fontsize="medium")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _plot_panel(panel: Any, quantity: str, axis: Axis, points: list[dict[str, Any]], rules: list[str]) -> None:
    _, scale = ROWS[quantity]
    ticks = sorted({point["axes"][axis] for point in points if axis in point["axes"]})
    looked = looks(rules)
    for i, rule in enumerate(rules):
        own = sorted(
            (p["axes"][axis], QUANTITIES[quantity](p)) for p in points if p["rule"] == rule and axis in p["axes"]
        )
        values, measured = [value for value, _ in own], [scale * amount for _, amount in own]
        look = looked[rule]
        readout = {"linestyle": "--", "markerfacecolor": "white"} if look.dashed else {}
        thick = 1 - i / len(rules)  # later ones thinner, so that lines on top of each other all show
        panel.plot(
            values, measured, label=look.name, color=look.colour, marker=look.marker, markersize=4 + 5 * thick,
            linewidth=1 + 2.5 * thick, **readout,
        )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.xaxis.set_major_locator(FixedLocator(ticks))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter("{x:g}")
    panel.grid(which="major", color="#dddddd", linewidth=0.6)


def _plain_numbers(axis: Any, span: float) -> None:
    """0.1, 1, 10 instead of powers of ten, and more of them where all lies within little more than one."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < 30 else (1,)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _where(measured: dict[str, Any]) -> str:
    config = measured["config"]
    base = f"where not swept: {sizes(config['sizes'])}, T {config['base_steps']}, batch {config['base_batch']}"
    return f"{base}\n{measured['device']}, {measured['cores']} cores, otpe {measured['otpe']}"


# --------------------
# What was measured as a section of a report: time and what must be kept, over n and T, beside the paper's table 1.
#
# What a rule keeps is counted, not measured, so it is known at sizes that no clock could reach.


GRID: dict[Axis, tuple[int, ...]] = {
    "width": (64, 128, 256, 512, 1024, 2048, 4096),
    "steps": (10, 100, 1_000, 10_000),
}
LABELS = {"width": "units per layer, n", "steps": "time steps, T"}
FORMS = {
    "offline": "whole sequence",
    "steps": "T single steps",
    "online": "T single steps, with updates",
    "step": "one step, after T",
}
CLOSE = 0.05  # of an exponent: as theory has it


Key = tuple[str, str, Axis]  # mode, rule, axis


class Kept(NamedTuple):
    """How what a rule keeps grows along one axis."""

    bytes: list[int]
    exponent: float
    theory: int | None


def section(measured: dict[str, Any], bases: Sequence[Point], *, name: str, title: str, command: str) -> Section:
    """`bases` are the rules to show, in their modes, at the base: of each it is counted what it keeps."""
    counts: dict[Key, Kept] = {(base.mode, base.rule, axis): count(base, axis) for base in bases for axis in GRID}
    fits = {(f["mode"], f["rule"], f["axis"]): f for f in measured["growth"] if f["quantity"] == "time"}
    return Section(
        name=name,
        title=title,
        lead=_lead(bases, counts),
        where="Table 1",
        figures=_figures(measured["points"], bases, counts),
        tables=[_table(bases, counts, fits)],
        remarks=remarks(measured, bases, {axis: span(values) for axis, values in GRID.items()}),
        command=command,
        settings={key: value for key, value in measured["config"].items() if key not in ("out", "quick")},
        machine={**provenance(), "cores": os.cpu_count()},
        seconds=measured["seconds"],
    )


def count(base: Point, axis: Axis) -> Kept:
    counted = [kept(_at(base, axis, value)) for value in GRID[axis]]
    known = expected(base.rule, form(base.mode, base.options))
    theory = None if known is None or known.memory is None else getattr(known.memory, axis)
    fitted = exponent(GRID[axis], counted)
    assert fitted is not None
    return Kept(counted, fitted, theory)


def span(values: Sequence[int]) -> str:
    return f"{min(values):,}–{max(values):,}"


def _at(base: Point, axis: Axis, value: int) -> Point:
    return replace(base, steps=value) if axis == "steps" else replace(base, sizes=(value,) * len(base.sizes))


def _lead(bases: Sequence[Point], counts: dict[Key, Kept]) -> str:
    off = {
        rule
        for (_, rule, _), found in counts.items()
        if found.theory is not None and abs(found.exponent - found.theory) > CLOSE
    }
    rules = dict.fromkeys(base.rule for base in bases)
    outcome = f"other than expected for {', '.join(r for r in rules if r in off)}" if off else "as theory has it"
    return (
        "What each rule has to keep, counted, and the time it takes, measured, over n units per layer and T time"
        f" steps, beside the orders of the paper. What is kept grows {outcome}. What times show is said in the remarks."
    )


def _figures(points: list[dict[str, Any]], bases: Sequence[Point], counts: dict[Key, Kept]) -> list[Figure]:
    found = []
    for mode in dict.fromkeys(base.mode for base in bases):
        own = [base for base in bases if base.mode == mode]
        kept_lines: dict[Axis, list[Line]] = {axis: _kept_lines(own, axis, counts) for axis in GRID}
        time_lines: dict[Axis, list[Line]] = {axis: lines for axis in GRID if (lines := _time_lines(points, own, axis))}
        for name, lines_over, y in (
            ("state", kept_lines, "bytes kept"),
            ("time", time_lines, "milliseconds of a call"),
        ):
            panels = [_panel(axis, y, lines) for axis, lines in lines_over.items()]
            if panels:
                found.append(Figure(name=f"{name}-{mode}", caption=_caption(y, own), panels=panels))
    return found


def _kept_lines(bases: list[Point], axis: Axis, counts: dict[Key, Kept]) -> list[Line]:
    return [Line(name=base.rule, x=GRID[axis], y=counts[base.mode, base.rule, axis].bytes) for base in bases]


def _time_lines(points: list[dict[str, Any]], bases: list[Point], axis: Axis) -> list[Line]:
    """A line per rule that was measured at two or more values."""
    found = []
    for base in bases:
        own = [p for p in points if (p["rule"], p["mode"]) == (base.rule, base.mode) and axis in p["axes"]]
        own.sort(key=lambda p: p["axes"][axis])
        if len(own) > 1:
            y = [1e3 * point["seconds"]["median"] for point in own]
            found.append(Line(name=base.rule, x=[point["axes"][axis] for point in own], y=y))
    return found


def _panel(axis: Axis, y: str, lines: list[Line]) -> Lines:
    return Lines(title=f"over {SYMBOLS[axis]}", x=LABELS[axis], y=y, lines=lines, log_x=True, log_y=True)


def _caption(y: str, bases: list[Point]) -> str:
    base, rules = bases[0], {}
    for each in bases:
        rules.setdefault(_how(each), []).append(each.rule)
    forms = "; ".join(f"{how}: {', '.join(names)}" for how, names in rules.items())
    where = f"{sizes(base.sizes)}, T {base.steps}, batch {base.batch}"
    return f"{y.capitalize()}, {MODES[base.mode]}. Where not swept: {where}. Measured as {forms}."


def _how(base: Point) -> str:
    by_steps = base.mode == "offline" and state(base) is not None  # a rule that has no other way, or was told to
    return FORMS["steps" if by_steps else base.mode]


def _table(bases: Sequence[Point], counts: dict[Key, Kept], fits: dict[Key, dict[str, Any]]) -> Table:
    spans = {axis: [v for fit in fits.values() if fit["axis"] == axis for v in fit["values"]] for axis in GRID}
    rows = []
    for base in bases:
        space, time = _orders(base.rule)
        state_cells = (fit_text(counts[base.mode, base.rule, axis]._asdict()).strip() for axis in GRID)
        time_cells = (_time_cell(fits.get((base.mode, base.rule, axis)), spans[axis]) for axis in GRID)
        rows.append((base.rule, _how(base), space, *state_cells, time, *time_cells))
    return Table(
        name="complexity",
        caption="Orders of the paper's table 1 (one layer, one sample), and exponents: the slopes of lines fitted to"
        " logarithms over the sizes named. In brackets what theory tends to for what was counted and measured here.",
        columns=(
            "rule", "measured", "paper: space", *(f"kept over {SYMBOLS[a]}, {span(GRID[a])}" for a in GRID),
            "paper: time", *(f"time over {SYMBOLS[a]}" + (f", {span(spans[a])}" if spans[a] else "") for a in GRID),
        ),
        rows=rows,
    )  # fmt: skip


def _time_cell(fit: dict[str, Any] | None, all_values: list[int]) -> str:
    """Where a rule was left out at some sizes, with those of its own."""
    if fit is None:
        return "not measured"
    own = "" if span(fit["values"]) == span(all_values) else f", {span(fit['values'])} only"
    return fit_text(fit).strip() + own


def _orders(rule: str) -> tuple[str, str]:
    plain = rule.removeprefix("f-")
    if plain in OURS:
        space, time = OURS[plain]
        return f"ours: {space}", f"ours: {time}"
    return PAPER.get(plain, ("", ""))
