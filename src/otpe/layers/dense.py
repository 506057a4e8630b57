"""The dense layer: every neuron listens to every input."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe.layers.base import lift


class Dense(NamedTuple):
    """Parameters of one dense layer."""

    kernel: Array  # W     [n_in, n_out]
    bias: Array  # bias  [n_out]


@dataclass(frozen=True)
class DenseLayer:
    """c = x W + one · bias."""

    n_in: int
    n_out: int

    @property
    def in_shape(self) -> tuple[int, ...]:
        return (self.n_in,)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.n_out,)

    def init(self, key: Array, dtype: Any) -> Dense:
        """Kernel lecun-normal, bias zero, as in the paper."""
        kernel = jax.nn.initializers.lecun_normal()(key, (self.n_in, self.n_out), dtype)
        return Dense(kernel, jnp.zeros(self.n_out, dtype))

    def apply(self, params: Dense, x: Array, one: Array | float = 1.0) -> Array:
        return jnp.matmul(x, params.kernel) + one * params.bias

    def to_matrix(self, params: Dense) -> tuple[Array, Array]:
        return params.kernel, params.bias

    def from_matrix(self, kernel: Array, bias: Array) -> Dense:
        return Dense(kernel, bias)

    # A trace per weight: one row per input, and a last one for the bias.

    @property
    def rows(self) -> int:
        return self.n_in + 1

    def to_rows(self, x: Array) -> Array:
        return lift(x)[..., None]

    def from_rows(self, dw: Array) -> Dense:
        return Dense(dw[:-1], dw[-1])
