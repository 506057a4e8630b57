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

from otpe import check, layers, losses
from otpe.engine import Engine
from otpe.network import Network
from otpe.rulebook import stages
from otpe.rulebook.base import Now, Rule, check_step
from otpe.rulebook.stages import Average
from otpe.rulebook.traces import FactoredTraces, Kept, Moved, Traces


class LayerState(NamedTuple):
    """What one layer carries from step to step. None where its rule has no need of it."""

    u: Array  # membrane after the reset                      [B, n]
    kept: Kept  # the rule's traces, see traces.py
    average: Average | None  # of the surrogate derivative
    ρ: Array | None  # survival of the last step                     [B, n]
    mean: Array | None  # its mean over the layer                       [B]


class State(NamedTuple):
    layers: tuple[LayerState, ...]
    readout: Array | None  # o_t, where the loss looks at the leaky sum    [B, classes]


class Info(NamedTuple):
    """What happened in this step: not needed by the next one, but by `emit`."""

    spikes: tuple[Array, ...]  # s_t of every layer                       [B, n]
    logits: Array  # what the loss looks at: s_t or o_t       [B, classes]
    moved: tuple[Moved, ...]  # what each layer saw and did

    @property
    def now(self) -> tuple[Now, ...]:
        """g_t and ḡ_t of every layer."""
        return tuple(at.now for at in self.moved)


