"""Optimizers compare by value: equal when built alike, different if any number differs."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from otpe.training.optimizer import ByValue

BUILDERS = {
    "adamax": lambda lr: optax.adamax(lr),
    "adamw": lambda lr: optax.adamw(lr, weight_decay=1e-3),
    "sgd with momentum": lambda lr: optax.sgd(lr, momentum=0.9),
    "chain": lambda lr: optax.chain(optax.clip_by_global_norm(1.0), optax.adam(lr)),
    "cosine": lambda lr: optax.adam(optax.cosine_decay_schedule(lr, 10)),
    "schedule": lambda lr: optax.adam(optax.exponential_decay(lr, 100, 0.9)),
}


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_equal_when_built_alike(build):
    assert ByValue(build(1e-3)) == ByValue(build(1e-3))
    assert hash(ByValue(build(1e-3))) == hash(ByValue(build(1e-3)))
    assert ByValue(build(1e-3)) != ByValue(build(2e-3))


def test_optimizers_of_different_kinds_differ():
    values = [ByValue(build(1e-3)) for build in BUILDERS.values()]
    assert all((a == b) == (a is b) for a in values for b in values)


RATE = 1.0


def test_a_user_function_equals_only_itself():
    """Its code may read a global that changes. Then the same code needs another program."""

    def schedule():
        return lambda step: RATE

    fixed = schedule()
    assert ByValue(optax.sgd(fixed)) == ByValue(optax.sgd(fixed))
    assert ByValue(optax.sgd(schedule())) != ByValue(optax.sgd(schedule()))


def test_number_types_do_not_matter_for_equality():
    assert ByValue(optax.sgd(1)) == ByValue(optax.sgd(1.0))
    assert ByValue(optax.sgd(np.float32(0.5))) == ByValue(optax.sgd(np.float32(0.5)))
    assert ByValue(optax.sgd(np.float32(0.5))) != ByValue(optax.sgd(np.float32(0.25)))


def test_an_array_setting_equals_only_itself():
    rate = jnp.asarray(0.1)
    same = optax.scale_by_schedule(lambda step: rate)
    assert ByValue(same) == ByValue(same)
    assert ByValue(optax.sgd(jnp.asarray(0.1))) != ByValue(optax.sgd(jnp.asarray(0.1)))
