"""The leaky integrate-and-fire neuron.

    v_t = λ u_{t-1} + c_t          membrane before the reset, u_0 = 0
    s_t = H(v_t − θ)               spike, H(0) = 1
    u_t = v_t − θ s_t              after it: reset "subtract"
    u_t = v_t (1 − s_t)            reset "zero"
    u_t = v_t                      reset "none"

Everything a learning rule needs follows from v_t alone, so v_t is all that a forward pass keeps:

    g_t = σ'(v_t − θ)              surrogate derivative ∂s_t/∂v_t
    ρ_t = λ ∂u_t/∂v_t              survival: how much of v_t is still there in v_{t+1}
        = λ (1 − θ g_t)            "subtract"
        = λ (1 − s_t − v_t g_t)    "zero"
        = λ                        "none"
"""

import math
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe.surrogates import Surrogate, fast_sigmoid

Reset = Literal["subtract", "zero", "none"]


class Fired(NamedTuple):
    u: Array  # u_t, membrane after the reset
    spikes: Array  # s_t, 0 or 1
    v: Array  # v_t, membrane before the reset


@dataclass(frozen=True)
class LIF:
    """One population of leaky integrate-and-fire neurons. Knows nothing of training."""

    leak: float
    threshold: float = 1.0
    surrogate: Surrogate = fast_sigmoid(25.0)
    reset: Reset = "subtract"

    def __post_init__(self) -> None:
        if not (_is_number(self.leak) and 0 <= self.leak < 1):
            raise ValueError(
                f"leak is {self.leak!r}, expected a number in [0, 1): the share of the membrane that is left after"
                " one step. For a time constant τ in steps, leak = exp(−1/τ)."
            )
        if not (_is_number(self.threshold) and 0 < self.threshold < math.inf):
            raise ValueError(
                f"threshold is {self.threshold!r}, expected a finite number above 0; the usual choice is 1.0."
            )
        if self.reset not in get_args(Reset):
            raise ValueError(f"reset is {self.reset!r}, expected one of {', '.join(map(repr, get_args(Reset)))}.")
        if isinstance(self.surrogate, type) or not callable(self.surrogate):
            raise TypeError(
                f"surrogate is {self.surrogate!r}, expected a function from the distance to the threshold to the"
                " derivative, such as otpe.fast_sigmoid(25.0)."
            )
        object.__setattr__(self, "leak", float(self.leak))
        object.__setattr__(self, "threshold", float(self.threshold))

    def fire(self, u: Array, current: Array) -> Fired:
        """One time step. Differentiable: `jax.grad` through it sees the surrogate."""
        v = self.leak * u + current
        s = _spike(self.surrogate, v - self.threshold)
        if self.reset == "subtract":
            return Fired(v - self.threshold * s, s, v)
        if self.reset == "zero":
            return Fired(v * (1 - s), s, v)
        return Fired(v, s, v)

    def pseudo_derivative(self, v: Array) -> Array:
        """g_t = σ'(v_t − θ)."""
        return _derivative(self.surrogate, v - self.threshold)

    def survival(self, v: Array, g: Array) -> Array:
        """ρ_t = ∂v_{t+1}/∂v_t = λ ∂u_t/∂v_t."""
        if self.reset == "subtract":
            return self.leak * (1 - self.threshold * g)
        if self.reset == "zero":
            return self.leak * (1 - (v >= self.threshold) - v * g)
        return jnp.full_like(v, self.leak)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _spike(surrogate: Surrogate, d: Array) -> Array:
    return (d >= 0).astype(d.dtype)


@_spike.defjvp
def _spike_jvp(surrogate: Surrogate, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (d,), (dot,) = primals, tangents
    return _spike(surrogate, d), _derivative(surrogate, d) * dot


def _derivative(surrogate: Surrogate, d: Array) -> Array:
    g = jnp.asarray(surrogate(d), d.dtype)
    if g.shape != d.shape:
        raise ValueError(
            f"surrogate returned the shape {g.shape} for {d.shape}, expected one number per number: an elementwise"
            " function, such as lambda d: jnp.exp(-jnp.abs(d))."
        )
    return g


def _is_number(value: Any) -> bool:
    number = isinstance(value, Real) or (isinstance(value, np.ndarray | Array) and value.ndim == 0)
    return number and not isinstance(value, bool) and not math.isnan(value)
