"""The ten statements for every neuron, map, reset and surrogate, on a few networks that combine them."""

import math
from dataclasses import fields
from typing import get_args

import jax
import jax.numpy as jnp
import optax
import pytest
from theory import networks
from theory.cases import LOCAL, assert_differ, assert_same
from theory.networks import NETWORKS, exact, learned, live
from theory.reference import gradients as reference

import otpe
from otpe.neurons import Reset
from otpe.testing import autodiff

every_network = pytest.mark.parametrize("make", NETWORKS.values(), ids=NETWORKS)
every_rule = pytest.mark.parametrize("rule", LOCAL)


def test_the_networks_contain_every_neuron_reset_surrogate_and_map():
    pairs, surrogates, maps = set(), set(), set()
    for make in NETWORKS.values():
        net = make()
        for layer, neuron in zip(net.layers, net.neurons, strict=True):
            pairs.add((type(neuron), getattr(neuron, "reset", None)))
            surrogates.add(type(getattr(neuron, "surrogate", None)))
            maps.update(type(part) for part in getattr(layer, "parts", [layer]))
    resets = {
        kind: get_args(Reset) if "reset" in {field.name for field in fields(kind)} else (None,)
        for kind in otpe.neurons.NAMED.values()
    }
    assert pairs == {(kind, reset) for kind in resets for reset in resets[kind]}
    assert len(pairs) >= 10
    assert surrogates >= {*otpe.surrogates.NAMED.values(), type(networks.exponential)}
    assert maps == set(map(type, otpe.layers.NAMED.values()))


# Statement 2


@pytest.mark.parametrize(("name", "readout"), [("plane", "spikes"), ("line", "leaky"), ("unreset", "spikes"), ("short", "leaky")])  # fmt: skip
def test_bptt_and_rtrl_equal_autodiff(name, readout):
    """Includes trained leaks."""
    for rule in ("bptt", "rtrl"):
        assert_same(learned(NETWORKS[name], rule, readout), exact(NETWORKS[name], readout))


# Statement 1. The reference has the per-step form, so these three are equal.


@every_rule
@every_network
def test_every_rule_equals_the_plain_reference(make, rule):
    assert_same(learned(make, rule)[1], reference(live(make), rule))


PLANE = [("plane", rule, "dense") for rule in LOCAL]
FACTORED = [("plane", rule, "factored") for rule in ("ostl", "otpe", "f-deep-otpe")]
LINE = [("line", "f-otpe", "dense"), ("line", "f-approx-deep-otpe", "dense"), ("line", "f-deep-otpe", "factored")]
SHORT = [("short", "deep-otpe", "dense"), ("short", "deep-otpe", "factored")]


@pytest.mark.parametrize(("name", "rule", "traces"), [*PLANE, *FACTORED, *LINE, *SHORT])
def test_per_step_form_equals_whole_sequence_form(name, rule, traces):
    """Includes gradients of trained leaks."""
    actual = otpe.gradients(*live(NETWORKS[name]), rule=rule, form="steps", traces=traces)
    assert_same(actual, learned(NETWORKS[name], rule))


# Statement 3


@every_rule
def test_one_step_makes_every_rule_exact(rule):
    net, params, spikes, labels = live(networks.plane)
    case = net, params, spikes[:1], labels
    assert_same(otpe.gradients(*case, rule=rule), autodiff(*case, readout=otpe.rule(rule).readout))


@every_rule
def test_leak_zero_makes_every_rule_exact(rule):
    assert_same(learned(networks.forgetful, rule), exact(networks.forgetful, otpe.rule(rule).readout))


# Statement 4


@every_network
def test_output_layer_of_ostl_and_otpe_is_exact(make):
    """For weights and trained leaks."""
    for rule in ("ostl", "otpe", "deep-otpe", "f-otpe", "f-deep-otpe"):
        assert_same(learned(make, rule)[1][-1], exact(make, otpe.rule(rule).readout)[1][-1])


# Statements 5 and 6: the gradient omits the effect of a spike on its own neuron (reset and adaptation).


@pytest.mark.parametrize("make", [networks.one_cuba, networks.one_adaptive])
def test_one_layer_of_ottt_is_bptt_without_the_reset(make):
    """For weights, and for leaks that all neurons share."""
    expected = autodiff(*live(make), detach_reset=(0,))
    assert_same(learned(make, "ottt"), expected)
    assert_differ(expected[1], exact(make)[1])


@pytest.mark.parametrize("make", [networks.adaptive_below_cuba, networks.cuba_below_adaptive])
def test_one_hidden_layer_of_otpe_is_bptt_without_the_reset_of_the_output(make):
    expected = autodiff(*live(make), detach_reset=(1,))[1][0]
    assert_same(learned(make, "otpe")[1][0], expected)
    assert_differ(expected, exact(make)[1][0])


# Statement 7, and the deep rules through the poles of current-based layers


