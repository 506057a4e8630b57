"""What a user hands over in Python, in place of what a setting names."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from otpe import losses, storage
from otpe.lab.records import read_json
from otpe.losses import Loss, LossChoice, LossFunction
from otpe.networks import Network
from otpe.rulebook import Rule, rules
from otpe.rulebook import rule as named_rule
from otpe.training.optimizer import Optimizer

RULE = "rule"  # the loss that the rule says


@dataclass(frozen=True)
class Own:
    """Everything that may be handed over. Settings carry the names of rules and of the loss."""

    data: Any = None  # otpe.Splits
    rules: tuple[Rule, ...] = ()
    net: Network | None = None
    loss: LossFunction | None = None
    optimizer: Any = None
    start: Any = None  # parameters, or a Result

    def rule(self, name: Any) -> Rule:
        """The rule of this name: one of the user's own, or one of ours."""
        return next((rule for rule in self.rules if rule.name == name), None) or named_rule(name)

    def loss_of(self, config: Any) -> Loss:
        """The loss of these settings."""
        name = None if config.loss == RULE else config.loss
        return Loss(name if self.loss is None else self.loss, config.rate, config.rate_weight)

    @property
    def identity(self) -> dict[str, Any]:
        """The parts that make a run another run, as plain JSON. Of rules see `of_run` and `of_study`."""
        found: dict[str, Any] = {}
        if self.net is not None:
            found["own_net"] = describe(self.net)
        if self.loss is not None:
            found["own_loss"] = describe(self.loss)
        if self.optimizer is not None:
            found["own_optimizer"] = describe(self.optimizer)
        if self.start is not None:
            found["own_start"] = fingerprint(getattr(self.start, "params", self.start))
        return found

    def of_run(self, config: Any) -> dict[str, Any]:
        """The same for a run, with its rule and those that it compares with BPTT."""
        trained = [describe(rule) for rule in self.rules if rule.name == config.rule]
        compared = {rule.name: describe(rule) for rule in self.rules if rule.name in config.align}
        found = {"own_rule": trained[0]} if trained else {}
        return found | ({"own_rules": compared} if compared else {}) | self.identity

    @property
    def of_study(self) -> dict[str, Any]:
        """The same for a study, with all its rules."""
        found = {"own_rules": {rule.name: describe(rule) for rule in self.rules}} if self.rules else {}
        return found | self.identity


NONE = Own()


def with_rule(config: Any, rule: str | Rule | None) -> tuple[Any, tuple[Rule, ...]]:
    """The settings with the name of this rule, and the rule if it is the user's own."""
    if rule is None or isinstance(rule, str):
        return (config if rule is None else replace(config, rule=rule)), ()
    return replace(config, rule=checked_rule(rule).name), (rule,)


def with_rules(config: Any, rules: str | Rule | Sequence[str | Rule] | None) -> tuple[Any, tuple[Rule, ...]]:
    """The settings with these rules behind their own, by name, and those that are the user's own."""
    if rules is None:
        return config, ()
    given = (rules,) if isinstance(rules, str | Rule) else tuple(rules)
    own = tuple(checked_rule(rule) for rule in given if not isinstance(rule, str))
    names = [rule if isinstance(rule, str) else rule.name for rule in given]
    return replace(config, rules=(*config.rules, *names)), own


def checked_rule(rule: Any) -> Rule:
    """A rule of the user's own, if its name tells it from ours."""
    found = named_rule(rule)
    if not isinstance(found.name, str) or not found.name:
        raise ValueError(f"the rule's name is {found.name!r}, expected a text, such as otpe.Rule('mine', ...).")
    if found.name in rules():
        known = named_rule(found.name)
        if (known.hidden, known.output) != (found.hidden, found.output):
            raise ValueError(
                f"the rule is named {found.name!r}, which is the name of one of otpe's rules, but it is a different"
                " one. Give it another name: otpe.Rule('mine', ...)."
            )
    return found


def with_loss(config: Any, loss: LossChoice) -> tuple[Any, LossFunction | None]:
    """The settings with the name of this loss, and the function if it is the user's own."""
    if loss is None:
        return config, None
    found = losses.as_loss(loss)
    if config.loss != RULE:
        raise ValueError(
            f"loss is {config.loss!r} in the settings and {found.name!r} beside them, expected one of them."
        )
    if isinstance(loss, Loss):
        if config.rate or config.rate_weight:
            raise ValueError("rate and rate_weight are in the settings and in otpe.Loss, expected one of them.")
        config = replace(config, rate=found.rate, rate_weight=found.rate_weight)
    config = replace(config, loss=RULE if found.function is None else found.name)
    return config, found.function if callable(found.function) else None


def with_optimizer(config: Any, optimizer: Any) -> tuple[Any, Any]:
    """The settings with the fields of an `otpe.Optimizer`, and the optimizer if it is another one."""
    if not isinstance(optimizer, Optimizer):
        return config, optimizer
    if optimizer.steps not in (None, config.steps):
        raise ValueError(
            f"steps is {config.steps} in the settings and {optimizer.steps} in otpe.Optimizer, expected the same. Leave"
            " it out of otpe.Optimizer: the schedule of a run ends with its last mini-batch."
        )
    return replace(config, **optimizer.settings()), None


def stored_net(about: Mapping[str, Any]) -> Network | None:
    """The network that config.json describes. None where it describes none."""
    said = about.get("own_net")
    return storage.network_from_json(said) if isinstance(said, dict) else None


def going_on(config: Any, own: Own) -> Own:
    """With the network of the run that goes on, where its folder describes it and no other one is handed over."""
    path = None if config.out is None else Path(config.out) / "config.json"
    if not config.resume or own.net is not None or path is None or not path.is_file():
        return own
    about = read_json(path)
    if "own_rule" in about and config.rule not in (*rules(), *(rule.name for rule in own.rules)):
        raise ValueError(
            f"{config.out} belongs to a run by a rule of your own, {config.rule!r}. Hand it over again, in Python:"
            " otpe.train(config, rule=...)."
        )
    return replace(own, net=stored_net(about))


def describe(value: Any) -> Any:
    """What can be said of something that came without a name, the same every time."""
    if isinstance(value, Network):
        said = storage.network_to_json(value)
        return _words(value) if said is None else said
    return "an optax optimizer" if hasattr(value, "init") and hasattr(value, "update") else _words(value)


def fingerprint(params: Any) -> str:
    """Of parameters."""
    content = hashlib.sha256()
    for name, leaf in storage.named_leaves(params).items():
        known = np.asarray(leaf)
        content.update(f"{name} {known.dtype} {known.shape}".encode() + np.ascontiguousarray(known).tobytes())
    return content.hexdigest()[:16]


def _words(value: Any) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # the place of a function, say, is another one every time
