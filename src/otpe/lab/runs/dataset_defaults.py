"""Defaults that depend on the dataset: the slope of the surrogate and the learning rate.

The paper's values suit Randman. Networks learn little from recordings with them, so `registry.DATASETS` has other ones
for recordings. A setting that is given is never changed.
"""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from otpe import storage
from otpe.datasets import registry
from otpe.datasets.registry import TrainingDefaults
from otpe.lab.records import read_config
from otpe.lab.runs.custom import NONE, CustomParts
from otpe.lab.runs.results import Result
from otpe.networks import Network
from otpe.surrogates import fast_sigmoid

Config = TypeVar("Config", bound=Any)
PAPER = TrainingDefaults()
MEASURED_WITH = {"surrogate": "fast-sigmoid", "optimizer": "adamax"}  # the defaults of recordings suit these


def with_dataset_defaults(config: Config, own: CustomParts = NONE, swept: Collection[str] = ()) -> Config:
    """Return the settings with a learning rate, and with a slope if the dataset has one of its own.

    A user's own data, and a sweep over datasets, surrogates or optimizers, get the paper's values. `swept`: the
    settings that a sweep varies. A resumed run keeps the paper's values if it began with them, as all runs of older
    versions did.
    """
    best = PAPER if own.data is not None or {"dataset", *MEASURED_WITH} & {*swept} else _defaults(config.dataset)
    stored = _stored(config)
    return _with_slope(_with_rate(config, best, stored, own, swept), best, stored, own)


def _with_rate(
    config: Config, best: TrainingDefaults, stored: dict[str, Any], own: CustomParts, swept: Collection[str]
) -> Config:
    if config.learning_rate is not None:
        return config
    measured = config.optimizer == MEASURED_WITH["optimizer"] and own.optimizer is None
    if not measured or stored.get("learning_rate") == PAPER.learning_rate:
        best = PAPER
    modes = config.modes if hasattr(config, "modes") else (config.mode,)
    if "offline" not in modes:
        return replace(config, learning_rate=best.online_learning_rate)
    config = replace(config, learning_rate=best.learning_rate)
    differs = best.online_learning_rate != best.learning_rate and "learning_rate" not in swept
    if "online" in modes and differs and config.online_learning_rate is None:
        return replace(config, online_learning_rate=best.online_learning_rate)
    return config


def _with_slope(config: Config, best: TrainingDefaults, stored: dict[str, Any], own: CustomParts) -> Config:
    """Return the settings with the slope of the weights to start with, or else with that of the dataset."""
    if config.slope is not None or config.surrogate != MEASURED_WITH["surrogate"] or own.net is not None:
        return config
    if stored and (config.start is not None or own.start is not None or stored.get("slope") is None):
        return replace(config, slope=stored.get("slope"))
    known, slope = _slope_of_start(config, own)
    return replace(config, slope=slope if known else best.slope)


def _slope_of_start(config: Any, own: CustomParts) -> tuple[bool, float | None]:
    """Return whether the slope of the weights to start with is known, and the slope. None: that of the surrogate."""
    if isinstance(own.start, Result):
        return True, _slope(own.start.net)
    start = config.start
    if not isinstance(start, str | Path):
        return False, None
    if (Path(start) / "config.json").is_file():
        found = read_config(Path(start))
        return found.get("surrogate") == config.surrogate, found.get("slope")
    if Path(start).is_file() and storage.describes_network(start):
        return True, _slope(storage.load_network(start)[0])
    return False, None


def _slope(net: Network) -> float | None:
    """Return the slope of the first layer whose surrogate has another one than the default."""
    surrogates = [getattr(neurons, "surrogate", None) for neurons in net.neurons]
    slopes = [each.slope for each in surrogates if isinstance(each, fast_sigmoid) and each != fast_sigmoid()]
    return slopes[0] if slopes else None


def _defaults(dataset: Any) -> TrainingDefaults:
    known = isinstance(dataset, str) and dataset in registry.DATASETS
    return registry.DATASETS[dataset].training if known else PAPER


def _stored(config: Any) -> dict[str, Any]:
    """Return config.json of the run to resume, empty if there is none."""
    if not config.resume or not isinstance(config.out, str | Path) or not (Path(config.out) / "config.json").is_file():
        return {}
    return read_config(Path(config.out))
