"""The page: an overview, then a section for each run or study."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

import otpe
from otpe import documents, files
from otpe.lab.report import finder, markup, words
from otpe.lab.report.content import Section
from otpe.lab.report.finder import AGAIN, Found
from otpe.lab.report.markup import text
from otpe.lab.report.palette import shown

if TYPE_CHECKING:
    from otpe.lab.settings import ReportConfig  # needs tyro, which only the command line does


HERE = Path(__file__).parent
LONGEST = 200  # bytes of the name of a file, without its ending: file systems allow 255
ANCHOR = 100  # bytes of a section's
OWN = ("top", "contents", "overview", "theme", "tip")  # anchors that page.html has itself
STATES = {
    "finished": "finished", "unfinished": "not finished", "damaged": "damaged", "other version": "of another version",
    "missing": "missing", "left out": "left out",
}  # fmt: skip


EXPLAINED = """<p>Differences are ours less the paper's. Of each section the number is named that lies furthest from
the paper's, counted in σ, the spread of both; below it stands what else is not as in the paper. The remarks of a
section say why. Sections may share runs, and their time.</p>"""


class Page(NamedTuple):
    html: str
    found: list[Found]  # as they are shown: what cannot be is damaged


def page(title: str, found: Sequence[Found], folder: Path) -> Page:
    """All of it, as one file. The files of its figures and tables are written to the folder."""
    names, titles = Names(OWN), _titles(found)
    anchors = [names.new(each.section.name if each.section else each.path.resolve().name, ANCHOR) for each in found]
    shown_as = [_shown(*each, names, folder) for each in zip(found, anchors, titles, strict=True)]
    found = [each.found for each in shown_as]
    sections, styles = documents.without_styles("\n".join(each.body for each in shown_as))
    css, js = ((HERE / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    content = {
        "title": text(title),
        "about": text(_about(found)),
        "contents": "".join(f'<li><a href="#{a}">{text(t)}</a></li>' for a, t in zip(anchors, titles, strict=True)),
        "explained": EXPLAINED if any(each.section and each.section.against for each in found) else "",
        "overview": "".join(each.line for each in shown_as),
        "sections": sections,
        "policy": documents.policy(css + styles, js),
        "css": css + styles,
        "js": js,
    }
    return Page(Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(content), found)


class Names:
    """Of anchors and files: each is safe, short enough for every file system, and there only once."""

    def __init__(self, taken: Sequence[str]) -> None:
        self._taken = set(taken)

    def new(self, wanted: str, longest: int = LONGEST) -> str:
        stem = re.sub(r"[^\w.-]+", "-", wanted).strip(".-").encode()[:longest].decode(errors="ignore") or "section"
        numbered = (stem if i == 1 else f"{stem}--{i}" for i in count(1))
        name = next(name for name in numbered if name.casefold() not in self._taken)
        self._taken.add(name.casefold())  # some file systems do not tell a from A
        return name


def _about(found: Sequence[Found]) -> str:
    states = Counter(each.state for each in found)
    several = [f"{states[state]} {STATES[state]}" for state in STATES if states[state]]
    made_by = f"Made by otpe {otpe.__version__}."
    return f"{words.counted(len(found), 'section')}: {', '.join(several)}. {made_by}"


def _titles(found: Sequence[Found]) -> list[str]:
    """Those that have the same get the name of their folder too."""
    titles = [str(each.section.title) if each.section else each.path.name or str(each.path) for each in found]
    seen = Counter(titles)
    return [f"{t} ({each.path.name})" if seen[t] > 1 else t for t, each in zip(titles, found, strict=True)]


class _Shown(NamedTuple):
    found: Found
    line: str  # of the overview
    body: str


def _shown(each: Found, anchor: str, title: str, names: Names, folder: Path) -> _Shown:
    try:
        return _Shown(each, _line(each, anchor, title), _section(each, anchor, title, names, folder))
    except OSError:
        raise
    except Exception as error:  # whatever a strange file holds, the others are shown
        note = f"section.json cannot be shown: {words.error(error)}. {AGAIN}"
        broken = Found(each.path, "damaged", note=note)
        return _Shown(broken, _line(broken, anchor, title), _section(broken, anchor, title, names, folder))


def _line(each: Found, anchor: str, title: str) -> str:
    """Of the overview."""
    section = each.section
    most = words.largest(section.against) if section else None
    differs = words.MISSING
    if most:
        sigmas = words.sigmas(most)
        counted = f" ({sigmas:.1f} σ)" if sigmas == sigmas else ""
        differs = f"{words.difference(most)}{counted}: {shown(most.rule)}, {most.what}"
    where = section.where if section and section.where else words.MISSING
    apart = f'<span class="apart">{text(", ".join(section.apart))}</span>' if section and section.apart else ""
    cells = [
        text(where),
        _badge(each),
        text(differs) + apart,
        words.duration(section.seconds) if section else words.MISSING,
    ]
    row = "".join(f"<td{' class=none' if cell == words.MISSING else ''}>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row"><a href="#{anchor}">{text(title)}</a></th>{row}</tr>'


def _badge(each: Found) -> str:
    return f'<span class="state {each.state.split()[0]}">{STATES[each.state]}</span>'


def _section(each: Found, anchor: str, title: str, names: Names, folder: Path) -> str:
    inside = _study(each.section, anchor, names, folder) if each.section else ""
    where = f'<p class="where">{text(each.section.where)}</p>' if each.section and each.section.where else ""
    state = "" if each.state == "finished" else _badge(each)
    note = markup.note(each.note) if each.note else ""
    return f"""<section id="{anchor}">
