"""The contract of a linear map. Its transpose and its weight gradient follow from `apply`.

The current is linear in the input, and linear in the parameters. The bias is a weight from an input that is always 1
(`one`):

    c = x W + one · bias

A map needs no other methods than those of `LinearMap`. No rule depends on the shape of a kernel, so this also holds for
a convolution or a sparse map. The functions of this module take any number of leading axes, such as time and batch; the
method `apply` of a map gets exactly one leading axis.
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
    """What a map must have. It is hashable and holds no arrays: parameters are passed to its methods."""

    @property
    def in_shape(self) -> tuple[int, ...]: ...

    @property
    def out_shape(self) -> tuple[int, ...]: ...

    def init(self, key: Array, dtype: Any) -> Params: ...

    def apply(self, params: Params, x: Array, one: Array | float = 1.0) -> Array:
        """Return the current [N, *out_shape] for inputs [N, *in_shape].

        `one` is the input of the bias: a number, or an array [N, 1, …] with one number per sample and as many axes as
        the current.
        """
        ...


@runtime_checkable
class WeightRows(Protocol):
    """For maps that can hold a trace per weight. The weights of a neuron are rows, one per input of the neuron.

    Traces per weight have the shape [batch, rows, *out_shape].
    """

    @property
    def rows(self) -> int: ...

    def to_rows(self, x: Array) -> Array:
        """Return the input of each weight, with 1 for the bias, for x [batch, *in_shape].

        The result must broadcast to [batch, rows, *out_shape].
        """
        ...

    def from_rows(self, dw: Array) -> Params:
        """Return one number per weight, given as [rows, *out_shape], in the layout of the parameters."""
        ...


@runtime_checkable
class Matrix(Protocol):
    """For maps that are one matrix and a bias. A GPU multiplies spikes by a matrix faster, see `products`."""

    def to_matrix(self, params: Params) -> tuple[Array, Array]:
        """Return W [n_in, n_out] and the bias [n_out]."""
        ...

    def from_matrix(self, kernel: Array, bias: Array) -> Params:
        """Return the parameters for this matrix and bias: the inverse of `to_matrix`."""
        ...


class Current(NamedTuple):
    """The current of a layer, as terms that are not added up yet."""

    terms: Array | Stacked | Parts  # [T, B, *out], or [B, *out] inside a step
    bias: Array | None  # None if the terms include it

    @property
    def total(self) -> Array:
        """The current of one step. The terms must be those of one step."""
        c = self.terms.total if isinstance(self.terms, Parts) else self.terms
        return c if self.bias is None else c + self.bias  # type: ignore[operator]


def apply(layer: LinearMap, params: Params, x: Array, engine: Engine = Engine()) -> Array:
    """Return the current [..., *out_shape], including the bias."""
    x, leading = _rows(x.astype(_type(params, x)), layer.in_shape)
    with _precision(engine):
        return layer.apply(params, x).reshape(*leading, *layer.out_shape)


def current(layer: Any, params: Params, x: Array, engine: Engine) -> Current:
    """Return the current of one step or of all steps, in the form that is cheapest to compute."""
    if x.dtype == products.EXACT and uses_parts(layer, params, engine):
        kernel, bias = layer.to_matrix(params)
        return Current(products.spikes_times(x, kernel, engine.precision), bias)
    return Current(apply(layer, params, x, engine), None)


def spike_type(layer: LinearMap, params: Params, engine: Engine, dtype: Any) -> Any:
    """Return the type of spikes that is fastest for the layer: a narrow one if it `uses_parts`, else `dtype`."""
    return products.EXACT if uses_parts(layer, params, engine) else dtype


def narrow(layer: LinearMap, params: Params, x: Array, engine: Engine, dtype: Any) -> Array:
    """Return the spikes in the type that is fastest for the layer.

    Inputs of a wide type stay wide, since a narrow type cannot hold every number exactly.
    """
    small = x.dtype in (jnp.bool_, jnp.int8, jnp.uint8, products.EXACT)
    return x.astype(spike_type(layer, params, engine, dtype) if small else dtype)


def storage_shape(layer: LinearMap, params: Params, dtype: Any, engine: Engine) -> tuple[int, ...]:
    """Return the shape in which to store inputs for repeated products, with room for padding that `gradient` drops."""
    if dtype != products.EXACT or not uses_parts(layer, params, engine):
        return layer.in_shape
    return products.aligned(jax.numpy.zeros(layer.in_shape), -1).shape


def transpose(layer: Any, params: Params, m: Array, engine: Engine = Engine()) -> Array:
    """Return m Wᵀ: the signal [..., *out_shape] sent back through the map, as [..., *in_shape]."""
    if uses_parts(layer, params, engine):
        return products.signal_times(m, layer.to_matrix(params)[0], engine)
    m, leading = _rows(m, layer.out_shape)
    x = jax.ShapeDtypeStruct((m.shape[0], *layer.in_shape), m.dtype)
    with _precision(engine):
        (q,) = jax.linear_transpose(lambda x: layer.apply(params, x, 0.0), x)(m)
    return q.reshape(*leading, *layer.in_shape)


def gradient(
    layer: Any, params: Params, x: Array, m: Array, one: Array | float = 1.0, engine: Engine = Engine()
) -> Params:
    """Return Σ x ⊗ m over all leading axes, in the layout of `params`.

    `one` is the input of the bias: a number, or an array with the leading axes.
    """
    if not jax.tree.leaves(params):
        return params
    if x.dtype == products.EXACT and uses_parts(layer, params, engine):
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
    """Computes Σ x ⊗ κ when κ is produced step by step in a loop.

    `start` returns the initial sum of κ. `step` returns the next sum, and the form of κ that the loop must store for
    this step. `gradient` takes the last sum and the stored steps.
    """

    layer: Any  # a LinearMap
    params: Params
    x: Array  # [T, B, *in]
    engine: Engine

    def start(self) -> Array | None:
        return jnp.zeros((), jnp.float32) if self._uses_parts else None

    def step(self, total: Any, κ: Array) -> tuple[Any, Any]:
        if not self._uses_parts:
            return None, κ
        return total + κ, products.split(κ, self.engine.precision)

    def gradient(self, total: Any, stored: Any) -> Params:
        if not self._uses_parts:
            return gradient(self.layer, self.params, self.x, stored, engine=self.engine)
        return self.layer.from_matrix(products.spikes_against(self.x, stored, *self.layer.in_shape), total.sum(0))

    @property
    def _uses_parts(self) -> bool:
        return self.x.dtype == products.EXACT and uses_parts(self.layer, self.params, self.engine)


def uses_parts(layer: LinearMap, params: Params, engine: Engine) -> bool:
    """Return whether products of spikes with this layer's weights are computed from parts, see `products`."""
    flat = len(layer.in_shape) == len(layer.out_shape) == 1
    return engine.backend != "plain" and flat and isinstance(layer, Matrix) and _type(params) == jnp.float32


def lift(x: Array) -> Array:
    """Flatten inputs [N, *in] and append 1, the input of the bias: [N, inputs + 1]."""
    x = x.reshape(x.shape[0], -1)
    return jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=-1)


def unlift(row: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Return the inputs [N, *shape] and the input of the bias [N] of a row from `lift`, or of a filtered row."""
    return row[:, :-1].reshape(-1, *shape), row[:, -1]


def _precision(engine: Engine) -> Any:
    """Return a context that sets the precision of all matrix products and convolutions in a layer's `apply`."""
    names = {"float32": "highest", "tf32": "tensorfloat32", "bf16": "bfloat16"}
    return jax.default_matmul_precision(names[engine.precision])


def _type(params: Params, x: Array | None = None) -> Any:
    """Return the type of the parameters, or that of the input if the map has no parameters."""
    leaves = jax.tree.leaves(params)
    return leaves[0].dtype if leaves else x.dtype  # type: ignore[union-attr]


def _rows(a: Array, shape: tuple[int, ...]) -> tuple[Array, tuple[int, ...]]:
    """Merge all leading axes into one, since one large product is faster than many small ones. Also return them."""
    leading = a.shape[: a.ndim - len(shape)]
    return a.reshape(-1, *shape), leading
