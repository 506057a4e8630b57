"""A few networks that cover every neuron with every reset, every surrogate, every kind of leak, and every map."""

from dataclasses import fields
from functools import lru_cache, partial

import jax.numpy as jnp
from theory.own_neuron import AlphaSynapse, Drifting

import otpe
from otpe import layers
from otpe.neurons import AdaptiveLIF, CubaLIF, LeakyIntegrator, PerNeuron, Uniform
from otpe.testing import assert_live, autodiff, scenario_on


def exponential(d):
    return jnp.exp(-2 * jnp.abs(d))


def flat(d):
    """A constant surrogate."""
    return jnp.full_like(d, 0.3)


def plane():
    """All four neurons, all leaks trained: one per layer, one per neuron, and one per neuron from a drawn start."""
    return otpe.network((2, 7, 7), [
        (layers.conv(3, 3, stride=2), CubaLIF(Uniform(0.6, 0.9), 0.7, surrogate=otpe.arctan(), learn_leak=True,
                                              learn_current_leak=True)),
        (layers.avg_pool(2) >> layers.conv(4, 1), AdaptiveLIF(0.9, 0.8, 0.7, surrogate=otpe.gaussian(), reset="zero",
                                                              learn_leak=True, learn_adaptation_leak="neuron")),
        (layers.flatten() >> layers.dense(6), otpe.LIF(0.8, surrogate=otpe.fast_sigmoid(3.0), learn_leak=True)),
        (layers.dense(4), LeakyIntegrator(0.9, learn_leak=True)),
    ])  # fmt: skip


def line():
    """A map without a trace per weight, leaks that differ and are not trained, and an output with two poles."""
    ring = [[i == j or (i + 1) % 12 == 2 * j for j in range(6)] for i in range(12)]
    return otpe.network((2, 9), [
        (layers.conv(3, 3, stride=2), AdaptiveLIF(0.9, Uniform(0.5, 0.95), 0.6, surrogate=otpe.fast_sigmoid(4.0))),
        (layers.flatten() >> layers.masked(ring), otpe.LIF(Uniform(0.5, 0.95, seed=3), reset="zero",
                                                           surrogate=otpe.superspike(3.0))),
        (layers.dense(5), CubaLIF(0.7, PerNeuron([0.5, 0.9, 0.8, 0.3, 0.6]),
                          surrogate=otpe.triangular(3.0))),
        (layers.dense(3), CubaLIF(0.8, 0.6, threshold=0.8, surrogate=otpe.arctan(), learn_leak="neuron",
                                  learn_current_leak="neuron")),
    ])  # fmt: skip


def unreset():
    """No neuron resets, and a hidden layer does not spike at all."""
    options = {"reset": "none", "surrogate": exponential, "learn_leak": True}
    return otpe.network(5, [
        (layers.dense(6), otpe.LIF(0.5, **options)),
        (layers.dense(5), CubaLIF(0.6, 0.5, **options)),
        (layers.dense(4), LeakyIntegrator(0.6, learn_leak=True)),
        (layers.dense(3), AdaptiveLIF(0.7, 0.9, 2.0, learn_adaptation_leak=True, **options)),
    ])  # fmt: skip


def short():
    """Two layers: a current-based one that is set to zero, and an adaptive output that subtracts."""
    return otpe.network(6, [
        (layers.dense(7), CubaLIF(0.8, 0.9, reset="zero", surrogate=otpe.fast_sigmoid(5.0), learn_current_leak=True)),
        (layers.dense(4), AdaptiveLIF(0.9, 0.95, 1.5, surrogate=otpe.superspike(2.0, scaled=False),
                                      learn_leak="neuron", learn_adaptation_leak="neuron")),
    ])  # fmt: skip


MIXED = {"plane": plane, "line": line, "unreset": unreset, "short": short}


def with_neuron(kind):
    """A registered neuron in three layers, with each reset if it has one. All its leaks are trained."""
    names = {field.name for field in fields(kind)}
    options = {"surrogate": otpe.arctan()} if "surrogate" in names else {}
    options |= {name: True for name in names if name.startswith("learn_")}
    resets = [{"reset": reset} if "reset" in names else {} for reset in ("subtract", "zero", "none")]
    return otpe.network(
        5, [(layers.dense(n), kind(0.8, **options, **r)) for n, r in zip((6, 5, 3), resets, strict=True)]
    )


def with_map(layer):
    """A registered map below a dense one."""
    options = {"threshold": 1.3, "surrogate": otpe.arctan(), "learn_leak": True}
    return otpe.network(layer.in_shape, [
        (layer, otpe.LIF(0.8, **options)), (layers.flatten() >> layers.dense(3), otpe.LIF(0.7, **options)),
    ])  # fmt: skip


def parts(net):
    """Return the classes of the maps and neurons of a network."""
    maps = {type(part) for layer in net.layers for part in getattr(layer, "parts", [layer])}
    return maps | {type(neuron) for neuron in net.neurons}


def every_network():
    """Return networks that together contain every registered map and neuron."""
    covered = {kind for make in MIXED.values() for kind in parts(make())}
    neurons = {name: partial(with_neuron, kind) for name, kind in otpe.neurons.NAMED.items() if kind not in covered}
    maps = {name: partial(with_map, layer) for name, layer in layers.NAMED.items() if type(layer) not in covered}
    return MIXED | neurons | maps


