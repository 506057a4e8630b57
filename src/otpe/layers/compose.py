"""Chains of maps as one map, and maps whose input shape is not known yet.

    conv(16, 5) >> avg_pool(2)            a Spec: `.on((2, 34, 34))` makes the map
    PoolLayer(…) >> ConvLayer(…)          a Composition: one linear map

A composition of linear maps is linear in its input. It is linear in its parameters only if a single part has them all.
So at most one part has parameters, and the parameters of the composition are those of this part.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe.layers.linear import LinearMap, Params, WeightRows

Shape = tuple[int, ...]


class Chains:
    """The operator `>>` of maps and specs: the left one feeds the right one."""

    def __rshift__(self, above: Any) -> Any:
        return _chained(self, above)

    def __rrshift__(self, below: Any) -> Any:
        return _chained(below, self)


@dataclass(frozen=True, repr=False)
class Spec(Chains):
    """A linear map whose input shape is not known yet."""

    call: str  # the call that made it, as text
    make: Callable[[Shape], LinearMap]

    def on(self, in_shape: int | Iterable[int]) -> LinearMap:
        """Return the map for inputs of this shape, without time and batch. Raises ValueError if it cannot take them."""
        return self.make(shape_of(in_shape))

    def __repr__(self) -> str:
        return self.call


@dataclass(frozen=True)
class Composition(Chains):
    """A chain of maps, in the order of the data. At most one of them has parameters."""

    parts: tuple[Any, ...]  # LinearMaps

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        for below, above in pairwise(self.parts):
            if tuple(below.out_shape) != tuple(above.in_shape):
                raise ValueError(
                    f"{self}: {description(below)} gives the shape {shown(below.out_shape)} and {description(above)}"
                    f" takes {shown(above.in_shape)}, expected one shape."
                )
        owners = [description(part) for part in self.parts if parameters(part)]
        if len(owners) > 1:
            raise ValueError(
                f"{self}: {' and '.join(owners)} both have parameters, expected parameters in one map at most: a"
                " product of two weights is not linear in them. Make two layers of them, with neurons in between."
            )

    @property
    def in_shape(self) -> Shape:
        return tuple(self.parts[0].in_shape)

    @property
    def out_shape(self) -> Shape:
        return tuple(self.parts[-1].out_shape)

    def init(self, key: Array, dtype: Any) -> Params:
        return self.parts[self._owner].init(key, dtype)

    def apply(self, params: Params, x: Array, one: Array | float = 1.0) -> Array:
        for i, part in enumerate(self.parts):
            x = part.apply(params, x, _bias_input(one, part)) if i == self._owner else part.apply((), x)
        return x

    def __str__(self) -> str:
        return " >> ".join(map(description, self.parts))

    @property
    def _owner(self) -> int:
        """The index of the part with the parameters, or 0 if no part has any."""
        return next((i for i, part in enumerate(self.parts) if parameters(part)), 0)


@dataclass(frozen=True)
class CompositionWithRows(Composition):
    """A composition that can hold a trace per weight: its last part has the parameters, and is a `WeightRows`."""

    @property
    def rows(self) -> int:
        return self.parts[-1].rows

    def to_rows(self, x: Array) -> Array:
        for part in self.parts[:-1]:
            x = part.apply((), x)
        return self.parts[-1].to_rows(x)

    def from_rows(self, dw: Array) -> Params:
        return self.parts[-1].from_rows(dw)


def compose(*maps: Any) -> Any:
    """Return a chain of maps as one map."""
    parts = tuple(part for each in maps for part in (each.parts if isinstance(each, Composition) else (each,)))
    if len(parts) == 1:
        return parts[0]
    with_rows = parameters(parts[-1]) and isinstance(parts[-1], WeightRows)
    return (CompositionWithRows if with_rows else Composition)(parts)


def resolve(layer: Any, in_shape: Shape) -> Any:
    """Return the map of a spec for this input shape, or a map unchanged. Raises ValueError if it does not fit."""
    if isinstance(layer, Spec):
        return layer.on(in_shape)
    if tuple(layer.in_shape) != in_shape:
        raise ValueError(
            f"{description(layer)} takes the shape {shown(layer.in_shape)}, but its input is {shown(in_shape)}."
        )
    return layer


@lru_cache
def parameters(layer: LinearMap) -> int:
    """Return the number of trained parameters of a map."""
    params = jax.eval_shape(lambda: layer.init(jax.random.key(0), jnp.float32))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def description(layer: Any) -> str:
    """Return a short text for a map or a spec: its `str`, or the name of its class if it defines none."""
    return str(layer) if type(layer).__str__ is not object.__str__ or isinstance(layer, Spec) else type(layer).__name__


def shown(shape: Iterable[int]) -> str:
    """Return a shape as text, such as "[2, 34, 34]"."""
    return "[" + ", ".join(map(str, shape)) + "]"


def shape_of(shape: Any) -> Shape:
    """Return a shape as a tuple, given a tuple or one number. Raises ValueError if it is not a shape."""
    try:
        sizes = tuple(shape) if np.ndim(shape) else (shape,)
    except (TypeError, ValueError):
        sizes = ()
    if not sizes or not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in sizes):
        raise ValueError(
            f"the input shape is {shape!r}, expected whole numbers above 0 without time and batch, such as 700 or"
            " (2, 34, 34)."
        )
    return tuple(map(int, sizes))


def _chained(below: Any, above: Any) -> Any:
    if not all(isinstance(each, Spec) or hasattr(each, "apply") for each in (below, above)):
        return NotImplemented
    if not isinstance(below, Spec) and not isinstance(above, Spec):
        return compose(below, above)

    def make(in_shape: Shape) -> Any:
        first = resolve(below, in_shape)
        return compose(first, resolve(above, tuple(first.out_shape)))

    return Spec(f"{description(below)} >> {description(above)}", make)


def _bias_input(one: Array | float, layer: LinearMap) -> Any:
    """Reshape the input of the bias so that it broadcasts to the current of this map."""
    return jnp.reshape(one, (-1, *(1,) * len(layer.out_shape))) if np.ndim(one) else one
