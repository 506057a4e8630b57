"""Do the settings make sense, and do they go with this dataset?"""

from pathlib import Path

from otpe.datasets import Binning, MovingShapes, moving_shapes
from otpe.datasets.fetch import SOURCES
from otpe.datasets.heidelberg import axes_of
from otpe.datasets.named import DRAWN, ENCODINGS, RECORDED, SHAPES, check_use
from otpe.explore.config import DataConfig

USED_BY = {
    "root": RECORDED, "download": SOURCES, "verify": SOURCES, "units": ("folder",), "shape": ("folder",),
    "keep_empty": RECORDED,
    "bins": RECORDED, "dt": RECORDED, "steps": RECORDED, "binary": RECORDED, "pool": RECORDED, "remainder": RECORDED,
    "seed": DRAWN, "standardize": ENCODINGS, "label": (SHAPES,), "size": (SHAPES,), "noise": (SHAPES,),
}  # fmt: skip
MOST_SAMPLES = 64


def checked(config: DataConfig) -> DataConfig:
    """The settings, if they make sense."""
    check_use(config.name, config, USED_BY)
    if not 1 <= config.samples <= MOST_SAMPLES:
        raise ValueError(
            f"samples is {config.samples}, expected 1 to {MOST_SAMPLES}: their rasters are drawn on one page."
        )
    if config.name == SHAPES:
        shapes(config)
    if config.name in RECORDED:
        binning(config).checked(shape(config))
    return config


def root(config: DataConfig) -> Path:
    return config.root or Path("data") / config.name


def shapes(config: DataConfig) -> MovingShapes:
    return moving_shapes(config.label, size=config.size, noise=config.noise)


def shape(config: DataConfig) -> tuple[int, ...]:
    """Of the units of recordings, as their files have them."""
    return (SOURCES[config.name].units,) if config.name in SOURCES else axes_of(config.units, config.shape or None)


def binning(config: DataConfig) -> Binning:
    bins = 50 if config.bins is None and config.dt is None else config.bins
    return Binning(bins, config.dt, config.steps, config.binary, config.pool, config.remainder)
