"""Which leaky stages lie between a layer and the loss, how they decay, and the average ḡ.

A stage is a population of membranes that the signal passes on its way to the loss: each layer above, and last,
for the F- rules, the leaky readout. Where leaks differ, every filter has the leak of the stage it stands for.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from jax import Array

from otpe.network import Network
from otpe.rulebook.base import Decay, Decays, Rule


class Average(NamedTuple):
    """State of ḡ_t = Σ_τ λ^(t−τ) g_τ / Σ_τ λ^(t−τ)."""

    total: Array  # Σ_τ λ^(t−τ) g_τ   [B, n]
    weight: Array  # Σ_τ λ^(t−τ)       []

    def advance(self, g: Array, leak: float) -> "Average":
        return Average(leak * self.total + g, leak * self.weight + 1)

    @property
    def ḡ(self) -> Array:
        return self.total * (1 / self.weight)  # one division instead of one per neuron


def above(net: Network, rule: Rule, layer: int) -> tuple[int, ...]:
    """The stages a layer's rule filters through, nearest first: indices of layers; `net.depth` is the readout."""
    order = rule.at(layer, net.depth).order
    stages = tuple(range(layer + 1, net.depth + (rule.readout == "leaky")))
    if order == "readout":
        return stages if layer == net.depth - 1 else ()
    return stages if order == "depth" else stages[:order]


def plain_leak(net: Network, stage: int) -> float:
    return net.readout_leak if stage == net.depth else net.neurons[stage].leak


def average_leak(net: Network, rule: Rule, layer: int) -> float:
    """λ of ḡ: that of the nearest stage above, whose filter ḡ stands for; of the layer itself where there is none."""
    return plain_leak(net, (*above(net, rule, layer), layer)[0])


def wants_mean(net: Network, rule: Rule, layer: int) -> bool:
    """Does this layer's rule, or one below, ask for the mean survival of this layer?"""
    asking = [i for i in range(layer) if layer in above(net, rule, i)]
    if _as_a_whole(rule.at(layer, net.depth)):
        asking.append(layer)
    return any(rule.at(i, net.depth).stage_leak == "mean-reset" for i in asking)


def _as_a_whole(local: Any) -> bool:
    """Does the layer's own memory decay as a whole, or for each neuron by its own survival?"""
    return getattr(local, "trace", "input") == "input"


def keeps_average(net: Network, rule: Rule, layer: int) -> bool:
    """Is ḡ of this layer ever looked at? The first layer sends nothing below."""
    averages = rule.at(layer, net.depth).averages
    return bool(averages) and (averages != "below" or layer > 0)


def changing_decays(net: Network, rule: Rule, layer: int) -> int:
    """How many of the decays a layer's rule sees, its neurons' own survival aside, change from step to step."""
    local = rule.at(layer, net.depth)
    if local.stage_leak == "plain":
        return 0
    return int(_as_a_whole(local)) + sum(stage < net.depth for stage in above(net, rule, layer))


def decays(net: Network, rule: Rule, layer: int, ρ: Array | None, means: Sequence[Array | None]) -> Decays:
    """The decays a layer's rule sees, given its survival and the mean survival of each layer, see `per_sample`."""
    plain = rule.at(layer, net.depth).stage_leak == "plain"

    def decay(stage: int) -> Decay:
        mean = None if plain or stage == net.depth else means[stage]
        return plain_leak(net, stage) if mean is None else mean

    own = decay(layer) if plain or _as_a_whole(rule.at(layer, net.depth)) else None
    return Decays(ρ=ρ, own=own, stages=tuple(map(decay, above(net, rule, layer))))


def per_sample(mean: Array | None, shape: tuple[int, ...]) -> Array | None:
    """One number per sample [..., B], so that it broadcasts to numbers of that shape for each sample."""
    return None if mean is None else mean.reshape(*mean.shape, *(1,) * len(shape))


def mean_survival(ρ: Array, shape: tuple[int, ...]) -> Array:
    """mean_j ρ_t: what is left of a whole layer of that shape after one step, one number per sample."""
    return (ρ * (1 / math.prod(shape))).sum(axis=tuple(range(-len(shape), 0)))
