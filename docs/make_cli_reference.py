"""Writes docs/reference/cli.md, the reference of the command line: python docs/make_cli_reference.py

A setting is a field of a dataclass. The string after it describes it: `otpe VERB --help` shows the same text.
"""

import inspect
import re
from dataclasses import MISSING
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from otpe import cli
from otpe.datasets import registry
from otpe.lab.options import Option, options

PAGE = Path(__file__).parent / "reference" / "cli.md"
OPENING = """\
# The command line

    pip install '.[all]'
    otpe --help
    otpe VERB --help

Wrong settings end with a message and exit status 2, before anything is computed. A list is written with spaces:
`--hidden 128 128`. In Python the same settings have underscores: `otpe.TrainConfig(eval_every=50)`.

Settings belong to groups: data, network, loss, optimizer, run. `--network.hidden 64` means the same as `--hidden 64`.
In Python: `otpe.TrainConfig(network=NetworkSettings(hidden=(64,)))`, with the groups from `otpe.lab.settings`.

<!-- Made from the settings by `python docs/make_cli_reference.py`: do not edit. -->
"""


def reference() -> str:
    """Return the text of the page."""
    return "\n".join([OPENING, *(section(name, verb) for name, verb in cli.VERBS.items())])


def section(name: str, verb: cli.Verb) -> str:
    """Return the section of a verb: a table for each section of its options."""
    config, users = cli.load(verb.config), cli.load(verb.users) if verb.users else None
    found = options(config, users, registry.listed())
    lines = [f"## otpe {name}", "", inspect.cleandoc(config.__doc__).replace("{names}", registry.listed()), ""]
    for title, rows in groupby(found, lambda option: option.section):
        if any(option.section for option in found):
            lines += ["", f"### {title or f'Of otpe {name} alone'}", ""]
        lines += ["| option | default | what it does |", "|---|---|---|", *map(row, rows)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def row(option: Option) -> str:
    """Return the line of an option in its table."""
    positional = "Positional" in repr(getattr(option.kind, "__metadata__", ()))
    name = f"`{option.name.upper()}`" if positional else f"`--{option.name.replace('_', '-')}`"
    listed = ", ".join(f"`{choice}`" for choice in choices(option.kind))
    described = f"{option.text} Choices: {listed}." if listed else option.text
    return f"| {name} | {default(option.default)} | {described.replace('|', chr(92) + '|')} |"


def default(value: Any) -> str:
    """Return the value as a user types it."""
    if value is MISSING:
        return "required"
    if value is None or value == ():
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{' '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def choices(kind: Any) -> tuple[str, ...]:
    """Return the choices of a Literal, or of a tuple of Literals."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((nested for part in get_args(kind) if (nested := choices(part))), ())


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
