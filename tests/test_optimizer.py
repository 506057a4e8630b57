"""Optimizers that compute the same are one object: when built alike, and not if any number differs."""

import json
from dataclasses import asdict, replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import otpe
from otpe.training.interned import interned, recognise
from otpe.training.optimizer import OPTIMIZERS

NET = otpe.dense([4, 6, 3])
PARAMS = NET.init(jax.random.key(0))
SPIKES, LABELS = np.ones((5, 2, 4)), np.array([0, 1])

BUILDERS = {
    "adamax": lambda lr: optax.adamax(lr),
    "adamw": lambda lr: optax.adamw(lr, weight_decay=1e-3),
    "sgd with momentum": lambda lr: optax.sgd(lr, momentum=0.9),
    "chain": lambda lr: optax.chain(optax.clip_by_global_norm(1.0), optax.adam(lr)),
    "cosine": lambda lr: optax.adam(optax.cosine_decay_schedule(lr, 10)),
    "schedule": lambda lr: optax.adam(optax.exponential_decay(lr, 100, 0.9)),
    "masked": lambda lr: optax.masked(optax.adam(lr), jax.tree.map(lambda p: p.ndim > 1, PARAMS)),
    "masked too": lambda lr: optax.masked(optax.adam(lr), jax.tree.map(lambda p: p.ndim == 1, PARAMS)),
    "injected": lambda lr: optax.inject_hyperparams(optax.adamw)(lr),
    "accumulated": lambda lr: optax.MultiSteps(optax.sgd(lr), 4),
    "noisy": lambda lr: optax.noisy_sgd(lr, key=0),
    "with the loss": lambda lr: optax.chain(optax.sgd(lr), optax.contrib.reduce_on_plateau(patience=2)),
    "ours": lambda lr: otpe.Optimizer("adam", lr),
    "ours with a schedule": lambda lr: otpe.Optimizer("lion", lr, schedule="cosine", steps=9, warmup=3, clip=1.0),
}


def same(a, b):
    return interned(a, PARAMS) is interned(b, PARAMS)


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_equal_when_built_alike(build):
    assert same(build(1e-3), build(1e-3))
    assert hash(interned(build(1e-3), PARAMS)) == hash(interned(build(1e-3), PARAMS))
    assert not same(build(1e-3), build(2e-3))
    assert not same(build(1e-3), build(float(np.nextafter(np.float32(1e-3), np.float32(1)))))


def test_optimizers_of_different_kinds_differ():
    values = [interned(build(1e-3), PARAMS) for build in BUILDERS.values()]
    assert all((a == b) == (a is b) for a in values for b in values)
    assert len(set(values)) == len(values)


def test_parameters_of_other_shapes_and_types_have_another_program():
    optimizer = optax.adam(1e-3)
    for params in (NET.init(jax.random.key(0), "float16"), otpe.dense([4, 7, 3]).init(jax.random.key(0))):
        assert interned(optimizer, params) is not interned(optimizer, PARAMS)


RATE = 1.0


def test_a_user_function_is_traced_again_for_each_new_optimizer(monkeypatch):
    """Its code may read a global that changes. Then the same code needs another program."""

    def schedule():
        return lambda step: RATE

    fixed = optax.sgd(schedule())
    assert same(fixed, fixed)
    assert same(fixed, optax.sgd(schedule()))
    monkeypatch.setitem(globals(), "RATE", 2.0)
    assert not same(fixed, optax.sgd(schedule()))


def test_number_types_do_not_matter_for_equality():
    assert same(optax.sgd(1), optax.sgd(1.0))
    assert same(optax.sgd(np.float32(0.5)), optax.sgd(np.float32(0.5)))
    assert not same(optax.sgd(np.float32(0.5)), optax.sgd(np.float32(0.25)))


def test_an_array_setting_equals_only_itself():
    rate = jnp.asarray(0.1)
    optimizer = optax.scale_by_schedule(lambda step: rate)
    assert same(optimizer, optimizer)
    assert not same(optax.sgd(jnp.full((1, 1), 0.1)), optax.sgd(jnp.full((1, 1), 0.2)))


