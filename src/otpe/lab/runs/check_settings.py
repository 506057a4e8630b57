"""Do the settings make sense, and do they go together?"""

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import jax
import numpy as np

from otpe import check, losses
from otpe.datasets import Binning, MovingShapes, moving_shapes
from otpe.datasets.download import SOURCES
from otpe.datasets.heidelberg import axes_of
from otpe.datasets.registry import DRAWN, ENCODINGS, RECORDED, SHAPES, check_use
from otpe.lab.runs import custom as owned
from otpe.lab.runs.custom import Own
from otpe.lab.settings import Settings, TrainConfig
from otpe.rulebook import Rule
from otpe.rulebook.named_rules import rule_and_loss
from otpe.training.optimizer import Optimizer

USED_BY = {
    **dict.fromkeys(("manifolds", "draws", "standardize", "classes", "dims", "alpha"), ENCODINGS),
    **dict.fromkeys(("time_steps", "valid_samples", "test_samples"), DRAWN),
    **dict.fromkeys(("label", "size", "noise"), (SHAPES,)),
    **dict.fromkeys(("root", "bins", "dt", "max_steps", "binary", "pool"), RECORDED),
    "units": (*ENCODINGS, "folder"),
    "shape": ("folder",),
    "validation": ("shd", "folder"),
}
PATHS = {"out": "", "root": "", "start": " or a file"}
COUNTS = ("steps", "batch", "seeds", "draws", "every", "eval_every", "valid_samples", "test_samples", "keep")
MOST = 2**31
Config = TypeVar("Config", bound=Settings)


def checked(config: TrainConfig, own: Own = owned.NONE) -> Rule:
    """The rule of these settings, if they make sense, with the readout that the loss asks for."""
    check_kind(config, TrainConfig)
    rule = _rule(config, own)
    check_choices(config)
    if config.backend == "pallas" and jax.default_backend() == "cpu":
        raise ValueError(
            "backend is 'pallas', which needs a GPU, but there is none. Use 'auto', 'plain' or 'interpret'."
        )
    for name in COUNTS:
        if check.count(name, getattr(config, name)) >= MOST:
            raise ValueError(f"{name} is {getattr(config, name)}, expected less than {MOST:,}.")
    for name in ("out", "root", "start"):
        if not isinstance(getattr(config, name), str | Path | None):
            raise TypeError(f"{name} is {getattr(config, name)!r}, expected the path of a folder{PATHS[name]}.")
    if config.seeds % config.draws:
        raise ValueError(
            f"draws is {config.draws} and seeds is {config.seeds}, expected as many networks on each draw of the"
            f" manifolds. Use {config.draws * -(-config.seeds // config.draws)} seeds."
        )
    if own.data is None:
        check_data(config)
    if check.whole("seed", config.seed, MOST) + config.seeds > MOST:
        raise ValueError(f"seed is {config.seed} and seeds is {config.seeds}, expected less than {MOST:,} together.")
    check.number(
        "checkpoint_seconds", config.checkpoint_seconds, "seconds, or 0 for every evaluation", lambda x: x >= 0
    )
    check.whole("snapshots", config.snapshots, MOST)
    Optimizer.of(config)
    aligned(config, own)
    check_loss(config, own)
    return _check_rule(config, rule_and_loss(rule, own.loss_of(config))[0])


def check_kind(config: Any, kind: type) -> None:
    if not isinstance(config, kind):
        raise TypeError(f"config is a {type(config).__name__}, expected otpe.{kind.__name__}(dataset=..., ...).")
    for field in fields(config):
        if isinstance(getattr(config, field.name), np.ndarray):
            raise TypeError(f"{field.name} is an array, expected a plain value: use {field.name}=x.item() or tuple(x).")


