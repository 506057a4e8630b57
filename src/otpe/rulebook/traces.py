"""Where the per-step form keeps its traces. A rule writes its equations once and never knows which of these it is on.

Every rule's traces are linear in the inputs so far, and a rule combines them only elementwise, with numbers per neuron
or per sample. So one more axis is free to mean different things:

InputTraces      [B, inputs + 1]     a number per input: rules whose traces forget which neuron listens
WeightTraces     [B, rows, *out]     a number per weight: one row per input
FactoredTraces   none                the last K inputs and what the neurons kept, of which the traces are made; exact
                                     while t ≤ K

The bias is one more input that is always 1. A neuron with k states has k such traces per input or weight. A memory is
what must be kept beside the rows. Each class can move its rows on (`advance`), make a gradient of them (`emit`), or do
both in one pass over memory (`learn`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import layers, neurons, scan, states
from otpe.engine import Engine
from otpe.networks import Network
from otpe.rulebook import stages
from otpe.rulebook.rule import Decays, Now, Rows, Rule

THREADS = 2**16  # enough to hide how long memory takes


class Kept(NamedTuple):
    """What a layer keeps for its rule."""

    rows: Rows
    memory: Any


class Moved(NamedTuple):
    """What a layer saw and did at step t. All arrays have an axis of samples first."""

    x: Array  # its input                                        [B, *in]
    kept: Any  # what the neurons keep for `linearise`            [B, *out] each
    now: Now
    decay: Decays  # of the traces, from t−1 to t
    values: dict[str, Array]  # trained numbers of the neurons
    causes: dict[str, Array]  # how much these act on this step       [B, *out]


class Place(NamedTuple):
    """A layer of a network under a rule: what its traces must know."""

    net: Network
    rule: Rule
    number: int  # 0 for the first
    engine: Engine

    @property
    def map(self) -> Any:
        return self.net.layers[self.number]

    @property
    def neuron(self) -> Any:
        return self.net.neurons[self.number]

    @property
    def local(self) -> Any:
        return self.rule.at(self.number, self.net.depth)

    @property
    def filters(self) -> int:
        return stages.filters(self.net, self.rule, self.number)

    def rows(self, row: Array) -> Rows:
        """The rule's traces at rest."""
        return self.local.init(stages.blank_trace(self.net, self.rule, self.number, row), self.filters)

    def seen(self, moved: Moved) -> tuple[Now, Decays]:
        """What the rule sees for its weights."""
        if not stages.sees_inputs(self.local):
            return moved.now, moved.decay
        return stages.of_inputs(self.net, self.number, moved.now, moved.decay)


