"""Which leaky stages lie between a layer and the loss, how they decay, and the averages h̄ and ḡ.

A stage is a population of neurons that the signal passes on its way to the loss: each layer above, and last, for the
F- rules, the leaky readout. It filters the signal once per pole of its neurons: once for LIF, twice for current-based
ones. Where leaks differ, every filter has the leak of the stage it stands for.
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
from otpe.rulebook.rule import Decay, Decays, Now, Rule, cascade
from otpe.states import Matrix, Vector


class Average(NamedTuple):
    """State of h̄_t, a mean of h_τ weighted by the impulse response of the nearest stage above.

    For a LIF stage and one state, h̄_t = ḡ_t = Σ_τ λ^(t−τ) g_τ / Σ_τ λ^(t−τ).
    """

    total: Any  # leaky sums of h, one per pole if there are several: Σ_τ λ^(t−τ) h_τ   [B, n]
    weight: Any  # the same of 1                                                         []

    def advance(self, h: Vector, leaks: tuple[Decay, ...]) -> "Average":
        arrays, _ = states.split(h)
        one = len(leaks) == 1
        _, total = cascade(states.packed(arrays), leaks, (self.total,) if one else self.total)
        _, weight = cascade(1, leaks, (self.weight,) if one else self.weight)
        return Average(total[0], weight[0]) if one else Average(total, weight)

    def mean(self, h: Vector, poles: int) -> Vector:
        """h̄, with the plain numbers of h."""
        total, weight = (self.total, self.weight) if poles == 1 else (self.total[-1], self.weight[-1])
        share = 1 / weight  # one division instead of one per neuron
        _, together = states.split(h)
        return together([part * share for part in states.entries(total)])

    @staticmethod
    def blank(h: int, poles: int, neuron: Array, weight: Array) -> "Average":
        """At rest, for `h` arrays in h and this many poles."""
        total = states.packed([neuron] * h)
        return Average(total, weight) if poles == 1 else Average((total,) * poles, (weight,) * poles)


# The stages of a rule


def above(net: Network, rule: Rule, layer: int) -> tuple[int, ...]:
    """The stages a layer's rule filters through, nearest first: indices of layers; `net.depth` is the readout."""
    order = rule.at(layer, net.depth).order
    stages = tuple(range(layer + 1, net.depth + (rule.readout == "leaky")))
    if order == "readout":
        return stages if layer == net.depth - 1 else ()
    return stages if order == "depth" else stages[:order]


def filters(net: Network, rule: Rule, layer: int) -> int:
    """Number of leaky sums that these come to: one per pole."""
    return sum(_poles(net, stage) for stage in above(net, rule, layer))


def leaks(layers: Sequence[Layer]) -> list[Matrix]:
    """A⁰ of every layer."""
    return [neurons.leak_matrix(layer.kind, layer.values, layer.shape) for layer in layers]


def largest_leaks(net: Network) -> list[tuple[float, ...]]:
    """The largest leak of each pole of each stage, before any training; the readout's last."""
    found = []
    for neuron, layer in zip(net.neurons, net.layers, strict=True):
        rows = states.rows(neurons.largest_leaks(neuron, layer.out_shape))
        found.append(tuple(float(rows[i][i]) for i in neurons.poles(neuron)))
    return [*found, (net.readout_leak,)]


def stage_leaks(net: Network, leaks: Sequence[Matrix], stage: int) -> tuple[Decay, ...]:
    """The leaks of a stage, one per pole, from current to membrane."""
    if stage == net.depth:
        return (net.readout_leak,)
    rows = states.rows(leaks[stage])
    return tuple(rows[i][i] for i in neurons.poles(net.neurons[stage]))


def _poles(net: Network, stage: int) -> int:
    return 1 if stage == net.depth else len(neurons.poles(net.neurons[stage]))


# Averages


def keeps_average(net: Network, rule: Rule, layer: int) -> bool:
    """Is ḡ of this layer ever looked at? The first layer sends nothing below; some derivatives never change."""
    averages = rule.at(layer, net.depth).averages
    return bool(averages) and (averages != "below" or layer > 0) and neurons.arrays_in_h(net.neurons[layer]) > 0


def average_leaks(net: Network, rule: Rule, layer: int, leaks: Sequence[Matrix]) -> tuple[Decay, ...]:
    """The leaks of h̄: those of the nearest stage above; of the layer itself where there is none."""
    return stage_leaks(net, leaks, (*above(net, rule, layer), layer)[0])


