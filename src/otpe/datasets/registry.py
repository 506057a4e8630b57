"""The datasets that have a name on the command line, and which settings each of them has a use for."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, Literal

from otpe import check
from otpe.datasets.download import SOURCES

ENCODINGS: dict[str, Literal["time", "rate"]] = {"t-randman": "time", "r-randman": "rate"}
SHAPES = "moving-shapes"
DRAWN = (*ENCODINGS, SHAPES)  # without an end
RECORDED = (*SOURCES, "folder")
NAMES = (*DRAWN, *RECORDED)


def check_use(dataset: str, config: Any, used_by: Mapping[str, Collection[str]]) -> None:
    """Refuse a name that is not known, and settings that this dataset has no use for."""
    check.one_of("dataset", dataset, NAMES)
    for field in fields(config):
        value, names = getattr(config, field.name), used_by.get(field.name, NAMES)
        if value != field.default and dataset not in names:
            raise ValueError(
                f"{field.name} is {_spelled(value)}, but {dataset} has no use for it: it is for {_listed(names)}."
            )


def _spelled(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float) else repr(str(value))


def _listed(names: Collection[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
