"""What all studies share: convert settings, name their command, draw mean curves, write the section."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from otpe import files
from otpe.lab.report import sections, words
from otpe.lab.report.content import Section, to_json
from otpe.lab.report.panels import Heat, Line
from otpe.lab.runs import folder

Kind = TypeVar("Kind")
NOT_SHOWN = ("out", "resume")  # settings that do not describe the study


def settings_as(kind: type[Kind], config: Any, **changes: Any) -> Kind:
    """Return settings of another class: values of `config` where it has the setting, then `changes`, else defaults."""
    names = (field.name for field in fields(kind))  # pyright: ignore[reportArgumentType]
    return kind(**{**{name: getattr(config, name) for name in names if hasattr(config, name)}, **changes})


def mean_and_spread(values: np.ndarray) -> tuple[list[Any], list[Any] | None]:
    """Return the mean and σ over the last axis, the networks. σ is None for a single network."""
    return words.mean(values, -1).tolist(), words.std(values, -1).tolist() if values.shape[-1] > 1 else None


def mean_line(name: str, x: Any, values: np.ndarray) -> Line:
    """Return a line with the mean ± σ of values [x, S]."""
    y, spread = mean_and_spread(values)
    return Line(name=name, x=np.asarray(x).tolist(), y=y, spread=spread)


def accuracy_map(title: str, y: str, rows: Sequence[str], x: str, columns: Sequence[str], test: np.ndarray) -> Heat:
    """Return a map with the mean ± σ of test accuracies [rows, columns, S]."""
    values, spread = mean_and_spread(test)
    return Heat(
        title=title, x=x, y=y, columns=columns, rows=rows, values=values, spread=spread, unit="test accuracy"
    )  # fmt: skip


def command(verb: str, config: Any, about: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Return the command line of these settings, without those at their default.

    `about` is config.json of the study. The result is "" if the study uses parts that no command can name, such as a
    user's own network.
    """
    own = {name: value for name, value in about.items() if name.startswith("own_")}
    return sections.command(verb, type(config), {**folder.plain(config), **own})


def write_section(section: Section, verb: str, config: Any, seconds: float, where: Path) -> Section:
    """Add command, settings, machine and time to a section, and write it to the folder of the study.

    The folder gets section.json and, if matplotlib is installed, the figures.
    """
    about, given = folder.read_config(where), folder.plain(config)
    section = replace(
        section,
        command=command(verb, config, about),
        settings={name: _known(value, about.get(name)) for name, value in given.items() if name not in NOT_SHOWN},
        machine=sections.machine(about),
        seconds=seconds,
        remarks=[*section.remarks, *sections.by_hand(about)],
    )
    files.write_atomically(where / "section.json", to_json(section))
    if find_spec("matplotlib"):
        from otpe.lab.report.drawing import draw

        for figure in section.figures:
            draw(figure, where)
    return section


def _known(given: Any, stored: Any) -> Any:
    """Return the value of a setting: that of config.json if it depends on the dataset and was not given."""
    return stored if given is None else given
