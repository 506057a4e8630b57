"""Tables, as plain text for the command line and as CSV for files. `lab/report/page.py` shows them as HTML.

print(as_text(Table(columns=["rule", "accuracy"], rows=[["otpe", 0.93], ["ottt", 0.91]])))
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under named columns. In a report, `name` is the stem of the table's file."""

    name: str = ""
    caption: str = ""
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float]]


def as_text(table: Table, left: Sequence[int] = (0,)) -> str:
    """Return the table as plain text. Columns whose numbers are in `left` are aligned to the left, the others right."""
    rows = [[f"{x:.3f}" if isinstance(x, float) else str(x) for x in row] for row in (table.columns, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [[f"{x:{'<' if i in left else '>'}{widths[i]}}" for i, x in enumerate(row)] for row in rows]
    return "\n".join("  " + "  ".join(row).rstrip() for row in aligned)


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[str | float]]) -> str:
    """Return comma-separated values, a line for the names of the columns and one for each row."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *rows])
    return text.getvalue()
