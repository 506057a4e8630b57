"""Storage of the traces of the per-step form. A rule contains each equation once and works with every storage here.

The traces of all rules are linear in the past inputs, and rules combine them elementwise with numbers per neuron or per
sample. So a trace can have an additional axis, such as one for the inputs of a neuron. The storages differ in it:

InputTraces      [B, inputs + 1]     one number per input, for rules whose traces all neurons share
WeightTraces     [B, rows, *out]     one number per weight: one row per input
FactoredTraces   none                the last K inputs and the numbers for `linearise`; the traces are computed from
                                     them, exactly while t ≤ K

The bias is one more input that is always 1. A neuron with k states has k traces per input or weight. Each class has
three methods: `advance` moves the traces one step on, `emit` computes a gradient from them, and `learn` does both in
one pass over memory.
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
from otpe.rulebook.rule import Decays, Rows, Rule, StepDerivatives

THREADS = 2**16  # enough threads on a GPU to hide the latency of memory


class TraceState(NamedTuple):
    """The traces of one layer: the rows of its rule, and the history that factored traces need."""

    rows: Rows
    memory: Any


class LayerStep(NamedTuple):
    """Inputs and results of one layer at step t. The first axis of all arrays is the sample."""

    x: Array  # input of the layer                                [B, *in]
    kept: Any  # what `step` returns for `linearise`              [B, *out] each
    now: StepDerivatives
    decay: Decays  # of the traces, from t−1 to t
    values: dict[str, Array]  # of the trained neuron parameters
    causes: dict[str, Array]  # x of each of these parameters         [B, *out]


class Place(NamedTuple):
    """One layer of a network with its rule and engine."""

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
    def filter_count(self) -> int:
        return stages.filter_count(self.net, self.rule, self.number)

    def rows(self, row: Array) -> Rows:
        """The rule's traces before the first step."""
        return self.local.init(stages.blank_trace(self.net, self.rule, self.number, row), self.filter_count)

    def rule_inputs(self, step: LayerStep) -> tuple[StepDerivatives, Decays]:
        """The derivatives and decays that the rule gets for its weights."""
        if not stages.has_input_traces(self.local):
            return step.now, step.decay
        return stages.for_input_traces(self.net, self.number, step.now, step.decay)


