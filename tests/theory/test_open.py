"""Every loss and target, masks, chunks, online learning, several networks under vmap, and user neurons."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory import networks
from theory.cases import assert_differ, assert_same
from theory.networks import exact, learned, live
from theory.own_neuron import AlphaSynapse, Drifting

import otpe
from otpe.testing import autodiff, check_neuron, scenario_on

STEPS, BATCH, CLASSES = 8, 2, 3
MASK = np.arange(STEPS)[:, None] < np.array([8, 5])
RNG = np.random.default_rng(0)
TARGETS = {
    "labels": np.array([2, 0]),
    "timed labels": RNG.integers(0, CLASSES, (STEPS, BATCH)),
    "targets": RNG.normal(size=(BATCH, CLASSES)),
    "timed targets": RNG.normal(size=(STEPS, BATCH, CLASSES)),
}


def huber(logits, target):
    off = jnp.abs(logits - target)
    return jnp.where(off < 0.5, off**2, off - 0.25).sum(-1)


def margin(logits, label):
    right = jnp.take_along_axis(logits, label[:, None], 1)
    return jnp.square(jnp.maximum(0, 1 + logits - right)).mean(-1)


LOSSES = [
    ("membrane", "labels", None),
    (None, "timed labels", MASK),
    (otpe.Loss("leaky", rate=0.1, rate_weight=2.0), "timed labels", None),
    ("mse", "labels", MASK),
    (otpe.Loss("mse", rate=0.3, rate_weight=5.0), "targets", MASK),
    ("mse", "timed targets", None),
    (huber, "timed targets", MASK),
    (otpe.Loss(margin), "labels", None),
]


def _id(value):
    """A test id that is equal in every process: it has no memory address of a function."""
    if isinstance(value, np.ndarray):
        return "masked"
    return value if isinstance(value, str | None) else otpe.losses.as_loss(value).name


@pytest.mark.parametrize(("loss", "target", "mask"), LOSSES, ids=lambda value: _id(value))
def test_every_loss_and_target_is_exact(loss, target, mask):
    """BPTT in chunks, RTRL and the oracle agree. Both forms of a local rule agree and are exact at the output."""
    net, params, spikes, _ = live(networks.membrane)
    case = net, params, spikes, TARGETS[target], mask
    expected = autodiff(*case, loss=loss)
    assert_same(otpe.gradients(*case, rule="bptt", loss=loss, chunk=3), expected)
    assert_same(otpe.gradients(*case, rule="rtrl", loss=loss), expected)
    rule = "f-deep-otpe" if otpe.losses.as_loss(loss).readout == "leaky" else "deep-otpe"
    whole, steps = (otpe.gradients(*case, rule=rule, loss=loss, form=form) for form in ("whole", "steps"))
    assert_same(steps, whole)
    assert_same(whole[0], expected[0])
    assert_same(whole[1][-1], expected[1][-1])


def test_the_penalty_and_each_target_change_the_gradient():
    net, params, spikes, labels = live(networks.membrane)
    losses = [None, "mse", "leaky", otpe.Loss(None, rate=0.1, rate_weight=2.0), margin]
    gradients = [autodiff(net, params, spikes, labels, loss=loss)[1] for loss in losses]
    gradients += [autodiff(net, params, spikes, TARGETS[name], loss="mse")[1] for name in ("targets", "timed targets")]
    for i, a in enumerate(gradients):
        for b in gradients[i + 1 :]:
            assert_differ(a, b)


@pytest.mark.parametrize("rule", ["bptt", "otpe", "f-approx-deep-otpe"])
def test_chunks_give_the_same_gradient(rule):
    assert_same(otpe.gradients(*live(networks.plane), rule=rule, chunk=3), learned(networks.plane, rule))


@pytest.mark.parametrize(("name", "rule", "loss"), [("plane", "approx-deep-otpe", None), ("membrane", "f-otpe", "mse")])
def test_once_per_sequence_is_the_offline_gradient(name, rule, loss):
    """With `every` and a mask, for all parameters including trained leaks."""
    net, params, spikes, labels = live(getattr(networks, name))
    optimizer, labels = optax.sgd(0.1), TARGETS["timed targets"] if loss else labels
    options = {"rule": rule, "loss": loss}
    value, grads = otpe.gradients(net, params, spikes, labels, MASK, **options)
    learned, _, losses = otpe.online_pass(
        net, params, optimizer.init(params), spikes, labels, MASK, optimizer=optimizer, every=STEPS, **options
    )
    assert_same(learned, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads))
    np.testing.assert_allclose(np.average(losses, weights=MASK.sum(1)), value, rtol=1e-10)


@pytest.mark.parametrize("rule", ["f-approx-deep-otpe", "deep-otpe"])
def test_an_online_pass_equals_a_loop_of_steps(rule):
    """Labels change with time, with an update at each step."""
    net, params, spikes, _ = live(networks.membrane)
    labels, optimizer = TARGETS["timed labels"], optax.adamax(1e-2)
    form = otpe.stepper(net, rule, traces="dense")
    actual, _, losses = otpe.online_pass(
        net, params, optimizer.init(params), spikes, labels, rule=rule, optimizer=optimizer
    )
    advance, emit, expected_losses = jax.jit(form.advance), jax.jit(form.emit), []
    state, opt_state = form.init(BATCH), optimizer.init(params)
    for x, y in zip(spikes, labels, strict=True):
        state, info = advance(params, state, x)
        loss, grads = emit(params, state, info, y)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        expected_losses.append(loss)
    assert_same(actual, params)
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-10)


def test_networks_under_vmap_learn_as_alone():
    """Each network has its own leaks."""
    net, params, *data = live(networks.short)

    def learn(params):
        return otpe.gradients(net, params, *data, rule="otpe")

    pair = jax.tree.map(lambda p: jnp.stack([p, 1.1 * p + 0.05]), params)
    together = jax.jit(jax.vmap(learn))(pair)
    for k in range(2):
        one, alone = (jax.tree.map(lambda a, k=k: a[k], tree) for tree in (together, pair))
        assert_same(one, learn(alone))
    assert_differ(jax.tree.map(lambda a: a[1], together), learn(params))


# User neurons


@pytest.mark.parametrize("neuron", [AlphaSynapse(), AlphaSynapse(reset=0.0), Drifting(0.8)], ids=str)
def test_user_neurons_pass_the_check(neuron):
    check_neuron(neuron)


def test_gradients_of_user_neurons_are_exact():
    expected = exact(networks.own)
    assert_same(learned(networks.own, "bptt"), expected)
    assert_same(learned(networks.own, "rtrl"), expected)
    assert_same(learned(networks.own, "ostl")[1][-1], expected[1][-1])


@pytest.mark.parametrize(("rule", "traces"), [("otpe", "dense"), ("f-deep-otpe", "factored"), ("f-approx-deep-otpe", "dense")])  # fmt: skip
def test_user_neurons_work_in_every_form(rule, traces):
    actual = otpe.gradients(*live(networks.own), rule=rule, form="steps", traces=traces)
    assert_same(actual, learned(networks.own, rule))


@pytest.mark.parametrize("rule", ["deep-otpe", "approx-deep-otpe", "f-deep-otpe"])
def test_deep_rules_are_exact_through_the_poles_of_user_neurons(rule):
    make = networks.own_linear
    assert_same(learned(make, rule), exact(make, otpe.rule(rule).readout))
    assert_differ(learned(make, "otpe")[1][0], exact(make)[1][0], by=0.05)


def test_the_oracle_does_not_know_the_reset_of_a_users_neuron():
    with pytest.raises(ValueError, match=r"AlphaSynapse is not one of otpe's neurons, so its reset cannot be detached"):
        autodiff(*live(networks.own_linear), detach_reset=(0,))


def test_a_network_that_cannot_be_made_to_spike_is_refused():
    net = otpe.network((1, 4), [(otpe.layers.avg_pool(2), otpe.LIF(0.9, threshold=50.0)), (otpe.layers.flatten() >> otpe.layers.dense(2), otpe.LIF(0.9))])  # fmt: skip
    with pytest.raises(AssertionError, match=r"layer 0 is silent and has no bias to raise"):
        scenario_on(net)
