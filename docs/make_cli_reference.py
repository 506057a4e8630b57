"""Writes docs/reference/cli.md, the reference of the command line: python docs/make_cli_reference.py

A setting is a field of a dataclass. The string after it describes it: `otpe VERB --help` shows the same text.
Python keeps neither these strings nor the comments that group the fields, so both are read from the source.
"""

import ast
import inspect
import re
from dataclasses import MISSING, fields
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from otpe.cli import VERBS, Verb

PAGE = Path(__file__).parent / "reference" / "cli.md"
OPENING = """\
# The command line

    pip install '.[all]'
    otpe --help
    otpe VERB --help

Bad settings end with a sentence and status 2, before anything is computed. Lists are given one behind the other:
`--hidden 128 128`. In Python the same settings have underscores: `otpe.TrainConfig(eval_every=50)`.

This page is made from the settings by `python docs/make_cli_reference.py`; do not edit it.
"""


class Note(NamedTuple):
    """The description of a field in the source."""

    text: str
    group: str  # the comment above it, or above an earlier field


def reference() -> str:
    """Return the text of the page."""
    return "\n".join([OPENING, *(section(name, verb) for name, verb in VERBS.items())])


def section(name: str, verb: Verb) -> str:
    module, kind = verb.config.split(":")
    config = getattr(import_module(module), kind)
    lines, group, known = [f"## otpe {name}", "", inspect.cleandoc(config.__doc__), ""], None, notes(config)
    types = get_type_hints(config, include_extras=True)
    for field in fields(config):
        note = known[field.name]
        if note.group != group:
            lines += (
                ["", f"### {note.group or f'Of otpe {name} alone'}", ""] if any(n.group for n in known.values()) else []
            )
            lines += ["| option | default | what it does |", "|---|---|---|"]
            group = note.group
        lines.append(row(field, types[field.name], note.text))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def row(field: Any, kind: Any, text: str) -> str:
    option = f"`{field.name.upper()}`" if positional(kind) else f"`--{field.name.replace('_', '-')}`"
    listed = ", ".join(f"`{choice}`" for choice in choices(kind))
    described = f"{text} Choices: {listed}." if listed else text
    return f"| {option} | {default(field.default)} | {described.replace('|', chr(92) + '|')} |"


def default(value: Any) -> str:
    """Return the value as a user types it."""
    if value is MISSING:
        return "required"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{' '.join(map(str, value)) if isinstance(value, tuple) else value}`"


def choices(kind: Any) -> tuple[str, ...]:
    """Return the choices of a Literal, or of a tuple of Literals."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    return next((nested for part in get_args(kind) if (nested := choices(part))), ())


def positional(kind: Any) -> bool:
    return "Positional" in repr(getattr(kind, "__metadata__", ()))


def notes(config: type) -> dict[str, Note]:
    """Return the note of every field: fields of base classes first."""
    described: dict[str, Note] = {}
    for kind in reversed(config.__mro__[:-1]):
        lines = inspect.getsource(kind).splitlines()
        group, body = "", class_body("\n".join(lines))
        for i, (statement, following) in enumerate(pairwise(body)):
            if not isinstance(statement, ast.AnnAssign) or not isinstance(following, ast.Expr):
                continue
            before = lines[body[i - 1].end_lineno : statement.lineno - 1]
            comments = [line.strip(" #") for line in before if line.strip().startswith("#")]
            group = " ".join(comments) or group
            described[statement.target.id] = Note(" ".join(ast.literal_eval(following.value).split()), group)
    return described


def class_body(source: str) -> list[ast.stmt]:
    return ast.parse(source).body[0].body


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
