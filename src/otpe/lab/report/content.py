"""Pictures, tables and the sections of a report as plain data: what is shown, not how.

A study describes its results with these, and writes them down as section.json. Drawing, tables and pages are made from
that alone, at once or years later. Missing values are NaN here and null in the file.
"""

import json
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from otpe import contents
from otpe.tables import Table

Numbers = Sequence[float]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve, with a band of `spread` on either side where that is given."""

    name: str  # a rule's name, or what else the legend is to say
    x: Numbers
    y: Numbers
    spread: Numbers | None = None


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place on the x axis where something happened."""

    x: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Lines:
    title: str
    x: str  # what the axis says
    y: str
    lines: Sequence[Line]
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float, float] | None = None
    marks: Sequence[Mark] | None = None


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One bar in each group, with an error bar where `spread` is given."""

    name: str
    values: Numbers
    spread: Numbers | None = None


@dataclass(frozen=True, kw_only=True)
class Bars:
    title: str
    y: str
    groups: Sequence[str]
    bars: Sequence[Bar]
    y_range: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class Heat:
    """A map of rows × columns."""

    title: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Numbers]
    spread: Sequence[Numbers] | None = None
    unit: str = ""


@dataclass(frozen=True, kw_only=True)
class Path:
    """A way through a plane; the last point is its end."""

    name: str
    x: Numbers
    y: Numbers


@dataclass(frozen=True, kw_only=True)
class Contours:
    """Heights over a plane, and ways through it."""

    title: str
    x: str
    y: str
    at_x: Numbers
    at_y: Numbers
    heights: Sequence[Numbers]  # [y][x]
    unit: str
    paths: Sequence[Path] = ()


Panel = Lines | Bars | Heat | Contours


@dataclass(frozen=True, kw_only=True)
class Figure:
    name: str  # of its files
    caption: str
    panels: Sequence[Panel]


@dataclass(frozen=True, kw_only=True)
class Against:
    """A number of the paper beside ours. The difference is counted in σ of both together, or of ours alone."""

    what: str
    rule: str
    paper: float
    ours: float
    paper_spread: float = math.nan
    spread: float = math.nan
    percent: bool = False  # shown as such, with the difference in points


@dataclass(frozen=True, kw_only=True)
class Section:
    """What a report says about one study."""

    name: str  # of its folder and its anchor
    title: str
    lead: str  # a sentence or two: what is shown, and what comes out
    where: str = ""  # in the paper, such as "Figure 2 b"
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    against: Sequence[Against] = ()
    remarks: Sequence[str] = ()  # where we differ and why, what is of another scale
    command: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)  # device, platform, versions, commit
    seconds: float = math.nan  # that the computing took
    apart: Sequence[str] | None = None  # in a few words each: why its numbers cannot simply be compared
    left_out: str | None = None  # why the study was not made, and what to do


FORMAT = 1  # of section.json
_KINDS = {
    kind.__name__: kind
    for kind in (Line, Mark, Lines, Bar, Bars, Heat, Path, Contours, Figure, Table, Against, Section)
}


class OtherVersionError(ValueError):
    """A section that another version of otpe wrote."""


def to_json(section: Section) -> str:
    return json.dumps({"format": FORMAT, "section": _plain(section)}, allow_nan=False, default=str) + "\n"


def from_json(text: str) -> Section:
    """What `to_json` wrote. ValueError for anything else, with what is wrong."""
    try:
        found = contents.parsed(text)
        version = found["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no section of a report: {error!r}") from None
    if version != FORMAT:
        raise OtherVersionError(f"of format {version!r}, which another version of otpe wrote; this one reads {FORMAT}")
    try:
        section = _made(found["section"])
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no section of a report: {error!r}") from None
    if not isinstance(section, Section):
        raise ValueError(f"a {type(section).__name__}, not a section of a report")
    return section


def _plain(value: Any, exact: bool = False) -> Any:
    """As JSON has it: what is None is left out, what is not finite is null, numbers but settings have six digits."""
    if is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in fields(value)}
        return {"kind": type(value).__name__, **{name: _plain(x) for name, x in parts.items() if x is not None}}
    if isinstance(value, dict):
        return {str(name): _plain(x, exact=True) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x, exact) for x in value]
    if hasattr(value, "tolist"):  # numpy's
        return _plain(value.tolist(), exact)
    if isinstance(value, float):
        return (value if exact else float(f"{value:.6g}")) if math.isfinite(value) else None
    return value


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return [_made(x) for x in value]
    if isinstance(value, dict) and "kind" in value:
        kind = _KINDS[value["kind"]]
        given = {name: _made(x) for name, x in value.items() if name != "kind"}
        made, expected = kind(**given), get_type_hints(kind)
        for name, part in given.items():
            if not _fits(part, expected[name]):
                given_as = f"{name} of a {kind.__name__} is {reprlib.repr(part)}"
                raise ValueError(f"no section of a report: {given_as}, expected {_said(expected[name])}")
        return made
    return math.nan if value is None else value  # settings and such, a plain dict, stay as they are


def _fits(value: Any, kind: Any) -> bool:
    """Is a value that was read from JSON of this type? Tuples are lists there, and floats may be whole."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, list) and len(value) == len(parts) and all(map(_fits, value, parts))
    if origin is Sequence:
        return isinstance(value, list) and all(_fits(x, parts[0]) for x in value)
    return isinstance(value, int | float if kind is float else origin or kind)


def _said(kind: Any) -> str:
    """A type, in a message."""
    parts = get_args(kind)
    if get_origin(kind) is Sequence:
        return f"a list of {_said(parts[0])}"
    return " or ".join(map(_said, parts)) if get_origin(kind) in (Union, UnionType) else getattr(kind, "__name__", kind)
