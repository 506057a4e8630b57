"""Datasets from arrays, events, tonic and torch. This module imports neither tonic nor torch."""

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, Literal

import numpy as np

from otpe import check
from otpe.datasets import events
from otpe.datasets.dataset import FrameSet
from otpe.datasets.frames import Binning, frames, pooled


def from_arrays(spikes: Any, labels: Any, *, names: Sequence[str] | None = None, lengths: Any = None) -> FrameSet:
    """Return a dataset of spikes [T, R, *shape], time first, and labels [R].

    `shape` is one axis of units, or channels, height and width. `lengths` [R] is the number of time steps of each
    recording; the rest is padding.
    """
    spikes = _narrowed(spikes)
    steps, recordings = spikes.shape[:2]
    if 0 in spikes.shape:
        raise ValueError(f"spikes have the shape {list(spikes.shape)}, expected no axis of length 0.")
    labels = events.check_labels(labels, names, "from_arrays")
    if len(labels) != recordings:
        raise ValueError(
            f"there are {len(labels)} labels and spikes {list(spikes.shape)}, expected one label for each of"
            f" {recordings} recordings: [time, recordings, *shape]."
        )
    if lengths is not None:
        lengths = np.asarray(lengths)
        whole = lengths.dtype.kind in "iu" and lengths.shape == (recordings,)
        if not whole or lengths.min() < 1 or lengths.max() > steps:
            raise ValueError(
                f"lengths are {lengths.dtype} {list(lengths.shape)}, expected a whole number for each of {recordings}"
                f" recordings, from 1 to the {steps} time steps there are."
            )
        lengths = lengths.astype(np.int32)
    return FrameSet(np.moveaxis(spikes, 0, 1), labels, events.class_names(labels, names), lengths).on_device()


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
    """Return a dataset of recordings given as events. Times are seconds, or microseconds as whole numbers.

    With `units=N` a recording is a pair: times and units. With `shape=(P, H, W)`, for P polarities (or other channels)
    of H × W pixels, it has four rows: times, x, y and p, as event cameras give them.
    """
    if (units is None) == (shape is None):
        given = "neither units nor shape is given" if units is None else f"units is {units} and shape is {shape}"
        raise ValueError(
            f"{given}, expected one of them: units=N for recordings (times, units), or shape=(P, H, W) for recordings"
            " (times, x, y, p)."
        )
    rows = [tuple(map(_array, recording)) for recording in recordings]
    _check_rows(rows, "times, units" if shape is None else "times, x, y, p")
    if shape is None:
        pairs, axes = [(times, unit) for times, unit in rows], (check.count("units", units),)
    else:
        given = tuple(shape) if isinstance(shape, Sequence) else ()
        if len(given) != 3:
            raise ValueError(f"shape is {shape!r}, expected channels, height and width, such as (2, 34, 34).")
        axes = tuple(check.count("shape", length) for length in given)
        pairs = [
            (times, _units({"x": x, "y": y, "p": p}, times.size, axes[::-1], i, f"the shape is {axes}"))
            for i, (times, x, y, p) in enumerate(rows)
        ]
    return _binned(pairs, labels, bins, axes, names, keep_empty=keep_empty)


def from_tonic(
    dataset: Any, bins: int | Binning = 50, *, names: Sequence[str] | None = None, keep_empty: bool = False
) -> FrameSet:
    """Return a dataset of any tonic dataset. Events are binned here. Frames, if its transform makes them, are kept.

    A sensor of W × H pixels and P polarities gives the shape (P, H, W); `flat()` of it has unit (p·H + y)·W + x. A
    sensor with H = 1, such as a cochlea, gives one row of P·W units.
    """
    items = [dataset[i] for i in range(len(dataset))]
    if not items:
        raise ValueError("the tonic dataset is empty, expected at least one recording.")
    recordings, labels = [np.asarray(x) for x, _ in items], np.array([label for _, label in items])
    if recordings[0].dtype.names is None:
        grids = [x if x.ndim == 4 and x.shape[2] > 1 else x.reshape(len(x), -1) for x in recordings]
        return _padded(grids, labels, names)
    sensor = getattr(dataset, "sensor_size", None)
    if sensor is None or len(sensor) != 3:
        raise ValueError(f"sensor_size of the dataset is {sensor!r}, expected width, height and polarities.")
    source = f"the dataset's sensor_size is {tuple(sensor)}"
    pairs = [(x["t"].astype(np.int64), _units(x, x.size, sensor, i, source)) for i, x in enumerate(recordings)]
    width, height, channels = map(int, sensor)
    axes = (channels, height, width) if height > 1 else (channels * width,)
    return _binned(pairs, labels, bins, axes, names, keep_empty=keep_empty)


