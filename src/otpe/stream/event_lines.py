"""Events from text, line by line as it comes: CSV, or JSON lines.

    0.0131,5             {"time": 0.0131, "unit": 5}             [0.0131, 5]
    0.0134,8,2           {"time": 0.0134, "unit": 8, "label": 2} [0.0134, 8, 2]
    reset                {"reset": true}                         "reset"

CSV is separated by commas, semicolons or tabs, and may have a header that names the columns; there an empty line means
a new sequence as well. An empty unit, or null, is none: time has come so far, or a label comes.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from otpe import check, contents
from otpe.stream.time_steps import RESET, Bad, Event, OnBad

LONGEST = 1 << 16  # characters of a line
COLUMNS = Event._fields


def lines(
    text: Iterable[str] | Iterable[bytes],
    form: Literal["auto", "csv", "jsonl"] = "auto",
    *,
    on_bad: OnBad | Bad = "raise",
    log: Callable[[str], object] | None = None,
) -> Iterator[Event | str]:
    """Events, and `RESET` between sequences, from a file, standard input (better its `buffer`), or a list of lines.

    `form`: "auto" looks at the first line. `on_bad`: "raise" an error at a line that is no event, or "skip" and count
    it; a `Bad` that a `Binner` has too counts both together.
    """
    check.one_of("form", form, ("auto", "csv", "jsonl"))
    return _events(text, form, Bad.of(on_bad, log))


def _events(text: Iterable[Any], form: str, bad: Bad) -> Iterator[Event | str]:
    ends = hasattr(text, "readline")  # lines bring their ends with them
    parse = {"csv": _Csv(), "jsonl": _json}.get(form)
    for number, raw in enumerate(_read(text), 1):
        line = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
        whole = line.endswith("\n")
        ends = ends or whole
        line = line.removeprefix("\ufeff").strip()
        if parse is None and line:
            parse = _json if line[0] in "{[" or line == f'"{RESET}"' else _Csv()
        try:
            found = parse(line) if parse is not None else ()
        except ValueError as error:
            why = None if ends and not whole else str(error)
            bad.found(*_told(number, line, why, too_long=len(raw) >= LONGEST))
        else:
            yield from found


def _read(text: Iterable[Any]) -> Iterator[Any]:
    """Each line as soon as it is there, and of one that is too long only the beginning: memory shall not fill."""
    readline = getattr(text, "readline", None)
    if readline is None:
        yield from text
        return
    inside = False  # a line that is too long
    while piece := readline(LONGEST):
        if not inside:
            yield piece
        inside = (inside or len(piece) >= LONGEST) and piece[-1:] not in ("\n", b"\n")


def _told(number: int, line: str, why: str | None, *, too_long: bool) -> tuple[str, str]:
    if too_long:
        return "line", f"line {number} has {LONGEST:,} characters or more, expected one event."
    if why is None:
        return "cut", f"line {number}, the last, was cut short: {contents.shown(line)}."
    return "line", f"line {number} is {contents.shown(line)}: {why}."


class _Csv:
    """Remembers what the header said."""

    def __init__(self) -> None:
        self._places: tuple[int, int, int | None] | None = None  # of time, unit and label, as the header has them

    def __call__(self, line: str) -> Iterable[Event | str]:
        if not line or line.lower() == RESET:
            return (RESET,)
        line = line.replace('"', "")  # as some programs write names, or all fields
        fields = line.split("\t" if "\t" in line else ";" if ";" in line else ",")
        try:
            return (self._event(fields),)
        except ValueError:
            if not self._header(fields):
                raise
            return ()

    def _event(self, fields: list[str]) -> Event:
        if self._places is None and not 2 <= len(fields) <= 3:
            raise ValueError("expected time,unit or time,unit,label")
        time, unit, label = self._places or (0, 1, 2)
        if len(fields) <= max(time, unit):
            raise ValueError("expected as many fields as the header has")
        try:
            says = fields[label] if label is not None and label < len(fields) else ""
            return Event(float(fields[time]), _number(fields[unit]), _number(says))
        except ValueError:
            raise ValueError("expected numbers: time,unit or time,unit,label") from None

    def _header(self, fields: list[str]) -> bool:
        names = [name.strip().lower() for name in fields]
        if "time" not in names or "unit" not in names:
            return False
        self._places = names.index("time"), names.index("unit"), names.index("label") if "label" in names else None
        return True


def _number(field: str) -> int | float | None:
    if not field.strip():
        return None
    try:
        return int(field)
    except ValueError:
        return float(field)


def _json(line: str) -> Iterable[Event | str]:
    if not line:
        return ()
    try:
        found = contents.parsed(line)
    except ValueError:
        raise ValueError("expected JSON") from None
    if found == RESET:
        return (RESET,)
    if isinstance(found, list) and 2 <= len(found) <= 3:
        return (Event(*found),)
    if isinstance(found, dict):
        before = (RESET,) if found.get("reset") is True else ()
        if "time" in found and "unit" in found:
            return (*before, Event(found["time"], found["unit"], found.get("label")))
        if before and not found.keys() & set(COLUMNS):
            return before
    raise ValueError('expected {"time": …, "unit": …}, with a "label" or without, [time, unit] or {"reset": true}')
