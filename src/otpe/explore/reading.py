"""From the files, or from Randman, to events and counted frames."""

import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from otpe.datasets import Binning, Randman, hdf5, randman
from otpe.datasets.events import Events
from otpe.datasets.frames import Frames, frames
from otpe.explore import settings
from otpe.explore.config import DataConfig
from otpe.explore.sources import Source, sources

AT_ONCE = 1 << 25  # entries of frames in memory together: at dt=0.001 all of SHD's would take 8 GB
MOST = 1 << 27  # entries of one recording's frames
BATCHES, BATCH = 10, 100  # that Randman is asked for


class Framed(NamedTuple):
    """What the frames of a split hold, counted."""

    steps: int
    units: int
    lengths: np.ndarray | None  # [recordings] time steps, where they differ
    nonzero: int
    total: int
    largest: int
    left_out: int  # spikes behind the last time step


class Split(NamedTuple):
    name: str
    source: Source | None
    events: Events  # of Randman: the times are time steps
    units: int
    framed: Framed


def read(config: DataConfig) -> list[Split]:
    """Everything there is to summarise. Whatever is wrong with a file becomes a sentence here."""
    if config.name in settings.ENCODINGS:
        return [_drawn(config)]
    return [_read(source, config) for source in sources(config)]


def _read(source: Source, config: DataConfig) -> Split:
    print(f"Reading {source.path} …", file=sys.stderr)
    units = settings.units(config)
    events = hdf5.read(source.path, units, keep_empty=config.keep_empty)
    framed = _framed(events, units, settings.binning(config), str(source.path))
    return Split(source.split, source, events, units, framed)


def _framed(events: Events, units: int, binning: Binning, where: str) -> Framed:
    """Frames are made to be counted, and let go."""
    parts, kept, at_once = [], 0, _at_once(events, units, binning, where)
    for first in range(0, len(events), at_once):
        some = _some(events, slice(first, min(first + at_once, len(events))))
        where_in = f"{where}, counted from recording {first}" if first else where
        counts, lengths = frames(some, units, replace(binning, binary=False), where_in)
        kept += int(counts.sum(dtype=np.int64))
        parts.append(_counted(Frames(np.minimum(counts, 1) if binning.binary else counts, lengths)))
    return Framed(
        steps=max(part.steps for part in parts),
        units=parts[0].units,
        lengths=None if parts[0].lengths is None else np.concatenate([part.lengths for part in parts]),
        nonzero=sum(part.nonzero for part in parts),
        total=sum(part.total for part in parts),
        largest=max(part.largest for part in parts),
        left_out=int(events.counts.sum()) - kept,
    )


def _at_once(events: Events, units: int, binning: Binning, where: str) -> int:
    """How many recordings to make frames of together."""
    needed = binning.bins or int(float(events.times.max(initial=0)) / (binning.dt or 1)) + 1
    steps = min(needed, binning.steps or needed)
    if steps * units > MOST:
        raise ValueError(
            f"{where}: {steps} time steps of {units} units are {steps * units:,} numbers for each recording, expected"
            f" {MOST:,} at most. Use fewer bins, or a larger dt."
        )
    return max(1, AT_ONCE // (steps * units))


def _counted(made: Frames) -> Framed:
    counts, lengths = made
    _, steps, units = counts.shape
    nonzero, total, largest = np.count_nonzero(counts), counts.sum(dtype=np.int64), counts.max()
    return Framed(steps, units, lengths, int(nonzero), int(total), int(largest), left_out=0)


def _some(events: Events, which: slice) -> Events:
    """These recordings, one behind the other as they stand."""
    begin, end = events.starts[which.start], events.starts[which.stop]
    return Events(
        events.times[begin:end],
        events.units[begin:end],
        events.starts[which.start : which.stop + 1] - begin,
        events.labels[which],
        None if events.speakers is None else events.speakers[which],
        events.names,
    )


def _drawn(config: DataConfig) -> Split:
    print("Drawing samples; the first time, tables of the manifolds are made …", file=sys.stderr)
    data = randman(settings.ENCODINGS[config.name], seed=config.seed, standardize=config.standardize)
    spikes, labels = _samples(data, config.seed)
    of, times, units = np.nonzero(spikes)
    starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(labels)))])
    events = Events(times.astype(np.float64), units, starts, labels, None, data.names)
    return Split("sample", None, events, data.units, _counted(Frames(spikes, None)))


def _samples(data: Randman, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Spikes [samples, steps, units] and labels, of the first mini-batches that a run with this seed sees."""
    batches = [data.batch(seed, step, BATCH) for step in range(BATCHES)]
    spikes = np.concatenate([np.asarray(batch.spikes) for batch in batches], axis=1)
    return np.moveaxis(spikes, 1, 0), np.concatenate([np.asarray(batch.labels) for batch in batches])
