"""Where the steps of a stream come from: recorded files, lines of text, any Python iterable.

    recordings("data/shd_train.h5", 700, Binning(dt=0.01), epochs=None)
    Binner(700, dt=0.01).steps(lines(sys.stdin.buffer))
    iterate(sensor, Binner(700, dt=0.01))

All of them are iterators of `Step` that hold no more than the next step needs. `open_source` opens the source that the
settings of `otpe stream` name.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count as numbers
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from otpe import check, contents
from otpe.datasets import Binning, hdf5, randman
from otpe.datasets.events import LARGEST, Events
from otpe.datasets.frames import count, grid
from otpe.datasets.heidelberg import ENDINGS, SPLITS, file_of
from otpe.datasets.registry import ENCODINGS
from otpe.lab.settings import StreamConfig
from otpe.stream import worlds
from otpe.stream.event_lines import lines
from otpe.stream.programs import NO_LABEL
from otpe.stream.standard_input import StandardInput
from otpe.stream.time_steps import RESET, Bad, Binner, OnBad, Step, whole

__all__ = ["iterate", "lines", "open_source", "recordings"]

STANDARD = "-"
TEXT = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")
EVENTS = ("text", "standard input")
DT = 0.01  # seconds of a time step of events, by default


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


# The source that the settings of `otpe stream` name


def source_kind(config: StreamConfig) -> str:
    """Of the source."""
    given = config.source
    if not isinstance(given, str | Path) or not str(given):
        raise TypeError(f"source is {given!r}, expected t-randman, r-randman, a file, or - for standard input.")
    given, path = str(given), Path(given)
    if given in ENCODINGS:
        return "randman"
    if given == STANDARD:
        return "standard input"
    if os.path.isdir(path) or given.endswith(ENDINGS):
        return "recordings"
    if given.endswith(TEXT) or (os.path.exists(path) and config.form != "auto"):
        return "text"
    raise ValueError(
        f"source is {given!r}, expected t-randman, r-randman, a file in SHD's layout (.h5), a file of events (.csv or"
        " .jsonl, or any with form), or - for standard input."
    )


class BrokenError(OSError):
    """A stream that cannot be read on."""


@dataclass
class Source:
    """Steps, which can be told from the time that is spent waiting for them."""

    name: str
    kind: str
    steps: Iterator[Step]
    width: int  # numbers in a step
    classes: int
    bad: Bad
    file: IO[bytes] | None = None
    standard: StandardInput | None = None
    ready: float = 0.0  # when the last step came

    def __iter__(self) -> Iterator[Step]:
        try:
            for step in self.steps:
                self.ready = time.perf_counter()
                yield step
        except (ValueError, OSError) as error:
            raise BrokenError(str(error)) from error
        finally:
            self.ready = time.perf_counter()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def open_source(config: StreamConfig, log: Callable[[str], object]) -> Source:
    """Files are opened, and recordings read, at once: what is wrong with them is told here."""
    which, bad = source_kind(config), Bad(config.on_bad, log)
    if which == "randman":
        found = _randman(config, bad)
    elif which == "recordings":
        found = _recordings(config, bad)
    else:
        return _events(config, which, bad)
    changed = worlds.parsed_change(config.changes, classes=found.classes, seed=config.seed)
    found.steps = worlds.changing(found.steps, *changed)
    return found


def _randman(config: StreamConfig, bad: Bad) -> Source:
    data = randman(
        ENCODINGS[config.source],
        classes=config.classes or 10,
        units=config.units or 50,
        dims=config.dims,
        alpha=config.alpha,
        standardize="fixed",  # samples come one by one: there is no mini-batch to take extremes from
        steps=config.time_steps,
        seed=config.manifolds,
    )
    return Source(config.source, "randman", worlds.samples(data, config.seed), data.units, len(data.names), bad)


def _recordings(config: StreamConfig, bad: Bad) -> Source:
    units, classes = config.units or 0, config.classes or 0
    bins = 50 if config.bins is None and config.dt is None else config.bins
    binning = Binning(bins, config.dt, binary=config.binary, pool=config.pool)
    order: dict[str, Any] = {"shuffle": config.shuffle, "seed": config.seed, "epochs": config.epochs or None}
    width, steps = units // config.pool, recordings(config.source, units, binning, **order)
    return Source(
        config.source, "recordings", iterate(steps, units=width, classes=classes, on_bad=bad), width, classes, bad
    )


def _events(config: StreamConfig, which: str, bad: Bad) -> Source:
    classes = config.classes or 0
    binner = Binner(
        config.units or 0,
        DT if config.dt is None else config.dt,
        classes=classes,
        binary=config.binary,
        pool=config.pool,
        labels=config.labels,
        max_gap=config.max_gap,
        on_bad=bad,
        gap=config.gap,
    )
    standard = StandardInput() if which == "standard input" else None
    file = _opened(Path(config.source)) if standard is None else None
    text: Any = standard or file
    steps = binner.steps(lines(text, config.form, on_bad=bad))
    return Source(config.source, which, steps, binner.width, classes, bad, file, standard)


def _opened(path: Path) -> IO[bytes]:
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path} is no plain file. Send what comes from it to standard input: otpe stream - < {path}")
    try:
        return path.open("rb")
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}. Name a file of events, such as events.csv.") from None
