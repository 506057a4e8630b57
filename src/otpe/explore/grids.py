"""The pictures of data on a grid of pixels: strips of frames of samples, and mean spikes of each class and pixel."""

import math

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from otpe.explore.reading import Split
from otpe.explore.summary import mean_spikes

BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito's, as in the other figures
WINDOWS = 8  # pictures of a sample, one behind the other in time
MOST_CLASSES = 24  # that have a map
ACROSS = 8  # maps in a row, at most


def strips(split: Split, captions: dict[int, str], title: str) -> Figure:
    """A row of pictures for each of these samples: what spiked in each of equal parts of its time."""
    windows = min(WINDOWS, split.framed.steps)
    figure = Figure(figsize=(1.6 + 1.05 * windows, 1.0 + 1.05 * len(captions)), layout="constrained")
    panels = figure.subplots(len(captions), windows, squeeze=False)
    for row, (i, caption) in zip(panels, captions.items(), strict=True):
        for panel, counts in zip(row, in_windows(split, i, windows), strict=True):
            panel.imshow(colours(counts), interpolation="nearest")
            panel.set(xticks=[], yticks=[])
        row[0].set_ylabel(caption, rotation=0, ha="right", va="center", fontsize="small", parse_math=False)
    each = "sample" if split.source is None else "recording"
    told = "; orange: channel 0, blue: channel 1, black: both" if channels(split.shape)[0] == 2 else ""
    figure.supxlabel(f"time, in {windows} equal parts of each {each}{told}", fontsize="medium")
    figure.suptitle(title, fontsize="medium", parse_math=False)
    return figure


def in_windows(split: Split, i: int, windows: int) -> np.ndarray:
    """Spikes of a sample, counted: [windows, channels, height, width]."""
    times, units = split.events.recording(i)
    drawn = split.source is None
    first, last = (0.0, float(split.framed.steps)) if drawn or not times.size else (times.min(), times.max())
    part = ((times - first) * (windows / max(last - first, 1e-9))).astype(int).clip(0, windows - 1)
    counted = np.bincount(part * split.units + units, minlength=windows * split.units)
    return counted.reshape(windows, *channels(split.shape))


def colours(counts: np.ndarray) -> np.ndarray:
    """White where nothing spiked, else the colours of the channels that did: [height, width, 3]."""
    shown = (ORANGE, BLUE) if len(counts) == 2 else (BLUE,)
    counts = counts if len(counts) == 2 else counts.sum(0, keepdims=True)
    inks = 1 - np.array([to_rgb(colour) for colour in shown])
    return np.clip(1 - np.einsum("chw,ck->hwk", np.minimum(counts, 1), inks), 0, 1)


def maps(split: Split, names: list[str], title: str) -> Figure:
    """Mean spikes of each pixel, all channels together: a map for each class."""
    shown = min(len(names), MOST_CLASSES)
    pixels = mean_spikes(split.events, split.units).reshape(len(names), *channels(split.shape)).sum(1)[:shown]
    across = min(ACROSS, math.ceil(shown / math.ceil(shown / ACROSS)))
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
    """Channels, height and width of a shape with two axes or more."""
    *before, height, width = shape
    return (math.prod(before), height, width)
