"""The checks of the settings of `otpe stream`, and the learner that they describe."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from otpe import check
from otpe.datasets import heidelberg
from otpe.lab.nested_settings import field_names
from otpe.lab.progress import say
from otpe.lab.runs import build_network, check_settings, custom, saved_weights, start_settings
from otpe.lab.settings import DenseNetworkSettings, NetworkSettings, StreamConfig
from otpe.networks import Network
from otpe.rulebook import rule as named_rule
from otpe.stream import source_kinds
from otpe.stream.learner import StreamLearner
from otpe.stream.sources import EVENTS, source_kind
from otpe.training.optimizer import Optimizer

SLOPE = 10.0  # of the fast sigmoid. The paper's 25 learns worse if every step makes an update
LARGEST_COUNT, LARGEST_WINDOW = 2**31 - 1, 1_000_000  # the window is limited, as every checkpoint stores it


def with_start_data(config: StreamConfig) -> StreamConfig:
    """Return the settings with the time steps and units of the run that `start` names, where they are not given.

    Without such a run, the units of recordings are read from their files.
    """
    kind = source_kind(config)
    if kind == "randman":
        return config
    used = tuple(name for name in start_settings.STEPS if name in source_kinds.KINDS[kind].uses)
    config = config if config.start is None else start_settings.with_start_data(config, used)
    path = Path(config.source)
    if kind != "recordings" or config.units is not None or not path.exists():
        return config
    units = heidelberg.units_of(path) if path.is_dir() else heidelberg.largest_unit(path) + 1
    say(f"{path}: {units} units, as the largest one is {units - 1}. --units gives another number.")
    return replace(config, units=units)


def checked(config: StreamConfig) -> None:
    """Raise ValueError or TypeError for any invalid setting, except those of the network, which `learner` checks."""
    check_settings.check_choices(config)
    kind = source_kind(config)
    for field in fields(config):
        value = getattr(config, field.name)
        if value != field.default:
            source_kinds.check_use(kind, field.name, value)
    for name in ("units", "classes", "steps", "block"):
        value = getattr(config, name)
        if value is not None:
            check.count(name, value, LARGEST_COUNT if name != "steps" else 2**63 - 1)
        elif name in ("units", "classes") and kind != "randman":
            raise ValueError(
                f"{name} is not given, and {config.source} does not contain it. Give the number: --{name}."
            )
    for name in ("checkpoint_seconds", "metrics_seconds"):
        check.number(name, getattr(config, name), "seconds, or 0 for every block", lambda x: x >= 0)
    check.count("window", config.window, LARGEST_WINDOW)
    check.whole("seed", config.seed, 2**32)
    check.whole("epochs", config.epochs, 2**31)
    named_rule(config.rule)
    Optimizer(config.optimizer, config.learning_rate)
    check_settings.check_loss(config)
    if config.start is None:
        check_settings.check_readout(config)


def learner(config: StreamConfig, width: int, classes: int) -> StreamLearner:
    """Return the learner before its first step."""
    net, params = _network(config, width, classes)
    return StreamLearner(
        net,
        config.rule,
        Optimizer(config.optimizer, config.learning_rate),
        config.seed,
        params=params,
        loss=custom.NONE.loss_of(config),
        every=config.every,
        delay=config.delay,
        score_leak=1.0 if config.score_leak is None and source_kind(config) not in EVENTS else config.score_leak,
        decay=config.decay,
        limit=config.limit,
    )


def _network(config: StreamConfig, width: int, classes: int) -> tuple[Network, Any]:
    """Return the network, and its weights if `start` names some."""
    if config.start is None:
        settings = config.group(NetworkSettings)
        if config.slope is None and config.surrogate == "fast-sigmoid":
            settings = replace(settings, slope=SLOPE)
        return build_network.network(settings, width, classes), None
    for name in field_names(DenseNetworkSettings):
        if getattr(config, name) != getattr(StreamConfig, name):
            raise ValueError(
                f"{name} is {getattr(config, name)!r}, but the network is that of start, {config.start}. Leave {name}"
                " out, or start."
            )
    net, params = saved_weights.read_start(Path(config.start))
    inputs = net.layers[0].in_shape
    if inputs != (width,) or net.classes < classes:
        raise ValueError(
            f"start is {str(config.start)!r}, whose network takes {list(inputs)} inputs and has {net.classes} outputs,"
            f" but the stream has {width} and {classes} classes."
        )
    return net, params[0]