@dataclass(frozen=True)
class NoTraces:
    """For a map without parameters."""

    place: Place

    def blank(self, params: Any, moved: Moved) -> Kept:
        return Kept((), None)

    def advance(self, kept: Kept, moved: Moved) -> Kept:
        return kept

    def emit(self, kept: Kept, params: Any, q: Array, moved: Moved) -> Any:
        return params

    def learn(self, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        return kept, params


@dataclass(frozen=True)
class InputTraces:
    place: Place

    def blank(self, params: Any, moved: Moved) -> Kept:
        batch, *shape = moved.x.shape
        inputs = layers.lift(jnp.zeros((batch, *shape), moved.x.dtype))
        return Kept(self.place.rows(jnp.zeros_like(inputs)), None)

    def advance(self, kept: Kept, moved: Moved) -> Kept:
        now, decay = self.place.seen(moved)
        per_row = jax.tree.map(lambda a: a if states.is_number(a) else a.reshape(a.shape[0], -1), decay)
        return Kept(self.place.local.advance(kept.rows, layers.lift(moved.x), now, per_row), None)

    def emit(self, kept: Kept, params: Any, q: Array, moved: Moved) -> Any:
        now, _ = self.place.seen(moved)
        out, layer = self.place.local.emit(kept.rows, q, now), self.place.map
        pairs = zip(states.entries(out.row), states.entries(out.post), strict=True)
        live = [(row, post) for row, post in pairs if not states.is_number(post)]
        row, post = live[0] if len(live) == 1 else map(jnp.concatenate, zip(*live, strict=True))
        x, one = layers.unlift(row, layer.in_shape)
        return layers.gradient(layer, params, x, post, one, self.place.engine)

    def learn(self, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        kept = self.advance(kept, moved)
        return kept, self.emit(kept, params, q, moved)


@dataclass(frozen=True)
class WeightTraces:
    place: Place

    def blank(self, params: Any, moved: Moved) -> Kept:
        layer = self.place.map
        return Kept(self.place.rows(jnp.zeros((moved.x.shape[0], layer.rows, *layer.out_shape), moved.x.dtype)), None)

    def advance(self, kept: Kept, moved: Moved) -> Kept:
        x = self.place.map.to_rows(moved.x)
        return Kept(self.place.local.advance(kept.rows, x, *_beside_rows((moved.now, moved.decay))), None)

    def emit(self, kept: Kept, params: Any, q: Array, moved: Moved) -> Any:
        out = self.place.local.emit(kept.rows, *_beside_rows((q, moved.now)))
        return self.place.map.from_rows(states.dot(out.row, out.post).sum(0))

    def learn(self, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        """Sample after sample: each trace is read once and written once, and the gradient is added up on the way."""
        local, layer, backend = self.place.local, self.place.map, self.place.engine.backend
        numbers, together = states.split((moved.now, moved.decay))

        def one_sample(_: None, dw: Array, rows: Rows, at: Any) -> tuple[Array, Rows, None]:
            x, q, numbers = at
            now, decay = together(numbers)
            rows = local.advance(rows, x, now, decay)
            out = local.emit(rows, q, now)
            return dw + states.dot(out.row, out.post), rows, None

        def some_samples(rows: Rows, samples: Any) -> tuple[Array, Rows, None]:
            like = jax.tree.leaves(rows)[0]
            return scan.replace(one_sample, jnp.zeros(like.shape[1:], like.dtype), rows, samples, backend=backend)

        groups = _groups(q.shape[0], jax.tree.leaves(kept.rows)[0][0].size) if backend != "plain" else 1
        everything = (kept.rows, (layer.to_rows(moved.x), q, numbers))
        if groups == 1:
            dw, rows, _ = some_samples(*everything)
            return Kept(rows, None), layer.from_rows(dw)
        cut = jax.tree.map(lambda a: a.reshape(groups, -1, *a.shape[1:]), everything)
        dw, rows, _ = jax.vmap(some_samples)(*cut)
        rows = jax.tree.map(lambda row: row.reshape(-1, *row.shape[2:]), rows)
        return Kept(rows, None), layer.from_rows(dw.sum(0))


class History(NamedTuple):
    """The last K steps, a ring."""

    inputs: Array  # x                                                [K, B, *in]
    kept: Any  # what the neurons kept, from which h and A follow    [K, B, *out] each
    h̄: Any  # for rules that average for their own weights     [K, B, *out] each
    decays: list[Array]  # of whole stages, where they are not constant     [K, B, 1…]
    values: dict[str, Array]  # trained numbers of the neurons                   [K, …]
    slot: Array  # where the next step goes; K: to the start again  []
    seen: Array  # number of valid steps, at most K                 []


@dataclass(frozen=True)
class FactoredTraces:
    """R̂_t = Σ_τ x_τ ⊗ C_{t,τ}: not the traces are kept, but what they are made of.

    C_{t,τ} q_t is the rule's own whole-sequence form, run backwards from step t with no signal but q_t.
    """

    place: Place
    window: int  # K
    endless: bool  # may there be more than K steps, so that the oldest is forgotten?
    narrow: bool  # are the inputs exact in a narrow type?

    def blank(self, params: Any, moved: Moved) -> Kept:
        layer, engine, dtype = self.place.map, self.place.engine, moved.x.dtype
        spikes = layers.spike_type(layer, params, engine, dtype) if self.narrow else dtype

        def history(a: Any) -> Array:
            return jnp.zeros((self.window, *a.shape), a.dtype)

        return Kept((), History(
            inputs=jnp.zeros(
                (self.window, moved.x.shape[0], *layers.kept_shape(layer, params, spikes, engine)), spikes
            ),
            kept=jax.tree.map(history, moved.kept),
            h̄=jax.tree.map(history, self._averages(moved)),
            decays=[history(a) for a in self._decays(moved)[0]],
            values=jax.tree.map(history, moved.values),
            slot=jnp.zeros((), jnp.int32),
            seen=jnp.zeros((), jnp.int32),
        ))  # fmt: skip

    def widen(self, kept: Kept) -> Kept:
        """What a shorter window kept, while it was not full yet."""

        def longer(a: Array) -> Array:
            return jnp.pad(a, [(0, self.window - a.shape[0]), *[(0, 0)] * (a.ndim - 1)])

        counts = {"slot": kept.memory.slot, "seen": kept.memory.seen}
        return Kept((), jax.tree.map(longer, kept.memory._replace(slot=None, seen=None))._replace(**counts))

    def advance(self, kept: Kept, moved: Moved) -> Kept:
        memory, K = kept.memory, self.window
        slot = memory.slot % K

        def write(history: Any, value: Any, slot: Array) -> Any:
            def one(old: Array, new: Array) -> Array:
                return jax.lax.dynamic_update_index_in_dim(old, new.astype(old.dtype), slot, 0)

            return jax.tree.map(one, history, value)

        missing = [(0, full - size) for full, size in zip(memory.inputs.shape[1:], moved.x.shape, strict=True)]
        # The decays that led here belong to the step before: they say what is left of it.
        return Kept((), History(
            inputs=write(memory.inputs, jnp.pad(moved.x, missing), slot),
            kept=write(memory.kept, moved.kept, slot),
            h̄=write(memory.h̄, self._averages(moved), slot),
            decays=write(memory.decays, self._decays(moved)[0], (slot - 1) % K),
            values=write(memory.values, moved.values, slot),
            slot=slot + 1,
            seen=jnp.minimum(memory.seen + 1, K),
        ))  # fmt: skip

    def emit(self, kept: Kept, params: Any, q: Array, moved: Moved) -> Any:
        place, local, step = self.place, self.place.local, jnp.arange(self.window)
        history, (_, together) = kept.memory, self._decays(moved)
        newest, lived = history.slot - 1, None
        if self.endless:  # in the order of time, the newest last; before the first step there was nothing to decay
            arrays = history._replace(slot=None, seen=None)
            newest, lived = self.window - 1, self._column(step >= self.window - history.seen, q)
            history = jax.tree.map(lambda a: jnp.roll(a, -kept.memory.slot, 0), arrays)
        collect = layers.Collector(place.map, params, history.inputs, place.engine)
        fixed_values = neurons.fixed_values(place.neuron, place.map.out_shape, q.dtype)

        def backward(fixed: Any, carry: Any, at: Any) -> Any:
            (q, fixed_values), (filters, collected) = fixed, carry
            here, lived, kept, h̄, arrays, trained = at
            found = neurons.derivatives(neurons.bound(place.neuron, fixed_values | trained), kept)
            h̄ = found.h if h̄ is None else states.numbers_from(found.h, h̄)
            decay = together(arrays)._replace(A=found.A, b=found.b)
            filters, κ, _ = local.backward(filters, jnp.where(here, q, 0), Now(found.h, h̄, found.b), decay)
            collected, share = collect.step(collected, κ if lived is None else jnp.where(lived, κ, 0))
            return (filters, collected), share

        blank = stages.blank_trace(place.net, place.rule, place.number, jnp.zeros((), q.dtype))
        (_, collected), shares = scan.recur(
            backward,
            (local.start(blank, place.filters), collect.start()),
            (self._column(step == newest, q), lived, history.kept, history.h̄, history.decays, history.values),
            fixed=(q, fixed_values),
            reverse=True,
            backend=place.engine.backend,
        )
        return collect.gradient(collected, shares)

    def learn(self, kept: Kept, params: Any, q: Array, moved: Moved) -> tuple[Kept, Any]:
        kept = self.advance(kept, moved)
        return kept, self.emit(kept, params, q, moved)

    def _averages(self, moved: Moved) -> Any:
        averages = self.place.local.averages
        return states.arrays_only(moved.now.h̄) if averages and averages != "below" else None

    def _decays(self, moved: Moved) -> tuple[list[Any], Any]:
        """Decays of whole stages as arrays, and how to make `Decays` of them again."""
        return states.split(moved.decay._replace(A=None))

    def _column(self, a: Array, q: Array) -> Array:
        """One number per remembered step, so that it broadcasts to numbers per neuron."""
        return a.reshape(-1, *(1,) * q.ndim)


Traces = NoTraces | InputTraces | WeightTraces | FactoredTraces


# Trained numbers of the neurons: weights from the neuron's own past, with a trace per neuron


def blank_causes(place: Place, moved: Moved) -> dict[str, Rows]:
    blank = jnp.zeros((moved.x.shape[0], *place.map.out_shape), moved.x.dtype)
    rest = states.packed([blank] * neurons.states_of(place.neuron))
    return {name: place.local.init(rest, place.filters) for name in moved.causes}


def advance_causes(place: Place, rows: dict[str, Rows], moved: Moved) -> dict[str, Rows]:
    entering = neurons.causes(place.neuron)
    return {
        name: place.local.advance(rows[name], cause, moved.now, moved.decay._replace(b=entering[name]))
        for name, cause in moved.causes.items()
    }


def emit_causes(place: Place, rows: dict[str, Rows], q: Array, moved: Moved) -> dict[str, Array]:
    """Derivatives by the value of each trained number, for each neuron."""
    found = {}
    for name in rows:
        out = place.local.emit(rows[name], q, moved.now)
        found[name] = states.dot(out.post, out.row).sum(0)
    return found


def _beside_rows(tree: Any) -> Any:
    """Numbers per neuron or per sample with one more axis, so that they broadcast to [B, rows, *out]."""
    return jax.tree.map(lambda a: a if states.is_number(a) else a[:, None], tree)


def _groups(batch: int, lanes: int) -> int:
    """Into how many groups to cut the samples, so that a GPU has work for all its threads in a small layer too."""
    groups = 1
    while batch % (2 * groups) == 0 and groups * lanes < THREADS:
        groups *= 2
    return groups
