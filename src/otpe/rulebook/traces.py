"""Where the per-step form keeps its traces. A rule writes its equations once and never knows which of these it is on.

Every rule's traces are linear in the inputs so far, and a rule combines them only elementwise, with numbers per neuron
or per sample. So one more axis is free to mean different things:

InputTraces      [B, n_in + 1]     a number per input: rules whose traces forget which neuron listens
WeightTraces     [B, n_in+1, n]    a number per weight: one row per input
FactoredTraces   [K, B, n]         a number per remembered step: R̂_t = Σ_τ x_τ ⊗ C_{t,τ}, one row per step τ,
                                   beside the last K inputs themselves; exact while t ≤ K

The bias is one more input that is always 1. A memory is what must be kept beside the rows. Each class can move its rows on
(`advance`), make a gradient of them (`emit`), or do both in one pass over memory (`learn`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import layers, scan
from otpe.engine import Engine
from otpe.layers import LinearMap
from otpe.rulebook.base import Decays, Now, Rows


class Kept(NamedTuple):
    """What a layer keeps for its rule."""

    rows: Rows
    memory: Any


class Moved(NamedTuple):
    """What a layer saw and did at step t."""

    x: Array  # its input                                        [B, *in]
    now: Now
    decay: Decays  # of the traces, from t−1 to t


@dataclass(frozen=True)
class InputTraces:
    layer: LinearMap
    engine: Engine

    def blank(self, batch: int, dtype: Any) -> tuple[Array, None]:
        *space, channels = self.layer.in_shape
        return jnp.zeros((batch, *space, channels + 1), dtype), None

    def advance(self, local: Any, kept: Kept, moved: Moved) -> Kept:
        return Kept(local.advance(kept.rows, layers.lift(moved.x), moved.now, moved.decay), None)

    def emit(self, local: Any, kept: Kept, params: Any, q: Array, now: Now) -> Any:
        out = local.emit(kept.rows, q, now)
        x, one = layers.unlift(out.row)
        return layers.gradient(self.layer, params, x, out.post, one, self.engine)

    def learn(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        kept = self.advance(local, kept, moved)
        return kept, self.emit(local, kept, params, q, moved.now)


@dataclass(frozen=True)
class WeightTraces:
    layer: Any  # a LinearMap with WeightRows
    engine: Engine

    def blank(self, batch: int, dtype: Any) -> tuple[Array, None]:
        return jnp.zeros((batch, self.layer.rows, *self.layer.out_shape), dtype), None

    def advance(self, local: Any, kept: Kept, moved: Moved) -> Kept:
        x = self.layer.to_rows(moved.x)
        return Kept(local.advance(kept.rows, x, *_beside_rows((moved.now, moved.decay))), None)

    def emit(self, local: Any, kept: Kept, params: Any, q: Array, now: Now) -> Any:
        out = local.emit(kept.rows, *_beside_rows((q, now)))
        return self.layer.from_rows((out.row * out.post).sum(0))

    def learn(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        """Sample after sample: each trace is read once and written once, its share of the gradient added up on the way."""
        numbers, together = _numbers_apart((moved.now, moved.decay))

        def one_sample(_: None, dw: Array, rows: Rows, at: Any) -> tuple[Array, Rows, None]:
            x, q, numbers = at
            now, decay = together(numbers)
            rows = local.advance(rows, x, now, decay)
            out = local.emit(rows, q, now)
            return dw + out.row * out.post, rows, None

        blank = jnp.zeros(kept.rows[0].shape[1:], kept.rows[0].dtype)
        samples = (self.layer.to_rows(moved.x), q, numbers)
        dw, rows, _ = scan.replace(one_sample, blank, kept.rows, samples, backend=self.engine.backend)
        return Kept(rows, None), self.layer.from_rows(dw)


class History(NamedTuple):
    inputs: Array  # the last K inputs, a ring    [K, B, *in]
    slot: Array  # where the next one goes; K: to the start again    []


@dataclass(frozen=True)
class FactoredTraces:
    layer: LinearMap
    engine: Engine
    window: int  # K
    narrow: bool  # are the inputs exact in a narrow type?

    def blank(self, batch: int, dtype: Any) -> tuple[Array, History]:
        like = jax.eval_shape(lambda: self.layer.init(jax.random.key(0), dtype))
        spikes = layers.spike_type(self.layer, like, self.engine) if self.narrow else dtype
        inputs = layers.pad(jnp.zeros((self.window, batch, *self.layer.in_shape), spikes))
        row = jnp.zeros((self.window, batch, *self.layer.out_shape), dtype)
        return row, History(inputs, jnp.zeros((), jnp.int32))

    def widen(self, kept: Kept) -> Kept:
        """What a shorter window kept, while it was not full yet."""

        def longer(a: Array) -> Array:
            return jnp.pad(a, [(0, self.window - a.shape[0]), *[(0, 0)] * (a.ndim - 1)])

        return Kept(tuple(map(longer, kept.rows)), History(longer(kept.memory.inputs), kept.memory.slot))

    def advance(self, local: Any, kept: Kept, moved: Moved) -> Kept:
        memory, here = self._remember(kept.memory, moved.x)
        rows = local.advance(_forget(kept.rows, here), here, moved.now, moved.decay)
        return Kept(rows, memory)

    def emit(self, local: Any, kept: Kept, params: Any, q: Array, now: Now) -> Any:
        out = local.emit(kept.rows, q, now)
        return layers.gradient(self.layer, params, kept.memory.inputs, out.row * out.post, engine=self.engine)

    def learn(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        """Remembered step after step: each row is read once and written once, and its share of κ comes out on the way."""
        memory, here = self._remember(kept.memory, moved.x)
        numbers, together = _numbers_apart((q, moved.now, moved.decay))
        collect = layers.Collector(self.layer, params, memory.inputs, self.engine)

        def remembered(numbers: Any, collected: Any, rows: Rows, here: Array) -> tuple[Any, Rows, Any]:
            q, now, decay = together(numbers)
            rows = local.advance(_forget(rows, here), here, now, decay)
            out = local.emit(rows, q, now)
            collected, share = collect.step(collected, out.row * out.post)
            return collected, rows, share

        collected, rows, shares = scan.replace(
            remembered, collect.start(q), kept.rows, here, fixed=numbers, backend=self.engine.backend
        )
        return Kept(rows, memory), collect.gradient(collected, shares)

    def _remember(self, memory: History, x: Array) -> tuple[History, Array]:
        """With the input of this step, and a row that is 1 where it went."""
        slot = memory.slot % self.window
        x_kept = layers.pad(x.astype(memory.inputs.dtype))
        inputs = jax.lax.dynamic_update_index_in_dim(memory.inputs, x_kept, slot, 0)
        here = (jnp.arange(self.window) == slot).reshape(-1, *(1,) * (1 + len(self.layer.out_shape)))
        return History(inputs, slot + 1), here.astype(x.dtype)


Traces = InputTraces | WeightTraces | FactoredTraces


def _forget(rows: Rows, here: Array) -> Rows:
    """No trace may still weigh the input whose place was taken."""
    return tuple(jnp.where(here > 0, 0, row) for row in rows)


def _beside_rows(tree: Any) -> Any:
    """Numbers per neuron or per sample with one more axis, so that they broadcast to [B, rows, *out]."""
    return jax.tree.map(lambda a: a[:, None] if jnp.ndim(a) else a, tree)


def _numbers_apart(tree: Any) -> tuple[list[Any], Any]:
    """The arrays in a tree, and how to put them back to where they were, beside the plain numbers."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf for leaf in leaves if jnp.ndim(leaf)]

    def together(arrays: list[Any]) -> Any:
        given = iter(arrays)
        return jax.tree.unflatten(structure, [next(given) if jnp.ndim(leaf) else leaf for leaf in leaves])

    return arrays, together
