"""User neurons with only the methods that `otpe.neurons` requires."""

from dataclasses import dataclass, replace
from typing import ClassVar

import jax.numpy as jnp

import otpe
from otpe.surrogates import surrogate_derivative


@dataclass(frozen=True)
class AlphaSynapse:
    """Two synaptic currents, one feeding the other: J_t = α J + c, I_t = β I + J_t, v_t = λ u + I_t."""

    rise: float = 0.5
    fall: float = 0.7
    leak: float = 0.8
    reset: float = 1.0  # effect of a spike on the membrane
    surrogate: object = otpe.arctan()
    spiking: ClassVar = True

    def start(self, shape, dtype):
        return (jnp.zeros(shape, dtype),) * 3

    def step(self, state, current):
        J, I, u = state
        J = self.rise * J + current
        I = self.fall * I + J
        v = self.leak * u + I
        s = otpe.spike(self.surrogate, v - 1)
        return (J, I, v - self.reset * s), s, v

    def linearise(self, v):
        α, β, λ = self.rise, self.fall, self.leak
        g = surrogate_derivative(self.surrogate, v - 1)
        A = ((α, 0, 0), (α, β, 0), (α, β, λ * (1 - self.reset * g)))
        return A, (1.0, 1.0, 1.0), (0, 0, g)


@dataclass(frozen=True)
class Parallel:
    """Two parallel synaptic currents, so not a chain of leaky sums."""

    fast: float = 0.5
    slow: float = 0.8
    leak: float = 0.9
    surrogate: object = otpe.arctan()
    spiking: ClassVar = True

    def start(self, shape, dtype):
        return (jnp.zeros(shape, dtype),) * 3

    def step(self, state, current):
        I, J, u = state
        I, J = self.fast * I + current, self.slow * J + current
        v = self.leak * u + I + J
        s = otpe.spike(self.surrogate, v - 1)
        return (I, J, v - s), s, v

    def linearise(self, v):
        g = surrogate_derivative(self.surrogate, v - 1)
        A = ((self.fast, 0, 0), (0, self.slow, 0), (self.fast, self.slow, self.leak * (1 - g)))
        return A, (1.0, 1.0, 2.0), (0, 0, g)


@dataclass(frozen=True)
class Drifting:
    """A LIF neuron with a trained leak that is not stored as a logit, and a trained constant current."""

    leak: float
    drift: object = 0.0
    surrogate: object = otpe.arctan()
    spiking: ClassVar = True

    def start(self, shape, dtype):
        return jnp.zeros(shape, dtype)

    def step(self, u, current):
        v = self.leak * u + current + self.drift
        s = otpe.spike(self.surrogate, v - 1)
        return v - s, s, v

    def linearise(self, v):
        g = surrogate_derivative(self.surrogate, v - 1)
        return self.leak * (1 - g), 1.0, g

    def init(self, shape, dtype):
        return {"leak": jnp.full(shape, self.leak, dtype), "drift": jnp.full((), 0.05, dtype)}

    def values(self, trained, shape, dtype):
        return trained

    def with_values(self, values):
        return replace(self, **values)

    def causes(self, u):
        return {"leak": (u, 1.0), "drift": (jnp.ones_like(u), 1.0)}
