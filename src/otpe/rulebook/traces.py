"""Where the per-step form keeps its traces. A rule writes its equations once and never knows which of these it is on.

Every rule's traces are linear in the inputs so far, and a rule combines them only elementwise, with numbers per neuron
or per sample. So one more axis is free to mean different things:

InputTraces      [B, n_in + 1]     a number per input: rules whose traces forget which neuron listens
WeightTraces     [B, n_in+1, n]    a number per weight: one row per input
FactoredTraces   none              the last K inputs and membranes instead, of which the traces are made; exact while
                                   t ≤ K

The bias is one more input that is always 1. A memory is what must be kept beside the rows. Each class can move its rows
on (`advance`), make a gradient of them (`emit`), or do both in one pass over memory (`learn`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import layers, scan
from otpe.engine import Engine
from otpe.layers import LinearMap
from otpe.neurons import LIF
from otpe.rulebook.base import Decays, Now, Rows

THREADS = 2**16  # enough to hide how long memory takes


class Kept(NamedTuple):
    """What a layer keeps for its rule."""

    rows: Rows
    memory: Any


class Moved(NamedTuple):
    """What a layer saw and did at step t."""

    x: Array  # its input                                        [B, *in]
    v: Array  # membranes before the reset                       [B, *out]
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

    def emit(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> Any:
        out = local.emit(kept.rows, q, moved.now)
        x, one = layers.unlift(out.row)
        return layers.gradient(self.layer, params, x, out.post, one, self.engine)

    def learn(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        kept = self.advance(local, kept, moved)
        return kept, self.emit(local, kept, params, q, moved)


@dataclass(frozen=True)
class WeightTraces:
    layer: Any  # a LinearMap with WeightRows
    engine: Engine

    def blank(self, batch: int, dtype: Any) -> tuple[Array, None]:
        return jnp.zeros((batch, self.layer.rows, *self.layer.out_shape), dtype), None

    def advance(self, local: Any, kept: Kept, moved: Moved) -> Kept:
        x = self.layer.to_rows(moved.x)
        return Kept(local.advance(kept.rows, x, *_beside_rows((moved.now, moved.decay))), None)

    def emit(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> Any:
        out = local.emit(kept.rows, *_beside_rows((q, moved.now)))
        return self.layer.from_rows((out.row * out.post).sum(0))

    def learn(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        """Sample after sample: each trace is read once and written once, and the gradient is added up on the way."""
        numbers, together = _numbers_apart((moved.now, moved.decay))

        def one_sample(_: None, dw: Array, rows: Rows, at: Any) -> tuple[Array, Rows, None]:
            x, q, numbers = at
            now, decay = together(numbers)
            rows = local.advance(rows, x, now, decay)
            out = local.emit(rows, q, now)
            return dw + out.row * out.post, rows, None

        def some_samples(rows: Rows, samples: Any) -> tuple[Array, Rows, None]:
            blank = jnp.zeros(rows[0].shape[1:], rows[0].dtype)
            return scan.replace(one_sample, blank, rows, samples, backend=self.engine.backend)

        groups = _groups(q.shape[0], kept.rows[0][0].size) if self.engine.backend != "plain" else 1
        everything = (kept.rows, (self.layer.to_rows(moved.x), q, numbers))
        if groups == 1:
            dw, rows, _ = some_samples(*everything)
            return Kept(rows, None), self.layer.from_rows(dw)
        cut = jax.tree.map(lambda a: a.reshape(groups, -1, *a.shape[1:]), everything)
        dw, rows, _ = jax.vmap(some_samples)(*cut)
        rows = tuple(row.reshape(-1, *row.shape[2:]) for row in rows)
        return Kept(rows, None), self.layer.from_rows(dw.sum(0))


class History(NamedTuple):
    """The last K steps, a ring."""

    inputs: Array  # x                                                [K, B, *in]
    v: Array  # membranes before the reset, from which g and ρ   [K, B, *out]
    ḡ: Array | None  # for rules that average for their own weights     [K, B, *out]
    decays: list[Array]  # of whole stages, where they are not constant     [K, B, 1…]
    slot: Array  # where the next step goes; K: to the start again  []
    seen: Array  # how many of the K there are                      []


@dataclass(frozen=True)
class FactoredTraces:
    """R̂_t = Σ_τ x_τ ⊗ C_{t,τ}: not the traces are kept, but what they are made of.

    C_{t,τ} q_t is the rule's own whole-sequence form, run backwards from step t with no signal but q_t.
    """

    layer: LinearMap
    engine: Engine
    neuron: LIF
    window: int  # K
    endless: bool  # may there be more than K steps, so that the oldest is forgotten?
    narrow: bool  # are the inputs exact in a narrow type?
    averages: bool  # does the rule use ḡ for its own weights?
    decaying: int  # how many stages, the layer itself included, have a decay that changes

    def blank(self, batch: int, dtype: Any) -> tuple[Array, History]:
        like = jax.eval_shape(lambda: self.layer.init(jax.random.key(0), dtype))
        spikes = layers.spike_type(self.layer, like, self.engine) if self.narrow else dtype
        neuron = jnp.zeros((self.window, batch, *self.layer.out_shape), dtype)
        sample = jnp.zeros((self.window, batch, *(1,) * len(self.layer.out_shape)), dtype)
        return neuron, History(
            inputs=jnp.zeros((self.window, batch, *layers.kept_shape(self.layer, like, spikes, self.engine)), spikes),
            v=neuron,
            ḡ=neuron if self.averages else None,
            decays=[sample] * self.decaying,
            slot=jnp.zeros((), jnp.int32),
            seen=jnp.zeros((), jnp.int32),
        )

    def widen(self, kept: Kept) -> Kept:
        """What a shorter window kept, while it was not full yet."""

        def longer(a: Array) -> Array:
            return jnp.pad(a, [(0, self.window - a.shape[0]), *[(0, 0)] * (a.ndim - 1)])

        counts = {"slot": kept.memory.slot, "seen": kept.memory.seen}
        return Kept((), jax.tree.map(longer, kept.memory._replace(slot=None, seen=None))._replace(**counts))

    def advance(self, local: Any, kept: Kept, moved: Moved) -> Kept:
        memory, K = kept.memory, self.window
        slot = memory.slot % K

        def write(history: Any, value: Any, slot: Array) -> Any:
            missing = [(0, full - size) for full, size in zip(history.shape[1:], value.shape, strict=True)]
            value = jnp.pad(value.astype(history.dtype), missing)
            return jax.lax.dynamic_update_index_in_dim(history, value, slot, 0)

        # The decays that led here belong to the step before: they say what is left of it.
        arrays, _ = _numbers_apart((moved.decay.own, moved.decay.stages))
        return Kept((), History(
            inputs=write(memory.inputs, moved.x, slot),
            v=write(memory.v, moved.v, slot),
            ḡ=None if memory.ḡ is None else write(memory.ḡ, moved.now.ḡ, slot),
            decays=[write(old, new, (slot - 1) % K) for old, new in zip(memory.decays, arrays, strict=True)],
            slot=slot + 1,
            seen=jnp.minimum(memory.seen + 1, K),
        ))  # fmt: skip

    def emit(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> Any:
        neuron, history, step = self.neuron, kept.memory, jnp.arange(self.window)
        _, together = _numbers_apart((moved.decay.own, moved.decay.stages))
        newest, lived = history.slot - 1, None
        if self.endless:  # in the order of time, the newest last; before the first step there was nothing to decay
            arrays = history._replace(slot=None, seen=None)
            newest, lived = self.window - 1, self._column(step >= self.window - history.seen, q)
            history = jax.tree.map(lambda a: jnp.roll(a, -kept.memory.slot, 0), arrays)
        collect = layers.Collector(self.layer, params, history.inputs, self.engine)

        def backward(q: Array, carry: Any, at: Any) -> Any:
            (filters, collected), (here, lived, v, ḡ, arrays) = carry, at
            g = neuron.pseudo_derivative(v)
            decay = Decays(neuron.survival(v, g), *together(arrays))
            filters, κ, _ = local.backward(filters, jnp.where(here, q, 0), Now(g, g if ḡ is None else ḡ), decay)
            collected, share = collect.step(collected, κ if lived is None else jnp.where(lived, κ, 0))
            return (filters, collected), share

        start = (local.start(jnp.zeros((), q.dtype), len(moved.decay.stages)), collect.start())
        (_, collected), shares = scan.recur(
            backward,
            start,
            (self._column(step == newest, q), lived, history.v, history.ḡ, history.decays),
            fixed=q,
            reverse=True,
            backend=self.engine.backend,
        )
        return collect.gradient(collected, shares)

    def learn(self, local: Any, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        kept = self.advance(local, kept, moved)
        return kept, self.emit(local, kept, params, q, moved)

    def _column(self, a: Array, q: Array) -> Array:
        """One number per remembered step, so that it broadcasts to numbers per neuron."""
        return a.reshape(-1, *(1,) * q.ndim)


Traces = InputTraces | WeightTraces | FactoredTraces


def _beside_rows(tree: Any) -> Any:
    """Numbers per neuron or per sample with one more axis, so that they broadcast to [B, rows, *out]."""
    return jax.tree.map(lambda a: a[:, None] if jnp.ndim(a) else a, tree)


def _groups(batch: int, lanes: int) -> int:
    """Into how many groups to cut the samples, so that a GPU has work for all its threads in a small layer too."""
    groups = 1
    while batch % (2 * groups) == 0 and groups * lanes < THREADS:
        groups *= 2
    return groups


def _numbers_apart(tree: Any) -> tuple[list[Any], Any]:
    """The arrays in a tree, and how to put them back to where they were, beside the plain numbers."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf for leaf in leaves if jnp.ndim(leaf)]

    def together(arrays: list[Any]) -> Any:
        given = iter(arrays)
        return jax.tree.unflatten(structure, [next(given) if jnp.ndim(leaf) else leaf for leaf in leaves])

    return arrays, together
