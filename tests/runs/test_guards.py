"""Silent failures are reported: non-finite numbers, and layers that never spike or always spike."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiny_runs import TINY, arguments, state, steps_of

import otpe
from otpe import cli
from otpe.datasets.dataset import random_key
from otpe.lab.runs import checkpoint, guards, task

WILD = replace(TINY, hidden=(), optimizer="adamw", weight_decay=2e4, steps=24, checkpoint_seconds=0)


def first_step_that_is_not_finite(config):
    """Find this step with a plain loop."""
    net, data = otpe.dense([8, 3], threshold=0.3), task.named(config).train
    optimizer = optax.adamw(config.learning_rate, weight_decay=config.weight_decay)
    params = net.init(jax.random.fold_in(random_key(config.seed), 2**31), jnp.float32)
    opt_state = optimizer.init(params)
    for step in range(config.steps):
        spikes, labels = data.batch(config.seed, step, config.batch)
        _, grads = otpe.gradients(net, params, spikes, labels)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params)):
            return step + 1
    return None


@pytest.mark.filterwarnings("ignore:step")  # such weights also give silent layers
def test_divergence_names_the_step_and_keeps_the_last_good_state(tmp_path, capsys):
    out, step = tmp_path / "run", first_step_that_is_not_finite(WILD)
    assert step > 8
    assert step % 4 != 0, "the step must be inside a block, or the test is trivial"
    assert cli.main(["train", *arguments(WILD, out=out)]) == 1
    messages = capsys.readouterr().err.splitlines()[-1]
    newest = checkpoint.newest(out / "checkpoints")
    assert messages.startswith(
        f"otpe: step {step}: weights or loss are not finite any more (seed 1); the last good checkpoint is {newest}."
    )
    assert "Start again with a smaller learning_rate (it is 0.03), or with clip" in messages
    assert step // 4 * 4 <= int(newest.stem.removeprefix("step-")) < step
    assert steps_of(out)[-1] == step // 4 * 4
    assert not (out / "result.json").exists()
    before = state(out)
    with pytest.raises(FloatingPointError, match=rf"^step {step}: .*{newest.name}"):
        otpe.train(replace(WILD, out=out, resume=True, checkpoint_seconds=1000))
    assert state(out) == before


def test_only_the_networks_that_diverged_are_named():
    finite = [np.array([True, True, True]), np.array([True, False, False])]
    now = guards.State(np.int32(5), *[None] * 5)
    error = guards.diverged(lambda _: (now, finite.pop(0)), now, 8, np.arange(7, 10), 0.5, None)
    assert "step 5: weights or loss are not finite any more (seed 8, 9); no checkpoint was written before." in str(
        error
    )


def test_a_silent_network_is_reported_once(tmp_path, capsys):
    silent = replace(TINY, threshold=1e6, out=tmp_path / "api")
    with pytest.warns(UserWarning, match=r"^step 12: ") as warned:
        result = otpe.train(silent)
    assert [str(warning.message).split(". ")[0] for warning in warned] == [
        "step 12: hidden layer 1 never spikes",
        "step 12: the output layer never spikes: the network is silent, and silence counts as wrong",
    ]
    assert len(result.metrics) == 3, "every evaluation saw it"
    assert result.test_accuracy == [0.0]
    assert cli.main(["train", *arguments(silent, out=tmp_path / "cli")]) == 0
    assert capsys.readouterr().err.count("otpe: warning: step 12: ") == 2


@pytest.mark.parametrize("width", [6, 41, 47], ids="{} neurons".format)
def test_a_layer_that_always_spikes_is_reported_once(width):
    """The measured mean of ones is not always exactly one."""
    mean = float(jax.jit(lambda x: x.mean())(jnp.ones(width, jnp.float32)))
    messages = []
    guard = guards.RateGuard(guards.layer_names(3), messages.append)
    for step in (4, 8, 12, 16, 20):
        guard.look(step, np.array([[0.5, mean, 0.1], [0.5, 0.999, 0.1]], np.float32), last=step == 20)
    assert len(messages) == 1
    assert messages[0].startswith(
        "step 12: every neuron of hidden layer 2 spikes at every time step in 1 of 2 networks, so it"
    )


LIVES = {
    "learns to speak": ((0.0, 0.0, 0.5, 0.5), []),
    "goes silent, and then never stops": ((0.0, 0.5, 0.0, 1.0, 0.0), ["step 2", "step 3"]),
    "is silent to the end of a short run": ((0.0, 0.0), ["step 1"]),
    "is silent for long": ((0.0, 0.0, 0.0, 0.0), ["step 2"]),
    "is well": ((0.3, 0.2, 0.9), []),
}


@pytest.mark.parametrize(("rates", "warned"), LIVES.values(), ids=LIVES)
def test_silent_and_saturated_layers_are_reported(rates, warned):
    messages = []
    guard = guards.RateGuard(guards.layer_names(1), messages.append)
    for step, rate in enumerate(rates):
        guard.look(step, np.array([[rate]]), last=step == len(rates) - 1)
    assert [text.split(":")[0] for text in messages] == warned
