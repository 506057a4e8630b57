"""Datasets from elsewhere: arrays, events, tonic, torch. None of these libraries is imported here."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np

from otpe import check
from otpe.datasets import events
from otpe.datasets.frames import Binning, frames
from otpe.datasets.frameset import FrameSet, frameset


def from_arrays(spikes: Any, labels: Any, *, names: Sequence[str] | None = None, lengths: Any = None) -> FrameSet:
    """A dataset of spikes [T, R, N], time first as everywhere, and labels [R].

    `lengths` [R]: time steps of each recording, behind which it is padded.
    """
    spikes = _narrow(spikes, "[time, recordings, units]")
    if 0 in spikes.shape:
        raise ValueError(f"spikes have the shape {list(spikes.shape)}, expected no axis of length 0.")
    labels = events.numbered(labels, names, "from_arrays")
    if len(labels) != spikes.shape[1]:
        raise ValueError(
            f"there are {len(labels)} labels and spikes {list(spikes.shape)}, expected one label for each of"
            f" {spikes.shape[1]} recordings: [time, recordings, units]."
        )
    return frameset(np.moveaxis(spikes, 0, 1), labels, names, _lengths(lengths, spikes))


def from_events(
    recordings: Iterable[tuple[Any, Any]],
    labels: Any,
    bins: int | Binning = 50,
    *,
    units: int,
    names: Sequence[str] | None = None,
    keep_empty: bool = False,
) -> FrameSet:
    """A dataset of recordings, each a pair: times (seconds, or microseconds as whole numbers) and units."""
    units = check.count("units", units)
    pairs = [tuple(map(_array, pair)) for pair in recordings]
    times, which = ([pair[i] for pair in pairs] for i in (0, 1))
    kinds = {row.dtype.kind for row in times if row.size}
    if "f" in kinds and len(kinds) > 1:
        raise ValueError("times are whole numbers in some recordings and not in others: microseconds, or seconds?")
    joined = events.assemble(
        *events.flat(times, np.float64),
        *events.flat(which, np.int64),
        labels,
        width=units,
        where="from_events",
        names=names,
        keep_empty=keep_empty,
    )
    made = frames(joined, units, Binning.of(bins), "from_events")
    return frameset(made.counts, joined.labels, joined.names, made.lengths)


def from_tonic(
    dataset: Any, bins: int | Binning = 50, *, names: Sequence[str] | None = None, keep_empty: bool = False
) -> FrameSet:
    """Any tonic dataset. Its events are binned here; frames, if its transform makes some, are taken as they are.

    A sensor of W × H pixels and P polarities has W·H·P units: unit (p·H + y)·W + x.
    """
    items = [dataset[i] for i in range(len(dataset))]
    if not items:
        raise ValueError("the tonic dataset is empty, expected at least one recording.")
    given, labels = [np.asarray(x) for x, _ in items], np.array([label for _, label in items])
    if given[0].dtype.names is None:
        return _padded(given, labels, names)
    sensor = getattr(dataset, "sensor_size", None)
    if sensor is None or len(sensor) != 3:
        raise ValueError(f"sensor_size of the dataset is {sensor!r}, expected width, height and polarities.")
    pairs = [(x["t"].astype(np.int64), _pixels(x, sensor, i)) for i, x in enumerate(given)]
    return from_events(pairs, labels, bins, units=int(np.prod(sensor)), names=names, keep_empty=keep_empty)


def from_torch(loader: Iterable[Any], *, layout: Literal["TBN", "BTN"], names: Sequence[str] | None = None) -> FrameSet:
    """All batches of a torch `DataLoader` (or any iterable of pairs), in memory once and for good.

    `layout` says which comes first in its batches, time or samples; axes behind those two become units. Where batches
    differ in time steps, the shorter ones are padded.
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


def _padded(recordings: list[np.ndarray], labels: np.ndarray, names: Sequence[str] | None) -> FrameSet:
    """Frames [T, …] of each recording, with zeros behind the shorter ones."""
    lengths = np.array([len(x) for x in recordings])
    rows = [x.reshape(len(x), -1) for x in recordings]
    widths = sorted({row.shape[1] for row in rows})
    if len(widths) > 1:
        raise ValueError(f"recordings have {widths} units, expected the same number in all.")
    spikes = np.zeros((lengths.max(), len(rows), widths[0]), np.result_type(*{row.dtype for row in rows}))
    for i, row in enumerate(rows):
        spikes[: len(row), i] = row
    same = (lengths == lengths[0]).all()
    return from_arrays(spikes, labels, names=names, lengths=None if same else lengths)


def _pixels(x: np.ndarray, sensor: Sequence[int], recording: int) -> np.ndarray:
    """(p·H + y)·W + x, where an axis of length 1 needs no coordinate."""
    unit, stride = np.zeros(x.size, np.int64), 1
    for axis, size in zip("xyp", sensor, strict=True):
        if size > 1:
            place = x[axis].astype(np.int64)
            if place.size and (place.min() < 0 or place.max() >= size):
                raise ValueError(
                    f"recording {recording} has {axis} from {place.min()} to {place.max()}, expected 0 to {size - 1}:"
                    f" the dataset's sensor_size is {tuple(sensor)}."
                )
            unit += stride * place
        stride *= size
    return unit


def _array(value: Any) -> np.ndarray:
    """Tensors of a GPU, or ones that carry gradients, come over too."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _narrow(spikes: Any, expected: str) -> np.ndarray:
    """Counts in one byte where they fit, other numbers as float32."""
    spikes = np.asarray(spikes)
    if spikes.ndim != 3 or spikes.dtype.kind not in "fiub":
        raise ValueError(f"spikes are {spikes.dtype} {list(spikes.shape)}, expected numbers {expected}.")
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
