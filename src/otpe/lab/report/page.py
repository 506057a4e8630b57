"""`otpe report`: one page with an overview and a section for each run or study, and files with its figures and tables.

The markup is in templates/: page.html.j2 is the page, parts.html.j2 has its parts, each a macro.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import otpe
from otpe import files
from otpe.lab.paper import claims, outcomes, verdicts
from otpe.lab.report import cells, documents, finder, legend, words
from otpe.lab.report.content import Figure
from otpe.lab.report.finder import STUDY_AGAIN, Found
from otpe.lab.report.palette import ours, shown
from otpe.tables import as_csv

if TYPE_CHECKING:
    from jinja2 import Environment

    from otpe.lab.settings import ReportConfig  # needs tyro, which only the command line does

LONGEST = 200  # bytes of the name of a file, without its ending: file systems allow 255
ANCHOR = 100  # bytes of a section's anchor
OWN = ("top", "contents", "claims", "overview", "theme", "tip")  # anchors in page.html.j2
FAR = 2  # differences of more standard errors than this are bold
FOLDED = 12  # comparisons with the paper; more are folded
STATES = {
    "finished": "finished", "unfinished": "not finished", "damaged": "damaged", "other version": "of another version",
    "missing": "missing", "left out": "left out",
}  # fmt: skip


class Page(NamedTuple):
    html: str
    found: list[Found]  # as shown: a section that cannot be shown has the state damaged


def page(title: str, found: Sequence[Found], folder: Path) -> Page:
    """Return the page as one document. Writes the files of its figures and tables to the folder."""
    found = [_with_outcome(each) for each in found]
    judged = claims.judged([each.section for each in found if each.section])
    names, titles = Names(OWN), _titles(found)
    anchors = [names.new(each.section.name if each.section else each.path.resolve().name, ANCHOR) for each in found]
    results = [_shown(*each, judged, names, folder) for each in zip(found, anchors, titles, strict=True)]
    found = [each.found for each in results]
    sections, styles = documents.without_styles("\n".join(each.body for each in results))
    pairs = zip(found, anchors, strict=True)
    linked = {each.section.name: (anchor, each.section.where) for each, anchor in pairs if each.section}
    html, _ = documents.document(
        _templates(), "page", styles=styles, title=title, about=_about(found), sections=sections,
        contents=dict(zip(anchors, titles, strict=True)), overview="".join(each.row for each in results),
        claims=part("claims", judged, linked) if judged else "", claims_lead=_claims_lead(judged),
        explained=any(each.section and each.section.against for each in found),
    )  # fmt: skip
    return Page(html, found)


class Names:
    """Makes names of anchors and files: safe, unique, and short enough for every file system."""

    def __init__(self, taken: Sequence[str]) -> None:
        self._taken = set(taken)

    def new(self, wanted: str, longest: int = LONGEST) -> str:
        stem = re.sub(r"[^\w.-]+", "-", wanted).strip(".-").encode()[:longest].decode(errors="ignore") or "section"
        numbered = (stem if i == 1 else f"{stem}--{i}" for i in count(1))
        name = next(name for name in numbered if name.casefold() not in self._taken)
        self._taken.add(name.casefold())  # for some file systems, a and A are the same
        return name


def _about(found: Sequence[Found]) -> str:
    states = Counter(each.state for each in found)
    several = [f"{states[state]} {text}" for state, text in STATES.items() if states[state]]
    return f"{words.counted(len(found), 'section')}: {', '.join(several)}. Made by otpe {otpe.__version__}."


def _titles(found: Sequence[Found]) -> list[str]:
    """Return the titles. Equal ones also get the name of their folder."""
    titles = [each.section.title if each.section else each.path.name or str(each.path) for each in found]
    seen = Counter(titles)
    return [f"{t} ({each.path.name})" if seen[t] > 1 else t for t, each in zip(titles, found, strict=True)]


def _claims_lead(judged: Sequence[verdicts.Judged]) -> str:
    """Return text such as "21 claims: 12 hold, 6 hold partly, 2 do not hold, 1 is not comparable." """
    counts = Counter(each.verdict for each in judged)
    texts = {"holds": "hold", "partly": "hold partly", "does not hold": "do not hold"}
    listed = (f"{counts[verdict]} {texts.get(verdict, verdict)}" for verdict in verdicts.VERDICTS if counts[verdict])
    return f"{words.counted(len(judged), 'claim')}: {', '.join(listed)}."


def _with_outcome(found: Found) -> Found:
    """Return a section of the paper with a lead that says what came out. One that makes this impossible is damaged."""
    try:
        return replace(found, section=outcomes.with_outcome(found.section)) if found.section else found
    except Exception as error:
        return _damaged(found, error)


class Pill(NamedTuple):
    """The state of a section, or what came out."""

    kind: str  # its class in the style sheet
    text: str


def _pill(found: Found, judged: Sequence[verdicts.Judged]) -> Pill:
    """Return what came out: the largest difference from the paper, or how many claims about the section hold."""
    section = found.section
    if found.state != "finished" or section is None:
        return Pill(found.state.split()[0], STATES[found.state])
    most = words.largest(section.against)
    if most is not None:
        if words.in_errors(most) <= FAR:
            return Pill("agrees", "agrees with the paper")
        return Pill("differs", f"differs by {words.difference(most)}")
    mine = [each.verdict for each in judged if section.name in each.sections]
    if not mine or "not run" in mine:
        return Pill("finished", STATES["finished"])
    if {*mine} == {"not comparable"}:
        return Pill("incomparable", "not comparable")
    hold = mine.count("holds")
    text = f"claim: {mine[0]}" if len(mine) == 1 else f"{hold} of {len(mine)} claims hold"
    return Pill("agrees" if hold == len(mine) else "differs", text)


class _Shown(NamedTuple):
    found: Found
    row: str  # of the overview
    body: str


def _shown(
    found: Found, anchor: str, title: str, judged: Sequence[verdicts.Judged], names: Names, folder: Path
) -> _Shown:
    """Return a section as HTML. If its content makes that impossible, it is shown as damaged."""
    try:
        return _as_html(found, _pill(found, judged), anchor, title, names, folder)
    except OSError:
        raise
    except Exception as error:  # whatever a strange file contains, the other sections are shown
        damaged = _damaged(found, error)
        return _as_html(damaged, _pill(damaged, ()), anchor, title, names, folder)


def _damaged(found: Found, error: Exception) -> Found:
    return Found(found.path, "damaged", note=f"section.json cannot be shown: {words.error(error)}. {STUDY_AGAIN}")


def _as_html(found: Found, pill: Pill, anchor: str, title: str, names: Names, folder: Path) -> _Shown:
    row, figures, named_tables = part("overview_row", found, pill, anchor, title), [], []
    if found.section:
        named = [replace(each, name=names.new(f"{anchor}-{each.name}")) for each in found.section.figures]
        figures = [_drawn(each, folder) for each in named]
        named_tables = [replace(each, name=names.new(f"{anchor}-{each.name}")) for each in found.section.tables]
        for each in named_tables:
            files.write_atomically(folder / f"{each.name}.csv", as_csv(each.columns, each.rows))
    return _Shown(found, row, part("section", found, pill, anchor, title, figures, named_tables, folder.name))


def part(name: str, *given: Any) -> str:
    """Return a part of a page as HTML: the macro of this name in parts.html.j2."""
    return str(getattr(_templates().get_template("parts.html.j2").module, name)(*given))


@cache
def _templates() -> Environment:
    def groups(against: Sequence[Any]) -> list[list[Any]]:
        return [list(group) for _, group in groupby(against, key=lambda each: each.what)]

    templates = documents.environment(
        check_text=outcomes.check_text, decisive=outcomes.decisive, difference=words.difference,
        duration=words.duration, groups=groups, html_rows=cells.html_rows, in_errors=words.in_errors,
        in_errors_text=words.in_errors_text, key=legend.key, largest_text=words.largest_text, measured=words.measured,
        networks_text=words.networks_text, ours=ours, shown=shown, value_text=words.value,
    )  # fmt: skip
    templates.globals.update(missing=words.MISSING, nan=math.nan, far_from=FAR, folded=FOLDED)
    return templates


# --------------------
# Figures and tables.


def _drawn(figure: Figure, folder: Path) -> dict[str, Any]:
    """Draw a figure, write its files, and return what the template shows of it."""
    made: dict[str, str | bytes] = {}
    drawn = {"problem": "", "legend": [], "panels": []}
    try:
        made["csv"] = figure.csv()
        if find_spec("matplotlib"):
            from otpe.lab.report import drawing

            made, drawn["panels"] = drawing.contents(figure), _panels(figure, drawing.inlines(figure))
            drawn["legend"] = list(figure.legend().values())
        else:
            drawn["problem"] = "Pictures need matplotlib, which is not installed. Use: pip install 'otpe[plot]'"
    except Exception as error:  # one strange figure is no reason to show no page
        drawn["problem"] = f"This figure cannot be drawn: {words.error(error)}."
    for kind, content in made.items():
        files.write_atomically(folder / f"{figure.name}.{kind}", content)
    return {"figure": figure, "kinds": list(made), "holes": _holes(figure) if made else "", **drawn}


def _panels(figure: Figure, drawn: Sequence[Any]) -> list[dict[str, Any]]:
    looks = figure.legend()
    names, series = list(looks), [[look.name, look.css] for look in looks.values()]
    panels = []
    for each in drawn:
        spots = [[names.index(t.series) if t.series else -1, *t.at, t.text] for t in each.tooltips]
        hover = json.dumps({"series": series, "spots": spots}, ensure_ascii=False, separators=(",", ":"))
        panels.append({"svg": each.svg, "width": each.width, "hover": hover})
    return panels


def _holes(figure: Figure) -> str:
    """Return a sentence about values that are not numbers, so that gaps are not overlooked."""
    holes = [
        (title, point.series)
        for title, point in figure.points()
        if any(isinstance(x, float) and not math.isfinite(x) for x in (point.x, point.y))
    ]
    if not holes:
        return ""
    where = list(dict.fromkeys(f"{shown(series)} in “{title}”" for title, series in holes))
    listed = "; ".join(where[:4]) + (f"; and {len(where) - 4} more" if len(where) > 4 else "")
    return f"{words.counted(len(holes), 'value')} not a number, left as gaps: {listed}."


# --------------------
# `otpe.report`, and the verb.


def report(
    folders: str | Path | Sequence[str | Path] = "runs", out: str | Path = "report.html", title: str = "OTPE: results"
) -> Path:
    """Show the runs and studies in these folders on one page, and return its path.

    The page is a single file. The folder STEM-files beside it has every figure as SVG, PNG and CSV. Runs that are not
    finished, damaged or of another version are shown as such.

    Raises:
      OSError: there is nothing to show, or the page cannot be written. An older page then stays unchanged.
    """
    given = [folders] if isinstance(folders, str | Path) else folders
    found, out = _checked([Path(folder) for folder in given], Path(out))
    _write(found, out, title)
    return out


def prepare(config: ReportConfig) -> Callable[[], int]:
    """Look for the runs, and return the job."""
    found, out = _checked(config.folders, config.out)
    return lambda: _run(config, found, out)


def _checked(folders: Sequence[Path], out: Path) -> tuple[list[Found], Path]:
    if out.is_dir() or not out.suffix:
        raise IsADirectoryError(f"out is {str(out)!r}, expected a file, such as {out / 'report.html'}.")
    found = finder.search(folders)
    files.make_folder(out.parent)
    return found, out


def _write(found: list[Found], out: Path, title: str) -> list[Found]:
    """Write the page and its files, and return what it shows."""
    folder = out.with_name(f"{out.stem}-files")
    files.make_folder(folder)
    made = page(title, found, folder)
    files.write_atomically(out, made.html)
    return made.found


def _run(config: ReportConfig, found: list[Found], out: Path) -> int:
    found = _write(found, out, config.title)
    for each in found:
        if each.state != "finished":
            print(f"otpe: {each.path}: {each.state}. {each.note}", file=sys.stderr)
    states = Counter(each.state for each in found)
    print(f"{', '.join(f'{count} {state}' for state, count in states.items())}\nReport: {out}")
    if config.open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
    return 0
