"""Driver of the whole-sequence form: any rule for the work that BPTT does.

Forwards, a layer's currents for all T·B rows are one matrix product, and its spikes one elementwise recurrence.
Backwards, one more recurrence turns the signal q into κ and m, Σ_t x_t ⊗ κ_t is one matrix product, and m Wᵀ,
the signal of the layer below, another. Nothing has a size of n_in · n_out · T.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import layers, losses, scan
from otpe.network import Network
from otpe.rulebook import stages
from otpe.rulebook.base import Now, Rule


class Activity(NamedTuple):
    """What one layer did over the whole sequence."""

    x: Array  # input spikes                  [T, B, *in]
    spikes: Array  # s_t                           [T, B, *out]
    v: Array  # v_t, from which g_t and ρ_t   [T, B, *out]
    ḡ: Array | None  # for rules that average        [T, B, *out]
    mean: Array | None  # mean_j ρ_t, where asked for   [T, B]


def gradients(net: Network, rule: Rule, params: Any, spikes: Array, labels: Array) -> tuple[Array, tuple[Any, ...]]:
    """Mean loss over time and batch, and its gradient by `rule`."""
    activities = _forward(net, rule, params, spikes)
    loss, q = jax.value_and_grad(losses.cross_entropy)(_readout(net, rule, activities[-1].spikes), labels)
    grads = []
    for i in reversed(range(net.depth)):
        κ, m = _backward(net, rule, i, activities, q)
        grads.append(layers.gradient(net.layers[i], params[i], activities[i].x, κ))
        if i > 0:
            q = layers.transpose(net.layers[i], params[i], m)
    return loss, tuple(reversed(grads))


def _forward(net: Network, rule: Rule, params: Any, x: Array) -> list[Activity]:
    activities = []
    for i, (layer, neuron) in enumerate(zip(net.layers, net.neurons, strict=True)):
        current = layer.apply(params[i], x)
        averages, leak = rule.at(i, net.depth).averages, stages.average_leak(net, rule, i)

        def fire(carry: Any, c: Array, neuron=neuron, averages=averages, leak=leak) -> Any:
            u, average = carry
            u, s, v = neuron.fire(u, c)
            if not averages:
                return (u, average), (s, v, None)
            average = average.advance(neuron.pseudo_derivative(v), leak)
            return (u, average), (s, v, average.ḡ)

        rest = jnp.zeros_like(current[0])
        average = stages.Average(rest, jnp.zeros((), rest.dtype)) if averages else None
        _, (s, v, ḡ) = scan.recur(fire, (rest, average), current)
        mean = None
        if stages.wants_mean(net, rule, i):
            mean = stages.mean_survival(neuron.survival(v, neuron.pseudo_derivative(v)), layer.out_shape)
        activities.append(Activity(x, s, v, ḡ, mean))
        x = s
    return activities


def _readout(net: Network, rule: Rule, s: Array) -> Array:
    if rule.readout == "spikes":
        return s

    def leaky(o: Array, s: Array) -> tuple[Array, Array]:
        o = net.readout_leak * o + s
        return o, o

    return scan.recur(leaky, jnp.zeros_like(s[0]), s)[1]


def _backward(net: Network, rule: Rule, i: int, activities: list[Activity], q: Array) -> tuple[Array, Array]:
    local, neuron, here = rule.at(i, net.depth), net.neurons[i], activities[i]

    def step(carry: Any, at_t: Any) -> Any:
        q, v, ḡ, means = at_t
        g = neuron.pseudo_derivative(v)
        decay = stages.decays(net, rule, i, neuron.survival(v, g), means, net.layers[i].out_shape)
        carry, κ, m = local.backward(carry, q, Now(g, ḡ), decay)
        return carry, (κ, m)

    start = local.start(jnp.zeros_like(q[0]), len(stages.above(net, rule, i)))
    means = [a.mean if j >= i else None for j, a in enumerate(activities)]
    _, (κ, m) = scan.recur(step, start, (q, here.v, here.ḡ, means), reverse=True)
    return κ, m
