"""The pictures: samples, and mean spikes of each class and unit. Those of a grid of pixels are in `grids.py`."""

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from otpe import files
from otpe.explore import grids
from otpe.explore.reading import Split
from otpe.explore.summary import mean_spikes

BLUE = "#0072B2"  # Okabe and Ito's, as in the other figures
ACROSS = 4  # rasters in a row, at most
LONGEST = 20  # letters of a name
MOST_NAMES = 60  # classes whose names have room below each other


def draw(path: Path, split: Split, found: dict[str, Any], samples: int) -> list[Path]:
    """Both pictures of one split, beside the JSON file."""
    if len(split.shape) == 1:
        made = {"rasters": _rasters(split, found, samples), "rates": _rates(split, found)}
    else:
        captions = {i: _caption(split, i) for i in chosen(split.events.labels, samples)}
        title, names = _title(found, split), [_short(name) for name in split.events.names]
        made = {"frames": grids.strips(split, captions, title), "rates": grids.maps(split, names, title)}
    drawn = []
    for kind, figure in made.items():
        picture = path.with_name(f"{path.stem}-{kind}.png")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=150)
        files.write_atomically(picture, buffer.getvalue())
        drawn.append(picture)
    return drawn


def chosen(labels: np.ndarray, count: int) -> list[int]:
    """As many recordings, of as many classes as can be: classes evenly apart, of each the first recordings."""
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
        panel.tick_params(labelbottom=True)  # the lowest of its column, where the last row is not full
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