def from_torch(loader: Iterable[Any], *, layout: Literal["TBN", "BTN"], names: Sequence[str] | None = None) -> FrameSet:
    """Return a dataset of all batches of a torch `DataLoader`, or of any iterable of pairs. It is read once.

    `layout` says which axis of a batch comes first, time or samples. The axes after these two are the shape. If batches
    differ in time steps, the shorter ones are padded.
    """
    check.one_of("layout", layout, ("TBN", "BTN"))
    recordings, labels = [], []
    for i, item in enumerate(loader):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise ValueError(f"batch {i} of the loader is a {type(item).__name__}, expected a pair: spikes and labels.")
        spikes, label = map(_array, item)
        if spikes.ndim < 3:
            raise ValueError(f"batch {i} has spikes of the shape {list(spikes.shape)}, expected [{', '.join(layout)}].")
        spikes = spikes if layout == "BTN" else np.moveaxis(spikes, 1, 0)
        if label.shape != spikes.shape[:1]:
            raise ValueError(f"batch {i} has {len(spikes)} samples and labels {list(label.shape)}, expected one each.")
        recordings += list(spikes.copy())  # some loaders use the same memory for every batch
        labels.append(label)
    if not recordings:
        raise ValueError("the loader gave no batches, expected at least one.")
    return _padded(recordings, np.concatenate(labels), names)


def _binned(
    pairs: list[tuple[np.ndarray, np.ndarray]], labels: Any, bins: int | Binning, shape: tuple[int, ...],
    names: Sequence[str] | None, *, keep_empty: bool,
) -> FrameSet:  # fmt: skip
    """Return the dataset of recordings (times, units). The units have this shape."""
    times, units = ([pair[i] for pair in pairs] for i in (0, 1))
    kinds = {row.dtype.kind for row in times if row.size}
    if "f" in kinds and len(kinds) > 1:
        raise ValueError("times are whole numbers in some recordings and not in others: microseconds, or seconds?")
    rows = (*events.flat(times, np.float64), *events.flat(units, np.int64))
    options: Any = {"width": prod(shape), "where": "from_events", "names": names, "keep_empty": keep_empty}
    joined, binning = events.assemble(*rows, labels, **options), Binning.of(bins)
    counts, lengths = frames(joined, shape, binning, "from_events")
    data = FrameSet(counts, joined.labels, joined.names, lengths)
    return data.reshape(pooled(shape, binning.pool)).on_device()


def _padded(recordings: list[np.ndarray], labels: np.ndarray, names: Sequence[str] | None) -> FrameSet:
    """Return the dataset of recordings [T, *shape]. The shorter ones end with zeros."""
    lengths = np.array([len(x) for x in recordings])
    shapes = sorted({x.shape[1:] for x in recordings})
    if len(shapes) > 1:
        listed = " and ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"time steps of the recordings have the shapes {listed}, expected the same shape in all.")
    dtype = np.result_type(*{x.dtype for x in recordings})
    spikes = np.zeros((lengths.max(), len(recordings), *shapes[0]), dtype)
    for i, x in enumerate(recordings):
        spikes[: len(x), i] = x
    differ = (lengths != lengths[0]).any()
    return from_arrays(spikes, labels, names=names, lengths=lengths if differ else None)


def _check_rows(recordings: list[tuple[np.ndarray, ...]], expected: str) -> None:
    """Raise ValueError unless every recording has the expected rows. Four rows must also have the same length."""
    for i, rows in enumerate(recordings):
        if len(rows) != len(expected.split(", ")):
            raise ValueError(f"recording {i} has {len(rows)} rows, expected ({expected}).")
        lengths = [row.size for row in rows]
        if len(rows) > 2 and len(set(lengths)) > 1:
            raise ValueError(f"recording {i} has rows of the lengths {lengths}, expected ({expected}) of one length.")


def _units(events: Mapping[str, Any] | np.ndarray, count: int, sensor: Sequence[int], i: int, source: str) -> Any:
    """Return the units (p·H + y)·W + x of recording i. An axis of length 1 needs no coordinate.

    `sensor` is (W, H, P), and `source` says in a message where these sizes come from.
    """
    units, stride = np.zeros(count, np.int64), 1
    for axis, size in zip("xyp", sensor, strict=True):
        if size > 1:
            with np.errstate(invalid="ignore"):
                place = events[axis].astype(np.int64)
            if (place != events[axis]).any():
                raise ValueError(f"recording {i} has {axis} between two pixels, expected whole numbers. Round them.")
            if place.size and (place.min() < 0 or place.max() >= size):
                given = f"{axis} from {place.min()} to {place.max()}"
                raise ValueError(f"recording {i} has {given}, expected 0 to {size - 1}: {source}.")
            units += stride * place
        stride *= size
    return units


def _array(value: Any) -> np.ndarray:
    """Return a numpy array, also of a tensor that is on a GPU or carries gradients."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _narrowed(spikes: Any) -> np.ndarray:
    """Return counts in one byte if they fit, other numbers as float32."""
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
