"""Do the settings make sense, and do they go with this dataset?"""

from dataclasses import fields
from pathlib import Path
from typing import Literal

from otpe import check
from otpe.datasets import Binning
from otpe.datasets.fetch import SOURCES
from otpe.explore.config import DataConfig

ENCODINGS: dict[str, Literal["time", "rate"]] = {"t-randman": "time", "r-randman": "rate"}
NAMES = (*ENCODINGS, *SOURCES, "folder")
RECORDED = (*SOURCES, "folder")
USED_BY = {
    "root": RECORDED, "download": SOURCES, "verify": SOURCES, "units": ("folder",), "keep_empty": RECORDED,
    "bins": RECORDED, "dt": RECORDED, "steps": RECORDED, "binary": RECORDED, "pool": RECORDED, "remainder": RECORDED,
    "seed": ENCODINGS, "standardize": ENCODINGS,
}  # fmt: skip
MOST_SAMPLES = 64


def checked(config: DataConfig) -> DataConfig:
    """The settings, if they make sense."""
    check.one_of("dataset", config.name, NAMES)
    for field in fields(config):
        value, names = getattr(config, field.name), USED_BY.get(field.name, NAMES)
        if value != field.default and config.name not in names:
            option = "--" + field.name.replace("_", "-")
            given = option if value is True else f"{option} {value}"
            raise ValueError(f"{given} is given, but {config.name} has no use for it: it is for {_listed(names)}.")
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


def _listed(names: object) -> str:
    *first, last = names  # pyright: ignore[reportGeneralTypeIssues]
    return f"{', '.join(first)} and {last}" if first else last
