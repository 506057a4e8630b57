"""Driver of the per-step form: forwards in time, in memory that does not grow with it.

    stepper = otpe.stepper(net, rule="otpe")
    state = stepper.init(batch=1)
    state, info = stepper.advance(params, state, x_t)                 # membranes and traces move on
    loss, grads = stepper.emit(params, state, info, labels)           # the gradient of this step's loss

`emit` is optional: a step without a label just moves on.
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
from otpe.networks import Layer, Network, bind, joined_gradient, map_params, walk
from otpe.rulebook import stages, traces
from otpe.rulebook.rule import Now, Rule, check_step
from otpe.rulebook.stages import Average
from otpe.rulebook.traces import FactoredTraces, Kept, Moved, Traces
from otpe.states import Mixed


class LayerState(NamedTuple):
    """What one layer carries from step to step. None where its rule has no need of it."""

    neurons: Any  # their state; for LIF the membrane after the reset [B, n]
    kept: Kept  # the rule's traces, see traces.py
    average: Average | None  # of h
    A: Any  # the arrays of A of the last step                  [B, n] each
    mean: Array | None  # mean survival of the layer                        [B]
    causes: dict[str, Any]  # traces of trained numbers of the neurons


class State(NamedTuple):
    layers: tuple[LayerState, ...]
    readout: Array | None  # o_t, where the loss looks at the leaky sum    [B, classes]


class Info(NamedTuple):
    """What happened in this step: not needed by the next one, but by `emit`."""

    spikes: tuple[Array, ...]  # output of every layer                    [B, n]
    logits: Array  # what the loss looks at: s_t or o_t       [B, classes]
    moved: tuple[Mixed, ...]  # what each layer saw and did: `Moved`, in `tree`

    @property
    def now(self) -> tuple[Now, ...]:
        """h_t and h̄_t of every layer, and with them g_t and ḡ_t."""
        return tuple(at.tree.now for at in self.moved)


@dataclass(frozen=True)
class Stepper:
    """The per-step form of a composition of local rules on a network."""

    net: Network
    rule: Rule
    traces: tuple[Traces, ...]  # one per layer
    engine: Engine
    loss: Loss = losses.DEFAULT

    def init(self, batch: int = 1, dtype: Any = float) -> State:
        """Everything at rest, for `batch` samples side by side."""
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        blank = State(tuple(self._blank(i, batch, dtype) for i in range(self.net.depth)), self._readout(batch, dtype))
        params = jax.eval_shape(lambda: self.net.init(jax.random.key(0), dtype))
        x = jax.ShapeDtypeStruct((batch, *self.net.in_shape), dtype)
        info = jax.eval_shape(lambda p, s, x: self._run(p, s, x)[1], params, blank, x)
        maps, found = map_params(self.net, params), []
        for layer, of_layer, at, p in zip(blank.layers, self.traces, info.moved, maps, strict=True):
            kept, causes = of_layer.blank(p, at.tree), traces.blank_causes(of_layer.place, at.tree)
            found.append(layer._replace(kept=kept, causes=causes))
        return jax.tree.map(jnp.copy, blank._replace(layers=tuple(found)))  # one array twice could not be donated

    def traces_of(self, state: State) -> Any:
        return [(layer.kept, layer.causes) for layer in state.layers]

    def neurons_of(self, state: State) -> tuple[Any, ...]:
        return tuple(layer.neurons for layer in state.layers)

    def advance(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Info]:
        """Feed one time step of spikes [B, *in]: neurons, traces and averages move on. No label needed."""
        params = check.params(self.net, params)
        state, info = self._run(params, state, check_step(self, self.net, params, state, x))
        kept = [of.advance(layer.kept, at) for of, layer, at in self._each(state, info)]
        return self._keep(self._advance_causes(state, info), kept), info

    def emit(
        self, params: Any, state: State, info: Info, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        """The loss of the step just fed, mean over the batch or sum with these weights [B], and its gradient."""
        params = check.params(self.net, params)
        target = check.targets(self.net, self.loss, labels, info.logits.shape[0])
        loss, signals = self._signals(params, info, target, weight)
        each = zip(self._each(state, info), map_params(self.net, params), signals, strict=True)
        grads = [of.emit(layer.kept, p, q, at) for (of, layer, at), p, q in each]
        return loss, self._with_causes(params, state, info, signals, grads)

    def learn(
        self, params: Any, state: State, x: ArrayLike, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[State, Info, Array, tuple[Any, ...]]:
        """`advance` and `emit` at once: the same, in fewer passes over the traces."""
        params = check.params(self.net, params)
        state, info = self._run(params, state, check_step(self, self.net, params, state, x))
        target = check.targets(self.net, self.loss, labels, info.logits.shape[0])
        loss, signals = self._signals(params, info, target, weight)
        each = zip(self._each(state, info), map_params(self.net, params), signals, strict=True)
        learned = [of.learn(layer.kept, p, q, at) for (of, layer, at), p, q in each]
        state = self._keep(self._advance_causes(state, info), [kept for kept, _ in learned])
        return state, info, loss, self._with_causes(params, state, info, signals, [grads for _, grads in learned])

    @property
    def grows(self) -> bool:
        """Does a step cost more the more steps are remembered?"""
        return any(isinstance(t, FactoredTraces) for t in self.traces)

    def remembering(self, steps: int) -> "Stepper":
        """The same for a sequence of no more than that many steps from the start, so that none is ever forgotten."""
        traces = (replace(t, window=steps, endless=False) if isinstance(t, FactoredTraces) else t for t in self.traces)
        return replace(self, traces=tuple(traces))

    def widen(self, state: State) -> State:
        """The state of a stepper that remembers fewer steps, while it has not had to forget any yet."""
        pairs = zip(self.traces, (layer.kept for layer in state.layers), strict=True)
        return self._keep(state, [t.widen(kept) if isinstance(t, FactoredTraces) else kept for t, kept in pairs])

    def _each(self, state: State, info: Info) -> Any:
        return zip(self.traces, state.layers, (at.tree for at in info.moved), strict=True)

    def _keep(self, state: State, kept: list[Kept]) -> State:
        pairs = zip(state.layers, kept, strict=True)
        return state._replace(layers=tuple(layer._replace(kept=new) for layer, new in pairs))

    def _advance_causes(self, state: State, info: Info) -> State:
        after = (
            layer._replace(causes=traces.advance_causes(of.place, layer.causes, at))
            for of, layer, at in self._each(state, info)
        )
        return state._replace(layers=tuple(after))

    def _with_causes(self, params: Any, state: State, info: Info, signals: list[Array], grads: list[Any]) -> Any:
        """The gradients of the maps, with those of trained numbers of the neurons beside them."""
        found = []
        for (of, layer, at), q, of_map in zip(self._each(state, info), signals, grads, strict=True):
            own = traces.emit_causes(of.place, layer.causes, q, at)
            found.append(joined_gradient(self.net, params, of.place.number, of_map, own))
        return tuple(found)

    def _readout(self, batch: int, dtype: Any) -> Array | None:
        return jnp.zeros((batch, *self.net.layers[-1].out_shape), dtype) if self.rule.readout == "leaky" else None

    def _blank(self, i: int, batch: int, dtype: Any) -> LayerState:
        """A layer at rest, without its traces."""
        neuron, shape = self.net.neurons[i], self.net.layers[i].out_shape
        blank = jnp.zeros((batch, *shape), dtype)
        A = None
        if not stages.sees_inputs(self.rule.at(i, self.net.depth)):
            A = jax.tree.map(lambda _: blank, neurons.arrays_in_A(neuron, shape, dtype))
        return LayerState(
            neurons=neurons.rest(neuron, batch, shape, dtype),
            kept=Kept((), None),
            average=stages.blank_average(self.net, self.rule, i, blank, jnp.zeros((), dtype)),
            A=A,
            mean=jnp.zeros(batch, dtype) if stages.wants_mean(self.net, self.rule, i) else None,
            causes={},
        )

    def _run(self, params: Any, state: State, x: Array) -> tuple[State, Info]:
        """The neurons move on, their traces not yet."""
        x = x.astype(jax.tree.leaves(params)[0].dtype)
        means = [layer.mean for layer in state.layers]  # of the step before
        leaks = stages.leaks(bind(self.net, params))

        def each(layer: Layer, x: Array, current: Current) -> tuple[Array, Any]:
            after, output, moved = self._run_layer(layer, state.layers[layer.number], x, current, leaks, means)
            return output, (after, output, moved)

        x, found = walk(self.net, params, x, self.engine, each)
        after, outputs, moved = zip(*found, strict=True)
        o = None if state.readout is None else self.net.readout_leak * state.readout + x
        return State(after, o), Info(outputs, x if o is None else o, tuple(map(Mixed, moved)))

    def _run_layer(
        self, layer: Layer, state: LayerState, x: Array, current: Current, leaks: list[Any], means: list[Array | None]
    ) -> tuple[LayerState, Array, Moved]:
        net, rule, i, neuron = self.net, self.rule, layer.number, layer.neuron
        (batch, *_), rank = x.shape, len(layer.shape)
        trained = neurons.causes(layer.kind)
        causes = neurons.acting(neuron, state.neurons, trained)
        after, output, kept = neuron.step(state.neurons, current.total)
        at = neurons.derivatives(neuron, kept)
        at = at._replace(A=stages.for_all_samples(at.A, output.shape), h=stages.for_all_samples(at.h, output.shape))
        average, h̄ = state.average, None
        if average is not None:
            nearest = stages.average_leaks(net, rule, i, leaks)
            average = average.advance(at.h, nearest)
            h̄ = average.mean(at.h, len(nearest))
        led_here = at if state.A is None else at._replace(A=states.numbers_from(at.A, state.A))
        per_sample = [stages.per_sample(mean, rank) for mean in means]
        now, decay = stages.seen(net, rule, i, led_here, h̄, leaks, per_sample)
        decay = decay._replace(
            leaks=stages.for_all_samples(decay.leaks, (batch, *(1,) * rank)),
            stages=stages.for_all_samples(decay.stages, (batch, *(1,) * rank)),
        )
        after = LayerState(
            neurons=after,
            kept=state.kept,
            average=average,
            A=None if state.A is None else states.arrays_only(at.A),
            mean=None if state.mean is None else stages.mean_survival(net, i, at.A),
            causes=state.causes,
        )
        values = {name: layer.values[name] for name in trained}
        return after, output, Moved(x, kept, now, decay, values, causes)

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

    def _below(self, i: int, q: Array, now: Now) -> Array:
        """m: what a layer sends down is a number per neuron, so it cannot depend on the traces; blank ones do."""
        place = self.traces[i].place
        blank = states.packed([jnp.zeros_like(q)] * neurons.states_of(place.neuron))
        return place.local.emit(place.local.init(blank, place.filters), q, now).below
