"""Tables as plain text."""

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """Return rows as text, with aligned columns. Columns whose numbers are in `left` are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
