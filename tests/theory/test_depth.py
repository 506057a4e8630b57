"""The depth-aware rules, and their filters when leaks differ."""

from dataclasses import replace

import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theory.cases import assert_differ, assert_same, bptt, live
from theory.test_exactness import LINEAR

import otpe
from otpe.testing import scenario


@given(live(min_layers=2, max_layers=5, **LINEAR))
def test_linear_neurons_make_deep_rules_exact_at_every_depth(case):
    """Leaks differ by layer, so every filter must use the leak of its stage."""
    for rule in ("deep-otpe", "approx-deep-otpe"):
        assert_same(otpe.gradients(*case, rule=rule), bptt(case))
    for rule in ("f-deep-otpe", "f-approx-deep-otpe"):
        assert_same(otpe.gradients(*case, rule=rule), bptt(case, "leaky"))


def test_linear_neurons_leave_otpe_inexact_below_the_last_two_layers():
    case = scenario((6, 8, 7, 8, 5), steps=15, reset="none", surrogate=lambda d: jnp.full_like(d, 0.3))
    actual, expected = otpe.gradients(*case, rule="otpe")[1], bptt(case)[1]
    assert_same(actual[2:], expected[2:])
    assert_differ(actual[0].kernel, expected[0].kernel, by=0.1)
    assert_differ(actual[1].kernel, expected[1].kernel, by=0.1)


@given(live(min_layers=2))
def test_order_one_with_the_plain_leak_is_the_papers_rule(case):
    for deep, local, paper in (
        ("deep-otpe", otpe.Otpe(order=1, stage_leak="plain"), "otpe"),
        ("approx-deep-otpe", otpe.Approx(order=1, stage_leak="plain"), "approx-otpe"),
    ):
        assert_same(
            otpe.gradients(*case, rule=replace(otpe.rule(deep), hidden=local)), otpe.gradients(*case, rule=paper)
        )


@given(live(min_layers=2, max_layers=2))
def test_with_one_hidden_layer_depth_is_order_one(case):
    shallow = replace(otpe.rule("otpe"), hidden=otpe.Otpe(order="depth"))
    assert_same(otpe.gradients(*case, rule=shallow), otpe.gradients(*case, rule="otpe"))


@pytest.mark.parametrize("kind", [otpe.Otpe, otpe.Approx])
@pytest.mark.parametrize("readout", ["spikes", "leaky"])
@settings(max_examples=2)
@given(live(min_layers=3), st.integers(0, 3), st.sampled_from(["plain", "mean-reset"]))
def test_every_order_agrees_in_both_forms(kind, readout, case, order, stage_leak):
    local = kind(order, stage_leak)
    rule = otpe.Rule("composed", hidden=local, output=local, readout=readout)
    expected = otpe.gradients(*case, rule=rule, form="whole")
    for traces in ("dense", "factored"):
        assert_same(otpe.gradients(*case, rule=rule, form="steps", traces=traces), expected)


def test_the_mean_reset_leak_matters():
    case = scenario((8, 10, 9, 10, 6), steps=20, batch=4, seed=3)
    for kind in (otpe.Otpe, otpe.Approx):
        plain, mean = (
            otpe.gradients(*case, rule=otpe.Rule("composed", kind("depth", leak), otpe.Ostl()))[1][0]
            for leak in ("plain", "mean-reset")
        )
        assert_differ(plain, mean, by=1e-2)
