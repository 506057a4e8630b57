"""Labelled spikes as mini-batches [time, batch, *shape]. A seed and a step number determine each mini-batch.

So a run that is resumed at step 1,000 sees the same batches as one that was never stopped. A dataset is a pytree: pass
it to a jitted function as an argument. Then its tables and recordings are arguments of the program, not constants.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import check, memory


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SpikeBatch:
    """A mini-batch. It unpacks into its first two fields: `spikes, labels = batch`."""

    spikes: Array  # [T, B, *shape] counts, of one byte each if they fit: the engine accepts this type
    labels: Array  # [B] int32
    lengths: Array | None = None  # [B] time steps of each sample, the rest is padding; None: all samples have T

    def __iter__(self) -> Iterator[Array]:
        yield self.spikes
        yield self.labels

    @property
    def mask(self) -> Array:
        """[T, B], true for the time steps of a sample and false for its padding."""
        per_sample = self.labels if self.lengths is None else self.lengths  # labels may have a time axis, lengths not
        axes = per_sample.ndim + 1  # time, batch, and the axes in front of them if batches are stacked
        if self.lengths is None:
            return jnp.ones(self.spikes.shape[:axes], bool)
        return jnp.arange(self.spikes.shape[axes - 2])[:, None] < self.lengths[..., None, :]


class Dataset(Protocol):
    """Any source of labelled spikes. Both functions are pure, and work inside `jax.jit`."""

    @property
    def steps(self) -> int:
        """T, the number of time steps of every batch."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one time step of one sample: (700,), or (2, 34, 34) with the channels first."""
        ...

    @property
    def units(self) -> int:
        """The number of inputs: the product of `shape`."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the classes, label 0 first."""
        ...

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """Return the mini-batch of this step in a run with this seed."""
        ...

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Return a random mini-batch."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Flat:
    """A dataset whose units are flattened to one axis; `flat` makes it."""

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
        """Return the mini-batch of the dataset, flattened."""
        return _in_rows(self.data.batch(seed, step, size))

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Return a random mini-batch of the dataset, flattened."""
        return _in_rows(self.data.sample(key, batch))


def flat(data: Any) -> Any:
    """Return the same dataset with its units flattened to one axis, as `otpe.dense` takes them.

    The order is that of `reshape`: for a shape (P, H, W), unit (p·H + y)·W + x. Flat data is returned unchanged.
    """
    if len(shape_of(data)) == 1:
        return data
    return data.flat() if hasattr(data, "flat") else Flat(data)


def shape_of(data: Any) -> tuple[int, ...]:
    """Return the shape of one time step of one sample. A user's flat dataset may have `units` and no `shape`."""
    return tuple(data.shape) if hasattr(data, "shape") else (data.units,)


def _in_rows(batch: SpikeBatch) -> SpikeBatch:
    return replace(batch, spikes=batch.spikes.reshape(*batch.spikes.shape[:2], -1))


