"""The pictures of a dataset: some samples, and the mean spikes of each class.

Samples with one axis of units are rasters. Samples on a grid of pixels are strips of frames.
"""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from otpe import files
from otpe.lab.explore.reading import Split
from otpe.lab.explore.statistics import mean_spikes
from otpe.lab.report.palette import BLUE, ORANGE

WINDOWS = 8  # pictures of a sample, from its start to its end
MOST_CLASSES = 24  # the largest number of maps
GRID_ACROSS = 8  # the largest number of maps in a row


def strips(split: Split, captions: dict[int, str], title: str) -> Figure:
    """Draw a row of pictures for each sample. Each picture shows the spikes of an equal part of its time."""
    windows = min(WINDOWS, split.framed.steps)
    figure = Figure(figsize=(1.6 + 1.05 * windows, 1.0 + 1.05 * len(captions)), layout="constrained")
    panels = figure.subplots(len(captions), windows, squeeze=False)
    for row, (i, caption) in zip(panels, captions.items(), strict=True):
        for panel, counts in zip(row, in_windows(split, i, windows), strict=True):
            panel.imshow(colours(counts), interpolation="nearest")
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(caption, rotation=0, ha="right", va="center", fontsize="small", parse_math=False)
    each = "sample" if split.source is None else "recording"
    legend = "; orange: channel 0, blue: channel 1, black: both" if channels(split.shape)[0] == 2 else ""
    figure.supxlabel(f"time, in {windows} equal parts of each {each}{legend}", fontsize="medium")
    figure.suptitle(title, fontsize="medium", parse_math=False)
    return figure


def in_windows(split: Split, i: int, windows: int) -> np.ndarray:
    """Return the spike counts of a sample: [windows, channels, height, width]."""
    times, units = split.events.recording(i)
    drawn = split.source is None
    first, last = (0.0, float(split.framed.steps)) if drawn or not times.size else (times.min(), times.max())
    part = ((times - first) * (windows / max(last - first, 1e-9))).astype(int).clip(0, windows - 1)
    counted = np.bincount(part * split.units + units, minlength=windows * split.units)
    return counted.reshape(windows, *channels(split.shape))


def colours(counts: np.ndarray) -> np.ndarray:
    """Return an image [height, width, 3]: white for no spikes, otherwise the colours of the channels that spiked."""
    shown = (ORANGE, BLUE) if len(counts) == 2 else (BLUE,)
    counts = counts if len(counts) == 2 else counts.sum(0, keepdims=True)
    inks = 1 - np.array([to_rgb(colour) for colour in shown])
    return np.clip(1 - np.einsum("chw,ck->hwk", np.minimum(counts, 1), inks), 0, 1)


