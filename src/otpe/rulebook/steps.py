"""Driver of the per-step form: forwards in time, in memory that does not grow with time.

    stepper = otpe.stepper(net, rule="otpe")
    state = stepper.init(batch=1)
    state, info = stepper.advance(params, state, x_t)                 # advances membranes and traces
    loss, grads = stepper.emit(params, state, info, labels)           # the gradient of this step's loss

`emit` is optional: a step without a label only needs `advance`.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from otpe import check, layers, losses, neurons, states
from otpe.engine import Engine
from otpe.layers import Current
from otpe.losses import Loss
from otpe.networks import Layer, Network, bind, join_gradients, map_params, walk
from otpe.rulebook import stages, traces
from otpe.rulebook.rule import Rule, StepDerivatives, check_step
from otpe.rulebook.stages import Average
from otpe.rulebook.traces import FactoredTraces, LayerStep, Traces, TraceState
from otpe.states import Mixed


class LayerState(NamedTuple):
    """What one layer carries from step to step. An entry that the rule does not need is None."""

    neurons: Any  # their state; for LIF the membrane after the reset [B, n]
    kept: TraceState  # the traces of the rule, see traces.py
    average: Average | None  # of h
    A: Any  # A of the last step, None for plain numbers        [B, n] each
    mean: Array | None  # mean survival of the layer                        [B]
    causes: dict[str, Any]  # traces of the trained neuron parameters


class State(NamedTuple):
    layers: tuple[LayerState, ...]
    readout: Array | None  # o_t, if the loss sees the leaky sum    [B, classes]


class Info(NamedTuple):
    """What `emit` needs to know about this step. The next step does not need it."""

    spikes: tuple[Array, ...]  # output of every layer                    [B, n]
    logits: Array  # what the loss sees: s_t or o_t           [B, classes]
    steps: tuple[Mixed, ...]  # one per layer: its `tree` is a `LayerStep`

    @property
    def now(self) -> tuple[StepDerivatives, ...]:
        """The derivatives of every layer at this step: h, h̄, g and ḡ."""
        return tuple(step.tree.now for step in self.steps)


@dataclass(frozen=True)
class Stepper:
    """The per-step form of a composition of local rules on a network."""

    net: Network
    rule: Rule
    traces: tuple[Traces, ...]  # one per layer
    engine: Engine
    loss: Loss = losses.DEFAULT

    def init(self, batch: int = 1, dtype: Any = float) -> State:
        """The state before the first step, for `batch` samples."""
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        blank = State(tuple(self._blank(i, batch, dtype) for i in range(self.net.depth)), self._readout(batch, dtype))
        params = jax.eval_shape(lambda: self.net.init(jax.random.key(0), dtype))
        x = jax.ShapeDtypeStruct((batch, *self.net.in_shape), dtype)
        info = jax.eval_shape(lambda p, s, x: self._run(p, s, x)[1], params, blank, x)
        maps, with_traces = map_params(self.net, params), []
        for layer, storage, step, p in zip(blank.layers, self.traces, info.steps, maps, strict=True):
            kept, causes = storage.blank(p, step.tree), traces.blank_causes(storage.place, step.tree)
            with_traces.append(layer._replace(kept=kept, causes=causes))
        # Arrays that are the same object could not be donated, so each is copied.
        return jax.tree.map(jnp.copy, blank._replace(layers=tuple(with_traces)))

    def traces_of(self, state: State) -> Any:
        return [(layer.kept, layer.causes) for layer in state.layers]

    def neurons_of(self, state: State) -> tuple[Any, ...]:
        return tuple(layer.neurons for layer in state.layers)

    def advance(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Info]:
        """Feed one time step of spikes [B, *in]: updates neurons, traces and averages. Needs no label."""
        params = check.params(self.net, params)
        state, info = self._run(params, state, check_step(self, self.net, params, state, x))
        after = [storage.advance(layer.kept, step) for storage, layer, step in self._each(state, info)]
        return self._with_traces(self._advance_causes(state, info), after), info

    def emit(
        self, params: Any, state: State, info: Info, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        """The loss of the last step (mean over the batch, or sum with `weight` [B]) and its gradient."""
        params = check.params(self.net, params)
        target = check.targets(self.net, self.loss, labels, info.logits.shape[0])
        loss, signals = self._signals(params, info, target, weight)
        each = zip(self._each(state, info), map_params(self.net, params), signals, strict=True)
        grads = [storage.emit(layer.kept, p, q, step) for (storage, layer, step), p, q in each]
        return loss, self._with_causes(params, state, info, signals, grads)

    def learn(
        self, params: Any, state: State, x: ArrayLike, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[State, Info, Array, tuple[Any, ...]]:
        """`advance` and `emit` in one call, with fewer passes over the traces."""
        params = check.params(self.net, params)
        state, info = self._run(params, state, check_step(self, self.net, params, state, x))
        target = check.targets(self.net, self.loss, labels, info.logits.shape[0])
        loss, signals = self._signals(params, info, target, weight)
        each = zip(self._each(state, info), map_params(self.net, params), signals, strict=True)
        learned = [storage.learn(layer.kept, p, q, step) for (storage, layer, step), p, q in each]
        state = self._with_traces(self._advance_causes(state, info), [after for after, _ in learned])
        return state, info, loss, self._with_causes(params, state, info, signals, [grads for _, grads in learned])

    @property
    def grows(self) -> bool:
        """Whether the cost of a step grows with the number of remembered steps."""
        return any(isinstance(t, FactoredTraces) for t in self.traces)

    def remembering(self, steps: int) -> "Stepper":
        """The same stepper for a sequence of at most `steps` steps, all of which it remembers."""
        traces = (replace(t, window=steps, endless=False) if isinstance(t, FactoredTraces) else t for t in self.traces)
        return replace(self, traces=tuple(traces))

    def widen(self, state: State) -> State:
        """Convert a state of a stepper that remembers fewer steps. That stepper must not have dropped a step yet."""
        pairs = zip(self.traces, (layer.kept for layer in state.layers), strict=True)
        return self._with_traces(state, [t.widen(old) if isinstance(t, FactoredTraces) else old for t, old in pairs])

    def _each(self, state: State, info: Info) -> Any:
        """For each layer: the storage of its traces, its state and its step."""
        return zip(self.traces, state.layers, (step.tree for step in info.steps), strict=True)

    def _with_traces(self, state: State, after: list[TraceState]) -> State:
        pairs = zip(state.layers, after, strict=True)
        return state._replace(layers=tuple(layer._replace(kept=new) for layer, new in pairs))

    def _advance_causes(self, state: State, info: Info) -> State:
        after = (
            layer._replace(causes=traces.advance_causes(storage.place, layer.causes, step))
            for storage, layer, step in self._each(state, info)
        )
        return state._replace(layers=tuple(after))

    def _with_causes(self, params: Any, state: State, info: Info, signals: list[Array], grads: list[Any]) -> Any:
        """The gradients of the maps, joined with the gradients of the trained neuron parameters."""
        joined = []
        for (storage, layer, step), q, map_grad in zip(self._each(state, info), signals, grads, strict=True):
            by_value = traces.emit_causes(storage.place, layer.causes, q, step)
            joined.append(join_gradients(self.net, params, storage.place.number, map_grad, by_value))
        return tuple(joined)

    def _readout(self, batch: int, dtype: Any) -> Array | None:
        return jnp.zeros((batch, *self.net.layers[-1].out_shape), dtype) if self.rule.readout == "leaky" else None

    def _blank(self, i: int, batch: int, dtype: Any) -> LayerState:
        """The state of a layer before the first step, without its traces."""
        neuron, shape = self.net.neurons[i], self.net.layers[i].out_shape
        blank = jnp.zeros((batch, *shape), dtype)
        A = None
        if not stages.has_input_traces(self.rule.at(i, self.net.depth)):
            A = jax.tree.map(lambda _: blank, neurons.arrays_in_A(neuron, shape, dtype))
        return LayerState(
            neurons=neurons.initial_state(neuron, batch, shape, dtype),
            kept=TraceState((), None),
            average=stages.blank_average(self.net, self.rule, i, blank, jnp.zeros((), dtype)),
            A=A,
            mean=jnp.zeros(batch, dtype) if stages.needs_mean_survival(self.net, self.rule, i) else None,
            causes={},
        )

    def _run(self, params: Any, state: State, x: Array) -> tuple[State, Info]:
        """Advance the neurons and averages by one step. The traces stay as they are."""
        x = x.astype(jax.tree.leaves(params)[0].dtype)
        means = [layer.mean for layer in state.layers]  # of the last step
        leaks = stages.leaks(bind(self.net, params))

        def each(layer: Layer, x: Array, current: Current) -> tuple[Array, Any]:
            after, output, step = self._run_layer(layer, state.layers[layer.number], x, current, leaks, means)
            return output, (after, output, step)

        x, results = walk(self.net, params, x, self.engine, each)
        after, outputs, steps = zip(*results, strict=True)
        o = None if state.readout is None else self.net.readout_leak * state.readout + x
        return State(after, o), Info(outputs, x if o is None else o, tuple(map(Mixed, steps)))

    def _run_layer(
        self, layer: Layer, state: LayerState, x: Array, current: Current, leaks: list[Any], means: list[Array | None]
    ) -> tuple[LayerState, Array, LayerStep]:
        net, rule, i, neuron = self.net, self.rule, layer.number, layer.neuron
        (batch, *_), rank = x.shape, len(layer.shape)
        trained = neurons.cause_vectors(layer.unbound_neuron)
        causes = neurons.cause_inputs(neuron, state.neurons, trained)
        after, output, kept = neuron.step(state.neurons, current.total)
        derivatives = neurons.derivatives(neuron, kept)
        A, h = (stages.with_sample_axis(a, output.shape) for a in (derivatives.A, derivatives.h))
        derivatives = derivatives._replace(A=A, h=h)
        average, h̄ = state.average, None
        if average is not None:
            nearest = stages.average_leaks(net, rule, i, leaks)
            average = average.advance(derivatives.h, nearest)
            h̄ = average.mean(derivatives.h, len(nearest))
        # The decay from the last step to this one depends on A of the last step.
        last_A = derivatives.A if state.A is None else states.numbers_from(derivatives.A, state.A)
        per_sample = [stages.per_sample(mean, rank) for mean in means]
        now, decay = stages.rule_inputs(net, rule, i, derivatives._replace(A=last_A), h̄, leaks, per_sample)
        decay = decay._replace(
            leaks=stages.with_sample_axis(decay.leaks, (batch, *(1,) * rank)),
            stages=stages.with_sample_axis(decay.stages, (batch, *(1,) * rank)),
        )
        after = LayerState(
            neurons=after,
            kept=state.kept,
            average=average,
            A=None if state.A is None else states.arrays_only(derivatives.A),
            mean=None if state.mean is None else stages.mean_survival(net, i, derivatives.A),
            causes=state.causes,
        )
        values = {name: layer.values[name] for name in trained}
        return after, output, LayerStep(x, kept, now, decay, values, causes)

    def _signals(self, params: Any, info: Info, target: Array, weight: Array | None) -> tuple[Array, list[Array]]:
        """The loss, and the learning signal q of each layer."""
        loss, q = losses.value_and_signal(self.loss, info.logits, target, weight)
        signals = [q]
        for layer in reversed(bind(self.net, params)[1:]):
            m = self._below(layer.number, signals[0], info.now[layer.number])
            q, below = layers.transpose(layer.map, layer.params, m, self.engine), layer.number - 1
            if self.loss.rate_weight and neurons.is_spiking(self.net.neurons[below]):
                rank = len(self.net.layers[below].out_shape)
                penalty, more = losses.rate_penalty(self.loss, info.spikes[below], rank, weight)
                loss, q = loss + penalty, q + more
            signals.insert(0, q)
        return loss, signals

    def _below(self, i: int, q: Array, now: StepDerivatives) -> Array:
        """The signal m that a layer sends down. It does not depend on the traces, so blank traces are enough."""
        place = self.traces[i].place
        blank = states.packed([jnp.zeros_like(q)] * neurons.state_count(place.neuron))
        return place.local.emit(place.local.init(blank, place.filter_count), q, now).below
