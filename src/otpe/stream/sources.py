"""Events from text, line by line as it comes: CSV, or JSON lines.

    0.0131,5             {"time": 0.0131, "unit": 5}             [0.0131, 5]
    0.0134,8,2           {"time": 0.0134, "unit": 8, "label": 2} [0.0134, 8, 2]
    reset                {"reset": true}                         "reset"

CSV is separated by commas, semicolons or tabs, and may have a header that names the columns; there an empty line means
a new sequence as well. An empty unit, or null, is none: time has come so far, or a label comes.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import count as numbers
from pathlib import Path
from typing import Any, Literal

import numpy as np

from otpe import check, contents
from otpe.datasets import Binning, hdf5
from otpe.datasets.events import LARGEST, Events
from otpe.datasets.frames import count, grid
from otpe.datasets.heidelberg import SPLITS, file_of
from otpe.stream.programs import NO_LABEL
from otpe.stream.steps import RESET, Bad, Binner, Event, OnBad, Step, whole

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


# --------------------
# Where the steps of a stream come from: recorded files, lines of text (`lines.py`), any Python iterable.
#
#     recordings("data/shd_train.h5", 700, Binning(dt=0.01), epochs=None)
#     Binner(700, dt=0.01).steps(lines(sys.stdin.buffer))
#     iterate(sensor, Binner(700, dt=0.01))
#
# All of them are iterators of `Step` that hold no more than they need for the next one.


__all__ = ["iterate", "lines", "recordings"]


def recordings(
    path: str | Path,
    units: int,
    bins: int | Binning = 50,
    *,
    split: Literal["train", "valid", "test"] = "train",
    shuffle: bool = False,
    seed: int = 0,
    epochs: int | None = 1,
    keep_empty: bool = False,
) -> Iterator[Step]:
    """Recording after recording of a file in SHD's layout, each a sequence of its own, with its label at every step.

    `path`: the file, or a folder that holds one for `split`. `bins`: time steps over each recording's own duration, or
    a `Binning`, such as `Binning(dt=0.01)` for steps of fixed time. `shuffle`: another order in every epoch, by `seed`;
    else as stored. `epochs`: how often all of them come; None: for ever. The file is read and checked at once, frames
    are counted one recording at a time.
    """
    units = check.count("units", units)
    check.one_of("split", split, SPLITS)
    check.flag("shuffle", shuffle)
    seed = check.whole("seed", seed, 2**32)
    epochs = None if epochs is None else check.count("epochs", epochs)
    binning, path = Binning.of(bins).checked(units), Path(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is not there. Name a file in SHD's layout, or a folder that holds one.")
    path = file_of(path, split) if os.path.isdir(path) else path
    events = hdf5.read(path, units, keep_empty=keep_empty)
    lie = grid(events, units, binning, str(path))

    def all_of() -> Iterator[Step]:
        for epoch in numbers() if epochs is None else range(epochs):
            stored = np.arange(len(events))
            for i in np.random.default_rng((seed, epoch)).permutation(stored) if shuffle else stored:
                yield from _recording(events, int(i), lie, binning)

    return all_of()


def _recording(events: Events, i: int, lie: Any, binning: Binning) -> Iterator[Step]:
    length = lie.steps if lie.lengths is None else lie.lengths[i]
    frames = count(events, slice(i, i + 1), lie, binning)[0, :length].astype(np.float32)
    begin, width, label = int(lie.begin[i]), int(lie.width[i]), int(events.labels[i])
    for k, x in enumerate(frames):
        yield Step(x, label, (begin + k * width) / 1e6, k == 0)


def iterate(
    items: Iterable[Any],
    binner: Binner | None = None,
    *,
    units: int | None = None,
    classes: int | None = None,
    on_bad: OnBad | Bad = "raise",
    log: Callable[[str], object] | None = None,
) -> Iterator[Step]:
    """Steps of whatever Python can iterate over.

    Items may be events (time, unit) or (time, unit, label), which need a `binner`; ready steps: arrays x [units],
    pairs (x, label), with −1 or None for none, or `Step`s; and `RESET`, "reset", before a new sequence. Ready steps
    have their number as their time, if they do not bring one. `units`, `classes` and what becomes of bad items are
    those of the binner where there is one.
    """
    if binner is not None:
        return _Iterated(binner.width, binner.classes, binner.bad, binner).steps(items)
    units = None if units is None else check.count("units", units)
    classes = None if classes is None else check.count("classes", classes)
    return _Iterated(units, classes, Bad.of(on_bad, log), None).steps(items)


class _Iterated:
    """Looks at every item."""

    def __init__(self, units: int | None, classes: int | None, bad: Bad, binner: Binner | None) -> None:
        self._units = units  # those of the first step, if nothing was said
        self._largest = LARGEST if classes is None else classes - 1
        self._bad, self._binner = bad, binner
        self._taken = 0  # ready steps
        self._first = True  # a sequence begins

    def steps(self, items: Iterable[Any]) -> Iterator[Step]:
        for number, item in enumerate(items, 1):
            if isinstance(item, str) and item == RESET:
                yield from self._reset()
            elif _is_event(item):
                yield from self._event(number, item)
            elif isinstance(item, tuple | list) and not isinstance(item, Step) and len(item) != 2:
                self._refuse(
                    number, f"is {contents.shown(item)}, expected an event (time, unit), an array x, or (x, label)"
                )
            else:
                yield from self._ready(number, item)
        yield from self._reset()

    def _reset(self) -> Iterable[Step]:
        self._first = True
        return () if self._binner is None else self._binner.reset()

    def _event(self, number: int, item: Any) -> Iterable[Step]:
        if self._binner is None:
            raise ValueError(
                f"item {number} is the event {contents.shown(item)}, which needs a binner: iterate(items, Binner(units,"
                " dt))."
            )
        return self._binner.add(*item)

    def _ready(self, number: int, item: Any) -> Iterable[Step]:
        given = item if isinstance(item, Step) else Step(*_pair(item), time=float(self._taken))
        self._first = self._first or given.reset
        x, wrong = self._counts(given.x)
        label = NO_LABEL if given.label is None else whole(given.label)
        if not wrong and not NO_LABEL <= label <= self._largest:
            shown, largest = contents.shown(given.label), self._largest
            wrong = f"the label {shown}, expected a whole number from 0 to {largest}, or −1 for none"
        if wrong:
            return self._refuse(number, f"has {wrong}")
        step = Step(x, label, given.time, self._first)
        self._first, self._taken, self._units = False, self._taken + 1, x.size
        return (step,)

    def _refuse(self, number: int, what: str) -> tuple[()]:
        self._bad.found("item", f"item {number} {what}.")
        return ()

    def _counts(self, given: Any) -> tuple[np.ndarray, str]:
        """As numbers of their own, and what is wrong with them."""
        try:
            found = np.asarray(given)
        except ValueError:
            return np.empty(0), f"rows that differ in length, expected an array of {self._units or 'as many'} numbers"
        if found.dtype.kind not in "biuf":
            return found, f"{contents.shown(given)}, expected numbers: how often each unit spiked"
        if found.ndim != 1 or found.size != (self._units or found.size) or not found.size:
            want = [self._units] if self._units else "[units]"
            return found, f"a step of the shape {list(found.shape)}, expected {want}"
        with np.errstate(over="ignore"):
            x = found.astype(np.float32)
        if not (x.min() >= 0 and np.isfinite(x.max())):  # a NaN fails both
            wrong = x[~(np.isfinite(x) & (x >= 0))][0]
            return x, f"{wrong:g} in its step, expected how often each unit spiked: finite numbers, none below 0"
        return x, ""


def _is_event(item: Any) -> bool:
    """(time, unit) and (x, label) differ in what comes first."""
    if not isinstance(item, tuple | list) or isinstance(item, Step) or not 2 <= len(item) <= 3:
        return False
    return not isinstance(item[0], tuple | list) and getattr(item[0], "ndim", 0) == 0


def _pair(item: Any) -> tuple[Any, Any]:
    """x and label."""
    return (item[0], item[1]) if isinstance(item, tuple | list) and len(item) == 2 else (item, NO_LABEL)
