"""Optimizers and schedules by name."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny_runs import TINY

from otpe.runs.optimizers import OPTIMIZERS, SCHEDULES, optimizer
from otpe.testing import relative_error, scenario
from otpe.training import gradients
from otpe.training.optimizer import ByValue


def rates(updates, **settings):
    """The learning rate of every update of a run, as the weights feel it."""
    config = replace(TINY, optimizer="sgd", learning_rate=0.5, **settings)
    made, rate = optimizer(config, updates), []
    state = made.init(jnp.float32(0))
    for _ in range(config.steps * updates):
        change, state = made.update(jnp.float32(-1), state, jnp.float32(0))
        rate.append(float(change))
    return np.array(rate).reshape(config.steps, updates)


@pytest.mark.parametrize("updates", [1, 3])
@pytest.mark.parametrize("warmup", [0, 4])
@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_schedule_goes_from_the_rate_to_the_final_one(kind, warmup, updates):
    final = {} if kind == "constant" else {"final_rate": 0.1}
    found = rates(updates, schedule=kind, warmup=warmup, **final)
    assert (found == found[:, :1]).all(), "the same all through a mini-batch"
    found = found[:, 0]
    np.testing.assert_allclose(found[:warmup], 0.5 * np.arange(1, warmup + 1) / max(warmup, 1), rtol=1e-6)
    np.testing.assert_allclose(found[warmup], 0.5, rtol=1e-6)
    np.testing.assert_allclose(found[-1], 0.5 if kind == "constant" else 0.05, rtol=1e-6)
    done = np.linspace(0, 1, 12 - warmup)
    share = {
        "constant": np.ones_like(done),
        "linear": 1 - 0.9 * done,
        "cosine": 0.1 + 0.45 * (1 + np.cos(np.pi * done)),
        "exponential": 0.1**done,
    }[kind]
    np.testing.assert_allclose(found[warmup:], 0.5 * share, rtol=1e-5)


def two_steps(made, case):
    params, state = case.params, made.init(case.params)
    for _ in range(2):
        _, grads = gradients(case.net, params, case.spikes, case.labels)
        updates, state = made.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_learns(name):
    case = scenario((4, 5, 3), steps=5)
    config = replace(TINY, optimizer=name, learning_rate=1e-3)
    params = two_steps(optimizer(config, 1), case)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
    assert 1e-8 < relative_error(params, case.params) < 0.5
    assert ByValue(optimizer(config, 1)) == ByValue(optimizer(config, 1)), "compiles once"
    assert ByValue(optimizer(config, 1)) != ByValue(optimizer(replace(config, learning_rate=2e-3), 1))


MEANS = {
    "momentum": ({"optimizer": "sgd", "momentum": 0.5}, optax.sgd(0.03, momentum=0.5)),
    "decay": ({"optimizer": "adamw", "weight_decay": 0.25}, optax.adamw(0.03, weight_decay=0.25)),
    "default decay": ({"optimizer": "lion"}, optax.lion(0.03)),
    "clip": ({"clip": 0.01}, optax.chain(optax.clip_by_global_norm(0.01), optax.adamax(0.03))),
}


@pytest.mark.parametrize("what", MEANS)
def test_settings_mean_what_optax_means_by_them(what):
    case, (settings, wanted) = scenario((4, 5, 3), steps=5), MEANS[what]
    assert relative_error(two_steps(optimizer(replace(TINY, **settings), 1), case), two_steps(wanted, case)) == 0


def test_two_schedules_of_the_same_numbers_compile_once():
    config = replace(TINY, schedule="cosine", warmup=3)
    assert ByValue(optimizer(config, 1)) == ByValue(optimizer(config, 1))
    assert ByValue(optimizer(config, 1)) != ByValue(optimizer(config, 2))
    assert ByValue(optimizer(config, 1)) != ByValue(optimizer(replace(config, warmup=4), 1))
