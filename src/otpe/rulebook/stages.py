"""The leaky stages between a layer and the loss, their decays, and the averages h̄ and ḡ.

A stage is a population of neurons that the signal passes on its way to the loss: each layer above and, for the F-
rules, the leaky readout as the last stage. A stage filters the signal once per pole of its neurons: once for LIF,
twice for current-based LIF. If leaks differ, every filter has the leak of its own stage.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import neurons, states
from otpe.networks import Layer, Network
from otpe.neurons import Derivatives
from otpe.rulebook.rule import Decay, Decays, Rule, StepDerivatives, cascade
from otpe.states import Matrix, Vector


class Average(NamedTuple):
    """State of h̄_t, the mean of h_τ weighted by the impulse response of the nearest stage above.

    For a LIF stage and neurons with one state, h̄_t = ḡ_t = Σ_τ λ^(t−τ) g_τ / Σ_τ λ^(t−τ).
    """

    total: Any  # leaky sums of h, a tuple if there are several poles: Σ_τ λ^(t−τ) h_τ   [B, n]
    weight: Any  # the same sums of 1                                                     []

    def advance(self, h: Vector, leaks: tuple[Decay, ...]) -> "Average":
        arrays, _ = states.split(h)
        one = len(leaks) == 1
        _, total = cascade(states.packed(arrays), leaks, (self.total,) if one else self.total)
        _, weight = cascade(1, leaks, (self.weight,) if one else self.weight)
        return Average(total[0], weight[0]) if one else Average(total, weight)

    def mean(self, h: Vector, poles: int) -> Vector:
        """h̄, where an entry of h that is a plain number stays the same number."""
        total, weight = (self.total, self.weight) if poles == 1 else (self.total[-1], self.weight[-1])
        share = 1 / weight  # one division instead of one per neuron
        _, rebuild = states.split(h)
        return rebuild([part * share for part in states.entries(total)])

    @staticmethod
    def blank(h: int, poles: int, neuron: Array, weight: Array) -> "Average":
        """The state before the first step. `h` is the number of arrays in the vector h, `poles` the number of poles."""
        total = states.packed([neuron] * h)
        return Average(total, weight) if poles == 1 else Average((total,) * poles, (weight,) * poles)


# The stages of a rule


def above(net: Network, rule: Rule, layer: int) -> tuple[int, ...]:
    """The stages through which a layer's rule filters, nearest first, as layer numbers. `net.depth` is the readout."""
    order = rule.at(layer, net.depth).order
    stages = tuple(range(layer + 1, net.depth + (rule.readout == "leaky")))
    if order == "readout":
        return stages if layer == net.depth - 1 else ()
    return stages if order == "depth" else stages[:order]


def filter_count(net: Network, rule: Rule, layer: int) -> int:
    """The number of leaky sums of a layer's rule: one per pole of each of its stages."""
    return sum(_poles(net, stage) for stage in above(net, rule, layer))


def leaks(layers: Sequence[Layer]) -> list[Matrix]:
    """A⁰ of every layer."""
    return [neurons.leak_matrix(layer.unbound_neuron, layer.values, layer.shape) for layer in layers]


def largest_leaks(net: Network) -> list[tuple[float, ...]]:
    """For each stage, the largest leak of each pole before any training. The readout is the last stage."""
    largest = []
    for neuron, layer in zip(net.neurons, net.layers, strict=True):
        rows = states.rows(neurons.largest_leaks(neuron, layer.out_shape))
        largest.append(tuple(float(rows[i][i]) for i in neurons.poles(neuron)))
    return [*largest, (net.readout_leak,)]


def stage_leaks(net: Network, leaks: Sequence[Matrix], stage: int) -> tuple[Decay, ...]:
    """The leaks of a stage, one per pole, in the order in which a signal passes from current to membrane."""
    if stage == net.depth:
        return (net.readout_leak,)
    rows = states.rows(leaks[stage])
    return tuple(rows[i][i] for i in neurons.poles(net.neurons[stage]))


def _poles(net: Network, stage: int) -> int:
    return 1 if stage == net.depth else len(neurons.poles(net.neurons[stage]))


# Averages


def needs_average(net: Network, rule: Rule, layer: int) -> bool:
    """Whether ḡ of this layer is used. The first layer sends no signal below, and some derivatives are constant."""
    averages = rule.at(layer, net.depth).averages
    return bool(averages) and (averages != "below" or layer > 0) and neurons.arrays_in_h(net.neurons[layer]) > 0


def average_leaks(net: Network, rule: Rule, layer: int, leaks: Sequence[Matrix]) -> tuple[Decay, ...]:
    """The leaks of h̄: the leaks of the nearest stage above. A layer without a stage above uses its own leaks."""
    return stage_leaks(net, leaks, (*above(net, rule, layer), layer)[0])