@pytest.mark.parametrize("make", [networks.linear, networks.linear_readout])
def test_linear_neurons_make_deep_rules_exact_at_every_depth(make):
    """For weights and trained leaks."""
    for rule in ("deep-otpe", "approx-deep-otpe", "f-deep-otpe", "f-approx-deep-otpe"):
        assert_same(learned(make, rule), exact(make, otpe.rule(rule).readout))


def test_linear_neurons_make_the_approximations_equal():
    make = networks.linear
    for approximate, full in (("approx-otpe", "otpe"), ("f-approx-otpe", "f-otpe"), ("ottt", "ostl")):
        assert_same(learned(make, approximate), learned(make, full))
    assert_differ(learned(make, "otpe")[1][0].kernel, exact(make)[1][0].kernel, by=0.1)


# Statement 8


@pytest.mark.parametrize(("name", "rule"), [("plane", "otpe"), ("plane", "f-deep-otpe"), ("short", "deep-otpe")])
def test_factored_traces_learn_what_dense_traces_do(name, rule):
    """Over many optimizer updates, including trained leaks."""
    case, optimizer = live(NETWORKS[name]), optax.adamax(1e-2)
    results = []
    for traces in ("dense", "factored"):
        params, state = case.params, optimizer.init(case.params)
        for _ in range(4):
            params, state, losses = otpe.online_pass(
                case.net, params, state, *case[2:], rule=rule, optimizer=optimizer, traces=traces
            )
        results.append((params, losses))
    dense, factored = results
    assert_differ(dense[0][0].current_leak, case.params[0].current_leak, by=1e-3)
    assert_same(factored, dense)


def test_factored_traces_on_a_stream_forget_only_what_is_below_rounding():
    """Windows take every pole into account and are much shorter than the stream."""
    case = live(networks.fading)
    forms = [otpe.stepper(case.net, "f-deep-otpe", traces=traces) for traces in ("dense", "factored")]
    assert max(traces.window for traces in forms[1].traces) < 70
    states, advance = [form.init(2) for form in forms], [jax.jit(form.advance) for form in forms]
    for t in range(120):
        for i in range(2):
            states[i], info = advance[i](case.params, states[i], case.spikes[t % 8])
    dense, factored = (jax.jit(form.emit)(case.params, states[i], info, case.labels) for i, form in enumerate(forms))
    assert_same(factored, dense, 1e-11)


# Statement 9


@every_network
def test_on_a_live_network_all_rules_differ(make):
    names = [name for name in otpe.rules() if otpe.rule(name).has_whole]
    gradients = {name: learned(make, name)[1] for name in names}
    whole = make is networks.unreset  # OTTT omits nothing in its first layer
    first = {name: grads if whole else getattr(grads[0], "kernel", grads) for name, grads in gradients.items()}
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            assert_differ(first[a], first[b])


# Statement 10


@pytest.mark.parametrize("rule", LOCAL)
def test_state_has_the_size_of_the_equations(rule):
    """Numbers per sample: k per weight and per neuron for each kind of trace, one per weight for each filter."""
    net, whole = networks.plane(), otpe.rule(rule)
    state = jax.eval_shape(lambda: otpe.stepper(net, rule, traces="dense").init(1))
    k, poles, leaks = (2, 2, 1, 1), (2, 1, 1, 1), (2, 2, 1, 1)
    for i, (layer, at) in enumerate(zip(net.layers, state.layers, strict=True)):
        local = whole.at(i, net.depth)
        order = {"depth": net.depth}.get(local.order, local.order)
        stages = ((*poles[i + 1 :], 1) if whole.readout == "leaky" else poles[i + 1 :])[:order]
        neurons = math.prod(layer.out_shape)
        if local.trace == "input":
            weights = poles[i] * (1 + sum(stages)) * (math.prod(layer.in_shape) + 1)
            own = k[i] * (1 + sum(stages)) * neurons * leaks[i]
        else:
            weights, own = (k[i] + sum(stages)) * layer.rows * neurons, (k[i] + sum(stages)) * neurons * leaks[i]
        assert sum(leaf.size for leaf in jax.tree.leaves(at.kept)) == weights
        assert sum(leaf.size for leaf in jax.tree.leaves(at.causes)) == own


# Neurons that equal each other


@pytest.mark.parametrize("rule", ["bptt", "otpe", "approx-deep-otpe"])
def test_other_neurons_without_their_extra_state_equal_lif(rule):
    """Without adaptation, or without memory of the current."""
    net, params, spikes, labels = live(networks.fading)
    params, maps, gradients = [otpe.Dense(p.kernel, p.bias) for p in params], net.layers, []
    options = {"surrogate": networks.exponential}
    for middle in (
        otpe.LIF(0.8, **options),
        otpe.CubaLIF(0.8, 0.0, **options),
        otpe.AdaptiveLIF(0.8, 0.9, strength=0.0, **options),
    ):
        net = otpe.network(4, [(layer, middle) for layer in maps])
        gradients.append(otpe.gradients(net, tuple(params), spikes, labels, rule=rule))
    assert_same(gradients[1], gradients[0])
    assert_same(gradients[2], gradients[0])
    assert float(jnp.abs(gradients[0][1][0].kernel).max()) > 0
