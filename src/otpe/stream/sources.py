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
from importlib import import_module
from itertools import count as numbers
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from otpe import check, contents
from otpe.datasets import Binning, hdf5, randman
from otpe.datasets.events import LARGEST, Events
from otpe.datasets.frames import Grid, count, grid
from otpe.datasets.heidelberg import ENDINGS, SPLITS, file_of
from otpe.datasets.manifolds import ENCODINGS
from otpe.lab.settings import StreamConfig
from otpe.stream import worlds
from otpe.stream.inputs import unusable
from otpe.stream.programs import NO_LABEL
from otpe.stream.source_kinds import KINDS
from otpe.stream.text_input import StandardInput, lines
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
    """Return the steps of the recordings in a file in SHD's layout. Each recording is a sequence with one label.

    The file is read and checked at once. Frames are counted one recording at a time.

    Args:
      path: the file, or a folder that has one for `split`.
      units: number of units.
      bins: number of time steps of each recording, or a `Binning`, such as `Binning(dt=0.01)` for steps of fixed time.
      split: which file of a folder.
      shuffle: use another order in every epoch, by `seed`. Otherwise the order of the file.
      seed: of the orders.
      epochs: how often all recordings come. None: without end.
      keep_empty: keep recordings without spikes.
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
    layout = grid(events, units, binning, str(path))

    def steps() -> Iterator[Step]:
        for epoch in numbers() if epochs is None else range(epochs):
            order = np.arange(len(events))
            if shuffle:
                order = np.random.default_rng((seed, epoch)).permutation(order)
            for i in order.tolist():
                yield from _recording(events, i, layout, binning)

    return steps()


def _recording(events: Events, i: int, layout: Grid, binning: Binning) -> Iterator[Step]:
    length = layout.steps if layout.lengths is None else layout.lengths[i]
    frames = count(events, slice(i, i + 1), layout, binning)[0, :length].astype(np.float32)
    begin, width, label = int(layout.begin[i]), int(layout.width[i]), int(events.labels[i])
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
    """Return the steps of anything that Python can iterate over.

    Items may be events (time, unit) or (time, unit, label), which need a `binner`. They may be ready steps: arrays
    x [units], pairs (x, label) with −1 or None for no label, or `Step`s. And "reset" may come before a new sequence.
    The time of a ready step is its number, unless it is a `Step`.

    `units`, `classes` and what to do with bad items are those of the binner if there is one.
    """
    if binner is not None:
        return _iterate(items, binner, binner.width, binner.classes, binner.bad)
    units = None if units is None else check.count("units", units)
    classes = None if classes is None else check.count("classes", classes)
    return _iterate(items, None, units, classes, Bad.of(on_bad, log))


def _iterate(
    items: Iterable[Any], binner: Binner | None, units: int | None, classes: int | None, bad: Bad
) -> Iterator[Step]:
    first, count = True, 0  # is the next step the first of its sequence? Number of ready steps so far
    for number, item in enumerate(items, 1):
        if isinstance(item, str) and item == RESET:
            first = True
            yield from () if binner is None else binner.reset()
        elif _is_event(item):
            if binner is None:
                shown = contents.shown(item)
                raise ValueError(
                    f"item {number} is the event {shown}, which needs a binner: iterate(items, Binner(units, dt))."
                )
            yield from binner.add(*item)
        elif isinstance(item, tuple | list) and not isinstance(item, Step) and len(item) != 2:
            expected = "expected an event (time, unit), an array x, or (x, label)"
            bad.found("item", f"item {number} is {contents.shown(item)}, {expected}.")
        else:
            given = item if isinstance(item, Step) else Step(*_pair(item), time=float(count))
            first = first or given.reset
            try:
                x, label = _counts(given.x, units), _label(given.label, classes)
            except ValueError as error:
                bad.found("item", f"item {number} has {error}.")
                continue
            step, first, count, units = Step(x, label, given.time, first), False, count + 1, x.size
            yield step
    yield from () if binner is None else binner.reset()


def _is_event(item: Any) -> bool:
    """Return whether this is (time, unit) instead of (x, label): its first entry is no array."""
    if not isinstance(item, tuple | list) or isinstance(item, Step) or not 2 <= len(item) <= 3:
        return False
    return not isinstance(item[0], tuple | list) and getattr(item[0], "ndim", 0) == 0


def _pair(item: Any) -> tuple[Any, Any]:
    """Return x and the label."""
    return (item[0], item[1]) if isinstance(item, tuple | list) and len(item) == 2 else (item, NO_LABEL)


def _counts(given: Any, units: int | None) -> np.ndarray:
    """Return a copy as float32. Raises ValueError if these are not the counts of one time step."""
    try:
        found = np.asarray(given)
    except ValueError:
        raise ValueError(f"rows of different lengths, expected an array of {units or 'as many'} numbers") from None
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{contents.shown(given)}, expected numbers: how often each unit spiked")
    if found.ndim != 1 or found.size != (units or found.size) or not found.size:
        raise ValueError(f"a step of the shape {list(found.shape)}, expected {[units] if units else '[units]'}")
    with np.errstate(over="ignore"):
        x = found.astype(np.float32)
    bad = unusable(x)
    if bad is not None:
        raise ValueError(f"{bad:g} in its step, expected how often each unit spiked: finite numbers, none below 0")
    return x


def _label(given: Any, classes: int | None) -> int:
    label, largest = NO_LABEL if given is None else whole(given), LARGEST if classes is None else classes - 1
    if not NO_LABEL <= label <= largest:
        raise ValueError(
            f"the label {contents.shown(given)}, expected a whole number from 0 to {largest}, or −1 for none"
        )
    return label


# The source that the settings of `otpe stream` name


def source_kind(config: StreamConfig) -> str:
    """Return "randman", "recordings", "text" or "standard input". Raises ValueError for anything else."""
    if not isinstance(config.source, str | Path) or not str(config.source):
        raise TypeError(f"source is {config.source!r}, expected t-randman, r-randman, a file, or - for standard input.")
    given = str(config.source)
    if given in ENCODINGS:
        return "randman"
    if given == STANDARD:
        return "standard input"
    if os.path.isdir(given) or given.endswith(ENDINGS):
        return "recordings"
    if given.endswith(TEXT) or (os.path.exists(given) and config.form != "auto"):
        return "text"
    raise ValueError(
        f"source is {given!r}, expected t-randman, r-randman, a file in SHD's layout (.h5), a file of events (.csv or"
        " .jsonl, or any with form), or - for standard input."
    )


class BrokenError(OSError):
    """The rest of a stream cannot be read."""


@dataclass
class Source:
    """The steps of a stream. `ready` is the time when the last step arrived: waiting ends, computing starts."""

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
    """Return the source. Files are opened, and recordings are read, at once. Raises an error if they are unusable."""
    kind = source_kind(config)
    module, opener = KINDS[kind].opener.split(":")
    source = getattr(import_module(module), opener)(config, kind, Bad(config.on_bad, log))
    if "changes" in KINDS[kind].uses:
        changes = worlds.parsed_change(config.changes, classes=source.classes, seed=config.seed)
        source.steps = worlds.changing(source.steps, *changes)
    return source


def open_randman(config: StreamConfig, kind: str, bad: Bad) -> Source:
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
    return Source(config.source, kind, worlds.samples(data, config.seed), data.units, len(data.names), bad)


def open_recordings(config: StreamConfig, kind: str, bad: Bad) -> Source:
    units, classes = config.units or 0, config.classes or 0
    bins = 50 if config.bins is None and config.dt is None else config.bins
    binning = Binning(bins, config.dt, binary=config.binary, pool=config.pool)
    epochs, width = config.epochs or None, units // config.pool
    found = recordings(config.source, units, binning, shuffle=config.shuffle, seed=config.seed, epochs=epochs)
    steps = iterate(found, units=width, classes=classes, on_bad=bad)
    return Source(config.source, kind, steps, width, classes, bad)


def open_events(config: StreamConfig, kind: str, bad: Bad) -> Source:
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
    standard = StandardInput() if kind == "standard input" else None
    file = _opened(Path(config.source)) if standard is None else None
    text: Any = standard or file
    steps = binner.steps(lines(text, config.form, on_bad=bad))
    return Source(config.source, kind, steps, binner.width, classes, bad, file, standard)


def _opened(path: Path) -> IO[bytes]:
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path} is no plain file. Send what comes from it to standard input: otpe stream - < {path}")
    try:
        return path.open("rb")
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}. Name a file of events, such as events.csv.") from None
