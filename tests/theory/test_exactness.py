"""Statements 1 to 7 and 9 on the paper's rules: when two gradients are equal, and that they differ otherwise."""

import jax
import jax.numpy as jnp
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.cases import LOCAL, assert_differ, assert_same, bptt, live

import otpe
from otpe.testing import autodiff, scenario


def flat(d):
    """A constant surrogate."""
    return jnp.full_like(d, 0.3)


LINEAR = {"reset": st.just("none"), "surrogate": flat}


@given(live())
def test_per_step_form_equals_whole_sequence_form(case):
    for rule in LOCAL:
        expected = otpe.gradients(*case, rule=rule, form="whole")
        assert_same(otpe.gradients(*case, rule=rule, form="steps", traces="dense"), expected)


@given(live(max_layers=3), st.sampled_from(["spikes", "leaky"]))
def test_bptt_and_rtrl_equal_autodiff(case, readout):
    expected = autodiff(*case, readout=readout)
    assert_same(bptt(case, readout), expected)
    assert_same(otpe.gradients(*case, rule=otpe.rule("rtrl", readout=readout)), expected)


@given(live())
def test_autodiff_through_run_is_bptt(case):
    def loss(params):
        out = case.net.run(params, case.spikes)
        labels = jnp.broadcast_to(case.labels, out.shape[:2])
        return optax.softmax_cross_entropy_with_integer_labels(out, labels).mean()

    assert_same(jax.value_and_grad(loss)(case.params), bptt(case))


@given(live(steps=st.just(1)))
def test_one_step_makes_every_rule_exact(case):
    for rule in LOCAL:
        assert_same(otpe.gradients(*case, rule=rule), bptt(case, otpe.rule(rule).readout))


@given(live(leak=st.just(0.0)))
def test_leak_zero_makes_every_rule_exact(case):
    for rule in LOCAL:
        assert_same(otpe.gradients(*case, rule=rule), bptt(case, otpe.rule(rule).readout))


@given(live())
def test_output_layer_of_ostl_and_otpe_is_exact(case):
    for rule in ("ostl", "otpe", "deep-otpe"):
        assert_same(otpe.gradients(*case, rule=rule)[1][-1], bptt(case)[1][-1])
    for rule in ("f-otpe", "f-deep-otpe"):
        assert_same(otpe.gradients(*case, rule=rule)[1][-1], bptt(case, "leaky")[1][-1])


# A detached reset by subtraction disappears from the gradient. A reset to zero still multiplies it by 1 − s_t.
DETACHABLE = st.sampled_from(["subtract", "none"])


@given(live(max_layers=1, reset=DETACHABLE))
def test_one_layer_of_ottt_is_bptt_without_the_reset(case):
    assert_same(otpe.gradients(*case, rule="ottt"), autodiff(*case, detach_reset=(0,)))


@given(live(min_layers=2, max_layers=2, reset=DETACHABLE))
def test_one_hidden_layer_of_otpe_is_bptt_without_the_reset_of_the_output(case):
    assert_same(otpe.gradients(*case, rule="otpe")[1][0], autodiff(*case, detach_reset=(1,))[1][0])


@given(live(**LINEAR))
def test_linear_neurons_make_the_approximations_equal(case):
    assert_same(otpe.gradients(*case, rule="approx-otpe"), otpe.gradients(*case, rule="otpe"))
    assert_same(otpe.gradients(*case, rule="f-approx-otpe"), otpe.gradients(*case, rule="f-otpe"))
    assert_same(otpe.gradients(*case, rule="ottt"), otpe.gradients(*case, rule="ostl"))


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_on_a_live_network_all_rules_differ(reset):
    case = scenario((8, 10, 9, 10, 6), steps=20, batch=4, reset=reset, seed=3)
    first = {name: otpe.gradients(*case, rule=name)[1][0].kernel for name in otpe.rules() if otpe.rule(name).has_whole}
    names = list(first)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            assert_differ(first[a], first[b])


def test_the_loss_does_not_depend_on_the_rule():
    case = scenario(seed=5)
    for readout in ("spikes", "leaky"):
        expected = autodiff(*case, readout=readout)[0]
        for name in otpe.rules():
            assert_same(otpe.gradients(*case, rule=otpe.rule(name, readout=readout))[0], expected)
