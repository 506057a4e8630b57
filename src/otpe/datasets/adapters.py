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
    labels = _labels(labels, spikes.shape[1], names)
    if lengths is not None:
        lengths = np.asarray(lengths)
        if lengths.shape != labels.shape or lengths.min() < 1 or lengths.max() > len(spikes):
            raise ValueError(
                f"lengths are {lengths.dtype} {list(lengths.shape)}, expected one for each of {labels.size} recordings,"
                f" from 1 to the {len(spikes)} time steps there are."
            )
    return frameset(np.moveaxis(spikes, 0, 1), labels, names, lengths)


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
    check.count("units", units)
    pairs = [(np.asarray(times), np.asarray(which)) for times, which in recordings]
    times, which = ([pair[i] for pair in pairs] for i in (0, 1))
    joined = events.assemble(
        *events.flat(times, np.float64),
        *events.flat(which, np.int64),
        labels,
        width=units,
        where="recordings",
        names=names,
        keep_empty=keep_empty,
    )
    made = frames(joined, units, Binning.of(bins), "recordings")
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
    labels = np.array([label for _, label in items])
    if items[0][0].dtype.names is None:
        return _padded([np.asarray(x) for x, _ in items], labels, names)
    width, height, polarities = dataset.sensor_size
    pairs = [(x["t"].astype(np.int64), _pixels(x, width, height, polarities)) for x, _ in items]
    units = width * height * polarities
    return from_events(pairs, labels, bins, units=units, names=names, keep_empty=keep_empty)


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
        recordings += list(spikes if layout == "BTN" else np.moveaxis(spikes, 1, 0))
        labels.append(own.reshape(-1))
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


def _pixels(x: np.ndarray, width: int, height: int, polarities: int) -> np.ndarray:
    unit = x["x"].astype(np.int64)
    if height > 1:
        unit += width * x["y"].astype(np.int64)
    if polarities > 1:
        unit += width * height * x["p"].astype(np.int64)
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
    counts = spikes.astype(np.uint8)
    return counts if (counts == spikes).all() else spikes.astype(np.float32)


def _labels(labels: Any, recordings: int, names: Sequence[str] | None) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != (recordings,) or labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels are {labels.dtype} {list(labels.shape)}, expected whole numbers [{recordings}], one for each"
            " recording."
        )
    most = len(names) - 1 if names is not None else None
    if labels.min() < 0 or (most is not None and labels.max() > most):
        expected = "0 or above" if most is None else f"0 to {most}, as there are {most + 1} names"
        raise ValueError(f"labels run from {labels.min()} to {labels.max()}, expected {expected}. Renumber them.")
    return labels
