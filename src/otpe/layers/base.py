"""The contract of a layer: a linear map. Its transpose and its weight gradient follow from it.

The current is linear in the input and linear in the parameters, once the bias is read as a
weight from an input that is always 1 (`one`):

    c = x W + one · bias

Nothing more is asked of a layer, and no rule ever looks at a kernel's shape, so that a convolution
or a sparse map is one `apply` away. Leading axes (time, batch) are free in all of it.
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
        """The current [..., *out_shape] for inputs [..., *in_shape]. `one` broadcasts as [..., 1]."""
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
    """The current of a layer over time, still to be added up: `now` does it, for one step."""

    terms: Array | Stacked  # [T, B, *out]
    bias: Array | None  # where it is not in there yet

    @staticmethod
    def now(bias: Array | None, terms: Array | Parts) -> Array:
        c = terms.total if isinstance(terms, Parts) else terms
        return c if bias is None else c + bias


def apply(layer: LinearMap, params: Params, x: Array, engine: Engine = Engine()) -> Array:
    """The current [..., *out_shape], the bias in it."""
    x, leading = _rows(x.astype(_type(params)), layer.in_shape)
    with _precision(engine):
        return layer.apply(params, x).reshape(*leading, *layer.out_shape)


def current(layer: Any, params: Params, x: Array, engine: Engine) -> Current:
    """The current over time, in the form that is cheapest to make."""
    if x.dtype == products.EXACT and takes_apart(layer, params, engine):
        kernel, bias = layer.to_matrix(params)
        return Current(products.spikes_times(x, kernel, engine.precision), bias)
    return Current(apply(layer, params, x, engine), None)


def spike_type(layer: LinearMap, params: Params, engine: Engine) -> Any:
    """The type in which the layer likes to be given spikes: a narrow one if it takes its products apart."""
    return products.EXACT if takes_apart(layer, params, engine) else _type(params)


def narrow(layer: LinearMap, params: Params, x: Array, engine: Engine) -> Array:
    """Spikes as the layer likes them; those of a wide type stay wide: not every number is exact in a narrow one."""
    small = x.dtype in (jnp.bool_, jnp.int8, jnp.uint8, products.EXACT)
    return x.astype(spike_type(layer, params, engine) if small else _type(params))


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
    """Σ x ⊗ m over every leading axis, shaped like `params`; `one` is the input of the bias."""
    if x.dtype == products.EXACT and takes_apart(layer, params, engine):
        parts = Stacked(jnp.stack(products.split(m, engine.precision).arrays, axis=-2))
        return layer.from_matrix(products.spikes_against(x, parts, *layer.in_shape), m.sum(range(m.ndim - 1)))
    like = jax.tree.map(lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype), params)
    x, _ = _rows(x.astype(_type(params)), layer.in_shape)
    m, _ = _rows(m, layer.out_shape)
    one = jnp.reshape(one, (-1, *jnp.shape(one)[-len(layer.in_shape) :])) if jnp.ndim(one) else one
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
        return jnp.zeros((), _type(self.params)) if self._apart else None

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
    """The input with the bias's constant 1 as one more channel."""
    return jnp.concatenate([x, jnp.ones_like(x[..., :1])], axis=-1)


def unlift(x: Array) -> tuple[Array, Array]:
    """Undo `lift`, also after a linear filter: the input, and the input of the bias."""
    return x[..., :-1], x[..., -1:]


def _precision(engine: Engine) -> Any:
    """For every matrix product or convolution that a layer's `apply` makes."""
    names = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "bfloat16"}
    return jax.default_matmul_precision(names[engine.precision])


def _type(params: Params) -> Any:
    return jax.tree.leaves(params)[0].dtype


def _rows(a: Array, shape: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
    """All leading axes as one, since many small products take longer than a large one; and what they were."""
    leading = a.shape[: a.ndim - len(shape)]
    return a.reshape(-1, *shape), leading
