"""What training asks of data: batches [time, batch, units] that a seed and a step number address.

So a run that is resumed at step 1,000 sees the batches it would have seen. A dataset is a pytree: hand it to a jitted
function as an argument, and its tables or recordings travel as arguments too instead of becoming constants there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array


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
        steps, batch, _ = self.spikes.shape
        if self.lengths is None:
            return jnp.ones((steps, batch), bool)
        return jnp.arange(steps)[:, None] < self.lengths


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


def random_key(seed: Any) -> Array:
    """One kind of key, whatever the process has set as its default: a seed means the same batches everywhere."""
    return jax.random.key(seed, impl="threefry2x32")


def distinct(key: Array, total: int, count: int) -> Array:
    """`count` different numbers below `total`, every selection and order as likely as any other."""
    if 4 * count > total:
        return jax.random.permutation(key, total)[:count]
    # The first different ones of a longer row of independent draws: no sorting of all, which takes longer than the
    # rest of a batch does on a GPU. For the row to be too short, more than half of its draws would have to be repeats.
    draws = jax.random.randint(key, (2 * count + 64,), 0, total)
    order = jnp.arange(draws.size)
    repeated = ((draws[:, None] == draws) & (order[:, None] > order)).any(1)
    place = jnp.where(repeated, draws.size, jnp.cumsum(~repeated) - 1)
    return jnp.zeros(count, draws.dtype).at[place].set(draws, mode="drop")
