"""The checks of the settings of a run. `build_network.check_network` checks those of the network."""

from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import jax
import numpy as np

from otpe import check, losses
from otpe.datasets import registry
from otpe.lab.nested_settings import field_types
from otpe.lab.runs import custom
from otpe.lab.runs.custom import CustomParts
from otpe.lab.settings import Settings, TrainConfig
from otpe.rulebook import Rule
from otpe.rulebook.named_rules import rule_and_loss
from otpe.training.optimizer import Optimizer

PATHS = {"out": "", "root": "", "start": " or a file"}
COUNTS = ("steps", "batch", "seeds", "draws", "every", "eval_every", "valid_samples", "test_samples", "keep")
MOST = 2**31
Config = TypeVar("Config", bound=Settings)


def checked(config: TrainConfig, own: CustomParts = custom.NONE) -> Rule:
    """Return the rule of these settings, with the readout that the loss needs. Raises for any invalid setting."""
    check_kind(config, TrainConfig)
    if isinstance(config.rule, Rule):
        raise TypeError(
            f"rule is otpe.Rule({config.rule.name!r}, ...), expected a name in the settings. Pass your own rule as"
            " an argument: otpe.train(config, rule=...)."
        )
    rule = own.rule(config.rule)
    check_choices(config)
    if config.backend == "pallas" and jax.default_backend() == "cpu":
        raise ValueError(
            "backend is 'pallas', which needs a GPU, but there is none. Use 'auto', 'plain' or 'interpret'."
        )
    for name in COUNTS:
        if check.count(name, getattr(config, name)) >= MOST:
            raise ValueError(f"{name} is {getattr(config, name)}, expected less than {MOST:,}.")
    for name, what in PATHS.items():
        if not isinstance(getattr(config, name), str | Path | None):
            raise TypeError(f"{name} is {getattr(config, name)!r}, expected the path of a folder{what}.")
    if config.seeds % config.draws:
        raise ValueError(
            f"draws is {config.draws} and seeds is {config.seeds}, expected the same number of networks for each draw"
            f" of the manifolds. Use {config.draws * -(-config.seeds // config.draws)} seeds."
        )
    if own.data is None:
        registry.check_use(config.dataset, config)
        registry.DATASETS[config.dataset].expected_shape(config)
    if check.whole("seed", config.seed, MOST) + config.seeds > MOST:
        raise ValueError(f"seed is {config.seed} and seeds is {config.seeds}, expected less than {MOST:,} together.")
    check.number(
        "checkpoint_seconds", config.checkpoint_seconds, "seconds, or 0 for every evaluation", lambda x: x >= 0
    )
    check.whole("snapshots", config.snapshots, MOST)
    Optimizer.of(config)
    aligned(config, own)
    check_loss(config, own)
    if own.net is None:
        check_readout(config)
    _check_mode(config, rule)
    return rule_and_loss(rule, own.loss_of(config))[0]


def check_kind(config: Any, kind: type) -> None:
    """Raise TypeError if the settings are of another class, or if the value of a setting is an array."""
    if not isinstance(config, kind):
        raise TypeError(f"config is a {type(config).__name__}, expected otpe.{kind.__name__}(dataset=..., ...).")
    for field in fields(config):
        if isinstance(getattr(config, field.name), np.ndarray):
            raise TypeError(f"{field.name} is an array, expected a plain value: use {field.name}=x.item() or tuple(x).")


def plain(config: Config) -> Config:
    """Return the same settings with numbers of numpy as numbers of Python, and lists of numbers as tuples."""
    found = {field.name: getattr(config, field.name) for field in fields(config)}
    for name in ("hidden", "conv", "shape"):
        if isinstance(found.get(name), tuple | list):
            found[name] = tuple(map(_plain, found[name]))
    return type(config)(**{name: _plain(value) for name, value in found.items()})


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def check_choices(config: Any) -> None:
    """Raise for a value that is not among the choices of its setting, and for flags that are not True or False."""
    for name, kind in field_types(type(config)).items():
        if kind is bool:
            check.flag(name, getattr(config, name))
        elif get_origin(kind) is not None and all(isinstance(choice, str) for choice in get_args(kind)):
            check.one_of(name, getattr(config, name), get_args(kind))


def check_loss(config: Any, own: CustomParts = custom.NONE) -> None:
    """Raise for an unknown loss, and for invalid settings of the loss."""
    if own.loss is None:
        if not isinstance(config.loss, str):
            raise TypeError(
                f"loss is {config.loss!r}, expected a name in the settings. Pass your own loss as an argument:"
                " otpe.train(config, loss=...)."
            )
        check.one_of("loss", config.loss, (custom.RULE, *losses.NAMED))
    own.loss_of(config)
    if config.rate and not config.rate_weight:
        raise ValueError(f"rate is {config.rate}, which changes nothing without rate_weight. Give it too, such as 1.0.")


def check_readout(config: Any) -> None:
    """Raise ValueError if the loss needs the membranes of output neurons that spike."""
    if config.loss == "membrane" and config.readout == "spiking":
        raise ValueError(
            "loss is 'membrane', but the output neurons spike. Use readout 'integrator', or the loss 'spikes' or"
            " 'leaky'."
        )


def aligned(config: TrainConfig, own: CustomParts = custom.NONE) -> tuple[Rule, ...]:
    """Return the rules whose gradients are compared with BPTT's."""
    if not isinstance(config.align, tuple | list) or len(set(config.align)) < len(config.align):
        raise ValueError(f"align is {config.align!r}, expected names of rules, none twice, such as ('otpe', 'ostl').")
    return tuple(own.rule(name) for name in config.align)


def check_rule_names(what: str, given: Collection[Any]) -> None:
    """Raise TypeError if these are not names. A user's own rules are passed as an argument, not in the settings."""
    if isinstance(given, tuple | list) and any(isinstance(each, Rule) for each in given):
        raise TypeError(
            f"{what} has an otpe.Rule, expected names in the settings. Pass your own rules as an argument:"
            " otpe.compare(config, rules=[...])."
        )
    if not isinstance(given, tuple | list) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{what} is {given!r}, expected names, such as ('otpe', 'ostl') or ('offline', 'online').")


def _check_mode(config: TrainConfig, rule: Rule) -> None:
    """Raise ValueError if the rule cannot learn in this mode, and for settings of the other mode without effect."""
    if config.mode == "online" and not rule.has_steps:
        raise ValueError(
            f"rule {rule.name!r} cannot learn online: it needs the whole sequence before it can give a gradient. Use"
            " mode 'offline', or a rule that learns online: 'rtrl' gives the exact gradient, 'otpe' needs less memory."
        )
    for name in ("every", "traces"):
        if config.mode == "offline" and getattr(config, name) != getattr(Settings, name):
            raise ValueError(
                f"{name} is {getattr(config, name)!r}, which is for mode 'online', but the mode is 'offline'."
            )
