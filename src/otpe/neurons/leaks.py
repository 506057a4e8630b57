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
    """One leak per neuron, drawn from a uniform distribution. The draw depends on `seed`, not on the weights' key."""

    low: float
    high: float
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, checked_number(f"Uniform: {name}", getattr(self, name)))
        if self.low > self.high:
            raise ValueError(f"Uniform: low is {self.low} and high is {self.high}, expected low to be the smaller one.")
        check.whole("Uniform: seed", self.seed, 2**32)

    def on(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the leaks of a layer of this shape."""
        return np.random.default_rng(self.seed).uniform(self.low, self.high, shape)

    @property
    def smallest(self) -> float:
        return self.low

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


class PerNeuron:
    """One leak per neuron, given as an array. Can be compared and hashed, unlike the array."""

    def __init__(self, values: Any, name: str = "PerNeuron") -> None:
        try:
            self.values = np.array(values, float)
        except (TypeError, ValueError):
            raise ValueError(f"{name} is {values!r}, expected an array of numbers in [0, 1).") from None
        if not self.values.size or not np.isfinite(self.values).all():
            raise ValueError(f"{name} has no entries or some that are not finite, expected numbers in [0, 1).")
        for value in (self.values.min(), self.values.max()):
            checked_number(name, float(value))
        self.values.setflags(write=False)

    def on(self, shape: tuple[int, ...], name: str = "leak") -> np.ndarray:
        """Return the leaks of a layer of this shape. Raises ValueError if they do not fit it."""
        try:
            return np.broadcast_to(self.values, shape)
        except ValueError:
            raise ValueError(
                f"{name} has the shape {list(self.values.shape)}, expected {list(shape)}: one number for each neuron of"
                " the layer."
            ) from None

    @property
    def smallest(self) -> float:
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


def checked(name: str, value: Any) -> Leak:
    """Return a leak as a hashable value: a plain number, `Uniform` or `PerNeuron`. Traced arrays are returned as is.

    Raises ValueError for numbers outside [0, 1).
    """
    if isinstance(value, Uniform | PerNeuron | Tracer):
        return value
    if isinstance(value, np.ndarray | Array | list | tuple) and np.ndim(value) > 0:
        return PerNeuron(value, name)
    return checked_number(name, value)


def checked_number(name: str, value: Any) -> float:
    """Return a leak as a float. Raises ValueError if it is not a number in [0, 1)."""
    if not (is_number(value) and 0 <= value < 1):
        raise ValueError(
            f"{name} is {value!r}, expected a number in [0, 1): the share of the membrane that is left after"
            " one step. For a time constant τ in steps, leak = exp(−1/τ)."
        )
    return float(value)


def smallest(leak: Leak) -> float:
    """Return the smallest leak of the layer."""
    return leak.smallest if varies(leak) else leak


def per_neuron(leak: Leak, shape: tuple[int, ...]) -> np.ndarray:
    """Return a number for each neuron of a layer of this shape."""
    return leak.on(shape) if varies(leak) else np.full(shape, leak)


def varies(leak: Leak) -> bool:
    """Return whether the leak may differ from neuron to neuron."""
    return isinstance(leak, Uniform | PerNeuron)


def is_number(value: Any) -> bool:
    """Return whether this is one real number, also as an array without axes. NaN and booleans are not."""
    number = isinstance(value, Real) or (isinstance(value, np.ndarray | Array) and value.ndim == 0)
    return number and not isinstance(value, bool) and not math.isnan(value)
