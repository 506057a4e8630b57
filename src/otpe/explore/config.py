"""What `otpe data` is asked to look at. Imports no jax: these fields are the command line and its help."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class DataConfig:
    """Look at a dataset: fetch it, verify it, summarise it, draw it.

    NAME is t-randman, r-randman, moving-shapes, shd, ssc, or folder: any folder of .h5 files in SHD's layout. The
    summary goes to a new numbered file, with pictures beside it; none is overwritten.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """t-randman, r-randman, moving-shapes, shd, ssc or folder."""

    root: Path | None = None
    """The folder of the recordings. By default data/NAME."""
    download: bool = False
    """Fetch the official archives that are missing, with their hash checked (shd, ssc)."""
    offline: bool = False
    """Never go online, whatever else is asked."""
    verify: bool = False
    """Read the archives as they were fetched, and refuse any that is not bit for bit the official one (shd, ssc)."""
    units: int | None = None
    """How many units the recordings have (folder)."""
    shape: tuple[int, ...] = ()
    """The shape of the units, instead of their number, such as 2 34 34: channels, height, width (folder)."""
    keep_empty: bool = False
    """Keep recordings without spikes, as silence."""

    bins: int | None = None
    """Time steps over each recording's own duration. 50, where dt is not given either."""
    dt: float | None = None
    """Seconds of a time step, instead of bins."""
    steps: int | None = None
    """With dt: how many time steps; later spikes are left out. By default as many as the longest recording needs."""
    binary: bool = False
    """1 for any number of spikes in a time step, instead of their number."""
    pool: int = 1
    """As many neighbouring units become one; with a shape, squares of as many by as many."""
    remainder: Literal["keep", "drop"] = "keep"
    """With bins: count the spikes behind the last whole time step in it, or leave them out as tonic does."""

    seed: int = 0
    """Which manifolds, and which samples of them (t-randman, r-randman); which samples (moving-shapes)."""
    standardize: Literal["batch", "fixed"] = "batch"
    """Values by the extremes of each mini-batch, as the authors do, or by fixed ones (t-randman, r-randman)."""
    label: Literal["direction", "shape"] = "direction"
    """What the label says: in which direction a shape moves, or which shape it is (moving-shapes)."""
    size: int = 34
    """Height and width of the grid, in pixels (moving-shapes)."""
    noise: float = 0.001
    """The probability of a background event in each pixel, channel and time step (moving-shapes)."""

    samples: int = 8
    """How many samples to draw."""
    out: Path = Path("data-report")
    """The folder for the summary and the pictures."""
