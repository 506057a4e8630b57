"""Gradients of long sequences in chunks: the same gradient, with memory that does not grow with time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import otpe
from otpe import losses
from otpe.rulebook import whole
from otpe.testing import relative_error, scenario
from otpe.training import offline


@pytest.fixture(scope="module")
def case():
    return scenario(steps=11, leak=(0.9, 0.8, 0.95), seed=3)


@pytest.mark.parametrize("rule", ["bptt", "ottt", "otpe", "f-approx-deep-otpe"])
def test_chunks_give_the_same_gradient(case, rule):
    expected = otpe.gradients(*case, rule=rule)
    for chunk in (1, 4, 50):  # chunks that divide the steps, that do not, and that exceed them
        assert relative_error(otpe.gradients(*case, rule=rule, chunk=chunk), expected) < 1e-12


def working_bytes(steps, chunk):
    net = otpe.dense([6, 8, 5])
    plan = whole.Plan(net, otpe.rule("otpe"), losses.DEFAULT, chunk)
    params = net.init(jax.random.key(0), "float32")
    run = jax.jit(lambda p, x, y: whole.gradients(plan, otpe.engine.Engine(), p, x, y))
    spikes = jax.ShapeDtypeStruct((steps, 2, 6), jnp.bool_)
    return (
        run.lower(params, spikes, jax.ShapeDtypeStruct((2,), jnp.int32)).compile().memory_analysis().temp_size_in_bytes
    )


def test_memory_is_that_of_one_chunk():
    assert working_bytes(20_000, None) > 15 * working_bytes(1_000, None)
    # Two parts still grow: one state per chunk, and here the input bits that are copied chunk by chunk.
    assert working_bytes(20_000, 100) < working_bytes(20_000, None) / 10


def test_a_sequence_too_long_for_memory_is_cut_automatically(case, monkeypatch):
    seen = []
    run = offline._whole
    monkeypatch.setattr(offline, "_whole", lambda plan, *rest: seen.append(plan.chunk) or run(plan, *rest))
    otpe.gradients(*case)
    expected = otpe.gradients(*case, chunk=11)
    monkeypatch.setattr(offline, "MEMORY", 4 * 8 * 3 * (8 + 7 + 5) * 4)  # memory for four steps
    assert relative_error(otpe.gradients(*case), expected) < 1e-12
    assert seen == [None, 11, 4]


def test_chunks_of_twenty_thousand_steps_give_the_whole_gradient():
    net = otpe.dense([6, 8, 5], leak=0.9)
    params = jax.tree.map(lambda p: 3 * p, net.init(jax.random.key(0), "float64"))
    spikes = np.random.default_rng(0).random((20_000, 2, 6)) < 0.4
    whole_gradient = otpe.gradients(net, params, spikes, [0, 1])
    assert float(net.run(params, spikes).mean()) > 0.01
    assert relative_error(otpe.gradients(net, params, spikes, [0, 1], chunk=300), whole_gradient) < 1e-10