<header>{where}<h2>{text(title)} {state}</h2></header>
{note}{inside}
<p class="foot"><span>{text(each.path)}</span><a href="#contents">↑ contents</a></p>
</section>"""


def _study(section: Section, anchor: str, names: Names, folder: Path) -> str:
    def named(name: str) -> str:
        return names.new(f"{anchor}-{name}")

    body = [f'<p class="lead">{text(section.lead)}</p>']
    body += [markup.figure(replace(each, name=named(each.name)), folder) for each in section.figures]
    body += [markup.against(section.against)]
    body += [markup.table(replace(each, name=named(each.name)), folder) for each in section.tables]
    if section.remarks:
        body += [
            "<h3>Remarks</h3><ul class='remarks'>",
            *(f"<li>{text(each)}</li>" for each in section.remarks),
            "</ul>",
        ]
    return "\n".join(body) + _how(section)


def _how(section: Section) -> str:
    """What it was made with: command, machine, settings."""
    command = f'<div class="command"><pre>{markup.words_whole(section.command)}</pre></div>' if section.command else ""
    device = section.machine.get("device", "")
    took = f"{words.duration(section.seconds)}" if section.seconds == section.seconds else ""
    short = ", ".join(text(part) for part in (took, device) if part)
    machine = f"<h4>Machine and versions</h4>{markup.facts(section.machine)}" if section.machine else ""
    settings = f"<h4>Settings</h4>{markup.facts(section.settings)}" if section.settings else ""
    about = f'<span class="took">{short}</span>' if short else ""
    details = f"<details><summary>Settings and machine{about}</summary>{settings}{machine}</details>"
    return (f"<h3>Run it yourself</h3>{command}" if command else "") + (details if settings or machine else "")


# --------------------
# `otpe.report`, and the verb.


def report(
    folders: str | Path | Sequence[str | Path] = "runs", out: str | Path = "report.html", title: str = "OTPE: results"
) -> Path:
    """Put the runs and studies of these folders into one page, and return it.

    The page is a single file; the folder STEM-files beside it has every figure as SVG, PNG and CSV. Runs that are not
    finished, damaged or of another version are shown as such.

    Raises:
      OSError: there is nothing to show, or the page cannot be written; an older one then is as it was.
    """
    given = [folders] if isinstance(folders, str | Path) else folders
    found, out = _checked([Path(folder) for folder in given], Path(out))
    _write(found, out, title)
    return out


def prepare(config: ReportConfig) -> Callable[[], int]:
    """Look for the runs, and return the job."""
    found, out = _checked(config.folders, config.out)
    return lambda: _run(config, found, out)


def _checked(folders: Sequence[Path], out: Path) -> tuple[list[finder.Found], Path]:
    if out.is_dir() or not out.suffix:
        raise IsADirectoryError(f"out is {str(out)!r}, expected a file, such as {out / 'report.html'}.")
    found = finder.search(folders)
    files.make_folder(out.parent)
    return found, out


def _write(found: list[finder.Found], out: Path, title: str) -> list[finder.Found]:
    """What was found, as the page shows it."""
    folder = out.with_name(f"{out.stem}-files")
    files.make_folder(folder)
    made = page(title, found, folder)
    files.write_atomically(out, made.html)
    return made.found


def _run(config: ReportConfig, found: list[finder.Found], out: Path) -> int:
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
