"""Matrix products of spikes, computed from parts that are exact in 16 bits.

A float32 number is the sum of three bfloat16 numbers. A spike, or a count up to 256, is exactly one bfloat16 number. So
the product of spikes and a float32 matrix is three products on the matrix units of a GPU, with float32 accumulation.
This is more exact than a native float32 product, and several times faster.

The parts are columns of one wide matrix. So there is only one product, but each part has a separate sum. A single sum
of all parts would lose the small ones, since the matrix units drop the bits that an accumulator cannot hold.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import DotAlgorithmPreset

from otpe.engine import Engine, Precision
from otpe.scan import Parts, Stacked

EXACT = jnp.bfloat16  # an array of this type holds exact spikes; only products of such arrays are computed from parts
PARTS: dict[Precision, int] = {"float32": 3, "tf32": 2, "bf16": 1}
_ALIGNED = 8  # fast loads take 16 bytes: 8 numbers of 16 bits


def split(a: Array, precision: Precision) -> Parts:
    """Split a float32 array into bfloat16 parts, the largest first. Three parts have exactly the sum `a`."""
    parts = []
    for _ in range(PARTS[precision]):
        bits = jax.lax.bitcast_convert_type(a, jnp.int32)
        largest = jax.lax.bitcast_convert_type((bits + 0x8000) & -0x10000, jnp.float32)  # to nearest
        parts.append(largest.astype(jnp.bfloat16))
        a = a - largest
    return Parts(tuple(parts))


def spikes_times(x: Array, w: Array, precision: Precision) -> Stacked:
    """Return x W as parts [..., parts, n_out] that are not added up yet, for spikes [..., n_in] and W [n_in, n_out]."""
    parts = split(w, precision).arrays
    wide = _dot(aligned(x, -1), aligned(jnp.concatenate(parts, axis=1), 0), (x.ndim - 1,), (0,))
    return Stacked(wide.reshape(*x.shape[:-1], len(parts), w.shape[1]))


def spikes_against(x: Array, parts: Stacked, n_in: int) -> Array:
    """Return Σ x ⊗ κ over all leading axes, for spikes [..., n_in or more] and κ as parts [..., parts, n_out]."""
    *_, count, n_out = parts.array.shape
    leading = tuple(range(x.ndim - 1))
    wide = parts.array.reshape(*x.shape[:-1], count * n_out)
    sums = _dot(aligned(x, -1), wide, leading, leading)[:n_in].reshape(-1, count, n_out)
    return Parts(tuple(sums[:, k] for k in range(count))).total


def aligned(a: Array, axis: int) -> Array:
    """Add zeros at the end of an axis, so that the GPU can load it fast."""
    missing = -a.shape[axis] % _ALIGNED
    if not missing:
        return a
    widths = [(0, 0)] * a.ndim
    widths[axis] = (0, missing)
    return jnp.pad(a, widths)


def signal_times(m: Array, w: Array, engine: Engine) -> Array:
    """Return m Wᵀ for a signal [..., n_out]. Neither of the two is exact in 16 bits, so there are no parts here."""
    return _dot(m, w, (m.ndim - 1,), (1,), algorithm(engine))


def algorithm(engine: Engine) -> DotAlgorithmPreset | jax.lax.Precision:
    """Return the algorithm for the product of two float32 matrices."""
    if engine.backend != "pallas":
        return jax.lax.Precision.HIGHEST
    return {
        "float32": DotAlgorithmPreset.TF32_TF32_F32_X3,
        "tf32": DotAlgorithmPreset.TF32_TF32_F32,
        "bf16": DotAlgorithmPreset.BF16_BF16_F32,
    }[engine.precision]


@jax.custom_batching.custom_vmap
def _batched_together(a: Array, b: Array) -> tuple[Array, Array]:
    """Return both factors unchanged. Under `vmap`, a factor without a batch axis is broadcast.

    Otherwise JAX would rearrange the axes of the batched factor.
    """
    return a, b


@_batched_together.def_vmap
def _(size: int, batched: list[bool], a: Array, b: Array) -> Any:
    pair = [x if yes else jnp.broadcast_to(x, (size, *x.shape)) for x, yes in zip((a, b), batched, strict=True)]
    return tuple(pair), (True, True)


def _dot(a: Array, b: Array, a_axes: tuple[int, ...], b_axes: tuple[int, ...], precision=None) -> Array:
    a, b = _batched_together(a, b)
    return jax.lax.dot_general(
        a, b, ((a_axes, b_axes), ((), ())), precision=precision, preferred_element_type=jnp.float32
    )
