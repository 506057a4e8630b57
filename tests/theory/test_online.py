"""Statements 8 and 10: factored traces learn what dense ones do, and no state grows with time."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory.cases import LOCAL

import otpe
from otpe.rulebook.choose import window
from otpe.testing import relative_error, scenario

WEIGHT_RULES = ("ostl", "otpe", "f-otpe", "deep-otpe", "f-deep-otpe")


def online(case, rule, traces, passes=4, optimizer=optax.adamax(1e-2)):
    params, state, losses = case.params, optimizer.init(case.params), None
    for _ in range(passes):
        params, state, losses = otpe.online_pass(
            case.net, params, state, case.spikes, case.labels, rule=rule, optimizer=optimizer, traces=traces
        )
    return params, losses


@pytest.mark.parametrize("rule", WEIGHT_RULES)
def test_factored_traces_learn_what_dense_traces_do(rule):
    case = scenario((6, 9, 8, 5), steps=20, leak=(0.95, 0.8, 0.9), seed=2)
    dense, losses = online(case, rule, "dense")
    factored, factored_losses = online(case, rule, "factored")
    assert relative_error(dense, case.params) > 0.1, "nothing was learned, so the comparison is empty"
    assert relative_error(factored, dense) < 1e-10
    assert relative_error(factored_losses, losses) < 1e-10


@pytest.mark.parametrize("rule", ["otpe", "f-deep-otpe"])
def test_factored_traces_on_a_stream_forget_only_what_is_below_rounding(rule):
    """The window is much shorter than the stream: slots are reused and old inputs are dropped."""
    case = scenario((5, 6, 6, 4), steps=40, leak=0.5, seed=4)
    dense, factored = (otpe.stepper(case.net, rule, traces=traces) for traces in ("dense", "factored"))
    assert max(window(case.net, otpe.rule(rule), i) for i in range(3)) < 60
    states = [form.init(batch=3, dtype=jnp.float64) for form in (dense, factored)]
    advance, emit = ([jax.jit(getattr(form, name)) for form in (dense, factored)] for name in ("advance", "emit"))
    for t in range(150):
        x = case.spikes[t % 40]
        grads = []
        for i in range(2):
            states[i], info = advance[i](case.params, states[i], x)
            if t < 3 or t % 25 == 24:
                grads.append(emit[i](case.params, states[i], info, case.labels)[1])
        if grads:
            assert relative_error(grads[1], grads[0]) < 1e-6


def test_a_window_of_one_step_forgets_older_inputs():
    """When a slot is reused, the new input must not be weighted with a trace of the old one."""
    case = scenario((5, 6, 4), steps=8, seed=4)
    form = otpe.stepper(case.net, "ostl", traces="factored", steps=1)
    state = form.init(batch=3, dtype=jnp.float64)
    for x in case.spikes:
        state, info = form.advance(case.params, state, x)
    _, grads = form.emit(case.params, state, info, case.labels)
    q = (jax.nn.softmax(info.logits) - jax.nn.one_hot(case.labels, 4)) / 3
    post = q * info.now[-1].g
    assert relative_error(grads[-1].kernel, info.spikes[0].T @ post) < 1e-12
    assert relative_error(grads[-1].bias, post.sum(0)) < 1e-12


def test_online_learns_from_every_step():
    """Compares with a plain loop: advance, emit, update, one call at a time."""
    case, optimizer = scenario(seed=6), optax.adamax(1e-2)
    form = otpe.stepper(case.net, "deep-otpe", traces="dense")
    params, opt_state, state = case.params, optimizer.init(case.params), form.init(3, jnp.float64)
    advance, emit, update = jax.jit(form.advance), jax.jit(form.emit), jax.jit(optimizer.update)
    losses = []
    for x in case.spikes:
        state, info = advance(params, state, x)
        loss, grads = emit(params, state, info, case.labels)
        updates, opt_state = update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        losses.append(loss)
    actual, _, actual_losses = otpe.online_pass(
        case.net,
        case.params,
        optimizer.init(case.params),
        case.spikes,
        case.labels,
        rule="deep-otpe",
        optimizer=optimizer,
    )
    assert relative_error(actual, params) < 1e-10
    np.testing.assert_allclose(actual_losses, losses, rtol=1e-10)


@pytest.mark.parametrize("rule", LOCAL)
def test_every_rule_learns_online(rule):
    case = scenario((8, 16, 16, 3), steps=25, batch=4, seed=1)
    _, losses = online(case, rule, "auto", passes=1)
    _, later = online(case, rule, "auto", passes=12)
    assert later.mean() < losses.mean() - 0.01


N_IN, HIDDEN, CLASSES, BATCH, FLOAT = 11, 7, 3, 5, 4

# Numbers per sample in hidden layer n_in -> n_out: traces, then the state per neuron besides the membrane.
HIDDEN_STATE = {
    "ostl": ((N_IN + 1) * HIDDEN, HIDDEN),  # D; ρ
    "ottt": (N_IN + 1, 0),  # â
    "otpe": (2 * (N_IN + 1) * HIDDEN, HIDDEN),  # D, R̂; ρ (ḡ is for the signal to the layer below, and there is none)
    "approx-otpe": (2 * (N_IN + 1), HIDDEN),  # â, ẑ; ḡ
}


@pytest.mark.parametrize("rule", HIDDEN_STATE)
def test_state_has_the_size_of_the_table(rule):
    net = otpe.dense([N_IN, HIDDEN, CLASSES])
    state = jax.eval_shape(lambda: otpe.stepper(net, rule, traces="dense").init(BATCH, "float32"))
    hidden, (traces, neurons) = state.layers[0], HIDDEN_STATE[rule]
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(hidden))
    weight = 1 if hidden.average is not None else 0  # one number that normalises ḡ
    assert sum(row.size for row in hidden.kept.rows) == BATCH * traces
    assert size == FLOAT * (BATCH * (traces + neurons + HIDDEN) + weight)


@pytest.mark.parametrize("rule", HIDDEN_STATE)
def test_bytes_are_those_of_a_real_state_after_any_number_of_steps(rule):
    case = scenario((N_IN, HIDDEN, CLASSES), steps=9, batch=BATCH)
    net, params = case.net, jax.tree.map(jnp.float32, case.params)
    form = otpe.stepper(net, rule, traces="dense")
    state, advance = form.init(BATCH, jnp.float32), jax.jit(form.advance)
    for x in (*case.spikes, *case.spikes):
        state, _ = advance(params, state, jnp.float32(x))
        assert sum(leaf.nbytes for leaf in jax.tree.leaves(state)) == otpe.state_bytes(net, rule, batch=BATCH).total


def test_deep_rules_keep_a_trace_per_stage_above():
    net = otpe.dense([N_IN, 6, 6, 6, CLASSES])
    for rule, per_trace in (("deep-otpe", (N_IN + 1) * 6), ("approx-deep-otpe", N_IN + 1)):
        state = jax.eval_shape(lambda rule=rule: otpe.stepper(net, rule, traces="dense").init(1))
        first = state.layers[0]
        assert [row.size for row in first.kept.rows] == [
            per_trace
        ] * 4  # the layer itself, two hidden layers, the output
        assert [len(layer.kept.rows) for layer in state.layers] == [4, 3, 2, 1]
    state = jax.eval_shape(lambda: otpe.stepper(net, "f-deep-otpe", traces="dense").init(1))
    assert [len(layer.kept.rows) for layer in state.layers] == [5, 4, 3, 2]  # plus the readout


def test_traces_are_chosen_by_shape():
    net = otpe.dense([700, 512, 512, 20])

    def kinds(**shape):
        return [type(t).__name__ for t in otpe.stepper(net, "otpe", **shape).traces]

    assert kinds(batch=1, steps=50) == ["WeightTraces"] * 3
    assert kinds(batch=128, steps=50) == ["FactoredTraces"] * 3
    assert kinds(batch=128, steps=400) == ["WeightTraces"] * 3
    assert kinds(batch=1, traces="factored", steps=50) == ["FactoredTraces"] * 3
    assert [t.window for t in otpe.stepper(net, "otpe", traces="factored", steps=50).traces] == [50] * 3
