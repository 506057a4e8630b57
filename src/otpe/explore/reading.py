"""From the files, or from samples that are drawn, to events and counted frames."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from otpe.datasets import Binning, MovingShapes, Randman, hdf5, randman
from otpe.datasets.events import Events
from otpe.datasets.frames import blocks, grid, pooled
from otpe.explore import settings
from otpe.explore.config import DataConfig
from otpe.explore.sources import Source, sources

BATCHES, BATCH = 10, 100  # of samples that are drawn


class Framed(NamedTuple):
    """What the frames of a split hold, counted."""

    steps: int
    shape: tuple[int, ...]
    lengths: np.ndarray | None  # [recordings] time steps, where they differ
    nonzero: int
    total: int
    largest: int
    left_out: int  # spikes behind the last time step

    @property
    def units(self) -> int:
        return prod(self.shape)


class Split(NamedTuple):
    name: str
    source: Source | None
    events: Events  # of what is drawn: the times are time steps
    shape: tuple[int, ...]  # of the units in the events, before pooling
    framed: Framed

    @property
    def units(self) -> int:
        return prod(self.shape)


def read(config: DataConfig) -> list[Split]:
    """Everything there is to summarise. Whatever is wrong with a file becomes a sentence here."""
    if config.name in settings.DRAWN:
        return [_drawn(config)]
    return [_read(source, config) for source in sources(config)]


def _read(source: Source, config: DataConfig) -> Split:
    print(f"Reading {source.path} …", file=sys.stderr)
    shape = settings.shape(config)
    events = hdf5.read(source.path, prod(shape), keep_empty=config.keep_empty)
    framed = _framed(events, shape, settings.binning(config), str(source.path))
    return Split(source.split, source, events, shape, framed)


def _framed(events: Events, shape: int | Sequence[int], binning: Binning, where: str) -> Framed:
    """Frames are made to be counted, and let go: at dt=0.001 all of SHD's would take 8 GB."""
    lie = grid(events, shape, binning, where)
    nonzero = kept = largest = 0
    for _, counts in blocks(events, lie, replace(binning, binary=False)):
        nonzero, kept = nonzero + int(np.count_nonzero(counts)), kept + int(counts.sum())
        largest = max(largest, 1 if binning.binary else int(counts.max()))
    total = nonzero if binning.binary else kept
    left_out = int(events.counts.sum()) - kept
    return Framed(lie.steps, pooled(lie.shape, binning.pool), lie.lengths, nonzero, total, largest, left_out)


def _drawn(config: DataConfig) -> Split:
    data = _dataset(config)
    parts = [_spikes(data, config.seed, step) for step in range(BATCHES)]
    times, units, counts, labels = (np.concatenate([part[i] for part in parts]) for i in range(4))
    starts = np.concatenate([[0], np.cumsum(counts)])
    events = Events(times.astype(np.float64), units, starts, labels, None, data.names)
    framed = Framed(data.steps, data.shape, None, times.size, times.size, 1, left_out=0)
    return Split("sample", None, events, data.shape, framed)


def _dataset(config: DataConfig) -> Randman | MovingShapes:
    if config.name == settings.SHAPES:
        return settings.shapes(config)
    print("Drawing samples; the first time, tables of the manifolds are made …", file=sys.stderr)
    return randman(settings.ENCODINGS[config.name], seed=config.seed, standardize=config.standardize)


def _spikes(data: Randman | MovingShapes, seed: int, step: int) -> tuple[np.ndarray, ...]:
    """Of one mini-batch: times and units of its spikes, which are ones, how many each sample has, and labels."""
    batch = data.batch(seed, step, BATCH)
    spikes = np.asarray(batch.spikes).reshape(data.steps, BATCH, -1)
    of, times, units = np.nonzero(np.moveaxis(spikes, 1, 0))
    return times, units, np.bincount(of, minlength=BATCH), np.asarray(batch.labels)
