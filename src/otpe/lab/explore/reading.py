"""Reading a dataset for `otpe data`: check the settings, find the files, read events and count frames."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from otpe import check
from otpe.datasets import Binning, download, hdf5, heidelberg, registry
from otpe.datasets.events import Events
from otpe.datasets.frames import blocks, grid, pooled
from otpe.datasets.heidelberg import no_folder, shape_in_files
from otpe.lab.progress import say
from otpe.lab.settings import DataConfig, DataSettings

MOST_SAMPLES = 64


def checked(config: DataConfig) -> DataConfig:
    """Return the settings, with the units of a folder. Raises ValueError if one is invalid, or of no use here."""
    registry.check_use(config.name, config, registry.data_users)
    if not 1 <= config.samples <= MOST_SAMPLES:
        raise ValueError(
            f"samples is {config.samples}, expected 1 to {MOST_SAMPLES}: their rasters are drawn on one page."
        )
    if registry.is_drawn(config.name):
        check.whole("seed", config.seed, 2**32)
        registry.DATASETS[config.name].expected_shape(data_settings(config))
        return config
    if config.name == "folder" and config.units is None and not config.shape:
        largest = max(heidelberg.largest_unit(source.path) for source in sources(config))
        config = replace(config, units=largest + 1)
        say(f"{largest + 1} units, as the largest one is {largest}. --units gives another number.")
    binning(config).checked(frame_shape(config))
    return config


def data_settings(config: DataConfig) -> DataSettings:
    """Return the settings of training for the same drawn dataset."""
    shared = {name: getattr(config, name) for name in registry.DATASETS[config.name].uses if hasattr(config, name)}
    return DataSettings(dataset=config.name, manifolds=config.seed, **shared)


def data_root(config: DataConfig) -> Path:
    return config.root or Path("data") / config.name


def frame_shape(config: DataConfig) -> tuple[int, ...]:
    """Return the shape of the units in the files of recordings."""
    return shape_in_files(config.name, config.units, config.shape)


def binning(config: DataConfig) -> Binning:
    bins = 50 if config.bins is None and config.dt is None else config.bins
    return Binning(bins, config.dt, config.steps, config.binary, config.pool, config.remainder)


# --------------------
# The files of a dataset: found in the folder, fetched if `download` is set, verified.


ORDER = heidelberg.SPLITS


class Source(NamedTuple):
    split: str
    path: Path
    official: bool | None  # bit for bit the archive that its makers published; None if that is unknown


def sources(config: DataConfig) -> list[Source]:
    """Return every file of the dataset, in the order of the splits."""
    root = data_root(config)
    if config.name == "folder":
        return [Source(split, path, None) for split, path in _of_folder(root).items()]
    found = {split: _find(config, root, split) for split in download.SOURCES[config.name].md5}
    missing = [split for split, path in found.items() if path is None]
    if missing:
        _may_fetch(config, root, missing)
    for split in missing:
        say(f"Fetching {download.archive(config.name, split)} …")
        found[split] = download.fetch(config.name, split, root)
    return [_verified(config, split, path) for split, path in found.items() if path is not None]


def _find(config: DataConfig, root: Path, split: str) -> Path | None:
    """Return the file of a split. With verify it must be the archive, since no md5 is known for the unpacked file."""
    if config.verify:
        path = root / download.archive(config.name, split)
        return path if path.is_file() else None
    return heidelberg.find(root, f"{config.name}_{split}")


def _may_fetch(config: DataConfig, root: Path, missing: list[str]) -> None:
    paths = ", ".join(str(root / download.archive(config.name, split)) for split in missing)
    if config.download and config.offline:
        raise OSError(
            f"{paths}: not there, and --offline forbids what --download asks for. Leave out --offline, or put the"
            " archives there."
        )
    if config.download:
        return
    command = download.command(config.name, root) + " --verify" * config.verify
    advice = f"Fetch what is missing with `{command}`"
    unpacked = [heidelberg.find(root, f"{config.name}_{split}") for split in missing]
    if config.verify and any(unpacked):
        names = ", ".join(str(path) for path in unpacked if path)
        raise FileNotFoundError(
            f"{names} cannot be verified: an md5 is known of the archive only, which is not there. {advice}, or"
            " leave out --verify."
        )
    plain = ("" if config.verify else ", packed or unpacked") + no_folder(root)
    raise FileNotFoundError(f"{paths}: not there{plain}. {advice}, or name another folder with --root.")


def _verified(config: DataConfig, split: str, path: Path) -> Source:
    if path.name != download.archive(config.name, split):
        return Source(split, path, None)
    found, expected = download.md5(path), download.SOURCES[config.name].md5[split]
    if config.verify and found != expected:
        raise ValueError(
            f"{path} is not the official archive: its md5 is {found}, expected {expected}. Move it away and fetch it"
            f" with `{download.command(config.name, path.parent)}`, or leave out --verify to look at it as it is."
        )
    return Source(split, path, found == expected)


def _of_folder(root: Path) -> dict[str, Path]:
    """Return every file by the name of its split, or by its own name if it names no split."""
    paths = heidelberg.files_of(root)
    if not paths:
        raise FileNotFoundError(
            f"{root} holds no .h5 file, nor a .h5.zip{no_folder(root)}. Name the folder of the recordings with --root."
        )
    named = {stem: heidelberg.split_of(stem) for stem in paths}
    once = {split for split in ORDER if list(named.values()).count(split) == 1}
    by_name = {split if (split := named[stem]) in once else stem: path for stem, path in paths.items()}
    return dict(sorted(by_name.items(), key=lambda item: (ORDER.index(item[0]) if item[0] in ORDER else 9, item[0])))


# --------------------
# Events and counted frames, of files or of drawn samples.


BATCHES, BATCH = 10, 100  # mini-batches of drawn samples, and their size


class Framed(NamedTuple):
    """Counts over the frames of a split."""

    steps: int
    shape: tuple[int, ...]
    lengths: np.ndarray | None  # [recordings] time steps, if they differ
    nonzero: int
    total: int
    largest: int
    left_out: int  # spikes after the last time step

    @property
    def units(self) -> int:
        return prod(self.shape)


class Split(NamedTuple):
    name: str
    source: Source | None
    events: Events  # for drawn samples, times are time steps
    shape: tuple[int, ...]  # shape of the units in the events, before pooling
    framed: Framed

    @property
    def units(self) -> int:
        return prod(self.shape)


def read(config: DataConfig) -> list[Split]:
    """Read all splits. Raises an error that says what is wrong with a file."""
    if registry.is_drawn(config.name):
        return [_drawn(config)]
    return [_read(source, config) for source in sources(config)]


def _read(source: Source, config: DataConfig) -> Split:
    say(f"Reading {source.path} …")
    shape = frame_shape(config)
    events = hdf5.read(source.path, prod(shape), keep_empty=config.keep_empty)
    framed = _framed(events, shape, binning(config), str(source.path))
    return Split(source.split, source, events, shape, framed)


def _framed(events: Events, shape: int | Sequence[int], binning: Binning, where: str) -> Framed:
    """Count the frames block by block: at dt=0.001 all frames of SHD would take 8 GB."""
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


def _dataset(config: DataConfig) -> Any:
    entry = registry.DATASETS[config.name]
    if "manifolds" in entry.uses:
        say("Drawing samples; the first time, tables of the manifolds are made …")
    return entry.from_settings(data_settings(config))[0]


def _spikes(data: Any, seed: int, step: int) -> tuple[np.ndarray, ...]:
    """Return times and units of the spikes of a mini-batch, the number of spikes of each sample, and the labels."""
    batch = data.batch(seed, step, BATCH)
    spikes = np.asarray(batch.spikes).reshape(data.steps, BATCH, -1)
    of, times, units = np.nonzero(np.moveaxis(spikes, 1, 0))
    return times, units, np.bincount(of, minlength=BATCH), np.asarray(batch.labels)
