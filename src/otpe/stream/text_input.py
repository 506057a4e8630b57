"""Events from lines of text, each as soon as its line has arrived: CSV, or JSON lines. Lines of standard input.

    0.0131,5             {"time": 0.0131, "unit": 5}             [0.0131, 5]
    0.0134,8,2           {"time": 0.0134, "unit": 8, "label": 2} [0.0134, 8, 2]
    reset                {"reset": true}                         "reset"

CSV is separated by commas, semicolons or tabs, and may have a header that names the columns. In CSV an empty line also
begins a new sequence. An empty or null unit means that nothing spiked: the line gives only a time, or a label.
"""

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Any, Literal

from otpe import check, contents
from otpe.stream.time_steps import RESET, Bad, Event, OnBad

LONGEST = 1 << 16  # characters of a line
CSV_FORM = "time,unit or time,unit,label"
PIECE = 1 << 16  # the most bytes that are read at once
WAIT = 0.1  # seconds between two calls of `stopping`
GRACE = 5.0  # seconds after a stop in which lines that were read before are still returned
POSIX = os.name == "posix"  # other systems cannot wait for a pipe with a time limit


def lines(
    text: Iterable[str] | Iterable[bytes],
    form: Literal["auto", "csv", "jsonl"] = "auto",
    *,
    on_bad: OnBad | Bad = "raise",
    log: Callable[[str], object] | None = None,
) -> Iterator[Event | str]:
    """Return the events of a text, with `RESET` between sequences.

    Args:
      text: a file, standard input (better its `buffer`), or a list of lines.
      form: "auto" decides by the first line.
      on_bad: "raise" an error at a line that is no event, or "skip" and count it. Pass the `Bad` of a `Binner` to count
        both together.
      log: is called with a message for the first skip of every kind.
    """
    check.one_of("form", form, ("auto", "csv", "jsonl"))
    return _events(text, form, Bad.of(on_bad, log))


def _events(text: Iterable[Any], form: str, bad: Bad) -> Iterator[Event | str]:
    with_ends = hasattr(text, "readline")  # do lines end with "\n"? Then a last line without it was cut short
    parse = {"csv": _Csv(), "jsonl": _json}.get(form)
    for number, raw in enumerate(_read(text), 1):
        line = raw.decode(errors="replace") if isinstance(raw, bytes) else raw
        complete = line.endswith("\n")
        with_ends = with_ends or complete
        line = line.removeprefix("\ufeff").strip()
        if parse is None and line:
            parse = _json if line[0] in "{[" or line == f'"{RESET}"' else _Csv()
        try:
            events = parse(line) if parse is not None else ()
        except ValueError as error:
            if len(raw) >= LONGEST:
                bad.found("line", f"line {number} has {LONGEST:,} characters or more, expected one event.")
            elif with_ends and not complete:
                bad.found("cut", f"line {number}, the last, was cut short: {contents.shown(line)}.")
            else:
                bad.found("line", f"line {number} is {contents.shown(line)}: {error}.")
        else:
            yield from events


def _read(text: Iterable[Any]) -> Iterator[Any]:
    """Return lines as soon as they arrive. A line that is too long is cut off, so that it cannot fill the memory."""
    readline = getattr(text, "readline", None)
    if readline is None:
        yield from text
        return
    inside = False  # whether the next piece continues a line that is too long
    while piece := readline(LONGEST):
        if not inside:
            yield piece
        inside = (inside or len(piece) >= LONGEST) and piece[-1:] not in ("\n", b"\n")


