"""What a report says about where numbers come from."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from otpe import files
from otpe.lab.report import sections
from otpe.lab.report.content import Section, to_json
from otpe.lab.runs import folder

NOT_TOLD = ("out", "resume")


def command(verb: str, config: Any, about: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The command line of these settings, without those that are as they would be anyway. `about`: config.json."""
    own = {name: value for name, value in about.items() if name.startswith("own_")}
    return sections.command(verb, type(config), {**folder.plain(config), **own})


def signed(told: Section, verb: str, config: Any, seconds: float, where: Path) -> Section:
    """The section with command, settings, machine and time. `where`: its folder, which knows where it was begun."""
    settings = {name: value for name, value in folder.plain(config).items() if name not in NOT_TOLD}
    known = folder.read_json(where / "config.json")
    return replace(
        told,
        command=command(verb, config, known),
        settings=settings,
        machine=sections.machine(known),
        seconds=seconds,
        remarks=[*told.remarks, *sections.by_hand(known)],
    )


def write_section(where: Path, told: Section) -> None:
    """section.json, and with matplotlib its figures."""
    files.write_atomically(where / "section.json", to_json(told))
    if find_spec("matplotlib"):
        from otpe.lab.report.drawing import draw

        for figure in told.figures:
            draw(figure, where)
