"""The public names. None of them hides a subpackage."""

import pkgutil
import subprocess
import sys
from types import ModuleType

import jax
import numpy as np
import optax
import pytest

import otpe


def test_rules_are_found_by_name():
    assert otpe.rules()[:12] == (
        "bptt", "rtrl", "ostl", "ottt", "otpe", "approx-otpe", "f-otpe", "f-approx-otpe",
        "deep-otpe", "approx-deep-otpe", "f-deep-otpe", "f-approx-deep-otpe",
    )  # fmt: skip


def test_no_public_name_hides_a_submodule():
    submodules = {module.name for module in pkgutil.iter_modules(otpe.__path__)}
    public = {name for name in otpe.__all__ if not isinstance(getattr(otpe, name), ModuleType)}
    assert not submodules & public


def test_every_public_name_has_a_docstring():
    for name in otpe.__all__:
        assert (getattr(otpe, name).__doc__ or "").strip(), f"otpe.{name} has no docstring"


def test_importing_otpe_does_not_import_jax():
    code = "import sys, otpe; assert otpe.__version__; assert 'jax' not in sys.modules; otpe.dense; assert 'jax' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_public_names_are_found_by_attribute_import_and_dir():
    star: dict = {}
    exec("from otpe import *", star)
    for name in otpe.__all__:
        assert getattr(otpe, name) is star[name]
        assert name in dir(otpe)
    assert otpe.rulebook.Otpe is otpe.Otpe
    with pytest.raises(AttributeError, match="module 'otpe' has no attribute 'dens'"):
        _ = otpe.dens


@pytest.mark.parametrize("module", ["networks", "rulebook", "training", "testing"])
def test_any_folder_may_be_imported_first(module):
    subprocess.run([sys.executable, "-c", f"import otpe.{module}"], check=True)


def test_the_front_door_works_as_documented():
    net = otpe.dense([7, 6, 6, 4], leak=0.9526, threshold=1.0, surrogate=otpe.fast_sigmoid(25.0))
    params = net.init(jax.random.key(0))
    spikes, labels = (np.random.default_rng(0).random((5, 3, 7)) < 0.5).astype(float), np.array([0, 1, 3])
    assert net.run(params, spikes).shape == (5, 3, 4)
    loss, grads = otpe.gradients(net, params, spikes, labels, rule="otpe")
    assert loss.shape == ()
    assert jax.tree.map(np.shape, grads) == jax.tree.map(np.shape, params)
    optimizer = optax.adamax(1e-3)
    params, opt_state, losses = otpe.online_pass(
        net, params, optimizer.init(params), spikes, labels, rule="otpe", optimizer=optax.adamax(1e-3)
    )
    assert losses.shape == (5,)
    params, opt_state, losses = otpe.online_pass(
        net, params, opt_state, spikes, labels, rule="otpe", optimizer=optax.adamax(1e-3)
    )


def test_many_seeds_at_once():
    net = otpe.dense([7, 6, 4])
    keys = jax.random.split(jax.random.key(0), 3)
    spikes, labels = (np.random.default_rng(0).random((5, 3, 7)) < 0.5).astype(float), np.array([0, 1, 3])
    optimizer = optax.adamax(1e-2)

    def learn(key):
        params = net.init(key)
        params, _, losses = otpe.online_pass(net, params, optimizer.init(params), spikes, labels, optimizer=optimizer)
        return otpe.gradients(net, params, spikes, labels)[0], losses

    together = jax.vmap(learn)(keys)
    for i, key in enumerate(keys):
        for a, b in zip(together, learn(key), strict=True):
            np.testing.assert_allclose(a[i], b, rtol=1e-10)
