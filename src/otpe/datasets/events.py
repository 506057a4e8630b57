"""Recordings as events: the time and the unit of each spike. Only numpy; `frames.py` makes frames of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

REPAIR = "Repair such recordings, or leave them out"
LARGEST = 99_999  # label, or speaker
LATEST = 10_000_000  # seconds


@dataclass(frozen=True)
class Events:
    """The recordings of a file, joined to one row of spikes."""

    times: np.ndarray  # [spikes] seconds, or microseconds as whole numbers
    units: np.ndarray  # [spikes]
    starts: np.ndarray  # [recordings + 1] index of the first spike of each recording, then the number of spikes
    labels: np.ndarray  # [recordings] int32
    speakers: np.ndarray | None  # [recordings] int32
    names: tuple[str, ...]  # of the classes, label 0 first

    def __len__(self) -> int:
        return self.labels.size

    @property
    def counts(self) -> np.ndarray:
        """The number of spikes of each recording."""
        return np.diff(self.starts)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the earliest and the latest time of each recording, 0 without spikes. Spikes may be in any order."""
        first, last = np.zeros((2, len(self)), self.times.dtype)
        some = self.counts > 0
        if some.any():
            begins = self.starts[:-1][some]  # without empty recordings, each one ends where the next begins
            first[some], last[some] = np.minimum.reduceat(self.times, begins), np.maximum.reduceat(self.times, begins)
        return first, last

    def recording(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the times in seconds and the units of one recording."""
        span = slice(self.starts[i], self.starts[i + 1])
        return seconds(self.times[span]), self.units[span]


def seconds(times: np.ndarray) -> np.ndarray:
    return times / 1e6 if times.dtype.kind in "iu" else times.astype(np.float64)


def flat(rows: Sequence[np.ndarray], empty: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows joined, and the length of each. If all are empty, the result has the type `empty`."""
    filled = [row for row in rows if row.size]  # the type of an empty list has no meaning
    return np.concatenate(filled) if filled else np.empty(0, empty), np.array([row.size for row in rows], np.int64)


def assemble(
    times: np.ndarray,
    time_counts: np.ndarray,
    units: np.ndarray,
    unit_counts: np.ndarray,
    labels: Any,
    *,
    width: int,
    where: str,
    speakers: Any = None,
    names: Sequence[str] | None = None,
    keep_empty: bool = False,
) -> Events:
    """Return checked recordings from joined times and units, and the number of spikes of each recording.

    `width` is the number of units. `where` names the recordings, and begins every message.
    """
    labels = check_labels(labels, names, where)
    speakers = None if speakers is None else _whole("speakers", speakers, where)
    for name, part in {"times": time_counts, "units": unit_counts, "speakers": speakers}.items():
        if part is not None and len(part) != labels.size:
            raise ValueError(f"{where} has {labels.size} labels but {name} of {len(part)} recordings. {REPAIR}.")
    _refuse(time_counts != unit_counts, where, lambda i: f"has {time_counts[i]} times but {unit_counts[i]} units")
    if not keep_empty:
        advice = "Leave such recordings out, or keep them as silence with keep_empty=True"
        _refuse(time_counts == 0, where, lambda i: "has no spikes", advice)
    for name, values, kinds, expected in (
        ("times", times, "fiu", "seconds, or microseconds as whole numbers"),
        ("units", units, "iu", "whole numbers"),
    ):
        if values.ndim != 1 or values.dtype.kind not in kinds:
            raise ValueError(f"{where} has {name} of type {values.dtype}, expected {expected}. {REPAIR}.")
    starts = np.concatenate([[0], np.cumsum(time_counts)])
    late = times.astype(np.float64) > LATEST * (1e6 if times.dtype.kind in "iu" else 1)
    for bad, what in (
        (~np.isfinite(times), lambda j: f"at the time {times[j]}"),
        (times < 0, lambda j: f"at {times[j]} s, before the start"),
        (late, lambda j: f"at {seconds(times[j : j + 1])[0]:.3g} s, too late"),
        ((units < 0) | (units >= width), lambda j: f"of unit {units[j]}, expected 0 to {width - 1}"),
    ):
        if bad.any():
            first = int(bad.argmax())
            recordings = np.searchsorted(starts, np.flatnonzero(bad), side="right") - 1
            _refuse(np.bincount(recordings) > 0, where, lambda _: f"has a spike {what(first)}")  # noqa: B023
    units = units.astype(np.uint16 if width <= 2**16 else np.int64)
    return Events(times, units, starts, labels, speakers, class_names(labels, names))


def check_labels(labels: Any, names: Sequence[str] | None, where: str) -> np.ndarray:
    """Return the labels as int32. Raises ValueError if there are none, or if one is missing in the given names."""
    labels = _whole("labels", labels, where)
    if not labels.size:
        raise ValueError(f"{where} has no recordings, expected at least one.")
    if names is not None:
        classes = f"names for {len(names)} classes, counted from 0"
        _refuse(labels >= len(names), where, lambda i: f"has the label {labels[i]}, but there are {classes}")
    return labels


def class_names(labels: np.ndarray, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the classes. Without names, they are numbers up to the largest label."""
    return tuple(map(str, range(int(labels.max()) + 1)) if names is None else names)


def _whole(name: str, values: Any, where: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or not (values.dtype.kind in "iu" or values.size == 0):
        given = f"{values.dtype} {list(values.shape)}"
        raise ValueError(f"{where} has {name} of {given}, expected a row of whole numbers. {REPAIR}.")
    bad = (values < 0) | (values > LARGEST)
    _refuse(bad, where, lambda i: f"has {values[i]} among its {name}, expected 0 to {LARGEST:,}")
    return values.astype(np.int32)


def _refuse(bad: np.ndarray, where: str, what: Callable[[int], str], advice: str = REPAIR) -> None:
    """Raise ValueError if a recording is bad. The message names the first one, and how many there are."""
    if bad.any():
        first, number = int(bad.argmax()), int(bad.sum())
        more = f" ({number} such recordings)" if number > 1 else ""
        raise ValueError(f"{where}: recording {first} {what(first)}{more}. {advice}.")
