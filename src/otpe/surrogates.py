"""Surrogate derivatives: functions that replace the derivative of a spike.

A spike is `H(v − θ)`, whose derivative is zero almost everywhere. Learning uses `σ'(v − θ)` instead. A surrogate in
otpe is this derivative: an elementwise function of the distance to the threshold, largest at zero. You can pass any
such function:

    otpe.dense(sizes, surrogate=lambda d: jnp.exp(-jnp.abs(d)))

Two surrogates of this module are equal if their numbers are equal, so a network that is built twice compiles once. A
lambda is equal only to itself: define it once, outside your loop.

The names are lower-case because they are used like functions: `fast_sigmoid(25.0)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from numbers import Real

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

Surrogate = Callable[[Array], Array]


class _Positive:
    """Base class. Raises an error unless every number of the surrogate is finite and above 0."""

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
    """`1 / (k|d| + 1)²`: derivative of the fast sigmoid, height 1. The paper uses it with k = 25."""

    slope: float = 25.0

    def __call__(self, d: Array) -> Array:
        return 1 / jnp.square(self.slope * jnp.abs(d) + 1)


@dataclass(frozen=True)
class superspike(_Positive):
    """SuperSpike (Zenke and Ganguli 2018): the fast sigmoid under its other well-known name and slope.

    `scaled=True` gives `k / (k|d| + 1)²`. Its area does not depend on the slope, so a steeper surrogate does not
    also make the gradient smaller. `scaled=False` is `fast_sigmoid`.
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


NAMED = {
    "fast-sigmoid": fast_sigmoid,
    "superspike": superspike,
    "arctan": arctan,
    "triangular": triangular,
    "gaussian": gaussian,
}


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def spike(surrogate: Surrogate, d: Array) -> Array:
    """H(d): 1 if the distance to the threshold is 0 or above, else 0. Its derivative is the surrogate."""
    return (d >= 0).astype(d.dtype)


@spike.defjvp
def _spike_jvp(surrogate: Surrogate, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (d,), (dot,) = primals, tangents
    return spike(surrogate, d), surrogate_derivative(surrogate, d) * dot


def surrogate_derivative(surrogate: Surrogate, d: Array) -> Array:
    """g = σ'(d). Raises ValueError if the surrogate changes the shape."""
    g = jnp.asarray(surrogate(d), d.dtype)
    if g.shape != d.shape:
        raise ValueError(
            f"surrogate returned the shape {g.shape} for {d.shape}, expected one number per number: an elementwise"
            " function, such as lambda d: jnp.exp(-jnp.abs(d))."
        )
    return g


def check_surrogate(surrogate: Surrogate) -> None:
    """Raise if `surrogate` is not a function, or returns numbers that are not finite."""
    if isinstance(surrogate, type) or not callable(surrogate):
        raise TypeError(
            f"surrogate is {surrogate!r}, expected a function from the distance to the threshold to the"
            " derivative, such as otpe.fast_sigmoid(25.0)."
        )
    bad = _first_bad(surrogate)
    if bad is not None:
        raise ValueError(
            f"surrogate gives {bad[1]} at the distance {bad[0]:g} from the threshold, expected a finite number at every"
            " distance. A frequent cause is a power or a division that fails for numbers of 0 or below."
        )


@lru_cache(maxsize=256)
def _first_bad(surrogate: Surrogate) -> tuple[float, float] | None:
    """The first tested distance at which the surrogate is not finite, and its value there. None if all are finite."""
    distances = np.array([-100, -1, -0.25, 0, 0.25, 1, 100], np.float32)
    with jax.ensure_compile_time_eval():
        values = surrogate(jnp.asarray(distances))
    if isinstance(values, Tracer) or np.shape(values) != distances.shape:
        return None  # it depends on a traced array, or `surrogate_derivative` will raise because of the shape
    bad = np.flatnonzero(~np.isfinite(np.asarray(values)))
    return (float(distances[bad[0]]), float(np.asarray(values)[bad[0]])) if bad.size else None