def test_a_learning_rate_may_be_traced():
    """A search over learning rates in one program."""

    def learn(rate):
        optimizer = optax.sgd(rate)
        return otpe.online_pass(NET, PARAMS, optimizer.init(PARAMS), SPIKES, LABELS, optimizer=optimizer)[0]

    rates = jnp.float32([0.1, 0.2])
    together = jax.jit(jax.vmap(learn))(rates)
    for i, rate in enumerate(rates):
        alone = learn(float(rate))
        jax.tree.map(lambda a, b, i=i: np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-7), together, alone)


def test_many_new_optimizers_do_not_fill_the_memory():
    first = interned(optax.sgd(0.5), PARAMS)
    for rate in range(1, 300):
        interned(optax.sgd(float(rate)), (jnp.ones(2),))
    assert interned(optax.sgd(0.5), PARAMS) is first


# An optimizer by name


def learned(optimizer):
    opt_state = optimizer.init(PARAMS)
    return otpe.online_pass(NET, PARAMS, opt_state, SPIKES, LABELS, optimizer=optimizer)


def test_an_optimizer_by_name_is_that_of_optax():
    for ours, theirs in (
        (otpe.Optimizer("adamax", 1e-3), optax.adamax(1e-3)),
        (otpe.Optimizer("sgd", 1e-3, momentum=0.9), optax.sgd(1e-3, momentum=0.9)),
        (otpe.Optimizer("adam", 0.1, clip=1.0), optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))),
    ):
        assert same(ours, theirs)
        jax.tree.map(np.testing.assert_array_equal, learned(ours), learned(theirs))


def test_an_optimizer_by_name_is_a_value():
    optimizer = otpe.Optimizer("adamw", 1e-3, weight_decay=0.1, schedule="linear", warmup=2, steps=10)
    assert otpe.Optimizer(**json.loads(json.dumps(asdict(optimizer)))) == optimizer
    assert len({optimizer, replace(optimizer), replace(optimizer, steps=11)}) == 2
    assert optimizer.transformation() is replace(optimizer).transformation()


def test_a_schedule_counts_updates():
    optimizer, params = otpe.Optimizer("sgd", 0.5, schedule="linear", final_rate=0.2, steps=5), jnp.zeros(())
    state, rates = optimizer.init(params), []
    for _ in range(7):
        update, state = optimizer.update(jnp.ones(()), state, params)
        rates.append(-float(update))
    np.testing.assert_allclose(rates, [0.5, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1], rtol=1e-5)


WRONG = {
    "name": (("adamx",), {}, r"optimizer 'adamx' is not known. Did you mean 'adamax'\?"),
    "rate": (("sgd", 0), {}, r"learning_rate is 0, expected a finite number above 0, such as 1e-3"),
    "no rate": (("sgd", None), {}, r"learning_rate is None, expected a finite number above 0"),
    "momentum": (("adam", 0.1), {"momentum": 0.9}, r"momentum is 0.9, but adam has none"),
    "final": (("adam", 0.1), {"final_rate": 0.5}, r"final_rate is 0.5, but the schedule is constant"),
    "warmup": (("adam", 0.1), {"warmup": 9, "steps": 9}, r"warmup is 9, expected less than the 9 steps"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_settings_are_refused(kind):
    args, options, message = WRONG[kind]
    with pytest.raises(ValueError, match=message):
        otpe.Optimizer(*args, **options)


def test_a_schedule_without_its_length_is_refused():
    with pytest.raises(ValueError, match=r"schedule is 'cosine', which needs the number of updates .*steps=1000"):
        otpe.Optimizer("adam", 0.1, schedule="cosine").init(PARAMS)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_of_optax_is_found_by_its_name(name):
    for rate in (1e-3, 0.1, 1.0, 1e-5, 0.0123):
        assert recognise(OPTIMIZERS[name][0](rate), PARAMS) == otpe.Optimizer(name, rate)


def test_other_optimizers_have_no_name():
    others = [
        optax.adam(1e-3, b1=0.8), optax.sgd(0.1, momentum=0.9), optax.sgd(0.0), optax.sgd(-0.1), optax.sgd(jnp.asarray(0.1)),
        optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1)), optax.adam(lambda step: 0.1),
    ]  # fmt: skip
    assert [recognise(each, PARAMS) for each in others[:4]] == [None] * 4
    assert [recognise(each, PARAMS) for each in others[5:]] == [None] * 2
    ours = otpe.Optimizer("sgd", 0.1, momentum=0.9)
    assert recognise(ours, PARAMS) == ours