def blank_average(net: Network, rule: Rule, layer: int, neuron: Array, weight: Array) -> Average | None:
    """The state of h̄ before the first step. None if the layer does not need h̄."""
    if not needs_average(net, rule, layer):
        return None
    nearest = (*above(net, rule, layer), layer)[0]
    return Average.blank(neurons.arrays_in_h(net.neurons[layer]), _poles(net, nearest), neuron, weight)


# What a layer's rule gets: derivatives, decays and blank traces


def has_input_traces(local: Any) -> bool:
    """Whether the rule has one trace per input, shared by all neurons of the layer."""
    return getattr(local, "trace", "weight") == "input"


def needs_mean_survival(net: Network, rule: Rule, layer: int) -> bool:
    """Whether this layer's rule, or the rule of a layer below, needs the mean survival of this layer."""
    users = [i for i in range(layer) if layer in above(net, rule, i)]
    if has_input_traces(rule.at(layer, net.depth)):
        users.append(layer)
    needed = any(rule.at(i, net.depth).stage_leak == "mean-reset" for i in users)
    return needed and neurons.survival_varies(net.neurons[layer])


def mean_survival(net: Network, layer: int, A: Matrix) -> Array:
    """mean_j ρ_t: the mean share of the membranes of a layer that is left after one step, one number per sample."""
    shape, membrane = net.layers[layer].out_shape, neurons.poles(net.neurons[layer])[-1]
    ρ = states.rows(A)[membrane][membrane]
    return (ρ * (1 / math.prod(shape))).sum(axis=tuple(range(-len(shape), 0)))


def per_sample(mean: Array | None, rank: int) -> Array | None:
    """Add `rank` axes of length 1 to numbers per sample [..., B], so that they broadcast to numbers per neuron."""
    return None if mean is None else mean.reshape(*mean.shape, *(1,) * rank)


def rule_inputs(
    net: Network, rule: Rule, layer: int, derivatives: Derivatives, h̄: Vector | None, leaks: Sequence[Matrix],
    means: Sequence[Array | None],
) -> tuple[StepDerivatives, Decays]:  # fmt: skip
    """The derivatives and decays that a layer's rule gets for one step.

    `means` has the mean survival of each layer that needs it, shaped by `per_sample`. The decays lead from the step
    of `derivatives`, `leaks` and `means` to the step after it.
    """
    local = rule.at(layer, net.depth)
    plain = local.stage_leak == "plain"

    def stage_decays(stage: int) -> tuple[Decay, ...]:
        poles = stage_leaks(net, leaks, stage)
        mean = None if plain or stage == net.depth else means[stage]
        return poles if mean is None else (*poles[:-1], mean)

    layer_leaks: Any = leaks[layer]
    if not plain:
        layer_leaks = _with_mean(net, layer, layer_leaks, means[layer]) if has_input_traces(local) else None
    stages = tuple(decay for stage in above(net, rule, layer) for decay in stage_decays(stage))
    now = StepDerivatives(derivatives.h, derivatives.h if h̄ is None else h̄, derivatives.b)
    return now, Decays(A=derivatives.A, leaks=layer_leaks, stages=stages, b=derivatives.b)


def for_input_traces(net: Network, layer: int, now: StepDerivatives, decay: Decays) -> tuple[StepDerivatives, Decays]:
    """The part of `now` and `decay` for traces per input: only the states between the current and the output."""
    poles = neurons.poles(net.neurons[layer])
    rows = states.rows(decay.leaks)

    def select(v: Vector) -> Vector:
        return states.packed([states.entries(v)[i] for i in poles])

    leaks = states.matrix([[rows[i][j] for j in poles] for i in poles])
    selected = StepDerivatives(select(now.h), select(now.h̄), select(now.b))
    return selected, Decays(None, leaks, decay.stages, select(decay.b))


def blank_trace(net: Network, rule: Rule, layer: int, row: Array) -> Vector:
    """A vector of blank rows for the traces of a layer's weights: one entry per state that the rule sees."""
    neuron = net.neurons[layer]
    shared = has_input_traces(rule.at(layer, net.depth))
    return states.packed([row] * (len(neurons.poles(neuron)) if shared else neurons.state_count(neuron)))


def _with_mean(net: Network, layer: int, leaks: Matrix, mean: Array | None) -> Matrix:
    """A⁰ with the mean survival instead of the membrane's leak."""
    if mean is None:
        return leaks
    rows, membrane = [list(row) for row in states.rows(leaks)], neurons.poles(net.neurons[layer])[-1]
    rows[membrane][membrane] = mean
    return states.matrix(rows)


def with_sample_axis(tree: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast the arrays that have no sample axis, such as leaks, to `shape`. Plain numbers stay as they are."""

    def broadcast(a: Any) -> Any:
        return a if states.is_number(a) or jnp.ndim(a) == len(shape) else jnp.broadcast_to(a, shape)

    return jax.tree.map(broadcast, tree)
