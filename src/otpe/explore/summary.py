"""The numbers of a dataset, ready for JSON."""

import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import otpe
from otpe import memory
from otpe.datasets.events import Events, seconds
from otpe.datasets.fetch import SOURCES
from otpe.explore import settings
from otpe.explore.config import DataConfig
from otpe.explore.reading import BATCH, BATCHES, Framed, Split

AT_ONCE = 1024  # recordings


def summary(config: DataConfig, splits: Sequence[Split]) -> dict[str, Any]:
    return {
        "format": 1,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "otpe": otpe.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "config": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()},
        "title": title(config, splits),
        "about": about(config),
        "time_unit": "time steps" if config.name in settings.DRAWN else "seconds",
        "splits": [of_split(split) for split in splits],
    }


def title(config: DataConfig, splits: Sequence[Split]) -> str:
    """What stands above tables and pictures; what is not the original, or may not be, says so there."""
    if config.name == "folder":
        return settings.root(config).name or str(settings.root(config))
    if config.name == settings.SHAPES:
        return f"Moving shapes, told apart by {config.label}"
    if config.name in settings.ENCODINGS:
        return {"t-randman": "T-Randman", "r-randman": "R-Randman"}[config.name]
    official = {split.source.official for split in splits if split.source}
    doubt = "NOT the official archives" if False in official else "not known to be official" if None in official else ""
    return f"{SOURCES[config.name].title}{doubt and f' ({doubt})'}"


def about(config: DataConfig) -> str:
    """Where it comes from, and how it became frames."""
    if config.name == settings.SHAPES:
        grid = f"{config.size} × {config.size} pixels, background events {config.noise:g}"
        return f"{grid}; {BATCHES} mini-batches of {BATCH} with seed {config.seed}"
    if config.name in settings.ENCODINGS:
        by = {"batch": "the extremes of each mini-batch, as the authors do", "fixed": "fixed extremes"}
        return (
            f"manifolds of seed {config.seed}, values standardised by {by[config.standardize]};"
            f" {BATCHES} mini-batches of {BATCH}"
        )
    binning = settings.binning(config)
    time_steps = f"{binning.bins} time steps a recording" if binning.bins else f"time steps of {binning.dt:g} s"
    extra = (
        [f"{binning.steps} at most"] * bool(binning.steps)
        + ["zeros and ones"] * binning.binary
        + [f"{_pooled(config, binning.pool)} pooled into one"] * (binning.pool > 1)
        + ["spikes behind the last whole step dropped"] * bool(binning.bins and binning.remainder == "drop")
    )
    return f"in {settings.root(config)}; frames: {', '.join([time_steps, *extra])}"


def _pooled(config: DataConfig, pool: int) -> str:
    return f"{pool} units" if len(settings.shape(config)) == 1 else f"{pool} × {pool} pixels"


def of_split(split: Split) -> dict[str, Any]:
    events, source = split.events, split.source
    per_class = np.bincount(events.labels, minlength=len(events.names))
    spikes = mean_spikes(events, split.units).sum(1)
    return {
        "name": split.name,
        "file": None if source is None else str(source.path),
        "official": None if source is None else source.official,
        "recordings": len(events),
        "classes": [
            {"name": name, "recordings": int(count), "mean_spikes": float(mean) if count else None}
            for name, count, mean in zip(events.names, per_class, spikes, strict=True)
        ],
        "speakers": None if events.speakers is None else np.unique(events.speakers).tolist(),
        "spikes": int(events.counts.sum()),
        "spikes_per_recording": spread(events.counts),
        "duration": spread(durations(events)),
        "frames": of_frames(split.framed, len(events)),
    }


def of_frames(framed: Framed, recordings: int) -> dict[str, Any]:
    entries = recordings * framed.steps * framed.units
    return {
        "steps": framed.steps,
        "units": framed.units,
        "shape": list(framed.shape),
        "steps_per_recording": None if framed.lengths is None else spread(framed.lengths),
        "zeros": 1 - framed.nonzero / entries,
        "mean": framed.total / entries,
        "mean_where_not_zero": framed.total / framed.nonzero if framed.nonzero else 0.0,
        "largest": framed.largest,
        "spikes_left_out": framed.left_out,
    }


def spread(values: np.ndarray) -> dict[str, float]:
    return {"min": values.min().item(), "median": float(np.median(values)), "max": values.max().item()}


def durations(events: Events) -> np.ndarray:
    """From the first to the last spike of each recording."""
    first, last = map(seconds, events.ends())
    return last - first


def check_size(split: Split) -> None:
    """Do the means of every class and unit fit into memory?"""
    given = {"units": split.units, "classes": len(split.events.names)}
    memory.refuse_more("the means of each unit in each class", 16 * prod(given.values()), given, memory.host())


def mean_spikes(events: Events, units: int) -> np.ndarray:
    """Per recording of each class, from each unit: [classes, units], NaN for classes without recordings."""
    classes = len(events.names)
    total = np.zeros(classes * units)
    for first in range(0, len(events), AT_ONCE):
        some = slice(first, min(first + AT_ONCE, len(events)))
        span = slice(events.starts[some.start], events.starts[some.stop])
        label = np.repeat(events.labels[some].astype(np.int64), events.counts[some])
        total += np.bincount(label * units + events.units[span], minlength=total.size)
    per_class = np.bincount(events.labels, minlength=classes)
    with np.errstate(invalid="ignore"):
        return total.reshape(classes, units) / per_class[:, None]
