"""Surrogate derivatives: what stands in for the derivative of a spike.

A spike is `H(v − θ)`, whose derivative is zero almost everywhere. Learning uses `σ'(v − θ)`
instead. A surrogate here IS that derivative: a function of the distance to the threshold,
elementwise, largest at zero. Any function of that kind will do:

    otpe.dense(sizes, surrogate=lambda d: jnp.exp(-jnp.abs(d)))

The ones below compare equal when their numbers do, so a network that is built twice
compiles once. A lambda is equal only to itself: define it once, outside your loop.

They are written lower-case, as they read like functions: `fast_sigmoid(25.0)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from numbers import Real

import jax.numpy as jnp
from jax import Array

Surrogate = Callable[[Array], Array]


class _Positive:
    """Every number of a surrogate must be finite and above zero."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.type in (bool, "bool"):
                if not isinstance(value, bool):
                    raise TypeError(f"{type(self).__name__}: {field.name} is {value!r}, expected True or False.")
                continue
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
                raise ValueError(f"{type(self).__name__}: {field.name} is {value!r}, expected a finite number above 0.")


@dataclass(frozen=True)
class fast_sigmoid(_Positive):
    """`1 / (k|d| + 1)²`: derivative of the fast sigmoid, height 1. The paper's, with k = 25."""

    slope: float = 25.0

    def __call__(self, d: Array) -> Array:
        return 1 / jnp.square(self.slope * jnp.abs(d) + 1)


@dataclass(frozen=True)
class superspike(_Positive):
    """SuperSpike (Zenke and Ganguli 2018): the fast sigmoid under the name and slope many know.

    `scaled=True` gives `k / (k|d| + 1)²`: its area no longer depends on the slope, so
    a steeper surrogate does not also shrink the gradient. `scaled=False` is `fast_sigmoid`.
    """

    slope: float = 10.0
    scaled: bool = True

    def __call__(self, d: Array) -> Array:
        height = self.slope if self.scaled else 1.0
        return height / jnp.square(self.slope * jnp.abs(d) + 1)


@dataclass(frozen=True)
class arctan(_Positive):
    """`(α/2) / (1 + (π α d / 2)²)`: derivative of the scaled arc tangent, area 1."""

    slope: float = 2.0

    def __call__(self, d: Array) -> Array:
        return (self.slope / 2) / (1 + jnp.square(math.pi / 2 * self.slope * d))


@dataclass(frozen=True)
class triangular(_Positive):
    """`h · max(0, 1 − |d|/w)`: zero beyond the width w (Bellec et al. use h = 0.3)."""

    width: float = 1.0
    height: float = 1.0

    def __call__(self, d: Array) -> Array:
        return self.height * jnp.maximum(0, 1 - jnp.abs(d) / self.width)


@dataclass(frozen=True)
class gaussian(_Positive):
    """`exp(−d²/2σ²) / (σ√2π)`: the normal density, area 1."""

    sigma: float = 0.5

    def __call__(self, d: Array) -> Array:
        return jnp.exp(-jnp.square(d / self.sigma) / 2) / (self.sigma * math.sqrt(2 * math.pi))
