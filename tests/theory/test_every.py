"""`online_pass(every=k)`: an update by the gradient of k steps' mean loss. All the steps: the gradient of `otpe.gradients`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory.cases import EXACT, assert_differ, assert_same

import otpe
from otpe.testing import scenario

STEPS = 7
OPTIMIZER = optax.adamax(1e-2)
WITH_STEPS = tuple(name for name in otpe.rules() if otpe.rule(name).has_steps)


@pytest.fixture(scope="module")
def case():
    return scenario((4, 6, 5, 3), steps=STEPS, leak=(0.9, 0.8, 0.7), seed=3)


MASK = np.arange(STEPS)[:, None] < np.array([7, 3, 5])
ENDED = np.arange(STEPS)[:, None] < np.array([4, 2, 3])  # from the fifth step on, no sample runs


def learned(case, mask=None, **options):
    return otpe.online_pass(
        case.net,
        case.params,
        OPTIMIZER.init(case.params),
        case.spikes,
        case.labels,
        mask,
        optimizer=OPTIMIZER,
        **options,
    )


def updated(case, grads, params, opt_state):
    updates, opt_state = OPTIMIZER.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state


@pytest.mark.parametrize(("rule", "masked"), [*((rule, True) for rule in WITH_STEPS), ("otpe", False)])
def test_once_per_sequence_is_the_offline_gradient(rule, masked, case):
    mask = MASK if masked else None
    loss, grads = otpe.gradients(*case, mask, rule=rule)
    expected, wanted_state = updated(case, grads, case.params, OPTIMIZER.init(case.params))
    params, opt_state, losses = learned(case, mask, rule=rule, every=STEPS)
    assert_differ(params, case.params)
    assert_same(params, expected)
    assert_same(opt_state, wanted_state)
    weight = MASK.sum(1) if masked else np.ones(STEPS)
    assert losses.shape == (STEPS,)
    np.testing.assert_allclose(np.average(losses, weights=weight), loss, rtol=EXACT)


def by_hand(case, rule, every, mask):
    """Advance, emit, add up. Update when a group is full or at the end, if any sample ran."""
    form = otpe.stepper(case.net, rule, traces="dense")
    advance, emit = jax.jit(form.advance), jax.jit(form.emit)
    params, opt_state, state = case.params, OPTIMIZER.init(case.params), form.init(3, jnp.float64)
    losses, total, count = [], jax.tree.map(jnp.zeros_like, params), 0
    for t, x in enumerate(case.spikes):
        running = np.ones(3) if mask is None else mask[t].astype(float)
        state, info = advance(params, state, x)
        loss, grads = emit(params, state, info, case.labels, running)  # sums over samples
        losses.append(loss / max(running.sum(), 1))
        total, count = jax.tree.map(jnp.add, total, grads), count + running.sum()
        if (t + 1) % every == 0 or t + 1 == STEPS:
            if count:
                mean = jax.tree.map(lambda g, n=count: g / n, total)
                params, opt_state = updated(case, mean, params, opt_state)
            total, count = jax.tree.map(jnp.zeros_like, params), 0
    return params, opt_state, jnp.stack(losses)


@pytest.mark.parametrize(
    ("rule", "traces", "every", "mask"),
    [
        ("otpe", "dense", 3, None),  # groups of 3, 3 and 1 steps
        ("otpe", "factored", 3, MASK),
        ("f-approx-otpe", "auto", 4, MASK),
        ("ottt", "auto", 2, ENDED),  # no sample runs in the last groups, so momentum changes nothing either
        ("ottt", "auto", 1, MASK),
    ],
    ids=lambda x: None if isinstance(x, np.ndarray) else str(x),
)
def test_groups_of_steps_are_those_of_a_loop_by_hand(rule, traces, every, mask, case):
    for actual, expected in zip(
        learned(case, mask, rule=rule, traces=traces, every=every), by_hand(case, rule, every, mask), strict=True
    ):
        assert_same(actual, expected)


def test_an_update_at_every_step_is_the_default(case):
    alone, default, grouped = (learned(case, rule="ottt", **options) for options in ({"every": 1}, {}, {"every": 2}))
    assert_same(alone, default, 0)
    assert_differ(grouped[0], alone[0])


def test_more_steps_than_the_sequence_has_means_all(case):
    assert_same(learned(case, rule="ottt", every=STEPS + 5), learned(case, rule="ottt", every=STEPS), 0)


@pytest.mark.parametrize("every", [0, -1, 1.5, True, None])
def test_an_invalid_number_of_steps_is_refused(every, case):
    with pytest.raises(ValueError, match=r"every is .*, expected a whole number above 0"):
        learned(case, every=every)
