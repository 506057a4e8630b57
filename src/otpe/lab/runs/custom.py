"""Parts of a run that a user gives in Python in place of named ones, such as data, rules and a network."""

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

RULE = "rule"  # the default: the loss of the rule


@dataclass(frozen=True)
class CustomParts:
    """A user's own parts. The settings carry the names of the rules and of the loss."""

    data: Any = None  # otpe.Splits
    rules: tuple[Rule, ...] = ()
    net: Network | None = None
    loss: LossFunction | None = None
    optimizer: Any = None
    start: Any = None  # parameters, or a Result

    def rule(self, name: Any) -> Rule:
        """Return the rule with this name: one of the user's own, or one of otpe's."""
        return next((rule for rule in self.rules if rule.name == name), None) or named_rule(name)

    def loss_of(self, config: Any) -> Loss:
        """Return the loss of these settings, or the user's own."""
        name = None if config.loss == RULE else config.loss
        return Loss(name if self.loss is None else self.loss, config.rate, config.rate_weight)

    @property
    def identity(self) -> dict[str, Any]:
        """Return descriptions of the parts that affect results, as JSON. `of_run` and `of_study` add the rules."""
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
        """Return `identity` with the own rules of a run: the trained one, and those that are compared with BPTT."""
        trained = [describe(rule) for rule in self.rules if rule.name == config.rule]
        compared = {rule.name: describe(rule) for rule in self.rules if rule.name in config.align}
        found = {"own_rule": trained[0]} if trained else {}
        return found | ({"own_rules": compared} if compared else {}) | self.identity

    @property
    def of_study(self) -> dict[str, Any]:
        """Return `identity` with all own rules of a study."""
        found = {"own_rules": {rule.name: describe(rule) for rule in self.rules}} if self.rules else {}
        return found | self.identity


NONE = CustomParts()


def with_rule(config: Any, rule: str | Rule | None) -> tuple[Any, tuple[Rule, ...]]:
    """Return the settings with the name of this rule, and the rule if it is the user's own."""
    if rule is None or isinstance(rule, str):
        return (config if rule is None else replace(config, rule=rule)), ()
    return replace(config, rule=checked_rule(rule).name), (rule,)


def with_rules(config: Any, rules: str | Rule | Sequence[str | Rule] | None) -> tuple[Any, tuple[Rule, ...]]:
    """Return the settings with the names of these rules added, and those of the rules that are the user's own."""
    if rules is None:
        return config, ()
    given = (rules,) if isinstance(rules, str | Rule) else tuple(rules)
    own = tuple(checked_rule(rule) for rule in given if not isinstance(rule, str))
    names = [rule if isinstance(rule, str) else rule.name for rule in given]
    return replace(config, rules=(*config.rules, *names)), own


def checked_rule(rule: Any) -> Rule:
    """Return a user's own rule. Raises ValueError if one of otpe's rules has its name, but is different."""
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
    """Return the settings with the name of this loss, and the function if it is the user's own."""
    if loss is None:
        return config, None
    found = losses.as_loss(loss)
    if config.loss != RULE:
        raise ValueError(
            f"loss is {config.loss!r} in the settings and {found.name!r} as an argument, expected only one of them."
        )
    if isinstance(loss, Loss):
        if config.rate or config.rate_weight:
            raise ValueError("rate and rate_weight are in the settings and in otpe.Loss, expected only one of them.")
        config = replace(config, rate=found.rate, rate_weight=found.rate_weight)
    config = replace(config, loss=RULE if found.function is None else found.name)
    return config, found.function if callable(found.function) else None


def with_optimizer(config: Any, optimizer: Any) -> tuple[Any, Any]:
    """Return the settings and the optimizer. The fields of an `otpe.Optimizer` become settings; then None."""
    if not isinstance(optimizer, Optimizer):
        return config, optimizer
    if optimizer.steps not in (None, config.steps):
        raise ValueError(
            f"steps is {config.steps} in the settings and {optimizer.steps} in otpe.Optimizer, expected the same. Leave"
            " it out of otpe.Optimizer: the schedule of a run ends with its last mini-batch."
        )
    return replace(config, **optimizer.settings()), None


def stored_net(about: Mapping[str, Any]) -> Network | None:
    """Return the network that config.json describes, or None if it describes none."""
    described = about.get("own_net")
    return storage.network_from_json(described) if isinstance(described, dict) else None


def with_stored_net(config: Any, own: CustomParts) -> CustomParts:
    """Return the user's parts. For a run to resume without a given network, add the one that its folder describes."""
    path = None if config.out is None else Path(config.out) / "config.json"
    if not config.resume or own.net is not None or path is None or not path.is_file():
        return own
    about = read_json(path)
    if "own_rule" in about and config.rule not in (*rules(), *(rule.name for rule in own.rules)):
        raise ValueError(
            f"{config.out} belongs to a run by a rule of your own, {config.rule!r}. Pass it again, in Python:"
            " otpe.train(config, rule=...)."
        )
    return replace(own, net=stored_net(about))


def describe(value: Any) -> Any:
    """Return a description of a part, the same in every process: JSON of a network, otherwise text."""
    if isinstance(value, Network):
        described = storage.network_to_json(value)
        if described is not None:
            return described
        # repr(net) is short. This text has every setting: two different networks must not have the same one.
        return _text(f"Network(layers={value.layers!r}, neurons={value.neurons!r})")
    return "an optax optimizer" if hasattr(value, "init") and hasattr(value, "update") else _text(repr(value))


def fingerprint(params: Any) -> str:
    """Return a hash of parameters."""
    content = hashlib.sha256()
    for name, leaf in storage.named_leaves(params).items():
        known = np.asarray(leaf)
        content.update(f"{name} {known.dtype} {known.shape}".encode() + np.ascontiguousarray(known).tobytes())
    return content.hexdigest()[:16]


def _text(description: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", description)  # without addresses, which differ in every process
