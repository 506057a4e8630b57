"""The time steps and units of the run that `start` names: other ones would feed its networks data they never saw."""

from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from otpe.datasets import registry
from otpe.datasets.heidelberg import shape_in_files
from otpe.lab.records import read_config
from otpe.lab.settings import DataSettings

Config = TypeVar("Config", bound=Any)
STEPS = ("bins", "dt", "pool", "binary")


def with_start_data(config: Config, names: tuple[str, ...] = STEPS) -> Config:
    """Return the settings, with these of the run `start` where they are not given. Raises if they contradict it.

    A setting at its default counts as not given. A run that is resumed takes them from its own folder.
    """
    if not _is_recorded(getattr(config, "dataset", "folder")):
        return config
    own = None if config.out is None or not config.resume else _recorded(config.out)
    known = _recorded(config.start) if own is None else own
    if known is None or config.start is None:
        return config
    if own is None:
        for name in names:
            given, trained = getattr(config, name), known[name]
            if name == "bins" and trained is None and known["dt"] is None:
                trained = 50
            if given != _default(config, name) and given != trained:
                raise _contradiction(config, name, given, trained if trained is not None else known)
    missing = {name: known[name] for name in names if getattr(config, name) == _default(config, name)}
    return _with_units(replace(config, **missing), known)


def _with_units(config: Config, known: dict[str, Any]) -> Config:
    """Return the settings with the units of the run, if both are of a folder of recordings, or this is a stream."""
    dataset, shape = known["dataset"], tuple(known["shape"])
    if getattr(config, "dataset", "folder") != "folder":
        return config
    in_files = known["units"]
    if in_files is None and not shape and dataset == "folder":
        if "data_shape" not in known:
            return config
        in_files = prod(known["data_shape"]) * known["pool"]  # it was read from the files of the run
    trained, given = prod(shape_in_files(dataset, in_files, shape)), getattr(config, "shape", ())
    units = config.units if config.units is not None else prod(given) if given else None
    if units is None:
        return replace(config, shape=shape) if shape and hasattr(config, "shape") else replace(config, units=trained)
    if units != trained:
        raise _contradiction(config, "units", units, trained)
    return config


def _recorded(folder: Any) -> dict[str, Any] | None:
    """Return the settings of a run on recordings, or None for anything else, such as a file of weights."""
    if not isinstance(folder, str | Path) or not (Path(folder) / "config.json").is_file():
        return None
    found = read_config(Path(folder))
    defaults = {name: getattr(DataSettings, name) for name in (*STEPS, "units", "shape")}
    dataset = found.get("dataset", "folder" if found.get("source_kind") == "recordings" else None)
    return {**defaults, **found, "dataset": dataset} if _is_recorded(dataset) else None


def _is_recorded(dataset: Any) -> bool:
    return isinstance(dataset, str) and dataset in registry.DATASETS and not registry.is_drawn(dataset)


def _default(config: Any, name: str) -> Any:
    return getattr(type(config), name)


def _contradiction(config: Any, name: str, given: Any, trained: Any) -> ValueError:
    what = f"{name} {trained}"
    if isinstance(trained, dict):  # the run had the other one of bins and dt
        what = f"dt {trained['dt']}" if name == "bins" else f"bins {trained['bins'] or 50}"
    return ValueError(
        f"{name} is {given}, but start, {config.start}, was trained with {what}: its networks know such time steps and"
        f" units only. Leave {name} out, or start."
    )
