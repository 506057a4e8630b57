"""Command-line options, made from the fields of a config. The string after a field describes it.

Python keeps neither these strings nor the comments that name sections, so both are read from the source. This module
does not import jax.
"""

import ast
import inspect
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import MISSING, field, fields, make_dataclass
from itertools import takewhile
from typing import Annotated, Any, NamedTuple, get_type_hints

from otpe.lab.nested_settings import Nested, check_agreement, check_name, field_names
from otpe.lab.synonyms import advice

WIDEST_HELP = 120  # characters
Users = Callable[
    [str], Sequence[str]
]  # a setting -> names of the datasets that use it; empty if it is not for datasets


class Option(NamedTuple):
    """A setting on the command line."""

    name: str
    kind: Any  # its type, with the annotations of tyro
    default: Any  # MISSING if it is required
    section: str  # the comment above the field, or above an earlier one
    text: str


def options(config: type, users: Users | None = None, names: str = "") -> list[Option]:
    """Return the options of a config, section by section.

    `users`: a function that returns the names of the datasets, or sources, that use a setting. `names`: the text that
    replaces "{names}" in the help.
    """
    described: dict[str, tuple[str, str]] = {}
    for kind in reversed(config.__mro__[:-1]):
        described |= _descriptions(kind) if kind is not Nested else {}
    types, found = get_type_hints(config, include_extras=True), []
    for each in fields(config):
        section, text = described[each.name]
        if users is not None and (datasets := users(each.name)):
            text = f"{text.removesuffix('.')} ({', '.join(datasets)})."
        found.append(Option(each.name, types[each.name], each.default, section, text.replace("{names}", names)))
    order = [*dict.fromkeys(["", *(option.section for option in found)])]
    return sorted(found, key=lambda option: order.index(option.section))


def _descriptions(kind: type) -> dict[str, tuple[str, str]]:
    """Return the section and the text of every field that this class describes itself."""
    source = inspect.getsource(kind)
    lines, section, found = source.splitlines(), "", {}
    (definition,) = ast.parse(source).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for before, statement, after in zip(body, body[1:], [*body[2:], None], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            between = lines[before.end_lineno or 0 : statement.lineno - 1]
            section = " ".join(line.strip(" #") for line in between if line.strip().startswith("#")) or section
            if isinstance(after, ast.Expr):
                found[statement.target.id] = (section, " ".join(ast.literal_eval(after.value).split()))
    return found


def parse(verb: str, config: type, args: Sequence[str], default: Any, users: Users | None, names: str) -> Any:
    """Return the settings that these arguments give. The others have the values of `default`, or their defaults."""
    import tyro

    sections: dict[str, list[Any]] = {}
    for option in options(config, users, names):
        value = option.default if default is None else getattr(default, option.name)
        kind = Annotated[option.kind, tyro.conf.arg(help=option.text)]
        entry = (option.name, kind) if value is MISSING else (option.name, kind, field(default=value))
        sections.setdefault(option.section, []).append(entry)
    own, members = sections.pop("", []), []
    for i, (title, entries) in enumerate(sections.items()):
        section = make_dataclass(f"Section{i}", entries, kw_only=True)
        named = tyro.conf.arg(name=title.removeprefix("The ").lower())
        members.append(
            (f"section{i}", Annotated[section, tyro.conf.OmitArgPrefixes, named], field(default_factory=section))
        )
    whole = make_dataclass(config.__name__, [*own, *members], kw_only=True)
    whole.__doc__ = (config.__doc__ or "").replace("{names}", names)
    if {"-h", "--help"} & {*args}:  # tyro writes several columns on wide terminals, in an order that is hard to follow
        os.environ["COLUMNS"] = str(min(shutil.get_terminal_size().columns, WIDEST_HELP))
    made = tyro.cli(whole, prog=f"otpe {verb}", args=args, config=(tyro.conf.FlagCreatePairsOff,))
    parts = [made, *(getattr(made, name) for name, *_ in members)]
    given = {each.name: getattr(part, each.name) for part in parts for each in fields(part)}
    return config(**{name: given[name] for name in field_names(config)})


def check_synonyms(config: type, args: Sequence[str]) -> None:
    """Raise ValueError, with the name of our option, for an option that other libraries have."""
    known = field_names(config)
    for arg in args if not {"-h", "--help"} & {*args} else ():
        name = arg.partition("=")[0].removeprefix("--").replace("-", "_")
        if arg.startswith("--") and (sentence := advice(name, known, option=True)) is not None:
            raise ValueError(sentence)


def flat_arguments(config: type, args: Sequence[str]) -> list[str]:
    """Return the arguments with nested options as flat ones: --network.hidden 64 becomes --hidden 64.

    Raises ValueError for an unknown group or setting, and for a flat option that contradicts a nested one.
    """
    groups = getattr(config, "GROUPS", {})
    if not groups:
        return [*args]
    flags, found, nested = {name for name, kind in get_type_hints(config).items() if kind is bool}, [], {}
    for i, arg in enumerate(args):
        option, equals, value = arg.partition("=")
        group, dot, setting = option.removeprefix("--").partition(".")
        if not option.startswith("--") or not dot:
            found.append(arg)
            continue
        name = setting.replace("-", "_")
        check_name("there is no group", group, groups)
        check_name(f"the group {group} has no setting", name, field_names(groups[group]))
        nested[name] = (group, _values(name, args, i, flags))
        found.append(f"--{setting}{equals}{value}")
    for i, arg in enumerate(args):
        name = arg.partition("=")[0].removeprefix("--").replace("-", "_")
        if arg.startswith("--") and name in nested:
            group, values = nested[name]
            check_agreement(group, name, _values(name, args, i, flags), values)
    return found


def _values(name: str, args: Sequence[str], i: int, flags: set[str]) -> Any:
    """Return the values of the option at position i. Those that are numbers are converted to int or float."""
    _, equals, value = args[i].partition("=")
    if name in flags:
        return True
    words = [value] if equals else [*takewhile(lambda word: not word.startswith("--"), args[i + 1 :])]
    values = tuple(map(_number, words))
    return values[0] if len(values) == 1 else values


def _number(word: str) -> Any:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word
