"""The contract of a layer: a linear map. Its transpose and its weight gradient follow from it.

The current is linear in the input and linear in the parameters, once the bias is read as a
weight from an input that is always 1 (`one`):

    c = x W + one · bias

Nothing more is asked of a layer, and no rule ever looks at a kernel's shape, so that a convolution
or a sparse map is one `apply` away. The functions of this module take any leading axes (time, batch);
`apply` itself always gets exactly one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from otpe.engine import Engine
from otpe.layers import products
from otpe.scan import Parts, Stacked

Params = Any  # whatever pytree the layer's `init` returns


class LinearMap(Protocol):
    """What a layer must be. Hashable, and free of arrays: parameters live outside."""

    @property
    def in_shape(self) -> tuple[int, ...]: ...

    @property
    def out_shape(self) -> tuple[int, ...]: ...

    def init(self, key: Array, dtype: Any) -> Params: ...

    def apply(self, params: Params, x: Array, one: Array | float = 1.0) -> Array:
        """The current [N, *out_shape] for inputs [N, *in_shape].

        `one` is the input of the bias: a number, or one per sample as [N, 1, …] with as many axes as the current.
        """
        ...


@runtime_checkable
class WeightRows(Protocol):
    """For maps that can hold a trace per weight: one row per input that a neuron listens to.

    A trace per weight and sample has the shape [batch, rows, *out_shape].
    """

    @property
    def rows(self) -> int: ...

    def to_rows(self, x: Array) -> Array:
        """Inputs [batch, *in_shape] as each weight sees them, the bias's 1 included: [batch, rows, 1]."""
        ...

    def from_rows(self, dw: Array) -> Params:
        """A number per weight, [rows, *out_shape], in the layout of the parameters."""
        ...


@runtime_checkable
class Matrix(Protocol):
    """For maps that are one matrix and a bias: a GPU has a faster way to multiply spikes by a matrix."""

    def to_matrix(self, params: Params) -> tuple[Array, Array]:
        """W [n_in, n_out] and the bias [n_out]."""
        ...

    def from_matrix(self, kernel: Array, bias: Array) -> Params: ...


class Current(NamedTuple):
    """The current of a layer: terms that are still to be added up."""

    terms: Array | Stacked | Parts  # [T, B, *out], or [B, *out] inside a step
    bias: Array | None  # where it is not in there yet

    @property
    def total(self) -> Array:
        """The current, where the terms are those of one step."""
        c = self.terms.total if isinstance(self.terms, Parts) else self.terms
        return c if self.bias is None else c + self.bias  # type: ignore[operator]


def apply(layer: LinearMap, params: Params, x: Array, engine: Engine = Engine()) -> Array:
    """The current [..., *out_shape], the bias in it."""
    x, leading = _rows(x.astype(_type(params, x)), layer.in_shape)
    with _precision(engine):
        return layer.apply(params, x).reshape(*leading, *layer.out_shape)


def current(layer: Any, params: Params, x: Array, engine: Engine) -> Current:
    """The current over time, in the form that is cheapest to make."""
    if x.dtype == products.EXACT and takes_apart(layer, params, engine):
        kernel, bias = layer.to_matrix(params)
        return Current(products.spikes_times(x, kernel, engine.precision), bias)
    return Current(apply(layer, params, x, engine), None)


def spike_type(layer: LinearMap, params: Params, engine: Engine, dtype: Any) -> Any:
    """The type in which the layer prefers spikes: a narrow one if it takes its products apart, else `dtype`."""
    return products.EXACT if takes_apart(layer, params, engine) else dtype


def narrow(layer: LinearMap, params: Params, x: Array, engine: Engine, dtype: Any) -> Array:
    """Spikes as the layer prefers them. Those of a wide type stay wide: not every number is exact in a narrow one."""
    small = x.dtype in (jnp.bool_, jnp.int8, jnp.uint8, products.EXACT)
    return x.astype(spike_type(layer, params, engine, dtype) if small else dtype)


def kept_shape(layer: LinearMap, params: Params, dtype: Any, engine: Engine) -> tuple[int, ...]:
    """The shape in which inputs are best kept to be multiplied often: with zeros at the end, which `gradient` drops."""
    if dtype != products.EXACT or not takes_apart(layer, params, engine):
        return layer.in_shape
    return products.aligned(jax.numpy.zeros(layer.in_shape), -1).shape


