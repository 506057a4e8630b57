"""The figures: one per mode, a column per axis, a row per quantity, a line per rule, both scales logarithmic."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, NullLocator

from otpe import files
from otpe.bench.growth import AXES, Axis
from otpe.bench.report import MODES, sizes
from otpe.bench.results import QUANTITIES
from otpe.charts.look import looks

LABELS = {"width": "units per layer, n", "steps": "time steps, T", "batch": "samples, B", "depth": "layers, L"}
ROWS = {"time": ("milliseconds of a call", 1e3), "peak": ("peak memory, MB", 1e-6), "state": ("state, MB", 1e-6)}


def draw(path: Path, measured: dict[str, Any]) -> list[Path]:
    """Figures beside the JSON file, for every mode in which an axis was swept."""
    drawn = []
    for mode in dict.fromkeys(point["mode"] for point in measured["points"]):
        points = [point for point in measured["points"] if point["mode"] == mode]
        axes: list[Axis] = [axis for axis in AXES if len({p["axes"][axis] for p in points if axis in p["axes"]}) > 1]
        if axes:
            picture = path.with_name(f"{path.stem}-{mode}.png")
            files.write_atomically(picture, _figure(mode, points, axes, _where(measured)))
            drawn.append(picture)
    return drawn


def _figure(mode: str, points: list[dict[str, Any]], axes: Sequence[Axis], where: str) -> bytes:
    rows = [quantity for quantity in ROWS if all(QUANTITIES[quantity](point) for point in points)]
    rules = list(dict.fromkeys(point["rule"] for point in points))
    figure = Figure(figsize=(3 + 2.6 * len(axes), 1.4 + 2.3 * len(rows)), layout="constrained")
    panels = figure.subplots(len(rows), len(axes), squeeze=False, sharey="row", sharex="col")
    for i, quantity in enumerate(rows):
        for j, axis in enumerate(axes):
            _panel(panels[i, j], quantity, axis, points, rules)
        label, scale = ROWS[quantity]
        panels[i, 0].set_ylabel(label)
        amounts = [scale * QUANTITIES[quantity](point) for point in points]
        _plain_numbers(panels[i, 0].yaxis, max(amounts) / min(amounts))
    for j, axis in enumerate(axes):
        panels[-1, j].set_xlabel(LABELS[axis])
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right center", frameon=False)
    figure.suptitle(f"{MODES[mode]}\n{where}", fontsize="medium")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _panel(panel: Any, quantity: str, axis: Axis, points: list[dict[str, Any]], rules: list[str]) -> None:
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
