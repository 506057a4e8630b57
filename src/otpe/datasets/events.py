"""Recordings of spikes as events: when, and which unit. Numpy only; frames are made of them in `frames.py`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

REPAIR = "Repair such recordings, or leave them out"
LARGEST = 99_999  # label, or speaker
LATEST = 10_000_000  # seconds


@dataclass(frozen=True)
class Events:
    """All recordings of a file, one behind the other."""

    times: np.ndarray  # [spikes] seconds, or microseconds as whole numbers
    units: np.ndarray  # [spikes]
    starts: np.ndarray  # [recordings + 1] where each begins, and where the last ends
    labels: np.ndarray  # [recordings] int32
    speakers: np.ndarray | None  # [recordings] int32
    names: tuple[str, ...]  # of the classes, label 0 first

    def __len__(self) -> int:
        return self.labels.size

    @property
    def counts(self) -> np.ndarray:
        """Spikes of each recording."""
        return np.diff(self.starts)

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the last time of each recording, in whatever order they stand there; 0 where there is none."""
        first, last = np.zeros((2, len(self)), self.times.dtype)
        some = self.counts > 0
        if some.any():
            begins = self.starts[:-1][some]  # recordings without spikes lie between none of these
            first[some], last[some] = np.minimum.reduceat(self.times, begins), np.maximum.reduceat(self.times, begins)
        return first, last

    def recording(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Times in seconds and units of one recording."""
        span = slice(self.starts[i], self.starts[i + 1])
        return seconds(self.times[span]), self.units[span]


def seconds(times: np.ndarray) -> np.ndarray:
    return times / 1e6 if times.dtype.kind in "iu" else times.astype(np.float64)


def flat(rows: Sequence[np.ndarray], empty: Any) -> tuple[np.ndarray, np.ndarray]:
    """The rows one behind the other, and how long each is. `empty`: the type, if there are none."""
    filled = [row for row in rows if row.size]  # an empty list has a type that means nothing
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
    """Recordings one behind the other, and how many spikes each has: checked. `where` opens every message."""
    names, labels = tuple(names) if names is not None else None, numbered(labels, names, where)
    speakers = None if speakers is None else _whole("speakers", speakers, where)
    for name, part in {"times": time_counts, "units": unit_counts, "speakers": speakers}.items():
        if part is not None and len(part) != labels.size:
            raise ValueError(f"{where} has {labels.size} labels but {name} of {len(part)} recordings. {REPAIR}.")
    _refuse(time_counts != unit_counts, where, lambda i: f"has {time_counts[i]} times but {unit_counts[i]} units")
    if not keep_empty:
        advice = "Leave such recordings out, or keep them as silence with keep_empty=True"
        _refuse(time_counts == 0, where, lambda i: "has no spikes", advice)
    starts = np.concatenate([[0], np.cumsum(time_counts)])
    names = names if names is not None else tuple(map(str, range(int(labels.max()) + 1)))
    assembled = Events(times, units, starts, labels, speakers, names)
    _check(assembled, width, where)
    return replace(assembled, units=units.astype(np.uint16 if width <= 2**16 else np.int64))


def _check(events: Events, width: int, where: str) -> None:
    _numbers("times", events.times, "fiu", where)
    _numbers("units", events.units, "iu", where)
    _refuse_spikes(~np.isfinite(events.times), events, where, lambda j: f"a spike at the time {events.times[j]}")
    _refuse_spikes(events.times < 0, events, where, lambda j: f"a spike at {events.times[j]} s, before the start")
    late = events.times.astype(np.float64) > LATEST * (1e6 if events.times.dtype.kind in "iu" else 1)
    _refuse_spikes(late, events, where, lambda j: f"a spike at {seconds(events.times[j : j + 1])[0]:.3g} s, too late")
    _refuse_spikes(
        (events.units < 0) | (events.units >= width),
        events,
        where,
        lambda j: f"a spike of unit {events.units[j]}, expected 0 to {width - 1}",
    )


def numbered(labels: Any, names: Sequence[str] | None, where: str) -> np.ndarray:
    """Labels of at least one recording, below the number of names where there are some."""
    labels = _whole("labels", labels, where)
    if not labels.size:
        raise ValueError(f"{where} has no recordings, expected at least one.")
    if names is not None:
        classes = len(names)
        _refuse(
            labels >= classes,
            where,
            lambda i: f"has the label {labels[i]}, but there are names for {classes} classes, counted from 0",
        )
    return labels


def _whole(name: str, values: Any, where: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 1 or not (values.dtype.kind in "iu" or values.size == 0):
        raise ValueError(
            f"{where} has {name} of {values.dtype} {list(values.shape)}, expected a row of whole numbers. {REPAIR}."
        )
    _refuse(
        (values < 0) | (values > LARGEST),
        where,
        lambda i: f"has {values[i]} among its {name}, expected 0 to {LARGEST:,}",
    )
    return values.astype(np.int32)


def _numbers(name: str, values: np.ndarray, kinds: str, where: str) -> None:
    if values.ndim != 1 or values.dtype.kind not in kinds:
        expected = "whole numbers" if kinds == "iu" else "seconds, or microseconds as whole numbers"
        raise ValueError(f"{where} has {name} of type {values.dtype}, expected {expected}. {REPAIR}.")


def _refuse(bad: np.ndarray, where: str, what: Any, advice: str = REPAIR) -> None:
    """Name the first bad recording, and how many there are."""
    if bad.any():
        first, many = int(bad.argmax()), int(bad.sum())
        more = f" ({many} such recordings)" if many > 1 else ""
        raise ValueError(f"{where}: recording {first} {what(first)}{more}. {advice}.")


def _refuse_spikes(bad: np.ndarray, events: Events, where: str, what: Any) -> None:
    if bad.any():
        of = np.repeat(np.arange(len(events)), events.counts)
        hit = np.bincount(of[bad], minlength=len(events)) > 0
        _refuse(hit, where, lambda _: f"has {what(int(bad.argmax()))}")
