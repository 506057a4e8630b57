"""Recordings as frames, in memory: batches by shuffled epochs, or all of them in order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import check
from otpe.datasets.contract import SpikeBatch, random_key, shuffled, step_number


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["frames", "labels", "lengths", "speakers"],
    meta_fields=["names"],
)
@dataclass(frozen=True)
class FrameSet:
    """A dataset of recordings that are at hand; `shd`, `ssc`, `folder` and the `from_…` functions make it."""

    frames: Array  # [R, T, *shape]
    labels: Array  # [R] int32
    names: tuple[str, ...]  # of the classes, label 0 first
    lengths: Array | None = None  # [R] time steps of each recording, where they differ
    speakers: Array | None = None  # [R]

    def __len__(self) -> int:
        return len(self.frames)

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
        """The same with one row of units in each time step, as `otpe.dense` takes them: `reshape` says which."""
        return replace(self, frames=self.frames.reshape(*self.frames.shape[:2], self.units))

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """The mini-batch of this step, in a run with this seed.

        Every epoch has an order of its own, in which no recording comes twice; what is left at its end, less than a
        batch, is left out.
        """
        self._check(size)
        return _batch(self, random_key(seed), step_number(step), size)

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Recordings at random, none twice."""
        check.key(key)
        self._check(batch)
        return self.take(shuffled(key, len(self), jnp.arange(batch)))

    def take(self, which: Any) -> SpikeBatch:
        """These recordings, by number, as a batch."""
        return _take(self, self._numbers(which))

    def in_order(self, size: int) -> Iterator[SpikeBatch]:
        """All recordings, each once, `size` at a time; the last batch may be smaller."""
        check.count("size", size)
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    def subset(self, which: Any) -> "FrameSet":
        """A dataset of these recordings only, by number."""
        which = self._numbers(which)
        lengths = None if self.lengths is None else self.lengths[which]
        speakers = None if self.speakers is None else self.speakers[which]
        return replace(self, frames=self.frames[which], labels=self.labels[which], lengths=lengths, speakers=speakers)

    def _numbers(self, which: Any) -> Any:
        if isinstance(which, Tracer):
            return which
        given = np.asarray(which)
        if given.dtype == bool and given.shape == (len(self),):
            given = np.flatnonzero(given)
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
            raise ValueError(f"which is {given.dtype} {list(given.shape)}, expected a row of recordings, by number.")
        if given.min() < 0 or given.max() >= len(self):
            raise ValueError(
                f"which runs from {given.min()} to {given.max()}, expected 0 to {len(self) - 1}: there are {len(self)}"
                " recordings."
            )
        return given

    def _check(self, size: int) -> None:
        check.count("batch", size)
        if size > len(self):
            raise ValueError(f"batch is {size}, more than the {len(self)} recordings there are. Use a smaller batch.")


def frameset(
    frames: Any, labels: Any, names: Sequence[str] | None = None, lengths: Any = None, speakers: Any = None
) -> FrameSet:
    """Checked arrays [R, T, *shape] on the device."""
    labels = np.asarray(labels)
    names = tuple(names) if names is not None else tuple(map(str, range(int(labels.max()) + 1)))
    as_ints = partial(jnp.asarray, dtype=jnp.int32)
    return FrameSet(
        jnp.asarray(frames),
        as_ints(labels),
        names,
        None if lengths is None else as_ints(lengths),
        None if speakers is None else as_ints(speakers),
    )


@partial(jax.jit, static_argnames="size")
def _batch(data: FrameSet, key: Array, step: Array, size: int) -> SpikeBatch:
    per_epoch = len(data) // size
    epoch, within = step // per_epoch, step % per_epoch
    places = within * size + jnp.arange(size)
    return _take(data, shuffled(jax.random.fold_in(key, epoch), len(data), places))


@jax.jit
def _take(data: FrameSet, which: Array) -> SpikeBatch:
    spikes = jnp.moveaxis(data.frames[which], 0, 1)
    return SpikeBatch(spikes, data.labels[which], None if data.lengths is None else data.lengths[which])
