"""The page: an overview, then a section for each run or study."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import Template

import otpe
from otpe.charts.kinds import Section
from otpe.charts.look import shown
from otpe.reporting import parts, words
from otpe.reporting.find import Found
from otpe.reporting.parts import text

HERE = Path(__file__).parent
STATES = {
    "finished": "finished", "unfinished": "not finished", "damaged": "damaged", "other version": "of another version",
    "missing": "missing",
}  # fmt: skip


def page(title: str, found: Sequence[Found], folder: Path) -> str:
    """All of it, as one file. The files of its figures and tables are written to the folder."""
    anchors = _anchors(found)
    bodies = [_section(each, anchor, folder) for each, anchor in zip(found, anchors, strict=True)]
    content = {
        "title": text(title),
        "about": text(_about(found)),
        "contents": "".join(
            f'<li><a href="#{anchor}">{text(_title(each))}</a></li>'
            for each, anchor in zip(found, anchors, strict=True)
        ),
        "overview": "".join(map(_line, found, anchors)),
        "sections": "\n".join(bodies),
        "css": (HERE / "page.css").read_text(encoding="utf-8"),
        "js": (HERE / "page.js").read_text(encoding="utf-8"),
    }
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(content)


def _anchors(found: Sequence[Found]) -> list[str]:
    """A name for each, none twice."""
    seen: Counter[str] = Counter()
    anchors = []
    for each in found:
        name = each.section.name if each.section else each.path.resolve().name
        stem = re.sub(r"[^\w.-]+", "-", str(name)).strip(".-") or "section"
        seen[stem] += 1
        anchors.append(stem if seen[stem] == 1 else f"{stem}--{seen[stem]}")
    return anchors


def _about(found: Sequence[Found]) -> str:
    states = Counter(each.state for each in found)
    several = [f"{states[state]} {STATES[state]}" for state in STATES if states[state]]
    made_by = f"Made by otpe {otpe.__version__}."
    return f"{words.counted(len(found), 'section')}: {', '.join(several)}. {made_by}"


def _title(each: Found) -> str:
    return str(each.section.title) if each.section else each.path.name or str(each.path)


def _line(each: Found, anchor: str) -> str:
    """Of the overview."""
    section = each.section
    most = words.largest(section.against) if section else None
    differs = words.MISSING
    if most:
        sigmas = words.sigmas(most)
        counted = f" ({sigmas:.1f} σ)" if sigmas == sigmas else ""
        differs = f"{words.difference(most)}{counted}: {shown(most.rule)}, {most.what}"
    cells = [
        f'<th scope="row"><a href="#{anchor}">{text(_title(each))}</a></th>',
        f"<td>{text(section.where or words.MISSING) if section else words.MISSING}</td>",
        f"<td>{_badge(each)}</td>",
        f"<td>{text(differs)}</td>",
        f'<td class="number">{words.duration(section.seconds) if section else words.MISSING}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _badge(each: Found) -> str:
    return f'<span class="state {each.state.split()[0]}">{STATES[each.state]}</span>'


def _section(each: Found, anchor: str, folder: Path) -> str:
    try:
        inside = _study(each.section, anchor, folder) if each.section else ""
    except OSError:
        raise
    except Exception as error:  # whatever a strange file holds, the others are shown
        inside = f'<p class="note">This section cannot be shown: {text(f"{type(error).__name__}: {error}")}</p>'
    where = f'<p class="where">{text(each.section.where)}</p>' if each.section and each.section.where else ""
    state = "" if each.state == "finished" else _badge(each)
    note = f'<p class="note">{text(each.note)}</p>' if each.note else ""
    return f"""<section id="{anchor}">
<header>{where}<h2>{text(_title(each))} {state}</h2></header>
{note}{inside}
<p class="foot"><span>{text(each.path)}</span><a href="#contents">↑ contents</a></p>
</section>"""


def _study(section: Section, anchor: str, folder: Path) -> str:
    names: Counter[str] = Counter()

    def named(name: str) -> str:
        stem = re.sub(r"[^\w.-]+", "-", f"{anchor}-{name}")
        names[stem] += 1
        return stem if names[stem] == 1 else f"{stem}--{names[stem]}"

    body = [f'<p class="lead">{text(section.lead)}</p>']
    body += [parts.figure(replace(each, name=named(each.name)), folder) for each in section.figures]
    body += [parts.against(section.against)]
    body += [parts.table(replace(each, name=named(each.name)), folder) for each in section.tables]
    if section.remarks:
        body += [
            "<h3>Remarks</h3><ul class='remarks'>",
            *(f"<li>{text(each)}</li>" for each in section.remarks),
            "</ul>",
        ]
    return "\n".join(body) + _how(section)


def _how(section: Section) -> str:
    """What it was made with: command, machine, settings."""
    command = f'<div class="command"><pre>{text(section.command)}</pre></div>' if section.command else ""
    device = section.machine.get("device", "")
    took = f"{words.duration(section.seconds)}" if section.seconds == section.seconds else ""
    short = ", ".join(text(part) for part in (took, device) if part)
    machine = f"<h4>Machine and versions</h4>{parts.facts(section.machine)}" if section.machine else ""
    settings = f"<h4>Settings</h4>{parts.facts(section.settings)}" if section.settings else ""
    about = f'<span class="took">{short}</span>' if short else ""
    details = f"<details><summary>Settings and machine{about}</summary>{settings}{machine}</details>"
    return (f"<h3>Run it yourself</h3>{command}" if command else "") + (details if settings or machine else "")
