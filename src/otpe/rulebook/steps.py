"""Driver of the per-step form: forwards in time, in memory that does not grow with it.

    stepper = otpe.stepper(net, rule="otpe")
    state = stepper.init(batch=1)
    state, info = stepper.advance(params, state, x_t)                 # membranes and traces move on
    loss, grads = stepper.emit(params, state, info, labels)           # the gradient of this step's loss

`emit` is optional: a step without a label just moves on.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from otpe import check, layers, losses
from otpe.network import Network
from otpe.rulebook import stages
from otpe.rulebook.base import Now, Rows, Rule, check_step
from otpe.rulebook.stages import Average
from otpe.rulebook.traces import Traces


class LayerState(NamedTuple):
    """What one layer carries from step to step. None where its rule has no need of it."""

    u: Array  # membrane after the reset                      [B, n]
    rows: Rows  # the rule's traces                             see traces.py
    memory: Any  # what the traces' storage keeps beside them
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
    now: tuple[Now, ...]


@dataclass(frozen=True)
class Stepper:
    """The per-step form of a composition of local rules on a network."""

    net: Network
    rule: Rule
    traces: tuple[Traces, ...]  # one per layer

    def init(self, batch: int = 1, dtype: Any = float) -> State:
        """Everything at rest, for `batch` samples side by side."""
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        return State(
            layers=tuple(self._init_layer(i, batch, dtype) for i in range(self.net.depth)),
            readout=jnp.zeros((batch, *self.net.layers[-1].out_shape), dtype) if self.rule.readout == "leaky" else None,
        )

    def traces_of(self, state: State) -> Any:
        return [(layer.rows, layer.memory) for layer in state.layers]

    def advance(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Info]:
        """Feed one time step of spikes [B, n_in]: membranes, traces and averages move on. No label needed."""
        params = check.params(self.net, params)
        x = check_step(self, self.net, params, state, x)
        means = [layer.mean for layer in state.layers]  # of the step before
        after, spikes, nows = [], [], []
        for i in range(self.net.depth):
            layer, x, now = self._advance_layer(i, params[i], state.layers[i], x, means)
            after.append(layer)
            spikes.append(x)
            nows.append(now)
        o = None if state.readout is None else self.net.readout_leak * state.readout + x
        return State(tuple(after), o), Info(tuple(spikes), x if o is None else o, tuple(nows))

    def emit(self, params: Any, state: State, info: Info, labels: ArrayLike) -> tuple[Array, tuple[Any, ...]]:
        """The loss of the step just fed, mean over the batch, and its gradient."""
        params = check.params(self.net, params)
        labels = check.labels(self.net.classes, labels, batch=info.logits.shape[0])
        loss, q = jax.value_and_grad(losses.cross_entropy)(info.logits, labels)
        grads = []
        for i in reversed(range(self.net.depth)):
            layer = state.layers[i]
            out = self.rule.at(i, self.net.depth).emit(layer.rows, q, info.now[i])
            grads.append(self.traces[i].gradient(layer.memory, params[i], out.row, out.post))
            if i > 0:
                q = layers.transpose(self.net.layers[i], params[i], out.below)
        return loss, tuple(reversed(grads))

    def _init_layer(self, i: int, batch: int, dtype: Any) -> LayerState:
        local = self.rule.at(i, self.net.depth)
        row, memory = self.traces[i].blank(batch, dtype)
        neuron = jnp.zeros((batch, *self.net.layers[i].out_shape), dtype)
        return LayerState(
            u=neuron,
            rows=local.init(row, len(stages.above(self.net, self.rule, i))),
            memory=memory,
            average=Average(neuron, jnp.zeros((), dtype)) if local.averages else None,
            ρ=neuron if local.trace == "weight" else None,
            mean=jnp.zeros(batch, dtype) if stages.wants_mean(self.net, self.rule, i) else None,
        )

    def _advance_layer(
        self, i: int, params: Any, state: LayerState, x: Array, means: list[Array | None]
    ) -> tuple[LayerState, Array, Now]:
        local, neuron, layer = self.rule.at(i, self.net.depth), self.net.neurons[i], self.net.layers[i]
        u, s, v = neuron.fire(state.u, layers.apply(layer, params, x))
        g = neuron.pseudo_derivative(v)
        ρ = neuron.survival(v, g)
        average = state.average and state.average.advance(g, stages.average_leak(self.net, self.rule, i))
        now = Now(g, average and average.ḡ)

        memory, rows, x_row = self.traces[i].feed(state.memory, state.rows, x)
        traced = layer.in_shape if local.trace == "input" else layer.out_shape
        before = stages.decays(self.net, self.rule, i, state.ρ, [stages.per_sample(mean, traced) for mean in means])
        return (
            LayerState(
                u=u,
                rows=local.advance(rows, x_row, now, before),
                memory=memory,
                average=average,
                ρ=None if state.ρ is None else ρ,
                mean=None if state.mean is None else stages.mean_survival(ρ, layer.out_shape),
            ),
            s,
            now,
        )
