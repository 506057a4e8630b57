"""Optimizers in words, and back: what a saved learner needs to be made again. Networks: see `otpe.storage`."""

from collections.abc import Iterator
from typing import Any

import optax

from otpe.lab.runs.optimizers import OPTIMIZERS
from otpe.training.optimizer import ByValue


def optimizer(given: optax.GradientTransformation) -> list[Any] | None:
    """Name and learning rate of an optimizer of optax with nothing else set. None for any other."""
    key = ByValue(given)
    rates = {abs(number) for number in _numbers(key.key) if number}
    for name, maker in OPTIMIZERS.items():
        for rate in sorted(rates):
            if ByValue(maker.make(rate)) == key:
                return [name, rate]
    return None


def optimizer_of(said: list[Any]) -> optax.GradientTransformation:
    name, rate = said
    return OPTIMIZERS[name].make(rate)


def _numbers(key: Any) -> Iterator[float]:
    if isinstance(key, tuple):
        for part in key:
            yield from _numbers(part)
    elif isinstance(key, float | int) and not isinstance(key, bool):
        yield float(key)
