"""The numbers of a figure, a row each: for the table beside it, and for what the pointer shows."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from otpe.lab.report import palette
from otpe.lab.report.content import Bars, Contours, Figure, Heat, Lines, Numbers, Panel

MOST_SPOTS = 300  # of a line that can be pointed at
BAR_ROOM = 0.8  # of a group's width


class Number(NamedTuple):
    """Missing: NaN for a number, "" for a name."""

    panel: str
    series: str
    x: str | float
    y: float | str
    spread: float = math.nan
    height: float = math.nan


class Spot(NamedTuple):
    """A place in a panel that can be pointed at, in the units of its axes, and what is to be said there."""

    series: str
    x: float
    y: float
    text: str


def numbers(figure: Figure) -> Iterator[Number]:
    for panel in figure.panels:
        match panel:
            case Lines():
                for line in panel.lines:
                    for x, y, spread in zip(line.x, line.y, spreads(line), strict=True):
                        yield Number(panel.title, line.name, x, y, spread)
            case Bars():
                for bar in panel.bars:
                    for group, y, spread in zip(panel.groups, bar.values, spreads(bar), strict=True):
                        yield Number(panel.title, bar.name, group, y, spread)
            case Heat():
                for row, values, of in zip(panel.rows, panel.values, heat_spreads(panel), strict=True):
                    for column, y, spread in zip(panel.columns, values, of, strict=True):
                        yield Number(panel.title, row, column, y, spread)
            case Contours():
                for y, row in zip(panel.at_y, panel.heights, strict=True):
                    for x, height in zip(panel.at_x, row, strict=True):
                        yield Number(panel.title, panel.unit, x, y, height=height)
                for path in panel.paths:
                    for x, y in zip(path.x, path.y, strict=True):
                        yield Number(panel.title, path.name, x, y)


def table(figure: Figure) -> str:
    """All numbers, as comma-separated values: one row each. What is missing is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(Number._fields)
    for number in numbers(figure):
        writer.writerow(["" if isinstance(x, float) and not math.isfinite(x) else x for x in number])
    return text.getvalue()


def series(panel: Panel) -> list[str]:
    """What the legend is to name."""
    match panel:
        case Lines():
            return [line.name for line in panel.lines]
        case Bars():
            return [bar.name for bar in panel.bars]
        case Contours():
            return [path.name for path in panel.paths]
        case _:
            return []


def spots(panel: Panel) -> Iterator[Spot]:
    for spot in _spots(panel):
        if math.isfinite(spot.x) and math.isfinite(spot.y):
            yield spot


def _spots(panel: Panel) -> Iterator[Spot]:
    match panel:
        case Lines():
            for line in panel.lines:
                every = max(1, math.ceil(len(line.x) / MOST_SPOTS))
                for x, y, spread in list(zip(line.x, line.y, spreads(line), strict=True))[::every]:
                    yield Spot(line.name, x, y, f"{panel.x} {short(x)}\n{panel.y} {short(y, spread)}")
        case Bars():
            for i, bar in enumerate(panel.bars):
                for j, (y, spread) in enumerate(zip(bar.values, spreads(bar), strict=True)):
                    text = f"{panel.groups[j]}\n{panel.y} {short(y, spread)}"
                    yield Spot(bar.name, j + bar_place(panel, i), y, text)
        case Heat():
            for i, (row, values, of) in enumerate(zip(panel.rows, panel.values, heat_spreads(panel), strict=True)):
                for j, (column, value, spread) in enumerate(zip(panel.columns, values, of, strict=True)):
                    text = f"{panel.y} {row}\n{panel.x} {column}\n{panel.unit} {short(value, spread)}"
                    yield Spot("", j + 0.5, i + 0.5, text)
        case Contours():
            for path in panel.paths:
                for i, (x, y) in enumerate(zip(path.x, path.y, strict=True)):
                    text = f"point {i + 1} of {len(path.x)}\n{panel.x} {short(x)}\n{panel.y} {short(y)}"
                    yield Spot(path.name, x, y, text)


def bar_place(panel: Bars, i: int) -> float:
    """Of bar i, from the middle of its group."""
    return BAR_ROOM * ((i + 0.5) / len(panel.bars) - 0.5)


def spreads(of) -> Numbers:
    values = of.values if hasattr(of, "values") else of.y
    return [math.nan] * len(values) if of.spread is None else of.spread


def heat_spreads(panel: Heat) -> Sequence[Numbers]:
    return [[math.nan] * len(row) for row in panel.values] if panel.spread is None else panel.spread


def short(value: float, spread: float = math.nan) -> str:
    """A number with its spread, if it has one, in as few digits as tell it."""
    if not math.isfinite(value):
        return "not a number"
    return f"{value:.4g}" + (f" ± {spread:.2g}" if math.isfinite(spread) else "")


def legend(figure: Figure) -> dict[str, palette.Look]:
    """One for all panels."""
    return palette.looks(name for panel in figure.panels for name in series(panel))
