"""Convolutions over a line or a plane, channel first, as torch and NIR have them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import check
from otpe.layers.compose import Chains, Shape, Spec, shown

Axes = int | tuple[int, ...]  # one number for all axes, or one per axis


class Conv(NamedTuple):
    """Parameters of one convolution."""

    kernel: Array  # [channels out, channels in / groups, *size]
    bias: Array | None  # [channels out]; None for a convolution without bias


@dataclass(frozen=True)
class ConvLayer(Chains):
    """c = kernel ⋆ x + one · bias, on inputs [C, L] or [C, H, W]. `conv` makes one from fewer words."""

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
        c = jax.lax.conv_general_dilated(
            x, params.kernel, self.stride, self.padding, rhs_dilation=self.dilation, feature_group_count=self.groups
        )
        return c if params.bias is None else c + one * params.bias.reshape(-1, *(1,) * len(self.size))

    # A trace per weight: one row per weight of an output channel's kernel, and a last one for the bias.

    @property
    def rows(self) -> int:
        return self.in_shape[0] // self.groups * math.prod(self.size) + self.bias

    def to_rows(self, x: Array) -> Array:
        """[N, rows, 1, *positions]; for groups, which see different inputs, [N, rows, channels, *positions]."""
        x = jnp.pad(x, ((0, 0), (0, 0), *self.padding))
        taps = jnp.stack([x[(..., *self._window(tap))] for tap in product(*map(range, self.size))], axis=2)
        positions = taps.shape[3:]
        rows = taps.reshape(x.shape[0], self.groups, -1, *positions).swapaxes(1, 2)
        if self.groups > 1:
            rows = jnp.repeat(rows, self.channels // self.groups, axis=2)
        return jnp.concatenate([rows, jnp.ones_like(rows[:, :1])], axis=1) if self.bias else rows

    def from_rows(self, dw: Array) -> Conv:
        dw = dw.sum(range(2, dw.ndim)).T  # every position shares the weights
        kernel, bias = (dw[:, :-1], dw[:, -1]) if self.bias else (dw, None)
        return Conv(kernel.reshape(self.channels, -1, *self.size), bias)

    def _window(self, tap: tuple[int, ...]) -> tuple[slice, ...]:
        """The inputs that one weight of the kernel sees, over all positions."""
        starts = [k * d for k, d in zip(tap, self.dilation, strict=True)]
        counts = self.out_shape[1:]
        return tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, self.stride, strict=True))

    @property
    def padded(self) -> list[int]:
        """Inputs per axis, the padding included."""
        return [before + n + after for n, (before, after) in zip(self.in_shape[1:], self.padding, strict=True)]

    @property
    def spans(self) -> list[int]:
        """Inputs per axis from the first to the last weight of the kernel."""
        return [(k - 1) * d + 1 for k, d in zip(self.size, self.dilation, strict=True)]

    def __str__(self) -> str:
        padding = [str(a) if a == b else f"{a}+{b}" for a, b in self.padding]
        settings = {"stride": (self.stride, "1"), "padding": (padding, "0"), "dilation": (self.dilation, "1")}
        said = [f"{name} {_axes(value)}" for name, (value, usual) in settings.items() if _axes(value) != usual]
        said += [f"{self.groups} groups"] * (self.groups > 1) + ["no bias"] * (not self.bias)
        return ", ".join([f"conv {self.channels}", by(self.size), *said])


def conv(
    channels: int,
    size: Axes,
    stride: Axes = 1,
    padding: Axes | str = 0,
    dilation: Axes = 1,
    groups: int = 1,
    bias: bool = True,
) -> Spec:
    """A convolution on [C, L] or [C, H, W], whichever its input is.

    Args:
      channels: of the output.
      size: of the kernel.
      stride: inputs from one position of the kernel to the next.
      padding: zeros added at both ends of an axis. "valid" is 0; with "same" the output has ⌈input / stride⌉ positions.
      dilation: inputs from one weight of the kernel to the next.
      groups: the channels are divided into that many groups, each of which only sees its own inputs.
      bias: does each output channel have one?
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


def per_axis(call: str, value: Any, in_shape: Shape) -> tuple[int, ...]:
    """One number for every axis behind the channels."""
    axes = len(in_shape) - 1
    numbers = tuple(map(int, value)) if np.ndim(value) else (int(value),) * axes
    if len(numbers) != axes:
        raise ValueError(
            f"{call}: {value!r} has {len(numbers)} entries, but the input {shown(in_shape)} has {axes} axes behind its"
            " channels. Give one entry per axis, or one number for all."
        )
    return numbers


def check_axes(what: str, value: Any, least: int = 1) -> None:
    given = value if isinstance(value, tuple | list) else (value,)
    if not given or not all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= least for n in given):
        raise ValueError(f"{what} is {value!r}, expected a whole number from {least} on, or one per axis.")


def by(numbers: Iterable[Any]) -> str:
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
    """One number if all axes have the same."""
    given = list(values)
    return by(given if len(set(given)) > 1 else given[:1])
