"""Compares with float32 gradients and online weights from the published code of the paper's authors."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import otpe
from otpe.testing import relative_error

RULES = ("bptt", "ostl", "ottt", "otpe", "approx-otpe", "f-otpe", "f-approx-otpe")
ONLINE = ("ostl", "otpe", "f-otpe")


@pytest.fixture(params=["a", "b"], scope="module")
def golden(request):
    file = np.load(Path(__file__).parent / "golden" / f"{request.param}.npz")
    layers = sum(key.startswith("params/") and key.endswith("/kernel") for key in file)
    params = tuple(
        otpe.Dense(jnp.asarray(file[f"params/{i}/kernel"]), jnp.asarray(file[f"params/{i}/bias"]))
        for i in range(layers)
    )
    assert params[0].kernel.dtype == jnp.float32
    net = otpe.dense(
        [params[0].kernel.shape[0], *(p.kernel.shape[1] for p in params)],
        leak=float(file["leak"]),
        threshold=float(file["threshold"]),
        surrogate=otpe.fast_sigmoid(float(file["slope"])),
    )
    return file, net, params


def test_forward_spikes_are_equal(golden):
    file, net, params = golden
    recorded = net.record(params, file["spikes"])
    assert all(s.any() for s in recorded)
    np.testing.assert_array_equal(recorded[-1], file["output_spikes"])


@pytest.mark.parametrize(
    ("rule", "form"),
    [(rule, form) for rule in RULES for form in ("whole", "steps") if (rule, form) != ("bptt", "steps")],
)
def test_gradients_equal_the_reference(golden, rule, form):
    file, net, params = golden
    loss, grads = otpe.gradients(net, params, file["spikes"], file["labels"], rule=rule, form=form)
    np.testing.assert_allclose(loss, file["loss" if rule == "bptt" else f"loss/{rule}"], rtol=1e-5)
    for i, grad in enumerate(grads):
        assert grad.kernel.dtype == jnp.float32
        assert relative_error(grad.kernel, file[f"grads/{rule}/{i}/kernel"]) < 1e-4
        if f"grads/{rule}/{i}/bias" in file:  # biases without a trace in the authors' code are not compared
            assert relative_error(grad.bias, file[f"grads/{rule}/{i}/bias"]) < 1e-4


@pytest.mark.parametrize("traces", ["dense", "factored"])
@pytest.mark.parametrize("rule", ONLINE)
def test_online_weights(golden, rule, traces):
    file, net, params = golden
    optimizer = optax.adamax(float(file["lr"]))
    actual, _, losses = otpe.online_pass(
        net,
        params,
        optimizer.init(params),
        file["spikes"],
        file["labels"],
        rule=rule,
        optimizer=optimizer,
        traces=traces,
    )
    np.testing.assert_allclose(losses.mean(), file[f"online_loss/{rule}"], rtol=1e-5)
    for i, (after, before) in enumerate(zip(actual, params, strict=True)):
        for name in ("kernel", "bias"):
            change = getattr(after, name) - getattr(before, name)
            expected = file[f"online/{rule}/{i}/{name}"] - getattr(before, name)
            assert relative_error(change, expected) < 1e-3
