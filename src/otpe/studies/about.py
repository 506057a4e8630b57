"""What a report says about where numbers come from."""

import shlex
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from otpe import files
from otpe.charts.kinds import Section, to_json
from otpe.runs import folder

NOT_TOLD = ("out", "resume")


def command(verb: str, config: Any) -> str:
    """The command line of these settings, without those that are as they would be anyway."""
    words = ["otpe", verb]
    for field in fields(config):
        value = getattr(config, field.name)
        if value == field.default or field.name in NOT_TOLD:
            continue
        values = [] if value is True else value if isinstance(value, tuple | list) else [value]
        words += [f"--{field.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def signed(section: Section, verb: str, config: Any, seconds: float) -> Section:
    """The section with command, settings, machine and time."""
    told = {name: value for name, value in folder.plain(config).items() if name not in NOT_TOLD}
    return replace(section, command=command(verb, config), settings=told, machine=folder.provenance(), seconds=seconds)


def write(where: Path, section: Section) -> None:
    """section.json, and with matplotlib its figures."""
    files.write_atomically(where / "section.json", to_json(section))
    if find_spec("matplotlib"):
        from otpe.charts.draw import draw

        for figure in section.figures:
            draw(figure, where)