def blank_average(net: Network, rule: Rule, layer: int, neuron: Array, weight: Array) -> Average | None:
    """Its state at rest, None where it is never looked at."""
    if not keeps_average(net, rule, layer):
        return None
    nearest = (*above(net, rule, layer), layer)[0]
    return Average.blank(neurons.arrays_in_h(net.neurons[layer]), _poles(net, nearest), neuron, weight)


# Decays


def sees_inputs(local: Any) -> bool:
    """Does a trace of this rule belong to an input, whichever neuron listens?"""
    return getattr(local, "trace", "weight") == "input"


def wants_mean(net: Network, rule: Rule, layer: int) -> bool:
    """Does this layer's rule, or one below, ask for the mean survival of this layer?"""
    asking = [i for i in range(layer) if layer in above(net, rule, i)]
    if sees_inputs(rule.at(layer, net.depth)):
        asking.append(layer)
    wanted = any(rule.at(i, net.depth).stage_leak == "mean-reset" for i in asking)
    return wanted and neurons.resets(net.neurons[layer])


def mean_survival(net: Network, layer: int, A: Matrix) -> Array:
    """mean_j ρ_t: what is left of the membranes of a layer after one step, one number per sample."""
    shape, membrane = net.layers[layer].out_shape, neurons.poles(net.neurons[layer])[-1]
    ρ = states.rows(A)[membrane][membrane]
    return (ρ * (1 / math.prod(shape))).sum(axis=tuple(range(-len(shape), 0)))


def per_sample(mean: Array | None, rank: int) -> Array | None:
    """One number per sample [..., B], so that it broadcasts to `rank` more axes."""
    return None if mean is None else mean.reshape(*mean.shape, *(1,) * rank)


def seen(
    net: Network, rule: Rule, layer: int, at: Derivatives, h̄: Vector | None, leaks: Sequence[Matrix],
    means: Sequence[Array | None],
) -> tuple[Now, Decays]:  # fmt: skip
    """What a layer's rule sees of one step. `means`: the mean survival of each layer where asked for, see `per_sample`.

    The decays lead to the step after that of `at`, of `leaks` and of `means`.
    """
    local = rule.at(layer, net.depth)
    plain = local.stage_leak == "plain"

    def of_stage(stage: int) -> tuple[Decay, ...]:
        found = stage_leaks(net, leaks, stage)
        mean = None if plain or stage == net.depth else means[stage]
        return found if mean is None else (*found[:-1], mean)

    own: Any = leaks[layer]
    if not plain:
        own = _with_mean(net, layer, own, means[layer]) if sees_inputs(local) else None
    stages = tuple(decay for stage in above(net, rule, layer) for decay in of_stage(stage))
    now = Now(at.h, at.h if h̄ is None else h̄, at.b)
    return now, Decays(A=at.A, leaks=own, stages=stages, b=at.b)


def of_inputs(net: Network, layer: int, now: Now, decay: Decays) -> tuple[Now, Decays]:
    """What a rule with a trace per input sees: only the states that a current passes on its way to the output."""
    poles = neurons.poles(net.neurons[layer])
    rows = states.rows(decay.leaks)

    def some(v: Vector) -> Vector:
        return states.packed([states.entries(v)[i] for i in poles])

    leaks = states.matrix([[rows[i][j] for j in poles] for i in poles])
    return Now(some(now.h), some(now.h̄), some(now.b)), Decays(None, leaks, decay.stages, some(decay.b))


def blank_trace(net: Network, rule: Rule, layer: int, row: Array) -> Vector:
    """A blank vector for the traces of a layer's weights: as many entries as the rule sees states."""
    neuron = net.neurons[layer]
    shared = sees_inputs(rule.at(layer, net.depth))
    return states.packed([row] * (len(neurons.poles(neuron)) if shared else neurons.states_of(neuron)))


def _with_mean(net: Network, layer: int, leaks: Matrix, mean: Array | None) -> Matrix:
    """A⁰ with the mean survival in place of the membrane's leak."""
    if mean is None:
        return leaks
    rows, membrane = [list(row) for row in states.rows(leaks)], neurons.poles(net.neurons[layer])[-1]
    rows[membrane][membrane] = mean
    return states.matrix(rows)


def for_all_samples(tree: Any, shape: tuple[int, ...]) -> Any:
    """Arrays with an axis of samples: numbers per layer or per neuron are repeated to this shape."""

    def repeated(a: Any) -> Any:
        return a if states.is_number(a) or jnp.ndim(a) == len(shape) else jnp.broadcast_to(a, shape)

    return jax.tree.map(repeated, tree)
