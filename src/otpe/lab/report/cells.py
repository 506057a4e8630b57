"""The cells of a table on the page: their text, their class, and which values are the best of their column."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from otpe.lab.report import words
from otpe.lab.report.palette import ours
from otpe.tables import Table

HIGHEST = ("validation", "test", "ours", "paper", "explained at the end", "model", "accuracy", "test accuracy")
LOWEST = ("loss", "test loss", "training loss", "from BPTT's end")
GROUPED_BY = ("layers", "width", "mini-batches")  # a value is compared with those that agree in these columns
LAYER = re.compile(r"O|H\d+")  # columns of cosines
RATE = re.compile(r"[\d.]+(e-\d+)?")  # columns of a search for learning rates: the best rate of each rule
TRIVIAL = {"explained at the end": "bptt", "from BPTT's end": "bptt"}  # a rule whose value follows from the definition
NUMBER = re.compile(r"[-−]?\d[\d.]*(e[-−]?\d+)?")
Cells = list[tuple[str, str]]  # the class and the text of each cell of a row


def html_rows(table: Table) -> Iterator[Cells]:
    """Yield the rows of a table, each cell with its class and its text."""
    columns = list(zip(*table.rows, strict=True))
    texts = zip(*map(words.column, columns), strict=True)
    best = best_cells(table)
    for i, row in enumerate(texts):
        kinds = (_kind(table.rows[i][j], (i, j) in best) for j in range(len(row)))
        yield list(zip(kinds, row, strict=True))


def _kind(value: Any, best: bool) -> str:
    number = isinstance(value, int | float) or str(value)[:1].isdigit()
    return "number best" if best else "number" if number else "ours" if ours(str(value)) else ""


def best_cells(table: Table) -> set[tuple[int, int]]:
    """Return the places, row and column, of the best values. Equal values are equally good."""
    found = set[tuple[int, int]]()
    names = [str(name) for name in table.columns]
    if names[:1] == ["rule"] and len(names) > 1 and all(RATE.fullmatch(name) for name in names[1:]):
        for i in range(len(table.rows)):
            found |= _best(table, [(i, j) for j in range(1, len(names))], max)
        return found
    groups: dict[tuple[Any, ...], list[int]] = {}
    for i, row in enumerate(table.rows):
        groups.setdefault(tuple(row[j] for j, name in enumerate(names) if name in GROUPED_BY), []).append(i)
    for j, name in enumerate(names):
        choose = max if name in HIGHEST or LAYER.fullmatch(name) else min if name in LOWEST else None
        for rows in groups.values() if choose else ():
            known = [(i, j) for i in rows if str(table.rows[i][0]) != TRIVIAL.get(name)]
            found |= _best(table, known, choose or max)
    return found


def _best(table: Table, places: Sequence[tuple[int, int]], choose: Callable[..., float]) -> set[tuple[int, int]]:
    values = {place: _value(table.rows[place[0]][place[1]]) for place in places}
    known = [value for value in values.values() if math.isfinite(value)]
    if len(known) < 2:
        return set()
    return {place for place, value in values.items() if value == choose(known)}


def _value(cell: Any) -> float:
    """Return the number that a cell begins with, or NaN."""
    if isinstance(cell, int | float):
        return float(cell)
    found = NUMBER.match(str(cell))
    return float(found[0].replace("−", "-").rstrip(".")) if found else math.nan
