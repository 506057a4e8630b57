"""The kinds of panel: what each contains, its numbers, its tooltips, and how it is drawn onto matplotlib's axes.

A new kind is a subclass of Panel and one entry in PANELS. Everything else follows: reading section.json, drawing, CSV
files, pages. Missing values are NaN.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

import numpy as np

from otpe.lab.report.palette import CELL_DARK, CELL_LIGHT, GREY, TEXT, Look

Numbers = Sequence[float]
Scale = tuple[float, float]
DASHES = (0, (4, 1.6))
TURNED = {"rotation": 35, "ha": "right", "rotation_mode": "anchor"}  # names of ticks that would overlap
MOST_TOOLTIPS = 300  # of a series
FEW_POINTS, MARKERS = 12, 7  # a line of more points has about this many markers
BAND_ALPHA = 0.15  # of the spread around a line
BAR_ROOM = 0.8  # share of a group's width that its bars take
CONTOUR_LEVELS = 10
SHADE_ALPHA = 0.055  # of each level


class Point(NamedTuple):
    """One number of a panel: a row of the CSV file, and a tooltip. Missing: NaN for a number, "" for a name."""

    series: str
    x: str | float
    y: float
    spread: float = math.nan
    height: float = math.nan
    at: tuple[float, float] = (math.nan, math.nan)  # place of the tooltip, in the units of the axes
    text: str = ""  # of the tooltip


@dataclass(frozen=True, kw_only=True)
class Panel(ABC):
    """One chart with its axes. The fields `x` and `y`, if the kind has them, are the labels of the axes."""

    parts: ClassVar[tuple[type, ...]] = ()  # dataclasses that the fields contain
    title: str

    def size(self) -> tuple[float, float]:
        """Return width and height in inches: more if there is much to show."""
        return 3.9, 3.0

    def series(self) -> list[str]:
        """Return the names in the legend."""
        return []

    @abstractmethod
    def points(self) -> Iterator[Point]:
        """Yield every number of the panel."""

    def coloured(self) -> Iterator[float]:
        """Yield the values that are shown as colours. All panels of a figure share the scale of these colours."""
        return iter(())

    def is_empty(self) -> bool:
        """Return whether there is no number to show."""
        return not any(tooltips(self))

    @abstractmethod
    def draw(self, axes: Any, looks: dict[str, Look], scale: Scale) -> None:
        """Draw everything except title and labels."""


def tooltips(panel: Panel) -> Iterator[Point]:
    """Yield the points that have a finite place, at most about MOST_TOOLTIPS of each series."""
    for _, group in groupby(panel.points(), key=lambda point: point.series):
        points = list(group)
        for point in points[:: math.ceil(len(points) / MOST_TOOLTIPS)]:
            if all(map(math.isfinite, point.at)):
                yield point


def short(value: float, spread: float = math.nan) -> str:
    """Return a number with its spread, if it has one, in few digits."""
    if not math.isfinite(value):
        return "not a number"
    return f"{value:.4g}" + (f" ± {spread:.2g}" if math.isfinite(spread) else "")


def _with_spread(values: Numbers, spread: Numbers | None) -> Iterator[tuple[float, float]]:
    return zip(values, [math.nan] * len(values) if spread is None else spread, strict=True)


def _array(values: Any, like: Any = None) -> np.ndarray:
    """Return the values as an array, or NaN in the shape of `like` if there are none."""
    return np.full(np.shape(like), math.nan) if values is None else np.asarray(values, float)


def dashes(look: Look) -> Any:
    return DASHES if look.dashed else "-"


def _markers(look: Look, points: int) -> dict[str, Any]:
    """Return a marker at each of a few points, or at some of many."""
    every = 1 if points <= FEW_POINTS else points // MARKERS
    return {"marker": look.marker, "markersize": 4, "markevery": every}


def _grid(axes: Any, axis: str = "both") -> None:
    axes.grid(axis=axis, color=GREY, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)


# --------------------
# Lines.


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve. With `spread`, there is a band of that width above and below."""

    name: str  # the name of a rule, or any other name for the legend
    x: Numbers
    y: Numbers
    spread: Numbers | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place on the x axis where something happened."""

    x: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Lines(Panel):
    parts = (Line, Mark)
    x: str  # the label of the axis
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float, float] | None = None
    marks: Sequence[Mark] | None = None

    def size(self) -> tuple[float, float]:
        return (max(3.9, min(1.6 * len(self.marks) + 1.2, 12)), 3.2) if self.marks else (3.9, 3.0)

    def series(self) -> list[str]:
        return [line.name for line in self.lines]

    def points(self) -> Iterator[Point]:
        for line in self.lines:
            for x, (y, spread) in zip(line.x, _with_spread(line.y, line.spread), strict=True):
                text = f"{self.x} {short(x)}\n{self.y} {short(y, spread)}"
                yield Point(line.name, x, y, spread, at=(x, y), text=text)

    def draw(self, axes: Any, looks: dict[str, Look], scale: Scale) -> None:
        for line in self.lines:
            look, x, y, spread = looks[line.name], _array(line.x), _array(line.y), _array(line.spread, line.y)
            shape = {"linestyle": dashes(look), "linewidth": 1.6, **_markers(look, np.isfinite(y).sum())}
            axes.plot(x, y, color=look.colour, **shape)
            axes.fill_between(x, y - spread, y + spread, color=look.colour, alpha=BAND_ALPHA, linewidth=0)
        if self.log_x:
            _logarithmic(axes, "x", [x for line in self.lines for x in line.x])
        if self.log_y:
            _logarithmic(axes, "y", [y for line in self.lines for y in line.y])
        if self.y_range:
            axes.set_ylim(*self.y_range)
        for mark in self.marks or ():
            axes.axvline(mark.x, color=TEXT, linewidth=0.8, linestyle=":")
            place = {"xy": (mark.x, 1), "xycoords": ("data", "axes fraction"), "xytext": (3, -2)}
            axes.annotate(mark.text, **place, textcoords="offset points", va="top", fontsize=8, parse_math=False)
        _grid(axes)


def _logarithmic(axes: Any, axis: str, values: list[float]) -> None:
    """Label the axis with 0.1, 1, 10 instead of powers of ten; with 2 and 5 too if the values are close together."""
    from matplotlib.ticker import LogLocator, NullFormatter

    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if not positive:
        return
    axes.set(**{f"{axis}scale": "log"})
    of = getattr(axes, f"{axis}axis")
    of.set_major_locator(LogLocator(subs=(1, 2, 5) if max(positive) < 30 * min(positive) else (1,)))
    of.set_major_formatter("{x:g}")
    of.set_minor_formatter(NullFormatter())


# --------------------
# Bars.


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar in each group. With `spread`, each has an error bar."""

    name: str
    values: Numbers
    spread: Numbers | None = None


