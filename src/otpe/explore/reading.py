"""From the files, or from Randman, to events and counted frames."""

import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from otpe.datasets import Binning, Randman, hdf5, randman
from otpe.datasets.events import Events
from otpe.datasets.frames import blocks, grid
from otpe.explore import settings
from otpe.explore.config import DataConfig
from otpe.explore.sources import Source, sources

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
    """Frames are made to be counted, and let go: at dt=0.001 all of SHD's would take 8 GB."""
    lie = grid(events, units, binning, where)
    nonzero = kept = largest = 0
    for _, counts in blocks(events, lie, replace(binning, binary=False)):
        nonzero, kept = nonzero + int(np.count_nonzero(counts)), kept + int(counts.sum())
        largest = max(largest, 1 if binning.binary else int(counts.max()))
    total = nonzero if binning.binary else kept
    left_out = int(events.counts.sum()) - kept
    return Framed(lie.steps, lie.units, lie.lengths, nonzero, total, largest, left_out)


def _drawn(config: DataConfig) -> Split:
    print("Drawing samples; the first time, tables of the manifolds are made …", file=sys.stderr)
    data = randman(settings.ENCODINGS[config.name], seed=config.seed, standardize=config.standardize)
    spikes, labels = _samples(data, config.seed)
    of, times, units = np.nonzero(spikes)
    starts = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=len(labels)))])
    events = Events(times.astype(np.float64), units, starts, labels, None, data.names)
    framed = Framed(data.steps, data.units, None, times.size, times.size, int(spikes.max()), left_out=0)
    return Split("sample", None, events, data.units, framed)


def _samples(data: Randman, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Spikes [samples, steps, units] and labels, of a few mini-batches."""
    batches = [data.batch(seed, step, BATCH) for step in range(BATCHES)]
    spikes = np.concatenate([np.asarray(batch.spikes) for batch in batches], axis=1)
    return np.moveaxis(spikes, 1, 0), np.concatenate([np.asarray(batch.labels) for batch in batches])