@dataclass(frozen=True)
class NoTraces:
    """No traces, for a map without parameters."""

    place: Place

    def blank(self, params: Any, step: LayerStep) -> TraceState:
        return TraceState((), None)

    def advance(self, state: TraceState, step: LayerStep) -> TraceState:
        return state

    def emit(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> Any:
        return params

    def learn(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> tuple[TraceState, Any]:
        return state, params


@dataclass(frozen=True)
class InputTraces:
    """One number per input."""

    place: Place

    def blank(self, params: Any, step: LayerStep) -> TraceState:
        return TraceState(self.place.rows(jnp.zeros_like(layers.lift(jnp.zeros(step.x.shape, step.x.dtype)))), None)

    def advance(self, state: TraceState, step: LayerStep) -> TraceState:
        now, decay = self.place.rule_inputs(step)
        per_row = jax.tree.map(lambda a: a if states.is_number(a) else a.reshape(a.shape[0], -1), decay)
        return TraceState(self.place.local.advance(state.rows, layers.lift(step.x), now, per_row), None)

    def emit(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> Any:
        now, _ = self.place.rule_inputs(step)
        out, layer = self.place.local.emit(state.rows, q, now), self.place.map
        pairs = zip(states.entries(out.row), states.entries(out.post), strict=True)
        nonzero = [(row, post) for row, post in pairs if not states.is_number(post)]
        row, post = nonzero[0] if len(nonzero) == 1 else map(jnp.concatenate, zip(*nonzero, strict=True))
        x, one = layers.unlift(row, layer.in_shape)
        return layers.gradient(layer, params, x, post, one, self.place.engine)

    def learn(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> tuple[TraceState, Any]:
        state = self.advance(state, step)
        return state, self.emit(state, params, q, step)


@dataclass(frozen=True)
class WeightTraces:
    """One number per weight, in one row per input."""

    place: Place

    def blank(self, params: Any, step: LayerStep) -> TraceState:
        layer = self.place.map
        row = jnp.zeros((step.x.shape[0], layer.rows, *layer.out_shape), step.x.dtype)
        return TraceState(self.place.rows(row), None)

    def advance(self, state: TraceState, step: LayerStep) -> TraceState:
        x = self.place.map.to_rows(step.x)
        return TraceState(self.place.local.advance(state.rows, x, *_beside_rows((step.now, step.decay))), None)

    def emit(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> Any:
        out = self.place.local.emit(state.rows, *_beside_rows((q, step.now)))
        return self.place.map.from_rows(states.dot(out.row, out.post).sum(0))

    def learn(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> tuple[TraceState, Any]:
        """`advance` and `emit`, one sample after another: each trace is read once and written once."""
        local, layer, backend = self.place.local, self.place.map, self.place.engine.backend
        arrays, rebuild = states.split((step.now, step.decay))

        def one_sample(_: None, dw: Array, rows: Rows, sample: Any) -> tuple[Array, Rows, None]:
            x, q, arrays = sample
            now, decay = rebuild(arrays)
            rows = local.advance(rows, x, now, decay)
            out = local.emit(rows, q, now)
            return dw + states.dot(out.row, out.post), rows, None

        def some_samples(rows: Rows, samples: Any) -> tuple[Array, Rows, None]:
            row = jax.tree.leaves(rows)[0]
            return scan.replace(one_sample, jnp.zeros(row.shape[1:], row.dtype), rows, samples, backend=backend)

        groups = _groups(q.shape[0], jax.tree.leaves(state.rows)[0][0].size) if backend != "plain" else 1
        everything = (state.rows, (layer.to_rows(step.x), q, arrays))
        if groups == 1:
            dw, rows, _ = some_samples(*everything)
            return TraceState(rows, None), layer.from_rows(dw)
        grouped = jax.tree.map(lambda a: a.reshape(groups, -1, *a.shape[1:]), everything)
        dw, rows, _ = jax.vmap(some_samples)(*grouped)
        rows = jax.tree.map(lambda row: row.reshape(-1, *row.shape[2:]), rows)
        return TraceState(rows, None), layer.from_rows(dw.sum(0))


class History(NamedTuple):
    """The last K steps of a layer, in a ring buffer."""

    inputs: Array  # x                                                [K, B, *in]
    kept: Any  # what `linearise` needs to compute h and A        [K, B, *out] each
    h̄: Any  # None if the gradient of the weights needs no h̄    [K, B, *out] each
    decays: list[Array]  # of whole stages, if they are not constant        [K, B, 1…]
    values: dict[str, Array]  # of the trained neuron parameters                 [K, …]
    slot: Array  # where the next step is written; K means slot 0    []
    seen: Array  # number of valid steps, at most K                 []


@dataclass(frozen=True)
class FactoredTraces:
    """R̂_t = Σ_τ x_τ ⊗ C_{t,τ}: stores the factors of the traces instead of the traces.

    C_{t,τ} q_t is κ_τ of the rule's whole-sequence form, run backwards from step t with q_t as the only signal.
    """

    place: Place
    window: int  # K
    endless: bool  # whether there may be more than K steps, so that the oldest step is dropped
    narrow: bool  # whether the inputs are exact in a narrow type

    def blank(self, params: Any, step: LayerStep) -> TraceState:
        layer, engine, dtype = self.place.map, self.place.engine, step.x.dtype
        input_type = layers.spike_type(layer, params, engine, dtype) if self.narrow else dtype
        input_shape = layers.storage_shape(layer, params, input_type, engine)

        def history(a: Any) -> Array:
            return jnp.zeros((self.window, *a.shape), a.dtype)

        return TraceState((), History(
            inputs=jnp.zeros((self.window, step.x.shape[0], *input_shape), input_type),
            kept=jax.tree.map(history, step.kept),
            h̄=jax.tree.map(history, self._averages(step)),
            decays=[history(a) for a in self._decays(step)[0]],
            values=jax.tree.map(history, step.values),
            slot=jnp.zeros((), jnp.int32),
            seen=jnp.zeros((), jnp.int32),
        ))  # fmt: skip

    def widen(self, state: TraceState) -> TraceState:
        """Convert a state of a shorter window that was not yet full."""

        def pad(a: Array) -> Array:
            return jnp.pad(a, [(0, self.window - a.shape[0]), *[(0, 0)] * (a.ndim - 1)])

        counts = {"slot": state.memory.slot, "seen": state.memory.seen}
        return TraceState((), jax.tree.map(pad, state.memory._replace(slot=None, seen=None))._replace(**counts))

    def advance(self, state: TraceState, step: LayerStep) -> TraceState:
        memory, K = state.memory, self.window
        slot = memory.slot % K

        def write(history: Any, value: Any, slot: Array) -> Any:
            def one(old: Array, new: Array) -> Array:
                return jax.lax.dynamic_update_index_in_dim(old, new.astype(old.dtype), slot, 0)

            return jax.tree.map(one, history, value)

        padding = [(0, full - size) for full, size in zip(memory.inputs.shape[1:], step.x.shape, strict=True)]
        # `step.decay` is the decay from the last step to this one. It is stored in the slot of the last step.
        return TraceState((), History(
            inputs=write(memory.inputs, jnp.pad(step.x, padding), slot),
            kept=write(memory.kept, step.kept, slot),
            h̄=write(memory.h̄, self._averages(step), slot),
            decays=write(memory.decays, self._decays(step)[0], (slot - 1) % K),
            values=write(memory.values, step.values, slot),
            slot=slot + 1,
            seen=jnp.minimum(memory.seen + 1, K),
        ))  # fmt: skip

    def emit(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> Any:
        place, local, index = self.place, self.place.local, jnp.arange(self.window)
        history, (_, rebuild) = state.memory, self._decays(step)
        newest, valid = history.slot - 1, None
        if self.endless:  # put the steps in order of time, the newest last, and mask the slots before the first step
            arrays = history._replace(slot=None, seen=None)
            newest, valid = self.window - 1, self._column(index >= self.window - history.seen, q)
            history = jax.tree.map(lambda a: jnp.roll(a, -state.memory.slot, 0), arrays)
        collect = layers.Collector(place.map, params, history.inputs, place.engine)
        fixed_values = neurons.fixed_values(place.neuron, place.map.out_shape, q.dtype)

        def backward(fixed: Any, carry: Any, inputs: Any) -> Any:
            (q, fixed_values), (filters, collected) = fixed, carry
            is_newest, valid, kept, h̄, arrays, trained = inputs
            derivatives = neurons.derivatives(neurons.bind(place.neuron, fixed_values | trained), kept)
            h̄ = derivatives.h if h̄ is None else states.numbers_from(derivatives.h, h̄)
            now = StepDerivatives(derivatives.h, h̄, derivatives.b)
            decay = rebuild(arrays)._replace(A=derivatives.A, b=derivatives.b)
            filters, κ, _ = local.backward(filters, jnp.where(is_newest, q, 0), now, decay)
            collected, share = collect.step(collected, κ if valid is None else jnp.where(valid, κ, 0))
            return (filters, collected), share

        blank = stages.blank_trace(place.net, place.rule, place.number, jnp.zeros((), q.dtype))
        (_, collected), shares = scan.recur(
            backward,
            (local.start(blank, place.filter_count), collect.start()),
            (self._column(index == newest, q), valid, history.kept, history.h̄, history.decays, history.values),
            fixed=(q, fixed_values),
            reverse=True,
            backend=place.engine.backend,
        )
        return collect.gradient(collected, shares)

    def learn(self, state: TraceState, params: Any, q: Array, step: LayerStep) -> tuple[TraceState, Any]:
        state = self.advance(state, step)
        return state, self.emit(state, params, q, step)

    def _averages(self, step: LayerStep) -> Any:
        averages = self.place.local.averages
        return states.arrays_only(step.now.h̄) if averages and averages != "below" else None

    def _decays(self, step: LayerStep) -> tuple[list[Any], Any]:
        """The decays of whole stages as arrays, and a function that makes `Decays` from such arrays."""
        return states.split(step.decay._replace(A=None))

    def _column(self, a: Array, q: Array) -> Array:
        """Reshape one number per remembered step, so that it broadcasts to numbers per neuron."""
        return a.reshape(-1, *(1,) * q.ndim)


Traces = NoTraces | InputTraces | WeightTraces | FactoredTraces


# Trained neuron parameters. Each acts like a weight whose input x is a past state of the neuron: one trace per neuron


def blank_causes(place: Place, step: LayerStep) -> dict[str, Rows]:
    """The traces of the trained neuron parameters before the first step."""
    blank = jnp.zeros((step.x.shape[0], *place.map.out_shape), step.x.dtype)
    rest = states.packed([blank] * neurons.state_count(place.neuron))
    return {name: place.local.init(rest, place.filter_count) for name in step.causes}


def advance_causes(place: Place, rows: dict[str, Rows], step: LayerStep) -> dict[str, Rows]:
    """The traces of the trained neuron parameters after this step."""
    entering = neurons.cause_vectors(place.neuron)
    return {
        name: place.local.advance(rows[name], cause, step.now, step.decay._replace(b=entering[name]))
        for name, cause in step.causes.items()
    }


def emit_causes(place: Place, rows: dict[str, Rows], q: Array, step: LayerStep) -> dict[str, Array]:
    """The derivative of the loss with respect to the value of each trained neuron parameter, for each neuron."""
    grads = {}
    for name in rows:
        out = place.local.emit(rows[name], q, step.now)
        grads[name] = states.dot(out.post, out.row).sum(0)
    return grads


def _beside_rows(tree: Any) -> Any:
    """Add an axis to numbers per neuron or per sample, so that they broadcast to [B, rows, *out]."""
    return jax.tree.map(lambda a: a if states.is_number(a) else a[:, None], tree)


def _groups(batch: int, lanes: int) -> int:
    """The number of groups of samples: enough to occupy all threads of a GPU, even in a small layer."""
    groups = 1
    while batch % (2 * groups) == 0 and groups * lanes < THREADS:
        groups *= 2
    return groups