@dataclass(frozen=True, kw_only=True)
class Bars(Panel):
    parts = (Bar,)
    y: str
    groups: Sequence[str]
    bars: Sequence[Bar]
    y_range: tuple[float, float] | None = None

    def size(self) -> tuple[float, float]:
        return min(max(3.9, 1.2 + 0.115 * len(self.groups) * (len(self.bars) + 1)), 12), 3.0

    def series(self) -> list[str]:
        return [bar.name for bar in self.bars]

    def points(self) -> Iterator[Point]:
        for i, bar in enumerate(self.bars):
            pairs = zip(self.groups, _with_spread(bar.values, bar.spread), strict=True)
            for j, (group, (y, spread)) in enumerate(pairs):
                text = f"{group}\n{self.y} {short(y, spread)}"
                yield Point(bar.name, group, y, spread, at=(j + self._offset(i), y), text=text)

    def _offset(self, i: int) -> float:
        """Return the place of bar i, from the middle of its group."""
        return BAR_ROOM * ((i + 0.5) / len(self.bars) - 0.5)

    def draw(self, axes: Any, looks: dict[str, Look], scale: Scale) -> None:
        width = BAR_ROOM / max(1, len(self.bars))
        for i, bar in enumerate(self.bars):
            look, values, spread = looks[bar.name], _array(bar.values), _array(bar.spread, bar.values)
            at = np.arange(len(values)) + self._offset(i)
            inside = {"alpha": 0.45} if look.dashed else {}
            axes.bar(at, values, 0.88 * width, color=look.colour, linewidth=0, **inside)
            axes.errorbar(at, values, spread, fmt="none", ecolor=TEXT, elinewidth=0.9, capsize=min(2.5, 20 * width))
        names = [str(group) for group in self.groups]
        crowded = max(map(len, names)) * len(names) > 12 * self.size()[0]
        axes.set_xticks(range(len(names)), names, parse_math=False, **(TURNED if crowded else {}))
        axes.tick_params(axis="x", length=0)
        if self.y_range:
            axes.set_ylim(*self.y_range)
        _grid(axes, "y")


