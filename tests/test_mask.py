"""Samples of different lengths in one batch give the same as samples that run alone and stop at their end."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import otpe
from otpe import datasets
from otpe.testing import assert_live, relative_error, scenario

LENGTHS = np.array([7, 4])


@pytest.fixture(scope="module")
def case():
    live_case = scenario(steps=7, batch=2, leak=(0.9, 0.8, 0.95), seed=3)
    assert_live(live_case)
    return live_case


@pytest.fixture(scope="module")
def mask():
    return jnp.arange(7)[:, None] < LENGTHS


def alone(case, gradients):
    """Return the mean over all valid time steps, from one sample at a time without padding."""
    net, params, spikes, labels = case
    total = None
    for b, length in enumerate(LENGTHS):
        share = length / LENGTHS.sum()
        one = gradients(net, params, spikes[:length, b : b + 1], labels[b : b + 1])
        one = jax.tree.map(lambda g, share=share: share * g, one)
        total = one if total is None else jax.tree.map(jnp.add, total, one)
    return total


@pytest.mark.parametrize("rule", ["bptt", "rtrl", "ottt", "otpe", "approx-deep-otpe", "f-otpe"])
def test_padding_does_not_change_the_gradient(case, mask, rule):
    expected = alone(case, lambda *args: otpe.gradients(*args, rule=rule))
    assert relative_error(otpe.gradients(*case, mask, rule=rule), expected) < 1e-10
    assert relative_error(otpe.gradients(*case, rule=rule), expected) > 1e-3, (
        "without a mask, padding changes the gradient"
    )


@pytest.mark.parametrize("options", [{"chunk": 2}, {"chunk": 3}, {"form": "steps"}, {"backend": "interpret"}], ids=str)
def test_masks_work_with_every_option(case, mask, options):
    expected = otpe.gradients(*case, mask, rule="otpe")
    assert relative_error(otpe.gradients(*case, mask, rule="otpe", **options), expected) < 1e-10


def test_a_mask_that_is_true_everywhere_changes_nothing(case):
    expected = otpe.gradients(*case, rule="approx-otpe")
    assert relative_error(otpe.gradients(*case, np.ones((7, 2)), rule="approx-otpe"), expected) < 1e-12


@pytest.mark.parametrize("rule", ["otpe", "f-approx-otpe", "rtrl"])
def test_online_stops_where_the_sample_ends(case, rule):
    net, params, spikes, labels = case
    optimizer = optax.adamax(1e-2)
    learn = jax.tree_util.Partial(otpe.online_pass, net, params, optimizer.init(params), rule=rule, optimizer=optimizer)
    expected, _, losses = learn(spikes[:4, :1], labels[:1])
    actual, opt_state, padded = learn(spikes[:, :1], labels[:1], jnp.arange(7)[:, None] < 4)
    assert relative_error(actual, expected) < 1e-12, "momentum stops too"
    np.testing.assert_allclose(padded[:4], losses, rtol=1e-12)
    np.testing.assert_array_equal(padded[4:], 0)
    assert int(opt_state[0].count) == 4


def test_online_means_over_those_that_run(case, mask):
    """One step of plain gradient descent at which only the first sample still runs."""
    net, params, spikes, labels = case
    optimizer = optax.sgd(0.1)
    late = mask & (jnp.arange(7)[:, None] == 5)
    actual, _, _ = otpe.online_pass(net, params, optimizer.init(params), spikes, labels, late, optimizer=optimizer)
    expected, _, _ = otpe.online_pass(
        net, params, optimizer.init(params), spikes[:, :1], labels[:1], late[:, :1], optimizer=optimizer
    )
    assert relative_error(actual, expected) < 1e-12


def test_predictions_ignore_padding():
    out = np.zeros((4, 2, 3))
    out[0, :, 1] = 1
    out[2:, :, 2] = 1
    mask = np.array([[1, 1], [1, 1], [0, 1], [0, 1]])
    assert otpe.predict(out, mask).tolist() == [1, 2]
    assert float(otpe.accuracy(out, [1, 1], mask)) == 0.5
    assert otpe.predict(out).tolist() == [2, 2]


def test_a_batch_of_unequal_lengths_carries_its_mask(case, mask):
    net, params, spikes, labels = case
    batch = datasets.from_arrays(spikes, labels, lengths=LENGTHS).take([0, 1])
    actual = jax.jit(lambda b: otpe.gradients(net, params, b.spikes, b.labels, b.mask))(batch)
    assert relative_error(actual, otpe.gradients(*case, mask)) < 1e-10


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.ones((2, 7)), r"mask has the shape \[2, 7\], expected \[7, 2\]: time, batch. SpikeBatch.mask makes one"),
        (np.zeros((7, 2), bool), r"mask is false everywhere, expected at least one time step of one sample"),
    ],
    ids=["shape", "empty"],
)
def test_bad_masks_are_refused(case, mask, message):
    with pytest.raises(ValueError, match=message):
        otpe.gradients(*case, mask)
    (net, params, spikes, labels), optimizer = case, optax.sgd(0.1)
    with pytest.raises(ValueError, match=message):
        otpe.online_pass(net, params, optimizer.init(params), spikes, labels, mask, optimizer=optimizer)