@dataclass(frozen=True)
class Stepper:
    """The per-step form of a composition of local rules on a network."""

    net: Network
    rule: Rule
    traces: tuple[Traces, ...]  # one per layer
    engine: Engine

    def init(self, batch: int = 1, dtype: Any = float) -> State:
        """Everything at rest, for `batch` samples side by side."""
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        state = State(
            layers=tuple(self._init_layer(i, batch, dtype) for i in range(self.net.depth)),
            readout=jnp.zeros((batch, *self.net.layers[-1].out_shape), dtype) if self.rule.readout == "leaky" else None,
        )
        return jax.tree.map(jnp.copy, state)  # one array in two places could not be donated

    def traces_of(self, state: State) -> Any:
        return [layer.kept for layer in state.layers]

    def membranes_of(self, state: State) -> tuple[Array, ...]:
        return tuple(layer.u for layer in state.layers)

    def advance(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Info]:
        """Feed one time step of spikes [B, n_in]: membranes, traces and averages move on. No label needed."""
        params = check.params(self.net, params)
        state, info = self._run(params, state, check_step(self, self.net, params, state, x))
        kept = [self.traces[i].advance(self._local(i), *at) for i, at in self._each(state, info)]
        return self._keep(state, kept), info

    def emit(
        self, params: Any, state: State, info: Info, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[Array, tuple[Any, ...]]:
        """The loss of the step just fed, mean over the batch or sum with these weights [B], and its gradient."""
        params = check.params(self.net, params)
        labels = check.labels(self.net.classes, labels, batch=info.logits.shape[0])
        loss, signals = self._signals(params, info, labels, weight)
        return loss, tuple(
            self.traces[i].emit(self._local(i), layer.kept, params[i], signals[i], info.moved[i])
            for i, layer in enumerate(state.layers)
        )

    def learn(
        self, params: Any, state: State, x: ArrayLike, labels: ArrayLike, weight: Array | None = None
    ) -> tuple[State, Info, Array, tuple[Any, ...]]:
        """`advance` and `emit` at once: the same, in fewer passes over the traces."""
        params = check.params(self.net, params)
        state, info = self._run(params, state, check_step(self, self.net, params, state, x))
        labels = check.labels(self.net.classes, labels, batch=info.logits.shape[0])
        loss, signals = self._signals(params, info, labels, weight)
        learned = [
            self.traces[i].learn(self._local(i), kept, params[i], signals[i], at)
            for i, (kept, at) in self._each(state, info)
        ]
        return self._keep(state, [kept for kept, _ in learned]), info, loss, tuple(grads for _, grads in learned)

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

    def _local(self, i: int) -> Any:
        return self.rule.at(i, self.net.depth)

    def _each(self, state: State, info: Info) -> Any:
        return enumerate(zip((layer.kept for layer in state.layers), info.moved, strict=True))

    def _keep(self, state: State, kept: list[Kept]) -> State:
        pairs = zip(state.layers, kept, strict=True)
        return state._replace(layers=tuple(layer._replace(kept=new) for layer, new in pairs))

    def _init_layer(self, i: int, batch: int, dtype: Any) -> LayerState:
        local = self._local(i)
        neuron = jnp.zeros((batch, *self.net.layers[i].out_shape), dtype)
        return LayerState(
            u=neuron,
            kept=self._init_kept(i, batch, dtype),
            average=Average(neuron, jnp.zeros((), dtype)) if stages.keeps_average(self.net, self.rule, i) else None,
            ρ=neuron if local.trace == "weight" else None,
            mean=jnp.zeros(batch, dtype) if stages.wants_mean(self.net, self.rule, i) else None,
        )

    def _init_kept(self, i: int, batch: int, dtype: Any) -> Kept:
        row, memory = self.traces[i].blank(batch, dtype)
        if isinstance(self.traces[i], FactoredTraces):
            return Kept((), memory)
        return Kept(self._local(i).init(row, len(stages.above(self.net, self.rule, i))), memory)

    def _run(self, params: Any, state: State, x: Array) -> tuple[State, Info]:
        """The neurons move on, their traces not yet."""
        x = x.astype(state.layers[0].u.dtype)
        means = [layer.mean for layer in state.layers]  # of the step before
        after, spikes, moved = [], [], []
        for i, layer in enumerate(state.layers):
            layer, s, at = self._run_layer(i, params[i], layer, x, means)
            after.append(layer)
            spikes.append(s)
            moved.append(at)
            x = s
        o = None if state.readout is None else self.net.readout_leak * state.readout + x
        return State(tuple(after), o), Info(tuple(spikes), x if o is None else o, tuple(moved))

    def _run_layer(
        self, i: int, params: Any, state: LayerState, x: Array, means: list[Array | None]
    ) -> tuple[LayerState, Array, Moved]:
        local, neuron, layer = self._local(i), self.net.neurons[i], self.net.layers[i]
        u, s, v = neuron.fire(state.u, layers.apply(layer, params, x, self.engine))
        g = neuron.pseudo_derivative(v)
        ρ = neuron.survival(v, g)
        average = state.average and state.average.advance(g, stages.average_leak(self.net, self.rule, i))
        traced = layer.in_shape if local.trace == "input" else layer.out_shape
        before = stages.decays(self.net, self.rule, i, state.ρ, [stages.per_sample(mean, traced) for mean in means])
        after = LayerState(
            u=u,
            kept=state.kept,
            average=average,
            ρ=None if state.ρ is None else ρ,
            mean=None if state.mean is None else stages.mean_survival(ρ, layer.out_shape),
        )
        return after, s, Moved(x, v, Now(g, g if average is None else average.ḡ), before)

    def _signals(self, params: Any, info: Info, labels: Array, weight: Array | None) -> tuple[Array, list[Array]]:
        """The loss, and the learning signal q of each layer."""
        loss, q = losses.cross_entropy_and_signal(info.logits, labels, weight)
        signals = [q]
        for i in reversed(range(1, self.net.depth)):
            m = self._below(i, signals[0], info.moved[i].now)
            signals.insert(0, layers.transpose(self.net.layers[i], params[i], m, self.engine))
        return loss, signals

    def _below(self, i: int, q: Array, now: Now) -> Array:
        """m: what a layer sends down is a number per neuron, so it cannot depend on the traces; blank ones do."""
        blank = self._local(i).init(jnp.zeros_like(q), len(stages.above(self.net, self.rule, i)))
        return self._local(i).emit(blank, q, now).below
