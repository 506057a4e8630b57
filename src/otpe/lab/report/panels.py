"""Each kind of panel, drawn onto matplotlib's axes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import LogLocator, NullFormatter

from otpe.lab.report import numbers
from otpe.lab.report.content import Bars, Contours, Heat, Lines, Panel
from otpe.lab.report.palette import TEXT, Look

Looks = dict[str, Look]
DARK, LIGHT = "#101010", "#FFFFFF"  # of text on colours, whatever the page's are
BAND = 0.15  # how much of its colour a line's spread has
LEVELS = 10  # of contours
DASHES = (0, (4, 1.6))


def size(panel: Panel) -> tuple[float, float]:
    """Width and height, in inches: more where much is to be shown."""
    match panel:
        case Bars():
            return min(max(3.9, 1.2 + 0.115 * len(panel.groups) * (len(panel.bars) + 1)), 12), 3.0
        case Heat():
            return min(max(3.9, 1.4 + 0.52 * len(panel.columns)), 12), min(max(3.0, 1.2 + 0.36 * len(panel.rows)), 12)
        case Contours():
            return 3.9, 3.5
        case Lines() if panel.marks:
            return max(3.9, min(1.6 * len(panel.marks) + 1.2, 12)), 3.2
        case _:
            return 3.9, 3.0


def heat_range(shown: Sequence[Panel]) -> tuple[float, float] | None:
    """Of all maps together, so that their colours mean the same."""
    values = [value for panel in shown if isinstance(panel, Heat) for row in panel.values for value in row]
    known = [value for value in values if math.isfinite(value)]
    return (min(known), max(known)) if known else None


def draw(panel: Panel, axes: Any, looks: Looks, colours: tuple[float, float] | None) -> None:
    axes.set_title(panel.title, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    if _empty(panel):
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color="#808080")
        axes.set(xticks=[], yticks=[])
        return
    match panel:
        case Lines():
            _lines(panel, axes, looks)
        case Bars():
            _bars(panel, axes, looks)
        case Heat():
            _heat(panel, axes, colours or (0, 1))
        case Contours():
            _contours(panel, axes, looks)
    axes.set_ylabel(panel.y, parse_math=False)
    if not isinstance(panel, Bars):
        axes.set_xlabel(panel.x, parse_math=False)


def _lines(panel: Lines, axes: Any, looks: Looks) -> None:
    for line in panel.lines:
        look = looks[line.name]
        x, y, spread = (_array(values) for values in (line.x, line.y, numbers.spreads(line)))
        few = np.isfinite(y).sum() <= 12
        style = DASHES if look.dashed else "-"
        axes.plot(
            x, y, color=look.colour, linestyle=style, marker=look.marker if few else "", markersize=4, linewidth=1.6
        )
        axes.fill_between(x, y - spread, y + spread, color=look.colour, alpha=BAND, linewidth=0)
    if panel.log_x:
        _logarithmic(axes, "x", [x for line in panel.lines for x in line.x])
    if panel.log_y:
        _logarithmic(axes, "y", [y for line in panel.lines for y in line.y])
    if panel.y_range:
        axes.set_ylim(*panel.y_range)
    for mark in panel.marks or ():
        axes.axvline(mark.x, color=TEXT, linewidth=0.8, linestyle=":")
        place = {"xy": (mark.x, 1), "xycoords": ("data", "axes fraction"), "xytext": (3, -2)}
        axes.annotate(mark.text, **place, textcoords="offset points", va="top", fontsize=8, parse_math=False)
    _grid(axes)


def _bars(panel: Bars, axes: Any, looks: Looks) -> None:
    each = numbers.BAR_ROOM / max(1, len(panel.bars))
    for i, bar in enumerate(panel.bars):
        look, values, spread = looks[bar.name], _array(bar.values), _array(numbers.spreads(bar))
        at = np.arange(len(values)) + numbers.bar_place(panel, i)
        inside = {"alpha": 0.45} if look.dashed else {}
        axes.bar(at, values, 0.88 * each, color=look.colour, linewidth=0, **inside)
        axes.errorbar(at, values, spread, fmt="none", ecolor=TEXT, elinewidth=0.9, capsize=min(2.5, 20 * each))
    names = [str(group) for group in panel.groups]
    crowded = max(map(len, names)) * len(names) > 12 * size(panel)[0]
    turned = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    axes.set_xticks(range(len(names)), names, parse_math=False, **turned)
    axes.tick_params(axis="x", length=0)
    if panel.y_range:
        axes.set_ylim(*panel.y_range)
    _grid(axes, "y")


def _heat(panel: Heat, axes: Any, colours: tuple[float, float]) -> None:
    values, spread = _array(panel.values), _array(numbers.heat_spreads(panel))
    low, high = colours
    mesh = axes.pcolormesh(np.ma.masked_invalid(values), cmap="viridis", edgecolors="none", vmin=low, vmax=high)
    small = 7.5 if len(panel.columns) <= 8 else 6
    form = _digits(values)
    for (i, j), value in np.ndenumerate(values):
        if math.isfinite(value):
            red, green, blue, _ = mesh.cmap(mesh.norm(value))
            colour = DARK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else LIGHT
            text = f"{value:{form}}" + (f"\n± {spread[i, j]:{form}}" if math.isfinite(spread[i, j]) else "")
        else:
            colour, text = "#808080", "–"
        axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=small, color=colour, linespacing=1.1)
    turned = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"} if _long(panel.columns) else {}
    axes.set_xticks(np.arange(len(panel.columns)) + 0.5, [str(x) for x in panel.columns], parse_math=False, **turned)
    axes.set_yticks(np.arange(len(panel.rows)) + 0.5, [str(y) for y in panel.rows], parse_math=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if panel.unit:
        axes.set_title(f"{panel.title}\n{panel.unit}" if panel.title else panel.unit, parse_math=False)


def _digits(values: Any) -> str:
    """How to write the numbers of one map: three digits of most, and as many decimals of all, if they are alike."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not sizes.size or sizes.max() >= 1e4 or sizes.min() < sizes.max() / 100:
        return ".3g"
    return f".{max(0, 2 - math.floor(math.log10(np.median(sizes))))}f"