NETWORKS = every_network()


@lru_cache(maxsize=16)
def live(make, steps=8, batch=2, seed=1):
    """Return a network and a mini-batch on which every layer spikes: the same one in every test."""
    case = scenario_on(make(), steps, batch, seed=seed)
    assert_live(case)
    return case


@lru_cache(maxsize=256)
def learned(make, rule, readout=None):
    """Loss and gradient from the whole-sequence form of a rule, computed once for all tests."""
    return otpe.gradients(*live(make), rule=otpe.rule(rule, readout=readout))


@lru_cache(maxsize=32)
def exact(make, readout="spikes"):
    """Loss and gradient from the oracle, computed once for all tests."""
    return autodiff(*live(make), readout=readout)


def forgetful():
    """All leaks are 0."""
    cuba = CubaLIF(0.0, 0.0, surrogate=otpe.arctan())
    return otpe.network(4, [(layers.dense(5), cuba), (layers.dense(4), otpe.LIF(0.0)), (layers.dense(3), cuba)])


def linear():
    """A constant surrogate and no reset, through several poles; trained leaks."""
    options = {"reset": "none", "surrogate": flat, "learn_leak": True}
    return otpe.network((2, 6), [
        (layers.conv(2, 3), CubaLIF(0.8, 0.5, learn_current_leak=True, **options)),
        (layers.flatten() >> layers.dense(5), CubaLIF(0.6, 0.7, learn_current_leak=True, **options)),
        (layers.dense(5), otpe.LIF(0.7, **options)),
        (layers.dense(3), CubaLIF(0.75, 0.4, learn_current_leak=True, **options)),
    ])  # fmt: skip


def linear_readout():
    """The same network with an output that does not spike."""
    options = {"reset": "none", "surrogate": flat}
    return otpe.network(4, [
        (layers.dense(5), otpe.LIF(0.7, **options)),
        (layers.dense(5), CubaLIF(0.6, 0.7, **options)),
        (layers.dense(3), LeakyIntegrator(0.9)),
    ])  # fmt: skip


def one_cuba():
    return otpe.network((2, 3), [(layers.flatten() >> layers.dense(4), CubaLIF(0.9, 0.7, surrogate=otpe.arctan(),
                                                                                learn_leak=True, learn_current_leak=True))])  # fmt: skip


def one_adaptive():
    return otpe.network(6, [(layers.dense(4), AdaptiveLIF(0.9, 0.8, surrogate=otpe.arctan(), learn_leak=True,
                                                          learn_adaptation_leak=True))])  # fmt: skip


def adaptive_below_cuba():
    return otpe.network((2, 6), [
        (layers.conv(2, 3), AdaptiveLIF(0.9, 0.8, reset="zero", surrogate=otpe.arctan(), learn_leak="neuron")),
        (layers.flatten() >> layers.dense(4), CubaLIF(0.9, 0.6, surrogate=otpe.gaussian())),
    ])  # fmt: skip


def cuba_below_adaptive():
    return otpe.network(5, [
        (layers.dense(6), CubaLIF(Uniform(0.5, 0.9), 0.7, surrogate=otpe.arctan(), learn_current_leak=True)),
        (layers.dense(4), AdaptiveLIF(0.9, 0.6, surrogate=otpe.gaussian())),
    ])  # fmt: skip


def fading():
    """Small leaks, so that old inputs soon fall below rounding error."""
    return otpe.network(4, [
        (layers.dense(5), CubaLIF(0.5, 0.4, surrogate=otpe.arctan(), learn_leak=True)),
        (layers.dense(4), AdaptiveLIF(0.5, 0.5, surrogate=otpe.arctan())),
        (layers.dense(3), CubaLIF(0.4, 0.5, surrogate=otpe.arctan())),
    ])  # fmt: skip


def membrane():
    """An output that does not spike, for losses on its membrane."""
    return otpe.network(4, [
        (layers.dense(5), AdaptiveLIF(0.8, 0.7, surrogate=otpe.arctan(), learn_adaptation_leak=True)),
        (layers.dense(5), CubaLIF(0.7, 0.6, surrogate=otpe.arctan(), learn_leak="neuron")),
        (layers.dense(3), LeakyIntegrator(0.8, learn_leak=True)),
    ])  # fmt: skip


def own():
    """User neurons beside ours, and a map without parameters whose neurons have parameters."""
    return otpe.network((1, 4, 4), [
        (layers.sum_pool(2), otpe.LIF(0.8, surrogate=otpe.arctan(), learn_leak=True)),
        (layers.flatten() >> layers.dense(5), AlphaSynapse()),
        (layers.dense(4), Drifting(0.8)),
        (layers.dense(3), AlphaSynapse(0.3, 0.6)),
    ])  # fmt: skip


def own_linear():
    """Three poles above a layer."""
    alpha = AlphaSynapse(reset=0.0, surrogate=flat)
    return otpe.network(4, [(layers.dense(5), alpha), (layers.dense(4), alpha), (layers.dense(3), alpha)])