def maps(split: Split, names: list[str], title: str) -> Figure:
    """Draw a map for each class: the mean spikes of each pixel, summed over channels."""
    shown = min(len(names), MOST_CLASSES)
    pixels = mean_spikes(split.events, split.units).reshape(len(names), *channels(split.shape)).sum(1)[:shown]
    across = min(GRID_ACROSS, math.ceil(shown / math.ceil(shown / GRID_ACROSS)))
    down = math.ceil(shown / across)
    figure = Figure(figsize=(max(1.3 * across + 1.2, 5), 0.7 + 1.5 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    most = np.nanmax(pixels, initial=0) or 1.0
    images = [
        panel.imshow(counts, cmap="viridis", vmin=0, vmax=most, interpolation="nearest")
        for panel, counts in zip(panels, pixels, strict=False)
    ]
    for panel, name, counts in zip(panels, names, pixels, strict=False):
        mean = "none" if np.isnan(counts).any() else f"{counts.sum():,.0f}"
        panel.set_title(f"{name}\n{mean}", fontsize="small", parse_math=False)
        panel.set(xticks=[], yticks=[])
    for panel in panels[shown:]:
        panel.remove()
    each = "sample" if split.source is None else "recording"
    figure.colorbar(images[0], ax=list(panels[:shown]), location="right", aspect=25, pad=0.02)
    few = f", the first {shown} of {len(names)} classes" if shown < len(names) else ""
    figure.supxlabel(f"mean spikes of each pixel in a {each}, and of a whole {each}{few}", fontsize="medium")
    figure.suptitle(title, fontsize="medium", parse_math=False)
    return figure


def channels(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return channels, height and width of a shape with two or more axes."""
    *before, height, width = shape
    return (math.prod(before), height, width)


# --------------------
# The files, and the pictures of units without a grid: rasters, and mean spikes of each class and unit.


ACROSS = 4  # the largest number of rasters in a row
LONGEST = 20  # letters of a name; longer names are cut
MOST_NAMES = 60  # with more classes, their names are not written


def draw(path: Path, split: Split, found: dict[str, Any], samples: int) -> list[Path]:
    """Write both pictures of a split beside the JSON file, and return their paths."""
    if len(split.shape) == 1:
        made = {"rasters": _rasters(split, found, samples), "rates": _rates(split, found)}
    else:
        captions = {i: _caption(split, i) for i in chosen(split.events.labels, samples)}
        title, names = _title(found, split), [_short(name) for name in split.events.names]
        made = {"frames": strips(split, captions, title), "rates": maps(split, names, title)}
    drawn = []
    for kind, figure in made.items():
        picture = path.with_name(f"{path.stem}-{kind}.png")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150)
        files.write_atomically(picture, buffer.getvalue())
        drawn.append(picture)
    return drawn


def chosen(labels: np.ndarray, count: int) -> list[int]:
    """Return `count` recordings of as many classes as possible: classes at equal distances, the first ones of each."""
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    if count < len(members):
        members = [members[i] for i in np.linspace(0, len(members) - 1, count).round().astype(int)]
    rounds = [of[i] for i in range(max(map(len, members))) for of in members if i < len(of)]
    return sorted((int(i) for i in rounds[:count]), key=lambda i: (labels[i], i))


def _rasters(split: Split, found: dict[str, Any], samples: int) -> Figure:
    which = chosen(split.events.labels, samples)
    down = math.ceil(len(which) / ACROSS)
    across = math.ceil(len(which) / down)
    figure = Figure(figsize=(max(2.4 * across, 3.6), 0.7 + 2.1 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for panel, i in zip(panels, which, strict=False):
        _raster(panel, split, i)
    panels[0].set_xlim(left=0 - 0.02 * panels[0].get_xlim()[1])
    panels[0].set_ylim(-0.02 * split.units, 1.01 * split.units)
    for panel in panels[len(which) :]:
        panel.remove()
    for panel in panels[max(0, len(which) - across) : len(which)]:
        panel.tick_params(labelbottom=True)  # the lowest of its column, if the last row is not full
    figure.supxlabel({"seconds": "time (s)", "time steps": "time step"}[found["time_unit"]], fontsize="medium")
    figure.supylabel("unit", fontsize="medium")
    figure.suptitle(_title(found, split), fontsize="medium", parse_math=False)
    return figure


def _raster(panel: Any, split: Split, i: int) -> None:
    times, units = split.events.recording(i)
    size = np.clip(100 / split.units, 0.75, 2.5)  # points
    panel.plot(times, units, "o", color=BLUE, markersize=size, markeredgewidth=0)
    panel.set_title(_caption(split, i), fontsize="small", parse_math=False)  # a name may hold a $
    panel.tick_params(labelsize="small")
    panel.spines[["top", "right"]].set_visible(False)


def _rates(split: Split, found: dict[str, Any]) -> Figure:
    mean = mean_spikes(split.events, split.units)
    names, each = [_short(name) for name in split.events.names], "sample" if split.source is None else "recording"
    figure = Figure(figsize=(9, 1.4 + 0.22 * np.clip(len(names), 8, MOST_NAMES)), layout="constrained")
    heat, bars = figure.subplots(1, 2, sharey=True, width_ratios=(3.4, 1))
    image = heat.imshow(mean, aspect="auto", cmap="viridis", vmin=0, interpolation="nearest")
    if len(names) <= MOST_NAMES:
        heat.set_yticks(range(len(names)), names, fontsize="small", parse_math=False)
    else:
        heat.set_ylabel("label")
    heat.set_xlabel("unit")
    heat.tick_params(left=False)
    _bars(bars, mean.sum(1), each)
    colours = figure.colorbar(image, ax=[heat, bars], location="right", aspect=30, pad=0.02)
    colours.set_label(f"mean spikes of a unit in a {each}", labelpad=8)
    figure.suptitle(_title(found, split), fontsize="medium", parse_math=False)
    return figure


def _bars(panel: Any, per_class: np.ndarray, each: str) -> None:
    drawn = panel.barh(range(per_class.size), np.nan_to_num(per_class), color=BLUE, height=0.7)
    numbers = ["none" if np.isnan(value) else f"{value:,.0f}" for value in per_class]
    if per_class.size <= MOST_NAMES:
        panel.bar_label(drawn, numbers, padding=3, fontsize="small")
    panel.set_xlabel(f"mean spikes\nof a {each}")
    panel.margins(x=0.3)  # room for the numbers
    panel.tick_params(left=False, bottom=False, labelbottom=False)
    panel.spines[["top", "right", "bottom"]].set_visible(False)


def _title(found: dict[str, Any], split: Split) -> str:
    return f"{found['title']}: {split.name}"


def _caption(split: Split, i: int) -> str:
    name = _short(split.events.names[split.events.labels[i]])
    return name if split.events.speakers is None else f"{name}, speaker {split.events.speakers[i]}"


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
