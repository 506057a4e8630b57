"""Optimizers and schedules by name."""

from dataclasses import replace

import jax
import numpy as np
import optax
import pytest
from tiny_runs import TINY

import otpe
from otpe import tensors
from otpe.datasets import from_arrays
from otpe.lab.runs import checkpoint
from otpe.testing import relative_error, scenario
from otpe.training import gradients
from otpe.training.interned import interned
from otpe.training.optimizer import OPTIMIZERS, SCHEDULES, Optimizer, Schedule


def rates(**settings):
    """Record the learning rate of every mini-batch of a run."""
    config = replace(TINY, learning_rate=0.5, **settings)
    schedule = Optimizer.of(config).rate_schedule()
    return np.array([config.learning_rate * schedule(step) for step in range(config.steps)])


@pytest.mark.parametrize("warmup", [0, 4])
@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_schedule_goes_from_the_rate_to_the_final_one(kind, warmup):
    final = {} if kind == "constant" else {"final_rate": 0.1}
    learning_rates = rates(schedule=kind, warmup=warmup, **final)
    np.testing.assert_allclose(learning_rates[:warmup], 0.5 * np.arange(1, warmup + 1) / max(warmup, 1), rtol=1e-6)
    np.testing.assert_allclose(learning_rates[warmup], 0.5, rtol=1e-6)
    np.testing.assert_allclose(learning_rates[-1], 0.5 if kind == "constant" else 0.05, rtol=1e-6)
    done = np.linspace(0, 1, 12 - warmup)
    share = {
        "constant": np.ones_like(done),
        "linear": 1 - 0.9 * done,
        "cosine": 0.1 + 0.45 * (1 + np.cos(np.pi * done)),
        "exponential": 0.1**done,
    }[kind]
    np.testing.assert_allclose(learning_rates[warmup:], 0.5 * share, rtol=1e-5)


def with_rate_in_state(config):
    return Optimizer.of(config).with_rate_in_state()


def two_steps(optimizer, case, rate=None):
    params, state = case.params, optimizer.init(case.params)
    state = state if rate is None else state._replace(rate=np.float64(rate))
    for _ in range(2):
        _, grads = gradients(case.net, params, case.spikes, case.labels)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_learns(name):
    case = scenario((4, 5, 3), steps=5)
    config = replace(TINY, optimizer=name, learning_rate=1e-3)
    params = two_steps(with_rate_in_state(config), case, config.learning_rate)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))
    assert 1e-8 < relative_error(params, case.params) < 0.5
    assert with_rate_in_state(config) == with_rate_in_state(replace(config)), "it compiles once"
    assert with_rate_in_state(config) == with_rate_in_state(
        replace(config, learning_rate=2e-3, schedule="linear", warmup=2)
    ), "for all rates"
    other = replace(config, optimizer="sgd" if name == "adam" else "adam")
    assert interned(with_rate_in_state(config), params) != interned(with_rate_in_state(other), params)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_learning_rate_in_the_state_equals_one_given_to_optax(name):
    case, config = scenario((4, 5, 3), steps=5), replace(TINY, optimizer=name)
    ours, theirs = two_steps(with_rate_in_state(config), case, 0.03), two_steps(OPTIMIZERS[name][0](0.03), case)
    assert relative_error(ours, theirs) == 0


MEANS = {
    "momentum": ({"optimizer": "sgd", "momentum": 0.5}, optax.sgd(0.03, momentum=0.5)),
    "decay": ({"optimizer": "adamw", "weight_decay": 0.25}, optax.adamw(0.03, weight_decay=0.25)),
    "default decay": ({"optimizer": "lion"}, optax.lion(0.03)),
    "clip": ({"clip": 0.01}, optax.chain(optax.clip_by_global_norm(0.01), optax.adamax(0.03))),
}


@pytest.mark.parametrize("what", MEANS)
def test_optimizer_settings_mean_the_same_as_in_optax(what):
    case, (settings, expected) = scenario((4, 5, 3), steps=5), MEANS[what]
    assert (
        relative_error(two_steps(with_rate_in_state(replace(TINY, **settings)), case, 0.03), two_steps(expected, case))
        == 0
    )


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_all_updates_of_a_mini_batch_have_the_same_rate(mode, tmp_path):
    """Also when samples end early, so that the remaining time steps make no update."""
    dataset = from_arrays(np.ones((6, 8, 5)), np.arange(8) % 2, lengths=np.full(8, 2))
    config = replace(
        TINY, optimizer="sgd", schedule="linear", final_rate=0.5, hidden=(), steps=3, eval_every=2, mode=mode, out=tmp_path / "run"
    )  # fmt: skip
    heard = []
    with pytest.MonkeyPatch.context() as patch:
        plain = Schedule.__call__
        patch.setattr(Schedule, "__call__", lambda self, step: heard.append(step) or plain(self, step))
        otpe.train(replace(config, dataset="mine"), data=otpe.Splits(dataset, dataset, dataset))
    assert heard, "the schedule was called"
    arrays, _ = tensors.read(checkpoint.newest(tmp_path / "run" / "checkpoints"), checkpoint.KIND)
    np.testing.assert_allclose(arrays["opt_state.rate"], [0.5 * config.learning_rate], rtol=1e-6)


def test_an_optimizer_with_another_number_of_steps_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"steps is 12 in the settings and 9 in otpe.Optimizer, expected the same"):
        otpe.train(replace(TINY, out=tmp_path), optimizer=otpe.Optimizer("sgd", 0.1, schedule="linear", steps=9))