# --------------------
# Maps of numbers.


@dataclass(frozen=True, kw_only=True)
class Heat(Panel):
    """A map of rows × columns, with the number in each cell."""

    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Numbers]
    spread: Sequence[Numbers] | None = None
    unit: str = ""

    def size(self) -> tuple[float, float]:
        return min(max(3.9, 1.4 + 0.52 * len(self.columns)), 12), min(max(3.0, 1.2 + 0.36 * len(self.rows)), 12)

    def points(self) -> Iterator[Point]:
        spreads = [None] * len(self.values) if self.spread is None else self.spread
        for i, (row, values, spread) in enumerate(zip(self.rows, self.values, spreads, strict=True)):
            pairs = zip(self.columns, _with_spread(values, spread), strict=True)
            for j, (column, (value, around)) in enumerate(pairs):
                text = f"{self.y} {row}\n{self.x} {column}\n{self.unit} {short(value, around)}"
                yield Point(row, column, value, around, at=(j + 0.5, i + 0.5), text=text)

    def coloured(self) -> Iterator[float]:
        return (value for row in self.values for value in row)

    def is_empty(self) -> bool:
        return not any(map(math.isfinite, self.coloured()))

    def draw(self, axes: Any, looks: dict[str, Look], scale: Scale) -> None:
        values, (low, high) = _array(self.values), scale
        mesh = axes.pcolormesh(np.ma.masked_invalid(values), cmap="viridis", edgecolors="none", vmin=low, vmax=high)
        size, form = 7.5 if len(self.columns) <= 8 else 6, _digits(values)
        for cell in self.points():
            colour, text = GREY, "–"
            if math.isfinite(cell.y):
                red, green, blue, _ = mesh.cmap(mesh.norm(cell.y))
                colour = CELL_DARK if 0.3 * red + 0.59 * green + 0.11 * blue > 0.5 else CELL_LIGHT
                text = f"{cell.y:{form}}" + (f"\n± {cell.spread:{form}}" if math.isfinite(cell.spread) else "")
            axes.text(*cell.at, text, ha="center", va="center", fontsize=size, color=colour, linespacing=1.1)
        columns, rows = [str(x) for x in self.columns], [str(y) for y in self.rows]
        turned = TURNED if max(map(len, columns)) > 6 else {}
        axes.set_xticks(np.arange(len(columns)) + 0.5, columns, parse_math=False, **turned)
        axes.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        _unit_below_title(self, axes)