class _Csv:
    """Parses a line of CSV. Remembers the columns of the last header."""

    def __init__(self) -> None:
        self._columns: tuple[int, int, int | None] | None = None  # of time, unit and label

    def __call__(self, line: str) -> Iterable[Event | str]:
        if not line or line.lower() == RESET:
            return (RESET,)
        line = line.replace('"', "")  # some programs put names, or all fields, in quotes
        fields = line.split("\t" if "\t" in line else ";" if ";" in line else ",")
        try:
            return (self._event(fields),)
        except ValueError:
            if not self._is_header(fields):
                raise
            return ()

    def _is_header(self, fields: list[str]) -> bool:
        names = [name.strip().lower() for name in fields]
        if "time" not in names or "unit" not in names:
            return False
        self._columns = names.index("time"), names.index("unit"), names.index("label") if "label" in names else None
        return True

    def _event(self, fields: list[str]) -> Event:
        if self._columns is None and not 2 <= len(fields) <= 3:
            raise ValueError(f"expected {CSV_FORM}")
        time, unit, label = self._columns or (0, 1, 2)
        if len(fields) <= max(time, unit):
            raise ValueError("expected as many fields as the header has")
        try:
            given = fields[label] if label is not None and label < len(fields) else ""
            return Event(float(fields[time]), _number(fields[unit]), _number(given))
        except ValueError:
            raise ValueError(f"expected numbers: {CSV_FORM}") from None


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
        if before and not found.keys() & set(Event._fields):
            return before
    raise ValueError('expected {"time": …, "unit": …}, with a "label" or without, [time, unit] or {"reset": true}')


class StandardInput:
    """Lines of standard input, each as soon as it has arrived. It can be stopped while nothing arrives.

    A thread reads, since nothing can cancel a read. Set `stopping` to a function that says when to stop. Then the
    thread reads no more. Lines that it has read are still returned, for at most `GRACE` seconds. `dropped` describes
    the others.
    """

    def __init__(self) -> None:
        try:
            self._descriptor = sys.stdin.fileno()
        except (AttributeError, ValueError, OSError):
            raise OSError("source is '-', but there is no standard input. Use: something | otpe stream -") from None
        self.stopping: Callable[[], bool] = lambda: False
        self._pieces: Queue[bytes | OSError] = Queue(maxsize=16)
        self._lines: deque[bytes] = deque()
        self._incomplete = b""  # the beginning of a line
        self._ended = False
        self._stopped_at: float | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def readline(self, limit: int) -> bytes:
        """Return the next line, or a part of it if it is longer than `limit`. Empty at the end and after a stop."""
        if self._stopped_at is None and self.stopping():
            self._stopped_at = time.monotonic()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE:
            return b""
        while not self._lines:
            if self._ended:
                last, self._incomplete = self._incomplete, b""
                return last
            piece = self._next_piece()
            if piece is None:
                return b""
            self._split(piece, limit)
        return self._lines.popleft()

    def dropped(self) -> str:
        """Stop, and return a sentence about lines that were read and not returned. Empty if there are none."""
        self.stopping = lambda: True
        with suppress(OSError):
            while piece := self._next_piece():
                self._split(piece, sys.maxsize)
        lines = [*self._lines, *([self._incomplete] if self._incomplete else [])]
        if not lines:
            return ""
        first = lines[0].decode(errors="replace").strip()[:80]
        cut = " The last one had not come whole." if self._incomplete else ""
        what = "1 line that had been read was" if len(lines) == 1 else f"{len(lines):,} lines that had been read were"
        return f"{what} dropped, from {first!r} on.{cut} "

    def _split(self, piece: bytes, limit: int) -> None:
        """Add a piece to the lines. An empty piece is the end of the input."""
        self._ended = not piece
        *complete, self._incomplete = (self._incomplete + piece).split(b"\n")
        self._lines.extend(line + b"\n" for line in complete)
        if len(self._incomplete) >= limit:
            self._lines.append(self._incomplete)
            self._incomplete = b""

    def _next_piece(self) -> bytes | None:
        """Return the next piece. None after a stop, when all that the thread has read was returned."""
        if self._thread.ident is None:
            self._thread.start()
        while True:
            try:
                piece = self._pieces.get(timeout=WAIT)
            except Empty:
                if self.stopping() and not (POSIX and self._thread.is_alive()):
                    return None
            else:
                if isinstance(piece, OSError):
                    raise piece
                return piece

    def _read(self) -> None:
        """Read from the descriptor: Python's own buffer would stay locked while a thread waits there, even at exit."""
        piece: bytes | OSError = b"-"
        while piece and isinstance(piece, bytes):
            try:
                arrived = not POSIX or select.select([self._descriptor], [], [], WAIT)[0]
                if self.stopping():
                    return
                if not arrived:
                    continue
                piece = os.read(self._descriptor, PIECE)
            except OSError as error:
                piece = error
            self._pieces.put(piece)
