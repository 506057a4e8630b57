"""The numbers of a dataset, as JSON and as a text table."""

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
from otpe.datasets import registry
from otpe.datasets.download import SOURCES
from otpe.datasets.events import Events, seconds
from otpe.lab.explore import reading
from otpe.lab.explore.reading import BATCH, BATCHES, Framed, Split
from otpe.lab.settings import DataConfig
from otpe.tables import Table, as_text

AT_ONCE = 1024  # recordings that are counted together


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
        "time_unit": "time steps" if registry.is_drawn(config.name) else "seconds",
        "splits": [of_split(split) for split in splits],
    }


def title(config: DataConfig, splits: Sequence[Split]) -> str:
    """Return the title of tables and pictures. It states if the files are not, or may not be, the official ones."""
    if config.name == "folder":
        return reading.data_root(config).name or str(reading.data_root(config))
    entry = registry.DATASETS[config.name]
    if entry.drawn:
        return f"{entry.title or entry.name}{f', told apart by {config.label}' if 'label' in entry.uses else ''}"
    official = {split.source.official for split in splits if split.source}
    doubt = "NOT the official archives" if False in official else "not known to be official" if None in official else ""
    return f"{SOURCES[config.name].title}{doubt and f' ({doubt})'}"


def about(config: DataConfig) -> str:
    """Return where the data come from, and how frames are made of them."""
    uses = registry.DATASETS[config.name].uses
    if "standardize" in uses:
        by = {"batch": "the range of each mini-batch, as in the authors' code", "fixed": "a fixed range"}
        return (
            f"manifolds of seed {config.seed}, values scaled to {by[config.standardize]};"
            f" {BATCHES} mini-batches of {BATCH}"
        )
    if registry.is_drawn(config.name):
        grid = f"{config.size} × {config.size} pixels, background events {config.noise:g}; " if "noise" in uses else ""
        return f"{grid}{BATCHES} mini-batches of {BATCH} with seed {config.seed}"
    binning = reading.binning(config)
    time_steps = f"{binning.bins} time steps a recording" if binning.bins else f"time steps of {binning.dt:g} s"
    extra = (
        [f"{binning.steps} at most"] * bool(binning.steps)
        + ["zeros and ones"] * binning.binary
        + [f"{_pooled(config, binning.pool)} pooled into one"] * (binning.pool > 1)
        + ["spikes behind the last whole step dropped"] * bool(binning.bins and binning.remainder == "drop")
    )
    return f"in {reading.data_root(config)}; frames: {', '.join([time_steps, *extra])}"


def _pooled(config: DataConfig, pool: int) -> str:
    return f"{pool} units" if len(reading.frame_shape(config)) == 1 else f"{pool} × {pool} pixels"


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
    """Return the time from the first to the last spike of each recording."""
    first, last = map(seconds, events.ends())
    return last - first


def check_size(split: Split) -> None:
    """Raise ValueError if the means of every class and unit do not fit into memory."""
    given = {"units": split.units, "classes": len(split.events.names)}
    memory.check_fits("the means of each unit in each class", 16 * prod(given.values()), given, memory.host())


def mean_spikes(events: Events, units: int) -> np.ndarray:
    """Return the mean spikes per recording [classes, units]. NaN for classes without recordings."""
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


# --------------------
# The summary as text, with a column for each split.


AXES = {1: "N", 3: "C, H, W"}  # names of the axes of a time step, by their number
OFFICIAL = {True: "yes", False: "no", None: "unknown"}


def text_summary(found: dict[str, Any]) -> str:
    parts = [_head(found), _numbers(found), _classes(found["splits"]), *_warnings(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(found: dict[str, Any]) -> str:
    return f"{found['title']}\n{found['about']}\notpe {found['otpe']}, {found['date'][:10]}"


def _numbers(found: dict[str, Any]) -> str:
    cells = [_cells(split, found) for split in found["splits"]]
    names = [name for name in cells[0] if any(column[name] for column in cells)]
    rows = [[name, *(column[name] for column in cells)] for name in names]
    table = Table(columns=["", *(split["name"] for split in found["splits"])], rows=rows)
    return as_text(table) + "\n\n  three numbers: smallest / median / largest"


def _cells(split: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    """The cells of one split, by the name of the row. Empty if there is nothing to write."""
    frames, recorded = split["frames"], split["file"] is not None
    per_class = [each["recordings"] for each in split["classes"]]
    steps = frames["steps_per_recording"]
    return {
        "file": Path(split["file"]).name if recorded else "",
        "official archive": OFFICIAL[split["official"]] if _has_archives(found) else "",
        "recordings" if recorded else "samples": f"{split['recordings']:,}",
        "classes": f"{len(per_class):,}",
        "speakers": "" if split["speakers"] is None else f"{len(split['speakers']):,}",
        "spikes": f"{split['spikes']:,}",
        "spikes of each": _spread(split["spikes_per_recording"], ",.0f"),
        f"{found['time_unit']}, first to last spike": _spread(split["duration"], ".3f" if recorded else ",.0f"),
        f"frames [T, {AXES.get(len(frames['shape']), '…')}]": str([frames["steps"], *frames["shape"]]),
        "time steps of each": "" if steps is None else _spread(steps, ",.0f"),
        "zeros in the frames": f"{100 * frames['zeros']:.2f} %",
        "mean count per unit and step": f"{frames['mean']:.4f}",
        "mean count where not zero": f"{frames['mean_where_not_zero']:.3f}",
        "largest count": f"{frames['largest']:,}",
        "spikes left out of the frames": f"{frames['spikes_left_out']:,}" if frames["spikes_left_out"] else "",
    }


def _classes(splits: list[dict[str, Any]]) -> str:
    """The recordings of each class. If the splits name classes differently, each split has its own table."""
    together = len({tuple(each["name"] for each in split["classes"]) for split in splits}) == 1
    groups = [splits] if together else [[split] for split in splits]
    return "\n\n".join(_class_table(group) for group in groups)


def _class_table(splits: list[dict[str, Any]]) -> str:
    rows = []
    for label, each in enumerate(splits[0]["classes"]):
        counts = (split["classes"][label]["recordings"] for split in splits)
        rows.append([str(label), each["name"], *(f"{count:,}" for count in counts)])
    table = Table(columns=["label", "class", *(split["name"] for split in splits)], rows=rows)
    return f"{'Recordings' if splits[0]['file'] else 'Samples'} of each class\n\n{as_text(table, left=(1,))}"


def _warnings(found: dict[str, Any]) -> list[str]:
    """The warnings about files that are not official, or may not be."""
    if not _has_archives(found):
        return []
    name, said = found["config"]["name"].upper(), []
    others, unknown = (
        [Path(split["file"]).name for split in found["splits"] if split["official"] is official]
        for official in (False, None)
    )
    if others:
        said.append(f"NOT OFFICIAL: {', '.join(others)}. Results from these files are not {name} results.")
    if unknown:
        said.append(
            f"Not known to be official: {', '.join(unknown)}. An md5 is known of the archives only; before you call"
            f" results {name} results,\nkeep the .zip and use --verify."
        )
    return said


def _has_archives(found: dict[str, Any]) -> bool:
    return found["config"]["name"] in ("shd", "ssc")


def _spread(of: dict[str, float], form: str) -> str:
    return " / ".join(format(of[which], form) for which in ("min", "median", "max"))