def _contours(panel: Contours, axes: Any, looks: Looks) -> None:
    heights = np.ma.masked_invalid(_array(panel.heights))
    if heights.count():
        _ground(panel, axes, heights)
    axes.locator_params(nbins=5)
    for path in panel.paths:
        look, x, y = looks[path.name], _array(path.x), _array(path.y)
        style = DASHES if look.dashed else "-"
        axes.plot(x, y, color=look.colour, linestyle=style, marker="o", markersize=2.4, linewidth=1.2)
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if known.size:
            first, last = known[0], known[-1]
            axes.plot(x[first], y[first], "o", markersize=6.5, markerfacecolor="none", color=look.colour)
            axes.plot(x[last], y[last], "*", markersize=10, color=look.colour)


def _ground(panel: Contours, axes: Any, heights: Any) -> None:
    """The higher, the darker: what lies above each level is shaded once more, in the colour of the text."""
    low, high = float(heights.min()), float(heights.max())
    if low == high:
        return
    steep = low > 0 and high > 30 * low
    levels = np.geomspace(low, high, LEVELS + 1)[1:-1] if steep else np.linspace(low, high, LEVELS + 1)[1:-1]
    at = _array(panel.at_x), _array(panel.at_y)
    for level in levels:
        axes.contourf(*at, heights, [level, math.inf], colors=[TEXT], alpha=0.055)
    lines = axes.contour(*at, heights, levels, colors=TEXT, linewidths=0.5, alpha=0.45)
    axes.clabel(lines, lines.levels[::2], fontsize=6.5, fmt=lambda level: f"{level:.3g}", colors=TEXT)
    if panel.unit:
        axes.set_title(f"{panel.title}\n{panel.unit}" if panel.title else panel.unit, parse_math=False)


def _grid(axes: Any, axis: Any = "both") -> None:
    axes.grid(axis=axis, color="#808080", alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


def _logarithmic(axes: Any, axis: str, values: list[float]) -> None:
    """0.1, 1, 10 instead of powers of ten, and more of them where all lies within little more than one."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if not positive:
        return
    axes.set(**{f"{axis}scale": "log"})
    of = getattr(axes, f"{axis}axis")
    of.set_major_locator(LogLocator(subs=(1, 2, 5) if max(positive) < 30 * min(positive) else (1,)))
    of.set_major_formatter("{x:g}")
    of.set_minor_formatter(NullFormatter())


def _long(names: Any) -> bool:
    return max(len(str(name)) for name in names) > 6


def _array(values: Any) -> Any:
    return np.asarray(values, float)


def _empty(panel: Panel) -> bool:
    """Is there not one number to show?"""
    match panel:
        case Heat():
            return heat_range([panel]) is None
        case Contours():
            return not (np.isfinite(_array(panel.heights)).any() or any(numbers.spots(panel)))
        case _:
            return not any(numbers.spots(panel))
