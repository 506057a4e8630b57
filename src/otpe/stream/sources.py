"""Where the steps of a stream come from: recorded files, lines of text (`lines.py`), any Python iterable.

    recordings("data/shd_train.h5", 700, Binning(dt=0.01), epochs=None)
    Binner(700, dt=0.01).steps(lines(sys.stdin.buffer))
    iterate(sensor, Binner(700, dt=0.01))

All of them are iterators of `Step` that hold no more than they need for the next one.
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
from otpe.stream.events import RESET, Binner
from otpe.stream.lines import lines
from otpe.stream.programs import NO_LABEL
from otpe.stream.steps import Bad, OnBad, Step, whole

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
