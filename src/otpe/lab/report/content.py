"""A section of a report as plain data: figures, tables, and the paper's numbers beside ours.

A study describes its results with these classes and writes them to section.json. Figures, tables and pages are made
from that file alone, at once or years later. Missing values are NaN here and null in the file.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from otpe import contents
from otpe.lab.report.palette import Look, looks
from otpe.lab.report.panels import PANELS, Panel, Point
from otpe.tables import Table, as_csv


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Panels with one legend."""

    name: str  # of its files
    caption: str
    panels: Sequence[Panel]

    def legend(self) -> dict[str, Look]:
        return looks(name for panel in self.panels for name in panel.series())

    def points(self) -> Iterator[tuple[str, Point]]:
        """Yield every number, with the title of its panel."""
        return ((panel.title, point) for panel in self.panels for point in panel.points())

    def csv(self) -> str:
        """Return all numbers as comma-separated values, one row each. Missing numbers are empty."""
        rows = ((title, *point[:5]) for title, point in self.points())
        cells = ([x if not isinstance(x, float) or math.isfinite(x) else "" for x in row] for row in rows)
        return as_csv(("panel", *Point._fields[:5]), cells)


@dataclass(frozen=True, kw_only=True)
class Against:
    """A number of the paper beside ours: means over networks.

    The difference is measured in standard errors: those of both means, or of one if only one has n and a spread.
    """

    what: str
    rule: str
    paper: float
    ours: float
    paper_spread: float = math.nan  # standard deviation of the networks
    spread: float = math.nan  # with n, the sample standard deviation of the networks
    percent: bool = False  # shown in percent, and the difference in points
    n: int | None = None  # networks of ours; None if the spread is not over networks alone
    paper_n: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A quantity of one rule: a value for each network. Rules of a section have the same networks in the same order."""

    what: str
    rule: str
    values: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Section:
    """The results of one study."""

    name: str  # of its folder and its anchor
    title: str
    lead: str  # a sentence or two: what is shown, and the result
    where: str = ""  # in the paper, such as "Figure 2 b"
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    against: Sequence[Against] = ()
    remarks: Sequence[str] = ()  # differences from the paper, and their reasons
    command: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)  # device, platform, versions, commit
    seconds: float = math.nan  # of computing
    apart: Sequence[str] | None = None  # short reasons why its numbers cannot be compared with the paper's
    left_out: str | None = None  # why the study was not run, and what to do
    samples: Sequence[Sample] | None = None  # the values behind the means, for claims about them


FORMAT = 1  # of section.json
_PARTS = (part for panel in PANELS for part in panel.parts)
_KINDS = {kind.__name__: kind for kind in (*PANELS, *_PARTS, Figure, Table, Against, Sample, Section)}


class OtherVersionError(ValueError):
    """The section was written by another version of otpe."""


def to_json(section: Section) -> str:
    return json.dumps({"format": FORMAT, "section": _as_json(section)}, allow_nan=False, default=str) + "\n"


def from_json(text: str) -> Section:
    """Return the section that `to_json` wrote. Raises ValueError for anything else, with what is wrong."""
    try:
        found = contents.parsed(text)
        version = found["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no section of a report: {error!r}") from None
    if version != FORMAT:
        raise OtherVersionError(f"of format {version!r}, which another version of otpe wrote; this one reads {FORMAT}")
    try:
        section = _from_json(found["section"])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no section of a report: {error!r}") from None
    if not isinstance(section, Section):
        raise ValueError(f"a {type(section).__name__}, not a section of a report")
    return section


def _as_json(value: Any, exact: bool = False) -> Any:
    """Return dicts, lists and plain values. None is left out, numbers that are not finite become null.

    Numbers are rounded to six digits, except in settings and other dicts.
    """
    if is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        return {"kind": type(value).__name__, **{name: _as_json(x) for name, x in parts.items() if x is not None}}
    if isinstance(value, dict):
        return {str(name): _as_json(x, exact=True) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(x, exact) for x in value]
    if hasattr(value, "tolist"):  # of numpy
        return _as_json(value.tolist(), exact)
    if isinstance(value, float):
        return (value if exact else float(f"{value:.6g}")) if math.isfinite(value) else None
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(x) for x in value]
    if isinstance(value, dict) and "kind" in value:
        kind = _KINDS[value["kind"]]
        expected = get_type_hints(kind)
        plain = [name for name, of in expected.items() if get_origin(of) is dict]  # such as settings
        given = {name: x if name in plain else _from_json(x) for name, x in value.items() if name != "kind"}
        made = kind(**given)
        for name, part in given.items():
            if not contents.fits(part, expected[name]):
                given_as = f"{name} of a {kind.__name__} is {contents.shown(part)}"
                raise ValueError(f"no section of a report: {given_as}, expected {_type_name(expected[name])}")
        return made
    return math.nan if value is None else value


def _type_name(kind: Any) -> str:
    """Return the name of a type for a message."""
    parts = get_args(kind)
    if get_origin(kind) is Sequence:
        return f"a list of {_type_name(parts[0])}"
    return (
        " or ".join(map(_type_name, parts))
        if get_origin(kind) in (Union, UnionType)
        else getattr(kind, "__name__", kind)
    )
