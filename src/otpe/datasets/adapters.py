"""Datasets from elsewhere: arrays, events, tonic, torch. None of these libraries is imported here."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Literal

import numpy as np

from otpe import check
from otpe.datasets import events
from otpe.datasets.frames import Binning, FrameSet, frames, frameset, pooled


def from_arrays(spikes: Any, labels: Any, *, names: Sequence[str] | None = None, lengths: Any = None) -> FrameSet:
    """A dataset of spikes [T, R, *shape], time first as everywhere, and labels [R].

    `shape` is one axis of units, or channels, height and width. `lengths` [R]: time steps of each recording, behind
    which it is padded.
    """
    spikes = _narrow(spikes)
    if 0 in spikes.shape:
        raise ValueError(f"spikes have the shape {list(spikes.shape)}, expected no axis of length 0.")
    labels = events.numbered(labels, names, "from_arrays")
    if len(labels) != spikes.shape[1]:
        raise ValueError(
            f"there are {len(labels)} labels and spikes {list(spikes.shape)}, expected one label for each of"
            f" {spikes.shape[1]} recordings: [time, recordings, *shape]."
        )
    return frameset(np.moveaxis(spikes, 0, 1), labels, names, _lengths(lengths, spikes))


def from_events(
    recordings: Iterable[tuple[Any, ...]],
    labels: Any,
    bins: int | Binning = 50,
    *,
    units: int | None = None,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    keep_empty: bool = False,
) -> FrameSet:
    """A dataset of recordings by their events. Times are seconds, or microseconds as whole numbers.

    With `units=N` a recording is a pair: times and units. With `shape=(P, H, W)`, for P polarities (or other channels)
    of H × W pixels, it is four rows: times, x, y and p, as cameras of events give them.
    """
    if (units is None) == (shape is None):
        given = "neither units nor shape is given" if units is None else f"units is {units} and shape is {shape}"
        raise ValueError(
            f"{given}, expected one of them: units=N for recordings (times, units), or shape=(P, H, W) for recordings"
            " (times, x, y, p)."
        )
    rows = [tuple(map(_array, recording)) for recording in recordings]
    _refuse_rows(rows, "times, units" if shape is None else "times, x, y, p")
    if shape is None:
        pairs, axes = [(times, which) for times, which in rows], (check.count("units", units),)
    else:
        channels, height, width = axes = _channels_first(shape)
        sensor, said = (width, height, channels), f"the shape is {axes}"
        pairs = [
            (times, _pixels(dict(zip("xyp", places, strict=True)), times.size, sensor, i, said))
            for i, (times, *places) in enumerate(rows)
        ]
    return _binned(pairs, labels, bins, axes, names, keep_empty=keep_empty)


def from_tonic(
    dataset: Any, bins: int | Binning = 50, *, names: Sequence[str] | None = None, keep_empty: bool = False
) -> FrameSet:
    """Any tonic dataset. Its events are binned here; frames, if its transform makes some, are taken as they are.

    A sensor of W × H pixels and P polarities gives the shape (P, H, W), and one with H = 1, such as a cochlea, one row
    of P·W units. `flat()` of the former has unit (p·H + y)·W + x.
    """
    items = [dataset[i] for i in range(len(dataset))]
    if not items:
        raise ValueError("the tonic dataset is empty, expected at least one recording.")
    given, labels = [np.asarray(x) for x, _ in items], np.array([label for _, label in items])
    if given[0].dtype.names is None:
        grids = [x if x.ndim == 4 and x.shape[2] > 1 else x.reshape(len(x), -1) for x in given]
        return _padded(grids, labels, names)
    sensor = getattr(dataset, "sensor_size", None)
    if sensor is None or len(sensor) != 3:
        raise ValueError(f"sensor_size of the dataset is {sensor!r}, expected width, height and polarities.")
    said = f"the dataset's sensor_size is {tuple(sensor)}"
    pairs = [(x["t"].astype(np.int64), _pixels(x, x.size, sensor, i, said)) for i, x in enumerate(given)]
    width, height, channels = map(int, sensor)
    axes = (channels, height, width) if height > 1 else (channels * width,)
    return _binned(pairs, labels, bins, axes, names, keep_empty=keep_empty)


def from_torch(loader: Iterable[Any], *, layout: Literal["TBN", "BTN"], names: Sequence[str] | None = None) -> FrameSet:
    """All batches of a torch `DataLoader` (or any iterable of pairs), in memory once and for good.

    `layout` says which comes first in its batches, time or samples; the axes behind those two are the shape, and
    `flat()` makes one row of units of them. Where batches differ in time steps, the shorter ones are padded.
    """
    check.one_of("layout", layout, ("TBN", "BTN"))
    recordings, labels = [], []
    for i, item in enumerate(loader):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise ValueError(f"batch {i} of the loader is a {type(item).__name__}, expected a pair: spikes and labels.")
        spikes, own = (_array(part) for part in item)
        if spikes.ndim < 3:
            raise ValueError(f"batch {i} has spikes of the shape {list(spikes.shape)}, expected [{', '.join(layout)}].")
        spikes = spikes if layout == "BTN" else np.moveaxis(spikes, 1, 0)
        if own.shape != spikes.shape[:1]:
            raise ValueError(f"batch {i} has {len(spikes)} samples, but labels {list(own.shape)}: expected as many.")
        recordings += list(spikes.copy())  # some loaders use the same memory for every batch
        labels.append(own)
    if not recordings:
        raise ValueError("the loader gave no batches, expected at least one.")
    return _padded(recordings, np.concatenate(labels), names)


def _binned(
    pairs: list[tuple[np.ndarray, np.ndarray]],
    labels: Any,
    bins: int | Binning,
    shape: tuple[int, ...],
    names: Sequence[str] | None,
    *,
    keep_empty: bool,
) -> FrameSet:
    """Frames of recordings (times, units), whose units have this shape."""
    times, which = ([pair[i] for pair in pairs] for i in (0, 1))
    kinds = {row.dtype.kind for row in times if row.size}
    if "f" in kinds and len(kinds) > 1:
        raise ValueError("times are whole numbers in some recordings and not in others: microseconds, or seconds?")
    joined = events.assemble(
        *events.flat(times, np.float64),
        *events.flat(which, np.int64),
        labels,
        width=prod(shape),
        where="from_events",
        names=names,
        keep_empty=keep_empty,
    )
    binning = Binning.of(bins)
    made = frames(joined, shape, binning, "from_events")
    counts = made.counts.reshape(*made.counts.shape[:2], *pooled(shape, binning.pool))
    return frameset(counts, joined.labels, joined.names, made.lengths)


def _padded(recordings: list[np.ndarray], labels: np.ndarray, names: Sequence[str] | None) -> FrameSet:
    """Frames [T, *shape] of each recording, with zeros behind the shorter ones."""
    lengths = np.array([len(x) for x in recordings])
    shapes = sorted({x.shape[1:] for x in recordings})
    if len(shapes) > 1:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"time steps of the recordings have the shapes {listed}, expected the same shape in all.")
    kind = np.result_type(*{x.dtype for x in recordings})
    spikes = np.zeros((lengths.max(), len(recordings), *shapes[0]), kind)
    for i, x in enumerate(recordings):
        spikes[: len(x), i] = x
    same = (lengths == lengths[0]).all()
    return from_arrays(spikes, labels, names=names, lengths=None if same else lengths)


def _channels_first(shape: Sequence[int]) -> tuple[int, int, int]:
    given = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if len(given) != 3:
        raise ValueError(f"shape is {shape!r}, expected channels, height and width, such as (2, 34, 34).")
    channels, height, width = (check.count("shape", length) for length in given)
    return channels, height, width


def _refuse_rows(recordings: list[tuple[np.ndarray, ...]], expected: str) -> None:
    """Every recording has these rows, and they have one length."""
    for i, rows in enumerate(recordings):
        if len(rows) != len(expected.split(", ")):
            raise ValueError(f"recording {i} has {len(rows)} rows, expected ({expected}).")
        lengths = [row.size for row in rows]
        if len(rows) > 2 and len(set(lengths)) > 1:
            raise ValueError(f"recording {i} has rows of the lengths {lengths}, expected ({expected}) of one length.")


def _pixels(places: Any, count: int, sensor: Sequence[int], recording: int, said: str) -> np.ndarray:
    """(p·H + y)·W + x, where an axis of length 1 needs no coordinate. `said`: how the sizes were given."""
    unit, stride = np.zeros(count, np.int64), 1
    for axis, size in zip("xyp", sensor, strict=True):
        if size > 1:
            place = _whole(axis, places[axis], recording)
            if place.size and (place.min() < 0 or place.max() >= size):
                raise ValueError(
                    f"recording {recording} has {axis} from {place.min()} to {place.max()}, expected 0 to {size - 1}:"
                    f" {said}."
                )
            unit += stride * place
        stride *= size
    return unit


def _whole(axis: str, place: np.ndarray, recording: int) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        whole = place.astype(np.int64)
    if (whole != place).any():
        raise ValueError(f"recording {recording} has {axis} between two pixels, expected whole numbers. Round them.")
    return whole


def _array(value: Any) -> np.ndarray:
    """Tensors of a GPU, or ones that carry gradients, come over too."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _narrow(spikes: Any) -> np.ndarray:
    """Counts in one byte where they fit, other numbers as float32."""
    spikes = np.asarray(spikes)
    if spikes.ndim < 3 or spikes.dtype.kind not in "fiub":
        raise ValueError(
            f"spikes are {spikes.dtype} {list(spikes.shape)}, expected numbers [time, recordings, units], or"
            " [time, recordings, channels, height, width]."
        )
    if spikes.dtype.kind == "f" and not np.isfinite(spikes).all():
        raise ValueError("spikes hold NaN or infinite values, expected finite numbers.")
    if spikes.dtype.kind == "f" and np.abs(spikes).max(initial=0) > np.finfo(np.float32).max:
        raise ValueError("spikes hold values that are infinite in float32, expected smaller ones.")
    with np.errstate(invalid="ignore"):
        counts = spikes.astype(np.uint8)
    return counts if (counts == spikes).all() else spikes.astype(np.float32)


def _lengths(lengths: Any, spikes: np.ndarray) -> np.ndarray | None:
    if lengths is None:
        return None
    given, steps = np.asarray(lengths), len(spikes)
    whole = given.dtype.kind in "iu" and given.shape == spikes.shape[1:2]
    if not whole or given.min() < 1 or given.max() > steps:
        raise ValueError(
            f"lengths are {given.dtype} {list(given.shape)}, expected a whole number for each of {spikes.shape[1]}"
            f" recordings, from 1 to the {steps} time steps there are."
        )
    return given
