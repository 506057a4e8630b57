"""What training asks of data: batches [time, batch, *shape] that a seed and a step number address.

So a run that is resumed at step 1,000 sees the batches it would have seen. A dataset is a pytree: hand it to a jitted
function as an argument, and its tables or recordings travel as arguments too instead of becoming constants there.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
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

    spikes: Array  # [T, B, *shape] counts, of one byte where they fit: the engine reads them as they are
    labels: Array  # [B] int32
    lengths: Array | None = None  # [B] time steps of each sample, behind which there is padding; None: all have T

    def __iter__(self) -> Iterator[Array]:
        yield self.spikes
        yield self.labels

    @property
    def mask(self) -> Array:
        """[T, B], true where a sample has its own time steps, false where it is padded."""
        one_each = self.labels if self.lengths is None else self.lengths  # labels may have an axis of time, lengths not
        axes = one_each.ndim + 1  # time, batch, and what stands before them where batches are stacked
        if self.lengths is None:
            return jnp.ones(self.spikes.shape[:axes], bool)
        return jnp.arange(self.spikes.shape[axes - 2])[:, None] < self.lengths[..., None, :]


class Dataset(Protocol):
    """Any source of labelled spikes. Both functions are pure, and work inside `jax.jit`."""

    @property
    def steps(self) -> int:
        """T: time steps of every batch."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one time step of one sample: (700,), or (2, 34, 34), the channels first."""
        ...

    @property
    def units(self) -> int:
        """How many inputs: the product of `shape`."""
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Flat:
    """A dataset with one row of units in each time step of a sample; `flat` makes it."""

    data: Any  # a Dataset

    @property
    def steps(self) -> int:
        return self.data.steps

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.units,)

    @property
    def units(self) -> int:
        return prod(shape_of(self.data))

    @property
    def names(self) -> tuple[str, ...]:
        return self.data.names

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """As that of the dataset itself."""
        return _in_rows(self.data.batch(seed, step, size))

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """As that of the dataset itself."""
        return _in_rows(self.data.sample(key, batch))


def flat(data: Any) -> Any:
    """The same dataset with one row of units in each time step, as `otpe.dense` takes them.

    The order is that of `reshape`: for a shape (P, H, W), unit (p·H + y)·W + x. Flat data is returned as it is.
    """
    if len(shape_of(data)) == 1:
        return data
    return data.flat() if hasattr(data, "flat") else Flat(data)


def shape_of(data: Any) -> tuple[int, ...]:
    """The shape of one time step of one sample. A dataset of your own may have `units` alone, if it is flat."""
    return tuple(data.shape) if hasattr(data, "shape") else (data.units,)


def _in_rows(batch: SpikeBatch) -> SpikeBatch:
    return replace(batch, spikes=batch.spikes.reshape(*batch.spikes.shape[:2], -1))


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
