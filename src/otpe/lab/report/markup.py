"""Figures, tables and the paper's numbers as HTML. What was written by others is escaped here, and only shown."""

import csv
import html
import io
import json
import math
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from otpe import files
from otpe.lab.report import numbers, words
from otpe.lab.report.content import Against, Figure, Table
from otpe.lab.report.palette import TEXT, Look, ours, shown

FAR = 2  # σ, from which on a difference is marked
WIDE = 300  # points; a panel that is wider has a row of its own, and scrolls on a phone


def text(value: Any) -> str:
    """Escaped. Half a character, as names of files and damaged JSON may have, becomes a question mark."""
    return html.escape(str(value).encode(errors="replace").decode())


def words_whole(said: str) -> str:
    """Escaped; an option such as --out is not broken behind its dashes."""
    return " ".join(
        f'<span class="word">{text(word)}</span>' if "-" in word else text(word) for word in said.split(" ")
    )


def note(said: str) -> str:
    return f'<p class="note">{words_whole(said)}</p>'


def figure(given: Figure, folder: Path) -> str:
    """The picture, its caption, and its files, which are written here. What cannot be drawn says why."""
    made: dict[str, str | bytes] = {}
    try:
        made["csv"] = numbers.table(given)
        if find_spec("matplotlib"):
            from otpe.lab.report import drawing

            made = drawing.contents(given)
            shown_as = _legend(numbers.legend(given)) + _panels(given, drawing.inlines(given))
        else:
            shown_as = note("Pictures need matplotlib, which is not installed. Use: pip install 'otpe[plot]'")
    except Exception as error:  # one strange figure is no reason to show no page
        shown_as = note(f"This figure cannot be drawn: {words.error(error)}.")
    for kind, content in made.items():
        files.write_atomically(folder / f"{given.name}.{kind}", content)
    order = [kind for kind in ("svg", "png", "csv") if kind in made]
    caption = f"<span>{text(given.caption)}{_holes(given) if made else ''}</span>{_links(folder, given.name, order)}"
    return f'<figure id="{text(given.name)}">{shown_as}<figcaption>{caption}</figcaption></figure>'


def _panels(given: Figure, drawn: Sequence[Any]) -> str:
    looks = numbers.legend(given)
    names = list(looks)
    series = [[look.name, _colour(look)] for look in looks.values()]
    boxes = []
    for each in drawn:
        spots = [[names.index(h.series) if h.series in looks else -1, h.x, h.y, h.text] for h in each.hovers]
        hover = text(json.dumps({"series": series, "spots": spots}, ensure_ascii=False, separators=(",", ":")))
        wide = " wide" if each.width > WIDE else ""
        boxes.append(f'<div class="panel{wide}" style="--own:{each.width:.0f}px" data-hover="{hover}">{each.svg}</div>')
    few = " few" if len(boxes) < 3 else ""
    return f'<div class="panels{few}">{"".join(boxes)}</div>'


def _legend(looks: dict[str, Look]) -> str:
    def one(look: Look) -> str:
        dashed = ' class="dashed"' if look.dashed else ""
        return f'<li><i{dashed} style="color:{_colour(look)}"></i>{text(look.name)}</li>'

    return f'<ul class="legend">{"".join(map(one, looks.values()))}</ul>' if looks else ""


def _colour(look: Look) -> str:
    return "currentColor" if look.colour == TEXT else look.colour


def _holes(given: Figure) -> str:
    """What is not a number is said, not only left out."""
    holes = [each for each in numbers.numbers(given) if not _known(each.y) or not _known(each.x)]
    where = dict.fromkeys(f"{shown(each.series)} in “{each.panel}”" for each in holes)
    if not holes:
        return ""
    listed = "; ".join(list(where)[:4]) + (f"; and {len(where) - 4} more" if len(where) > 4 else "")
    said = f"{words.counted(len(holes), 'value')} not a number, left as gaps: {listed}."
    return f' <em class="holes">{text(said)}</em>'


def _known(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _links(folder: Path, name: str, ends: Sequence[str]) -> str:
    links = [f'<a href="{quote(folder.name)}/{quote(name)}.{end}">{end.upper()}</a>' for end in ends]
    return f'<span class="files">{" ".join(links)}</span>' if links else ""


def table(given: Table, folder: Path) -> str:
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([given.columns, *given.rows])
    files.write_atomically(folder / f"{given.name}.csv", content.getvalue())
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in given.columns)
    columns = [map(_cell, column, words.column(column)) for column in zip(*given.rows, strict=True)]
    rows = "".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    caption = f"<figcaption><span>{text(given.caption)}</span>{_links(folder, given.name, ['csv'])}</figcaption>"
    inside = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<figure class="table" id="{text(given.name)}">{caption}<div class="scroll">{inside}</div></figure>'


def _cell(value: Any, shown_as: str) -> str:
    mine = ' class="ours"' if ours(str(value)) else ""
    kind = ' class="number"' if isinstance(value, int | float) or str(value)[:1].isdigit() else mine
    return f"<td{kind}>{text(shown_as)}</td>"


def against(given: Sequence[Against]) -> str:
    """The paper's numbers beside ours."""
    if not given:
        return ""
    columns = ("", "rule", "paper", "ours", "difference", "in σ")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    bodies = []
    for what, group in groupby(given, key=lambda each: each.what):
        rows = [_beside(each) for each in group]
        first = f'<th scope="rowgroup" rowspan="{len(rows)}">{text(what)}</th>'
        bodies.append(f"<tbody><tr>{first}{'</tr><tr>'.join(rows)}</tr></tbody>")
    note = (
        f"In σ: the difference over both spreads together, or over ours where the paper has none; bold from {FAR} on."
    )
    inside = f"<table><thead><tr>{head}</tr></thead>{''.join(bodies)}</table>"
    return (
        f'<h3>The paper beside ours</h3><figure class="table against"><div class="scroll">{inside}</div>'
        f"<figcaption><span>{note}</span></figcaption></figure>"
    )


def _beside(each: Against) -> str:
    sigmas = words.sigmas(each)
    far = ' class="number far"' if sigmas >= FAR else ' class="number"'
    cells = [
        f"<td{' class=ours' if ours(each.rule) else ''}>{text(shown(each.rule))}</td>",
        f'<td class="number">{words.measured(each.paper, each.paper_spread, each.percent)}</td>',
        f'<td class="number">{words.measured(each.ours, each.spread, each.percent)}</td>',
        f"<td{far}>{words.difference(each)}</td>",
        f"<td{far}>{f'{sigmas:.1f}' if math.isfinite(sigmas) else words.MISSING}</td>",
    ]
    return "".join(cells)


def facts(given: dict[str, Any]) -> str:
    """Settings, or a machine: names and values."""
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(_value(value))}</dd>" for name, value in given.items())
    return f"<dl>{rows}</dl>"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_value(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(_value, value)) or "none"
    if value is None or isinstance(value, bool):  # 0 and 1 are equal to False and True, but are numbers
        return {None: "none", True: "yes", False: "no"}[value]
    return str(value)
