"""Alignment to the exact gradient, and the demo that prints it."""

import jax
import numpy as np
import pytest

import otpe
from otpe.testing import scenario


def test_numbers_are_cosines_and_ratios_of_norms():
    case = scenario((8, 10, 9, 6), steps=20, batch=4, seed=3)
    result = otpe.alignment(*case, rules=("otpe", "f-otpe"))
    for name, readout in (("otpe", "spikes"), ("f-otpe", "leaky")):
        actual = otpe.gradients(*case, rule=name)[1]
        exact = otpe.gradients(*case, rule=otpe.rule("bptt", readout=readout))[1]
        pairs = list(zip(map(np.ravel, jax.tree.leaves(actual)), map(np.ravel, jax.tree.leaves(exact)), strict=True))
        norm = np.linalg.norm
        cosines = [a @ b / norm(a) / norm(b) for a, b in pairs]
        np.testing.assert_allclose(jax.tree.leaves(result[name].layers), cosines, rtol=1e-10)
        np.testing.assert_allclose(
            jax.tree.leaves(result[name].size), [norm(a) / norm(b) for a, b in pairs], rtol=1e-10
        )
        a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
        np.testing.assert_allclose(result[name].model, a @ b / norm(a) / norm(b), rtol=1e-10)
        np.testing.assert_allclose(result[name].model_size, norm(a) / norm(b), rtol=1e-10)


def test_the_exact_rule_is_aligned_with_itself():
    case = scenario(seed=3)
    result = otpe.alignment(*case, rules=("bptt", "rtrl"))
    for name in ("bptt", "rtrl"):
        np.testing.assert_allclose(jax.tree.leaves((result[name].layers, result[name].size)), 1, rtol=1e-10)


def test_alignment_measures_all_local_rules_by_default():
    result = otpe.alignment(*scenario())
    assert set(result) == set(otpe.rules()) - {"bptt", "rtrl"}
    assert result["ostl"].layers[0].kernel.shape == ()


def test_otpe_points_closer_than_ostl_in_hidden_layers_and_deep_otpe_closer_still():
    """Checks the paper's claim and ours on the mean over random networks."""
    rules = ("ottt", "ostl", "otpe", "deep-otpe")
    first = {name: [] for name in rules}
    for seed in range(6):
        case = scenario((20, 30, 30, 30, 6), steps=30, batch=8, surrogate=otpe.fast_sigmoid(25.0), seed=seed)
        for name, result in otpe.alignment(*case, rules=rules).items():
            first[name].append(float(result.layers[0].kernel))
    mean = {name: np.mean(values) for name, values in first.items()}
    assert max(mean["ottt"], mean["ostl"]) < mean["otpe"] < mean["deep-otpe"], mean


def test_alignment_of_a_silent_network_is_nan():
    net = otpe.dense([4, 5, 3], surrogate=otpe.triangular(0.1))
    params = net.init(jax.random.key(0))
    result = otpe.alignment(net, params, np.zeros((5, 2, 4)), [0, 1], rules=("otpe",))
    assert np.isnan(result["otpe"].model)


def test_an_unknown_rule_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError, match="Did you mean 'otpe'"):
        otpe.alignment(*scenario(), rules=("otpee",))
