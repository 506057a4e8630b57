"""The contract of a layer: a linear map. Its transpose and its weight gradient follow from it.

The current is linear in the input and linear in the parameters, once the bias is read as a
weight from an input that is always 1 (`one`):

    c = x W + one · bias

Nothing more is asked of a layer, and no rule ever looks at a kernel's shape, so that a convolution
or a sparse map is one `apply` away. Leading axes (time, batch) are free in all of it.
"""

from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

Params = Any  # whatever pytree the layer's `init` returns


class LinearMap(Protocol):
    """What a layer must be. Hashable, and free of arrays: parameters live outside."""

    @property
    def in_shape(self) -> tuple[int, ...]: ...

    @property
    def out_shape(self) -> tuple[int, ...]: ...

    def init(self, key: Array, dtype: Any) -> Params: ...

    def apply(self, params: Params, x: Array, one: Array | float = 1.0) -> Array:
        """The current [..., *out_shape] for inputs [..., *in_shape]. `one` broadcasts as [..., 1]."""
        ...


@runtime_checkable
class WeightRows(Protocol):
    """For maps that can hold a trace per weight: one row per input that a neuron listens to.

    A trace per weight and sample has the shape [rows, batch, *out_shape].
    """

    @property
    def rows(self) -> int: ...

    def to_rows(self, x: Array) -> Array:
        """Inputs [batch, *in_shape] as each weight sees them, the bias's 1 included: [rows, batch, 1]."""
        ...

    def from_rows(self, dw: Array) -> Params:
        """A number per weight, [rows, *out_shape], in the layout of the parameters."""
        ...


def transpose(layer: LinearMap, params: Params, m: Array) -> Array:
    """m Wᵀ: the signal [..., *out_shape] sent back through the map, to the spikes below."""
    x = jax.ShapeDtypeStruct((*_leading(layer, m), *layer.in_shape), m.dtype)
    (q,) = jax.linear_transpose(lambda x: layer.apply(params, x, 0.0), x)(m)
    return q


def gradient(layer: LinearMap, params: Params, x: Array, m: Array, one: Array | float = 1.0) -> Params:
    """Σ x ⊗ m over every leading axis, shaped like `params`; `one` is the input of the bias."""
    like = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype), params)
    (dw,) = jax.linear_transpose(lambda p: layer.apply(p, x, one), like)(m)
    return dw


def lift(x: Array) -> Array:
    """The input with the bias's constant 1 as one more channel."""
    return jnp.concatenate([x, jnp.ones_like(x[..., :1])], axis=-1)


def unlift(x: Array) -> tuple[Array, Array]:
    """Undo `lift`, also after a linear filter: the input, and the input of the bias."""
    return x[..., :-1], x[..., -1:]


def _leading(layer: LinearMap, m: Array) -> tuple[int, ...]:
    return m.shape[: m.ndim - len(layer.out_shape)]
