"""Where the per-step form keeps its traces. A rule writes its equations once and never knows which of these it is on.

Every rule's traces are linear in the inputs so far, and a rule combines them only elementwise, with numbers per neuron
[B, n] or per sample [B, 1]. So one axis in front is free to mean different things:

InputTraces      [B, n_in + 1]     a number per input: rules whose traces forget which neuron listens
WeightTraces     [n_in+1, B, n]    a number per weight: one row per input
FactoredTraces   [K, B, n]         a number per remembered step: R̂_t = Σ_τ x_τ ⊗ C_{t,τ}, one row per step τ,
                                   beside the last K inputs themselves; exact while t ≤ K

The bias is one more input that is always 1. Each class says how an input looks as a row, and how the gradient
Σ_b post · row comes out. A memory is what it must keep beside the rows.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import layers
from otpe.layers import LinearMap
from otpe.rulebook.base import Rows


@dataclass(frozen=True)
class InputTraces:
    layer: LinearMap

    def blank(self, batch: int, dtype: Any) -> tuple[Array, None]:
        *space, channels = self.layer.in_shape
        return jnp.zeros((batch, *space, channels + 1), dtype), None

    def feed(self, memory: None, rows: Rows, x: Array) -> tuple[None, Rows, Array]:
        return memory, rows, layers.lift(x)

    def gradient(self, memory: None, params: Any, row: Array, post: Array) -> Any:
        x, one = layers.unlift(row)
        return layers.gradient(self.layer, params, x, post, one)


@dataclass(frozen=True)
class WeightTraces:
    layer: Any  # a LinearMap with WeightRows

    def blank(self, batch: int, dtype: Any) -> tuple[Array, None]:
        return jnp.zeros((self.layer.rows, batch, *self.layer.out_shape), dtype), None

    def feed(self, memory: None, rows: Rows, x: Array) -> tuple[None, Rows, Array]:
        return memory, rows, self.layer.to_rows(x)

    def gradient(self, memory: None, params: Any, row: Array, post: Array) -> Any:
        return self.layer.from_rows((row * post).sum(1))


class History(NamedTuple):
    inputs: Array  # the last K inputs, a ring    [K, B, *in]
    slot: Array  # where the next one goes      []


@dataclass(frozen=True)
class FactoredTraces:
    layer: LinearMap
    window: int  # K

    def blank(self, batch: int, dtype: Any) -> tuple[Array, History]:
        inputs = jnp.zeros((self.window, batch, *self.layer.in_shape), dtype)
        row = jnp.zeros((self.window, batch, *self.layer.out_shape), dtype)
        return row, History(inputs, jnp.zeros((), jnp.int32))

    def feed(self, memory: History, rows: Rows, x: Array) -> tuple[History, Rows, Array]:
        inputs = jax.lax.dynamic_update_index_in_dim(memory.inputs, x, memory.slot, 0)
        here = (jnp.arange(self.window) == memory.slot).reshape(-1, *(1,) * (1 + len(self.layer.out_shape)))
        # The slot's former input is forgotten: no trace may still weigh what is no longer there.
        rows = jax.tree.map(lambda row: jnp.where(here, 0, row), rows)
        return History(inputs, (memory.slot + 1) % self.window), rows, here.astype(x.dtype)

    def gradient(self, memory: History, params: Any, row: Array, post: Array) -> Any:
        return layers.gradient(self.layer, params, memory.inputs, row * post)


Traces = InputTraces | WeightTraces | FactoredTraces
