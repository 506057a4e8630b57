"""Maps without parameters, channels first: average and sum pooling, and flatten."""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from otpe.layers.compose import Chains, Shape, Spec, shown
from otpe.layers.convolution import Axes, by, check_axes, per_axis


@dataclass(frozen=True)
class PoolLayer(Chains):
    """The sum or the average over windows of each channel. Windows that would pass the end are left out."""

    in_shape: Shape
    size: tuple[int, ...]
    stride: tuple[int, ...]
    average: bool

    @property
    def out_shape(self) -> Shape:
        along = zip(self.in_shape[1:], self.size, self.stride, strict=True)
        return (self.in_shape[0], *((n - k) // s + 1 for n, k, s in along))

    def init(self, key: Array, dtype: Any) -> tuple[()]:
        return ()

    def apply(self, params: tuple[()], x: Array, one: Array | float = 1.0) -> Array:
        # Sums of slices, axis by axis, are faster on a CPU than `reduce_window`: see benchmarks/conv_products.py.
        for axis, (k, s) in enumerate(zip(self.size, self.stride, strict=True), start=2):
            last = (self.out_shape[axis - 1] - 1) * s + 1
            x = reduce(jnp.add, [jax.lax.slice_in_dim(x, tap, tap + last, s, axis) for tap in range(k)])
        return x / math.prod(self.size) if self.average else x

    def __str__(self) -> str:
        stride = "" if self.stride == self.size else f", stride {by(self.stride)}"
        return f"{'avg' if self.average else 'sum'} pool {by(self.size)}{stride}"


@dataclass(frozen=True)
class FlattenLayer(Chains):
    """Merges all axes into one."""

    in_shape: Shape

    @property
    def out_shape(self) -> Shape:
        return (math.prod(self.in_shape),)

    def init(self, key: Array, dtype: Any) -> tuple[()]:
        return ()

    def apply(self, params: tuple[()], x: Array, one: Array | float = 1.0) -> Array:
        return x.reshape(-1, *self.out_shape)

    def __str__(self) -> str:
        return "flatten"


def avg_pool(size: Axes, stride: Axes | None = None) -> Spec:
    """The average over windows of each channel, on [C, L] or [C, H, W].

    Args:
      size: size of a window.
      stride: distance between neighbouring windows, in inputs. By default the size, so that windows do not overlap. A
        window that would pass the end is left out.
    """
    return _pool("avg_pool", size, stride, average=True)


def sum_pool(size: Axes, stride: Axes | None = None) -> Spec:
    """The sum over windows of each channel. Arguments as in `avg_pool`."""
    return _pool("sum_pool", size, stride, average=False)


def flatten() -> Spec:
    """Merge all axes into one, as `dense` needs it."""
    return Spec("flatten()", FlattenLayer)


def _pool(name: str, size: Axes, stride: Axes | None, average: bool) -> Spec:
    check_axes(f"{name}: size", size)
    check_axes(f"{name}: stride", size if stride is None else stride)
    call = f"{name}({size}{'' if stride is None else f', stride={stride}'})"

    def make(in_shape: Shape) -> PoolLayer:
        if len(in_shape) not in (2, 3):
            raise ValueError(
                f"{call} takes an input [channels, length] or [channels, height, width], but its input is"
                f" {shown(in_shape)}."
            )
        sizes = per_axis(call, size, in_shape)
        layer = PoolLayer(in_shape, sizes, sizes if stride is None else per_axis(call, stride, in_shape), average)
        if min(layer.out_shape) < 1:
            raise ValueError(
                f"{call}: the window has the size {shown(sizes)}, but there are only {shown(in_shape[1:])} inputs."
                " Choose a smaller size."
            )
        return layer

    return Spec(call, make)