def transpose(layer: Any, params: Params, m: Array, engine: Engine = Engine()) -> Array:
    """m Wᵀ: the signal [..., *out_shape] sent back through the map, to the spikes below."""
    if takes_apart(layer, params, engine):
        return products.signal_times(m, layer.to_matrix(params)[0], engine)
    m, leading = _rows(m, layer.out_shape)
    x = jax.ShapeDtypeStruct((m.shape[0], *layer.in_shape), m.dtype)
    with _precision(engine):
        (q,) = jax.linear_transpose(lambda x: layer.apply(params, x, 0.0), x)(m)
    return q.reshape(*leading, *layer.in_shape)


def gradient(
    layer: Any, params: Params, x: Array, m: Array, one: Array | float = 1.0, engine: Engine = Engine()
) -> Params:
    """Σ x ⊗ m over every leading axis, shaped like `params`.

    `one` is the input of the bias: a number, or an array of the leading axes.
    """
    if not jax.tree.leaves(params):
        return params
    if x.dtype == products.EXACT and takes_apart(layer, params, engine):
        parts = Stacked(jnp.stack(products.split(m, engine.precision).arrays, axis=-2))
        return layer.from_matrix(products.spikes_against(x, parts, *layer.in_shape), m.sum(range(m.ndim - 1)))
    like = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype), params)
    x, _ = _rows(x.astype(_type(params, x)), layer.in_shape)
    m, _ = _rows(m, layer.out_shape)
    one = jnp.reshape(one, (-1, *(1,) * len(layer.out_shape))) if jnp.ndim(one) else one
    with _precision(engine):
        (dw,) = jax.linear_transpose(lambda p: layer.apply(p, x, one), like)(m)
    return dw


@dataclass(frozen=True)
class Collector:
    """Σ x ⊗ κ for a κ that comes step by step: what to keep of each step, and what to make of it in the end."""

    layer: Any  # a LinearMap
    params: Params
    x: Array  # [T, B, *in]
    engine: Engine

    def start(self) -> Array | None:
        return jnp.zeros((), jnp.float32) if self._apart else None

    def step(self, collected: Any, κ: Array) -> tuple[Any, Any]:
        if not self._apart:
            return None, κ
        return collected + κ, products.split(κ, self.engine.precision)

    def gradient(self, collected: Any, kept: Any) -> Params:
        if not self._apart:
            return gradient(self.layer, self.params, self.x, kept, engine=self.engine)
        return self.layer.from_matrix(products.spikes_against(self.x, kept, *self.layer.in_shape), collected.sum(0))

    @property
    def _apart(self) -> bool:
        return self.x.dtype == products.EXACT and takes_apart(self.layer, self.params, self.engine)


def takes_apart(layer: LinearMap, params: Params, engine: Engine) -> bool:
    """Is the product of exact spikes with this layer's weights made from parts?"""
    flat = len(layer.in_shape) == len(layer.out_shape) == 1
    return engine.backend != "plain" and flat and isinstance(layer, Matrix) and _type(params) == jnp.float32


def lift(x: Array) -> Array:
    """Inputs [N, *in] as one flat row per sample, with the bias's constant 1 at the end: [N, inputs + 1]."""
    x = x.reshape(x.shape[0], -1)
    return jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=-1)


def unlift(row: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Undo `lift`, also after a linear filter: the inputs [N, *shape], and the input of the bias [N]."""
    return row[:, :-1].reshape(-1, *shape), row[:, -1]


def _precision(engine: Engine) -> Any:
    """For every matrix product or convolution that a layer's `apply` makes."""
    names = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "bfloat16"}
    return jax.default_matmul_precision(names[engine.precision])


def _type(params: Params, x: Array | None = None) -> Any:
    """The type of the parameters; for a map without any, that of its input."""
    leaves = jax.tree.leaves(params)
    return leaves[0].dtype if leaves else x.dtype  # type: ignore[union-attr]


def _rows(a: Array, shape: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
    """All leading axes as one, since many small products take longer than a large one; and what they were."""
    leading = a.shape[: a.ndim - len(shape)]
    return a.reshape(-1, *shape), leading
