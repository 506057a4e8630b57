"""What training asks of data: batches [time, batch, units] that a seed and a step number address.

So a run that is resumed at step 1,000 sees the batches it would have seen. A dataset is a pytree: hand it to a jitted
function as an argument, and its tables or recordings travel as arguments too instead of becoming constants there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import check


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SpikeBatch:
    """Samples side by side. Unpacks into its first two: `spikes, labels = batch`."""

    spikes: Array  # [T, B, N] counts, of one byte where they fit: the engine reads them as they are
    labels: Array  # [B] int32
    lengths: Array | None = None  # [B] time steps of each sample, behind which there is padding; None: all have T

    def __iter__(self) -> Iterator[Array]:
        yield self.spikes
        yield self.labels

    @property
    def mask(self) -> Array:
        """[T, B], true where a sample has its own time steps, false where it is padded."""
        if self.lengths is None:
            return jnp.ones(self.spikes.shape[: self.labels.ndim + 1], bool)
        axes = self.lengths.ndim + 1  # time, batch, and what stands before them where batches are stacked
        return jnp.arange(self.spikes.shape[axes - 2])[:, None] < self.lengths[..., None, :]


class Dataset(Protocol):
    """Any source of labelled spikes. Both functions are pure, and work inside `jax.jit`."""

    @property
    def steps(self) -> int:
        """T: time steps of every batch."""
        ...

    @property
    def units(self) -> int:
        """N: inputs."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """What the classes are called, label 0 first."""
        ...

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """The mini-batch of this step, in a run with this seed."""
        ...

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """A mini-batch at random."""
        ...


def shape_of(data: Any) -> tuple[int, ...]:
    """The shape of one time step of one sample. A dataset of your own may have `units` alone, if it is flat."""
    return tuple(data.shape) if hasattr(data, "shape") else (data.units,)


def random_key(seed: Any) -> Array:
    """One kind of key, whatever the process has set as its default: a seed means the same batches everywhere.

    (Everywhere that JAX's `threefry_partitionable` is on, as it is by default: it decides what keys mean.)
    """
    known = seed if isinstance(seed, Tracer) else np.uint32(check.whole("seed", seed, 2**32))
    return jax.random.key(jnp.asarray(known, jnp.uint32), impl="threefry2x32")


def step_number(step: Any) -> Array:
    known = step if isinstance(step, Tracer) else check.whole("step", step, 2**31)
    return jnp.asarray(known, jnp.int32)


def shuffled(key: Array, total: int, places: Array) -> Array:
    """What stands at these places of a random order of 0 … total − 1.

    The order is never laid out: sorting all of them would take a GPU longer than a training step. Instead each number
    finds its own way, by the swap-or-not shuffle of Hoang, Morris and Rogaway (2012): in every round a random K pairs x
    with K − x (mod total), and a bit that both of them know decides whether they change places.
    """
    for_pairs, for_bits = jax.random.split(key)
    pairs = jax.random.randint(for_pairs, (ROUNDS,), 0, total, jnp.int32)
    salts = jax.random.bits(for_bits, (ROUNDS,), jnp.uint32)
    x = places.astype(jnp.int32)
    for k, salt in zip(pairs, salts, strict=True):
        partner = k - x + jnp.where(k < x, total, 0)
        bit = _mixed(jnp.maximum(x, partner).astype(jnp.uint32) ^ salt) & 1
        x = jnp.where(bit == 1, partner, x)
    return once(x)


ROUNDS = 32


def once(x: Array) -> Array:
    """Computed here, in full: else XLA computes it anew in every kernel, for every element, that makes use of it."""
    return jax.lax.optimization_barrier(x)


def _mixed(x: Array) -> Array:
    """A 32-bit hash: every bit in decides about half of the bits out."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