# Recordings in memory


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["frames", "labels", "lengths", "speakers"],
    meta_fields=["names"],
)
@dataclass(frozen=True)
class FrameSet:
    """A dataset of recordings in memory; `shd`, `ssc`, `folder` and the `from_…` functions make it."""

    frames: Any  # [R, T, *shape]; like all arrays here, a numpy array until `on_device` makes it a JAX array
    labels: Any  # [R] int32
    names: tuple[str, ...]  # of the classes, label 0 first
    lengths: Any = None  # [R] int32, time steps of each recording, or None if all have T
    speakers: Any = None  # [R] int32, or None

    def __len__(self) -> int:
        return len(self.frames)

    def __repr__(self) -> str:
        """One line without arrays."""
        shape = getattr(self.frames, "shape", ())
        if len(shape) < 3:  # inside functions of jax.tree, fields may hold anything
            return f"FrameSet({type(self.frames).__name__})"
        recordings, steps, *axes = shape
        return f"FrameSet({recordings:,} recordings, {steps} steps, shape {tuple(axes)}, {len(self.names)} classes)"

    @property
    def steps(self) -> int:
        return self.frames.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.frames.shape[2:]

    @property
    def units(self) -> int:
        return prod(self.shape)

    def flat(self) -> "FrameSet":
        """Return the same dataset with its units flattened to one axis, in the order of `reshape`."""
        return self.reshape((self.units,))

    def reshape(self, shape: Sequence[int]) -> "FrameSet":
        """Return the same dataset with units of this shape."""
        return replace(self, frames=self.frames.reshape(*self.frames.shape[:2], *shape))

    def on_device(self) -> "FrameSet":
        """Return the same dataset as arrays of JAX."""
        return jax.tree.map(jnp.asarray, self)

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """Return the mini-batch of this step in a run with this seed.

        Each epoch has a new random order of the recordings, without repetition. If the last recordings of an epoch do
        not fill a batch, they are left out.
        """
        self._check(size)
        return _batch(self, random_key(seed), step_number(step), size)

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Return random recordings, none of them twice."""
        check.key(key)
        self._check(batch)
        return self.take(shuffled(key, len(self), jnp.arange(batch)))

    def take(self, which: Any) -> SpikeBatch:
        """Return the recordings with these numbers as a batch."""
        return _take(self, self._numbers(which))

    def in_order(self, size: int) -> Iterator[SpikeBatch]:
        """Yield all recordings, each once, in batches of `size`. The last batch may be smaller."""
        check.count("size", size)
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    def subset(self, which: Any) -> "FrameSet":
        """Return a dataset of the recordings with these numbers."""
        numbers = self._numbers(which)
        return jax.tree.map(lambda rows: rows[numbers], self)

    def _numbers(self, which: Any) -> Any:
        if isinstance(which, Tracer):
            return which
        given = np.asarray(which)
        if given.dtype == bool and given.shape == (len(self),):
            given = np.flatnonzero(given)
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
            raise ValueError(f"`which` is {given.dtype} {list(given.shape)}, expected a row of recording numbers.")
        if given.min() < 0 or given.max() >= len(self):
            raise ValueError(
                f"`which` has numbers from {given.min()} to {given.max()}, expected 0 to {len(self) - 1}: there are"
                f" {len(self)} recordings."
            )
        return given

    def _check(self, size: int) -> None:
        check.count("batch", size)
        if size > len(self):
            raise ValueError(f"batch is {size}, more than the {len(self)} recordings there are. Use a smaller batch.")


@partial(jax.jit, static_argnames="size")
def _batch(data: FrameSet, key: Array, step: Array, size: int) -> SpikeBatch:
    per_epoch = len(data) // size
    epoch, within = step // per_epoch, step % per_epoch
    places = within * size + jnp.arange(size)
    return _take(data, shuffled(jax.random.fold_in(key, epoch), len(data), places))


@jax.jit
def _take(data: FrameSet, which: Array) -> SpikeBatch:
    chosen = jax.tree.map(lambda rows: rows[which], data)
    return SpikeBatch(jnp.moveaxis(chosen.frames, 0, 1), chosen.labels, chosen.lengths)


# Random numbers


def random_key(seed: Any) -> Array:
    """Return a key for the generator threefry2x32, also if the process has another default generator.

    So a seed means the same batches in every process, unless JAX's option `threefry_partitionable` is changed.
    """
    known = seed if isinstance(seed, Tracer) else np.uint32(check.whole("seed", seed, 2**32))
    return jax.random.key(jnp.asarray(known, jnp.uint32), impl="threefry2x32")


def step_number(step: Any) -> Array:
    """Return the number of a step as int32, checked unless it is a tracer."""
    known = step if isinstance(step, Tracer) else check.whole("step", step, 2**31)
    return jnp.asarray(known, jnp.int32)


def step_key(seed: Any, step: Any) -> Array:
    """Return the key of this step in a run with this seed."""
    return jax.random.fold_in(random_key(seed), step_number(step))


def check_draw(data: Any, key: Array, batch: int, **sizes: int) -> None:
    """Raise an error for a bad key, or for a batch that does not fit into memory. The message names `sizes`."""
    check.key(key)
    check.count("batch", batch)
    sizes = {"batch": batch, "time_steps": data.steps, **sizes}
    memory.check_fits("a mini-batch of spikes", batch * data.steps * data.units, sizes)


ROUNDS = 32


def shuffled(key: Array, total: int, places: Array) -> Array:
    """Return the numbers at these places of a random order of 0 … total − 1.

    The order is never stored, because sorting it would take a GPU longer than a training step. Each place is computed
    alone, by the swap-or-not shuffle of Hoang, Morris and Rogaway (2012): each round draws a random K, which pairs x
    with K − x (mod total), and a hash of the pair decides whether the two change places.
    """
    for_pairs, for_bits = jax.random.split(key)
    pairs = jax.random.randint(for_pairs, (ROUNDS,), 0, total, jnp.int32)
    salts = jax.random.bits(for_bits, (ROUNDS,), jnp.uint32)
    x = places.astype(jnp.int32)
    for k, salt in zip(pairs, salts, strict=True):
        partner = k - x + jnp.where(k < x, total, 0)
        bit = _hash(jnp.maximum(x, partner).astype(jnp.uint32) ^ salt) & 1
        x = jnp.where(bit == 1, partner, x)
    return once(x)


def once(x: Array) -> Array:
    """Return x, computed once. Without this barrier, XLA computes it again in every kernel that uses it."""
    return jax.lax.optimization_barrier(x)


def _hash(x: Array) -> Array:
    """Return a 32-bit hash. Each bit of x changes about half of its bits."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)
