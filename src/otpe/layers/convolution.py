"""Convolutions in one or two dimensions, channels first, as in torch and NIR."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import check
from otpe.layers.compose import Chains, Shape, Spec, shown

BLOCK = 2**18  # largest size of a block of patches, in numbers: a megabyte in float32
Axes = int | tuple[int, ...]  # one number for all axes, or one per axis


class Conv(NamedTuple):
    """Parameters of one convolution."""

    kernel: Array  # [channels out, channels in / groups, *size]
    bias: Array | None  # [channels out]; None for a convolution without bias


@dataclass(frozen=True)
class ConvLayer(Chains):
    """c = kernel ⋆ x + one · bias, on inputs [C, L] or [C, H, W]. `conv` makes one with fewer arguments."""

    in_shape: Shape
    channels: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]  # before and after, per axis
    dilation: tuple[int, ...]
    groups: int = 1
    bias: bool = True

    @property
    def out_shape(self) -> Shape:
        along = zip(self.padded, self.spans, self.stride, strict=True)
        return (self.channels, *((n - span) // s + 1 for n, span, s in along))

    def init(self, key: Array, dtype: Any) -> Conv:
        """Kernel lecun-normal, bias zero."""
        shape = (self.channels, self.in_shape[0] // self.groups, *self.size)
        lecun_normal = jax.nn.initializers.variance_scaling(1.0, "fan_in", "truncated_normal", range(1, len(shape)), 0)
        return Conv(lecun_normal(key, shape, dtype), jnp.zeros(self.channels, dtype) if self.bias else None)

    def apply(self, params: Conv, x: Array, one: Array | float = 1.0) -> Array:
        # On a CPU, XLA's own convolution is up to ten times slower within a loop: see benchmarks/conv_products.py.
        c = jax.lax.platform_dependent(params.kernel, x, cpu=self._by_patches, default=self._by_convolution)
        return c if params.bias is None else c + one * params.bias.reshape(-1, *(1,) * len(self.size))

    def _by_convolution(self, kernel: Array, x: Array) -> Array:
        return jax.lax.conv_general_dilated(
            x, kernel, self.stride, self.padding, rhs_dilation=self.dilation, feature_group_count=self.groups
        )

    def _by_patches(self, kernel: Array, x: Array) -> Array:
        """Compute the convolution by matrix products, block by block, so that patches fit into the CPU's caches."""
        positions = self.out_shape[1:]
        weights = kernel.reshape(self.groups, self.channels // self.groups, -1)

        def block(x: Array) -> Array:
            patches = self._patches(jnp.moveaxis(x, 0, -1))
            c = jnp.matmul(weights, patches.reshape(*patches.shape[:2], -1))
            return jnp.moveaxis(c.reshape(self.channels, *positions, -1), -1, 0)

        numbers = self.groups * weights.shape[-1] * math.prod(positions)
        return _in_blocks(block, x, max(1, BLOCK // numbers))

    # Rows for a trace per weight: one per weight of an output channel's kernel, and a last one for the bias.

    @property
    def rows(self) -> int:
        return self.in_shape[0] // self.groups * math.prod(self.size) + self.bias

    def to_rows(self, x: Array) -> Array:
        """Return [N, rows, 1, *positions], or [N, rows, channels, *positions] if groups see different inputs."""
        rows = jnp.moveaxis(self._patches(jnp.moveaxis(x, 0, -1)), (-1, 1, 0), (0, 1, 2))
        if self.groups > 1:
            rows = jnp.repeat(rows, self.channels // self.groups, axis=2)
        return jnp.concatenate([rows, jnp.ones_like(rows[:, :1])], axis=1) if self.bias else rows

    def from_rows(self, dw: Array) -> Conv:
        dw = dw.sum(range(2, dw.ndim)).T  # every position shares the weights
        kernel, bias = (dw[:, :-1], dw[:, -1]) if self.bias else (dw, None)
        return Conv(kernel.reshape(self.channels, -1, *self.size), bias)

    def _patches(self, x: Array) -> Array:
        """Return the inputs of each weight of a channel's kernel.

        x has the shape [C, *in, N], the result [groups, rows without bias, *positions, N].
        """
        filled = [(a, b + -n % s) for (a, b), n, s in zip(self.padding, self.padded, self.stride, strict=True)]
        phases = self._phases(jnp.pad(x, ((0, 0), *filled, (0, 0))))

        def window(tap: tuple[int, ...]) -> Array:
            starts = [divmod(k * d, s) for k, d, s in zip(tap, self.dilation, self.stride, strict=True)]
            along = [slice(start, start + n) for (start, _), n in zip(starts, self.out_shape[1:], strict=True)]
            return phases[tuple(phase for _, phase in starts)][:, *along]

        seen = jnp.stack([window(tap) for tap in product(*map(range, self.size))], axis=1)
        return seen.reshape(self.groups, -1, *seen.shape[2:])

    def _phases(self, x: Array) -> dict[tuple[int, ...], Array]:
        """Split the inputs by their index modulo the stride, for each axis. Within each part the stride is 1."""
        axes, counts = len(self.stride), [n // s for n, s in zip(x.shape[1:-1], self.stride, strict=True)]
        x = x.reshape(len(x), *chain(*zip(counts, self.stride, strict=True)), x.shape[-1])
        x = jnp.moveaxis(x, range(2, 2 + 2 * axes, 2), range(axes)).reshape(-1, len(x), *counts, x.shape[-1])
        phases = jax.lax.split(x, (1,) * len(x))  # not slices: the transpose of `split` is one copy, not a sum
        return {which: phase[0] for which, phase in zip(product(*map(range, self.stride)), phases, strict=True)}

    @property
    def padded(self) -> list[int]:
        """The number of inputs per axis, including the padding."""
        return [before + n + after for n, (before, after) in zip(self.in_shape[1:], self.padding, strict=True)]

    @property
    def spans(self) -> list[int]:
        """The number of inputs per axis from the first to the last weight of the kernel."""
        return [(k - 1) * d + 1 for k, d in zip(self.size, self.dilation, strict=True)]

    def __str__(self) -> str:
        padding = [str(a) if a == b else f"{a}+{b}" for a, b in self.padding]
        settings = {"stride": (self.stride, "1"), "padding": (padding, "0"), "dilation": (self.dilation, "1")}
        extras = [f"{name} {_axes(value)}" for name, (value, usual) in settings.items() if _axes(value) != usual]
        extras += [f"{self.groups} groups"] * (self.groups > 1) + ["no bias"] * (not self.bias)
        return ", ".join([f"conv {self.channels}", by(self.size), *extras])


def conv(
    channels: int,
    size: Axes,
    stride: Axes = 1,
    padding: Axes | str = 0,
    dilation: Axes = 1,
    groups: int = 1,
    bias: bool = True,
) -> Spec:
    """A convolution on inputs [C, L] or [C, H, W].

    Args:
      channels: number of output channels.
      size: size of the kernel.
      stride: distance between neighbouring positions of the kernel, in inputs.
      padding: zeros added at both ends of an axis. "valid" is 0; with "same" the output has ⌈input / stride⌉ positions.
      dilation: distance between neighbouring weights of the kernel, in inputs.
      groups: number of groups into which the channels are divided. An output channel only sees the inputs of its group.
      bias: whether each output channel has a bias.
    """
    _check(channels, size, stride, padding, dilation, groups, bias)
    given = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": bias}
    usual = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": True}
    others = [f"{name}={value!r}" for name, value in given.items() if value != usual[name]]
    call = f"conv({', '.join([str(channels), str(size), *others])})"

    def make(in_shape: Shape) -> ConvLayer:
        if len(in_shape) not in (2, 3):
            raise ValueError(
                f"{call} takes an input [channels, length] or [channels, height, width], but its input is"
                f" {shown(in_shape)}." + (" For a flat input use dense(n)." if len(in_shape) == 1 else "")
            )
        if in_shape[0] % groups:
            raise ValueError(
                f"{call}: {in_shape[0]} input channels cannot be divided into {groups} groups. Choose a divisor."
            )
        sizes, strides, dilations = (per_axis(call, value, in_shape) for value in (size, stride, dilation))
        if padding == "same":
            spans = [(k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
            pads = tuple(jax.lax.padtype_to_pads(in_shape[1:], spans, strides, "SAME"))
        else:
            pads = tuple((n, n) for n in per_axis(call, 0 if padding == "valid" else padding, in_shape))
        layer = ConvLayer(in_shape, channels, sizes, strides, pads, dilations, groups, bias)
        if min(layer.out_shape) < 1:
            raise ValueError(
                f"{call}: the kernel spans {shown(layer.spans)} inputs, but there are only {shown(layer.padded)}, the"
                " padding included. Choose a smaller size or dilation, or more padding."
            )
        return layer

    return Spec(call, make)


def _in_blocks(linear: Callable[[Array], Array], x: Array, most: int) -> Array:
    """Apply a linear function of samples [N, …] to blocks of at most `most` samples."""
    if len(x) <= most:
        return linear(x)
    divisors = [size for size in range((most + 1) // 2, most + 1) if len(x) % size == 0]
    size = max(divisors, default=most)
    missing = -len(x) % size
    whole = jnp.pad(x, ((0, missing), *((0, 0),) * (x.ndim - 1))) if missing else x
    # With `checkpoint`, the transpose computes the patches of a block again. Otherwise the patches of all blocks would
    # be stored.
    recomputed = jax.checkpoint(linear, prevent_cse=False)
    y = jax.lax.map(recomputed, whole.reshape(-1, size, *x.shape[1:]))
    return y.reshape(-1, *y.shape[2:])[: len(x)]


def per_axis(call: str, value: Any, in_shape: Shape) -> tuple[int, ...]:
    """Return one number for each axis after the channels. Raises ValueError if there are not as many."""
    axes = len(in_shape) - 1
    numbers = tuple(map(int, value)) if np.ndim(value) else (int(value),) * axes
    if len(numbers) != axes:
        raise ValueError(
            f"{call}: {value!r} has {len(numbers)} entries, but the input {shown(in_shape)} has {axes} axes after its"
            " channels. Give one entry per axis, or one number for all."
        )
    return numbers


def check_axes(what: str, value: Any, least: int = 1) -> None:
    """Raise ValueError if this is not a whole number from `least` on, or several."""
    given = value if isinstance(value, tuple | list) else (value,)
    if not given or not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= least for n in given):
        raise ValueError(f"{what} is {value!r}, expected a whole number from {least} on, or one per axis.")


def by(numbers: Iterable[Any]) -> str:
    """Return sizes as text, such as "3×5"."""
    return "×".join(map(str, numbers))


def _check(channels: Any, size: Any, stride: Any, padding: Any, dilation: Any, groups: Any, bias: Any) -> None:
    check.count("conv: channels", channels)
    check.count("conv: groups", groups)
    check.flag("conv: bias", bias)
    for name, value in {"size": size, "stride": stride, "dilation": dilation}.items():
        check_axes(f"conv: {name}", value)
    if isinstance(padding, str):
        check.one_of("conv: padding", padding, ("same", "valid"))
    else:
        check_axes("conv: padding", padding, least=0)
    if channels % groups:
        raise ValueError(f"conv: {channels} channels cannot be divided into {groups} groups. Choose a divisor.")


def _axes(values: Iterable[Any]) -> str:
    """Return the values of all axes as text, or only one if all are the same."""
    given = list(values)
    return by(given if len(set(given)) > 1 else given[:1])