def plain(config: Config) -> Config:
    """The same settings, with numbers of numpy as numbers of Python, which JSON has too."""
    found = {field.name: getattr(config, field.name) for field in fields(config)}
    for name in ("hidden", "conv", "shape"):
        if isinstance(found.get(name), tuple | list):
            found[name] = tuple(map(_plain, found[name]))
    return type(config)(**{name: _plain(value) for name, value in found.items()})


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def check_data(config: Settings) -> None:
    check_use(config.dataset, config, USED_BY)
    if config.dataset == SHAPES:
        shapes(config)
    if config.dataset in ENCODINGS:
        for name in ("classes", "units", "dims", "time_steps"):
            if name != "units" or config.units is not None:
                check.count(name, getattr(config, name), MOST - 1)
        check.whole("manifolds", config.manifolds, 2**32)
    if config.dataset in RECORDED:
        if config.max_steps is not None and config.dt is None:
            raise ValueError(f"max_steps is {config.max_steps} without dt. Give dt as well, or bins instead.")
        if config.max_steps is not None:
            check.count("max_steps", config.max_steps)
        binning(config).checked(recorded_shape(config))


def shapes(config: Settings) -> MovingShapes:
    return moving_shapes(config.label, size=config.size, time_steps=config.time_steps, noise=config.noise)


def recorded_shape(config: Settings) -> tuple[int, ...]:
    """Of the units of recordings, as their files have them."""
    if config.dataset in SOURCES:
        return (SOURCES[config.dataset].units,)
    return axes_of(config.units, config.shape or None)


def binning(config: Settings) -> Binning:
    bins = 50 if config.bins is None and config.dt is None else config.bins
    return Binning(bins, config.dt, config.max_steps, config.binary, config.pool)


def check_loss(config: Settings, own: Own = owned.NONE) -> None:
    """Is there such a loss?"""
    if own.loss is None:
        if not isinstance(config.loss, str):
            raise TypeError(
                f"loss is {config.loss!r}, expected a name in the settings. Hand a loss of your own over beside them:"
                " otpe.train(config, loss=...)."
            )
        check.one_of("loss", config.loss, (owned.RULE, *losses.NAMED))
    own.loss_of(config)
    if config.rate and not config.rate_weight:
        raise ValueError(f"rate is {config.rate}, which changes nothing without rate_weight. Give it too, such as 1.0.")


def aligned(config: TrainConfig, own: Own = owned.NONE) -> tuple[Rule, ...]:
    """The rules whose gradients are compared with BPTT's."""
    if not isinstance(config.align, tuple | list) or len(set(config.align)) < len(config.align):
        raise ValueError(f"align is {config.align!r}, expected names of rules, none twice, such as ('otpe', 'ostl').")
    return tuple(own.rule(name) for name in config.align)


def check_rule_names(what: str, given: Any) -> None:
    """Names, as settings have them. Rules of the user's own stand beside the settings."""
    if isinstance(given, tuple | list) and any(isinstance(each, Rule) for each in given):
        raise TypeError(
            f"{what} has an otpe.Rule, expected names in the settings. Hand rules of your own over beside them:"
            " otpe.compare(config, rules=[...])."
        )
    if not isinstance(given, tuple | list) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"{what} is {given!r}, expected names, such as ('otpe', 'ostl') or ('offline', 'online').")


def _rule(config: TrainConfig, own: Own) -> Rule:
    """The rule that the settings name."""
    if isinstance(config.rule, Rule):
        raise TypeError(
            f"rule is otpe.Rule({config.rule.name!r}, ...), expected a name in the settings. Hand a rule of your own"
            " over beside them: otpe.train(config, rule=...)."
        )
    return own.rule(config.rule)


def _check_rule(config: TrainConfig, rule: Rule) -> Rule:
    if config.mode == "online" and not rule.has_steps:
        raise ValueError(
            f"rule {rule.name!r} cannot learn online: it needs the whole sequence before it can give a gradient. Use"
            " mode 'offline', or a rule that learns online: 'rtrl' is as exact, 'otpe' scales."
        )
    for name in ("every", "traces"):
        if config.mode == "offline" and getattr(config, name) != getattr(Settings, name):
            raise ValueError(
                f"{name} is {getattr(config, name)!r}, which is for mode 'online', but the mode is 'offline'."
            )
    return rule


def check_choices(config: Any) -> None:
    """What has a list of possible values has one of them; what is yes or no is that."""
    types = get_type_hints(type(config))
    for field in fields(config):
        value, kind = getattr(config, field.name), types[field.name]
        if kind is bool:
            check.flag(field.name, value)
        elif get_origin(kind) is not None and all(isinstance(choice, str) for choice in get_args(kind)):
            check.one_of(field.name, value, get_args(kind))