def _digits(values: np.ndarray) -> str:
    """Return the number format of a map: three digits of most values, the same number of decimals for all."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0)])
    if not sizes.size or sizes.max() >= 1e4 or sizes.min() < sizes.max() / 100:
        return ".3g"
    return f".{max(0, 2 - math.floor(math.log10(np.median(sizes))))}f"


def _unit_below_title(panel: Any, axes: Any) -> None:
    if panel.unit:
        axes.set_title(f"{panel.title}\n{panel.unit}" if panel.title else panel.unit, parse_math=False)


@dataclass(frozen=True, kw_only=True)
class Path:
    """A path through a plane. The last point is its end."""

    name: str
    x: Numbers
    y: Numbers


@dataclass(frozen=True, kw_only=True)
class Contours(Panel):
    """Heights over a plane, and paths through it."""

    parts = (Path,)
    x: str
    y: str
    at_x: Numbers
    at_y: Numbers
    heights: Sequence[Numbers]  # [y][x]
    unit: str
    paths: Sequence[Path] = ()

    def size(self) -> tuple[float, float]:
        return 4.3, 3.5

    def series(self) -> list[str]:
        return [path.name for path in self.paths]

    def points(self) -> Iterator[Point]:
        for y, row in zip(self.at_y, self.heights, strict=True):
            for x, height in zip(self.at_x, row, strict=True):
                yield Point(self.unit, x, y, height=height)
        for path in self.paths:
            for i, (x, y) in enumerate(zip(path.x, path.y, strict=True)):
                text = f"point {i + 1} of {len(path.x)}\n{self.x} {short(x)}\n{self.y} {short(y)}"
                yield Point(path.name, x, y, at=(x, y), text=text)

    def is_empty(self) -> bool:
        return super().is_empty() and not np.isfinite(_array(self.heights)).any()

    def draw(self, axes: Any, looks: dict[str, Look], scale: Scale) -> None:
        heights = np.ma.masked_invalid(_array(self.heights))
        if heights.count():
            self._shade(axes, heights)
        axes.locator_params(nbins=5)
        for path in self.paths:
            colour, x, y = looks[path.name].colour, _array(path.x), _array(path.y)
            shape = {"linestyle": dashes(looks[path.name]), "linewidth": 1.3, **_markers(looks[path.name], len(x))}
            axes.plot(x, y, color=colour, **shape)
            known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
            if known.size:
                first, last = known[0], known[-1]
                axes.plot(x[first], y[first], "o", markersize=6.5, markerfacecolor="none", color=colour)
                axes.plot(x[last], y[last], "*", markersize=10, color=colour)

    def _shade(self, axes: Any, heights: Any) -> None:
        """Shade what is above each level once more, in the colour of the text: the higher, the darker."""
        low, high = float(heights.min()), float(heights.max())
        if low == high:
            return
        spaced = np.geomspace if low > 0 and high > 30 * low else np.linspace
        levels = spaced(low, high, CONTOUR_LEVELS + 1)[1:-1]
        at = _array(self.at_x), _array(self.at_y)
        for level in levels:
            axes.contourf(*at, heights, [level, math.inf], colors=[TEXT], alpha=SHADE_ALPHA)
        lines = axes.contour(*at, heights, levels, colors=TEXT, linewidths=0.5, alpha=0.45)
        axes.clabel(lines, lines.levels[::2], fontsize=6.5, fmt=lambda level: f"{level:.3g}", colors=TEXT)
        self._bar(axes, [low, *levels, high])

    def _bar(self, axes: Any, levels: Sequence[float]) -> None:
        """Draw the shades beside the axes, with the height at every second level."""
        bar = axes.inset_axes((1.03, 0, 0.05, 1))
        for i in range(1, len(levels) - 1):
            bar.axhspan(i, len(levels) - 1, color=TEXT, alpha=SHADE_ALPHA, linewidth=0)
        shown = range(0, len(levels), 2)
        bar.set(xticks=[], xlim=(0, 1), ylim=(0, len(levels) - 1))
        bar.set_yticks(shown, [f"{levels[i]:.3g}" for i in shown])
        bar.yaxis.tick_right()
        bar.tick_params(length=0, labelsize=7.5)
        bar.spines[:].set_linewidth(0.5)
        bar.set_title(self.unit, fontsize=8, loc="left", parse_math=False)


PANELS = (Lines, Bars, Heat, Contours)
