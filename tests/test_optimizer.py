"""Optimizers by value: equal when built alike, different in every number that matters."""

import jax.numpy as jnp
import optax
import pytest

from otpe.training.optimizer import ByValue

BUILDERS = {
    "adamax": lambda lr: optax.adamax(lr),
    "adamw": lambda lr: optax.adamw(lr, weight_decay=1e-3),
    "sgd with momentum": lambda lr: optax.sgd(lr, momentum=0.9),
    "chain": lambda lr: optax.chain(optax.clip_by_global_norm(1.0), optax.adam(lr)),
    "schedule": lambda lr: optax.adam(optax.exponential_decay(lr, 100, 0.9)),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_equal_when_built_alike(build):
    assert ByValue(build(1e-3)) == ByValue(build(1e-3))
    assert hash(ByValue(build(1e-3))) == hash(ByValue(build(1e-3)))
    assert ByValue(build(1e-3)) != ByValue(build(2e-3))


def test_different_kinds_differ():
    values = [ByValue(build(1e-3)) for build in BUILDERS.values()]
    assert all((a == b) == (a is b) for a in values for b in values)


def test_one_and_true_differ():
    assert ByValue(optax.sgd(1.0)) != ByValue(optax.sgd(True))


def test_a_function_that_holds_itself():
    def build(lr):
        def update(grads, state, params=None):
            return (update and grads), state

        return optax.chain(optax.GradientTransformation(lambda params: None, update), optax.sgd(lr))

    ByValue(build(0.1)).__hash__()
    assert ByValue(build(0.1)) != ByValue(build(0.2))


def test_an_array_inside_is_equal_only_to_itself():
    rate = jnp.asarray(0.1)
    same = optax.scale_by_schedule(lambda step: rate)
    assert ByValue(same) == ByValue(same)
    assert ByValue(optax.sgd(jnp.asarray(0.1))) != ByValue(optax.sgd(jnp.asarray(0.1)))
