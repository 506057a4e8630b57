"""Do the settings make sense, and do they go with this dataset?"""

from pathlib import Path

from otpe import check
from otpe.datasets import Binning
from otpe.datasets.fetch import SOURCES
from otpe.datasets.named import ENCODINGS, RECORDED, check_use
from otpe.explore.config import DataConfig

USED_BY = {
    "root": RECORDED, "download": SOURCES, "verify": SOURCES, "units": ("folder",), "keep_empty": RECORDED,
    "bins": RECORDED, "dt": RECORDED, "steps": RECORDED, "binary": RECORDED, "pool": RECORDED, "remainder": RECORDED,
    "seed": ENCODINGS, "standardize": ENCODINGS,
}  # fmt: skip
MOST_SAMPLES = 64


def checked(config: DataConfig) -> DataConfig:
    """The settings, if they make sense."""
    check_use(config.name, config, USED_BY)
    if not 1 <= config.samples <= MOST_SAMPLES:
        raise ValueError(
            f"samples is {config.samples}, expected 1 to {MOST_SAMPLES}: their rasters are drawn on one page."
        )
    if config.name == "folder" and config.units is None:
        raise ValueError("units is not given, and a folder does not tell. Say how many there are, such as --units 700.")
    if config.name in RECORDED:
        check.count("units", units(config))
        binning(config).checked(units(config))
    return config


def root(config: DataConfig) -> Path:
    return config.root or Path("data") / config.name


def units(config: DataConfig) -> int:
    return SOURCES[config.name].units if config.name in SOURCES else config.units or 0


def binning(config: DataConfig) -> Binning:
    bins = 50 if config.bins is None and config.dt is None else config.bins
    return Binning(bins, config.dt, config.steps, config.binary, config.pool, config.remainder)
