"""Leaks: one number for a layer, or one per neuron."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import check


@dataclass(frozen=True)
class Uniform:
    """One leak per neuron, drawn evenly between two numbers. The seed decides the draw, not the key of the weights."""

    low: float
    high: float
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, one_leak(f"Uniform: {name}", getattr(self, name)))
        if self.low > self.high:
            raise ValueError(f"Uniform: low is {self.low} and high is {self.high}, expected low to be the smaller one.")
        check.whole("Uniform: seed", self.seed, 2**32)

    def on(self, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(self.seed).uniform(self.low, self.high, shape)

    @property
    def least(self) -> float:
        return self.low

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


class PerNeuron:
    """Given leaks, one per neuron, as a value that can be compared and hashed."""

    def __init__(self, values: Any, name: str = "PerNeuron") -> None:
        try:
            self.values = np.array(values, float)
        except (TypeError, ValueError):
            raise ValueError(f"{name} is {values!r}, expected an array of numbers in [0, 1).") from None
        if not self.values.size or not np.isfinite(self.values).all():
            raise ValueError(f"{name} has no entries or some that are not finite, expected numbers in [0, 1).")
        for value in (self.values.min(), self.values.max()):
            one_leak(name, float(value))
        self.values.setflags(write=False)

    def on(self, shape: tuple[int, ...], name: str = "leak") -> np.ndarray:
        try:
            return np.broadcast_to(self.values, shape)
        except ValueError:
            raise ValueError(
                f"{name} has the shape {list(self.values.shape)}, expected {list(shape)}: one number for each neuron of"
                " the layer."
            ) from None

    @property
    def least(self) -> float:
        return float(self.values.min())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerNeuron) and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.values.shape, self.values.tobytes()))

    def __repr__(self) -> str:
        return f"PerNeuron({self})"

    def __str__(self) -> str:
        return f"{self.values.min():g} to {self.values.max():g}"


Leak = Any  # a number, `Uniform` or `PerNeuron`; inside a bound neuron an array


def leak(name: str, given: Any) -> Leak:
    """A leak as a value: a plain number, or one per neuron. Arrays inside JAX's transformations stay as they are."""
    if isinstance(given, Uniform | PerNeuron | Tracer):
        return given
    if isinstance(given, np.ndarray | Array | list | tuple) and np.ndim(given) > 0:
        return PerNeuron(given, name)
    return one_leak(name, given)


def one_leak(name: str, value: Any) -> float:
    if not (is_number(value) and 0 <= value < 1):
        raise ValueError(
            f"{name} is {value!r}, expected a number in [0, 1): the share of the membrane that is left after"
            " one step. For a time constant τ in steps, leak = exp(−1/τ)."
        )
    return float(value)


def least(given: Leak) -> float:
    return given.least if isinstance(given, Uniform | PerNeuron) else given


def on(given: Leak, shape: tuple[int, ...]) -> np.ndarray:
    """A number for each neuron of this shape."""
    return given.on(shape) if isinstance(given, Uniform | PerNeuron) else np.full(shape, given)


def differs(given: Leak) -> bool:
    """Does it differ from neuron to neuron?"""
    return isinstance(given, Uniform | PerNeuron)


def is_number(value: Any) -> bool:
    number = isinstance(value, Real) or (isinstance(value, np.ndarray | Array) and value.ndim == 0)
    return number and not isinstance(value, bool) and not math.isnan(value)
