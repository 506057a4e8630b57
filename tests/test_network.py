"""The network: its equations, its shapes, and what it accepts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import otpe
from otpe.testing import relative_error, scenario

RESETS = ("subtract", "zero", "none")


@pytest.mark.parametrize("reset", RESETS)
def test_the_neuron_follows_its_equations(reset):
    """One neuron computed by hand: λ = 0.5, θ = 1, currents 0.6, 0.7, 2.5, 0 and 0."""
    net = otpe.dense([1, 1], leak=0.5, reset=reset)
    params = (otpe.Dense(jnp.ones((1, 1)), jnp.zeros(1)),)
    spikes = np.array([0.6, 0.7, 2.5, 0.0, 0.0])[:, None, None]
    # v is 0.6, then 0.3 + 0.7 = 1.0, which spikes. Then it depends on the reset:
    expected = {
        "subtract": [0, 1, 1, 0, 0],  # u 0;   v 2.5  u 1.5;  v 0.75;  v 0.375
        "zero": [0, 1, 1, 0, 0],  # u 0;   v 2.5  u 0;    v 0;     v 0
        "none": [0, 1, 1, 1, 0],  # u 1;   v 3.0  u 3.0;  v 1.5;   v 0.75
    }[reset]
    np.testing.assert_array_equal(net.run(params, spikes)[:, 0, 0], expected)
    membranes = {"subtract": 0.375, "zero": 0.0, "none": 0.75}[reset]
    state = net.start(1)
    for x in spikes:
        state, _ = net.step(params, state, x)
    np.testing.assert_allclose(state[0], [[membranes]])


def test_a_membrane_at_the_threshold_spikes():
    net = otpe.dense([1, 1])
    params = (otpe.Dense(jnp.ones((1, 1)), jnp.zeros(1)),)
    assert net.run(params, np.ones((1, 1, 1)))[0, 0, 0] == 1
    assert net.run(params, np.full((1, 1, 1), np.nextafter(1, 0)))[0, 0, 0] == 0


@pytest.mark.parametrize("reset", RESETS)
def test_survival_is_the_derivative_of_the_next_membrane(reset):
    neuron = otpe.LIF(0.9, threshold=0.8, surrogate=otpe.fast_sigmoid(3.0), reset=reset)
    v = jnp.linspace(-1.5, 2.5, 41)

    def next_v(v):
        return neuron.leak * neuron.step(jnp.zeros(()), v).state  # with a zero membrane, v equals the current

    np.testing.assert_allclose(neuron.linearise(v)[0], jax.vmap(jax.grad(next_v))(v), atol=1e-15)


@pytest.mark.parametrize("reset", RESETS)
def test_steps_equal_run(reset):
    case = scenario((5, 8, 7, 4), steps=15, leak=(0.9, 0.5, 0.97), reset=reset)
    state, out = case.net.start(3), []
    for x in case.spikes:
        state, s = case.net.step(case.params, state, x)
        out.append(s)
    np.testing.assert_array_equal(np.stack(out), case.net.run(case.params, case.spikes))


def test_shapes_of_the_front_door():
    net = otpe.dense([700, 512, 512, 20], leak=0.9526, threshold=1.0, surrogate=otpe.fast_sigmoid(25.0))
    params = net.init(jax.random.key(0), jnp.float32)
    assert [p.kernel.shape for p in params] == [(700, 512), (512, 512), (512, 20)]
    assert [p.bias.shape for p in params] == [(512,), (512,), (20,)]
    assert all(isinstance(p, otpe.Dense) for p in params)
    assert net.run(params, np.zeros((3, 2, 700))).shape == (3, 2, 20)


def test_initial_kernels_are_lecun_normal_and_biases_zero():
    params = otpe.dense([400, 300, 200]).init(jax.random.key(1))
    for p, n_in in zip(params, (400, 300), strict=True):
        assert abs(float(p.kernel.std()) * n_in**0.5 - 1) < 0.02
        assert not p.bias.any()
    again = otpe.dense([400, 300, 200]).init(jax.random.key(2))
    assert relative_error(again[0].kernel, params[0].kernel) > 1


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float32])
def test_any_real_type_of_spikes_gives_the_same(dtype):
    case = scenario()
    counts = (np.asarray(case.spikes) * 1).astype(dtype)
    np.testing.assert_array_equal(case.net.run(case.params, counts), case.net.run(case.params, case.spikes))
    actual = otpe.gradients(case.net, case.params, counts, case.labels)
    assert relative_error(actual, otpe.gradients(*case)) == 0


def test_spike_counts_multiply_the_current():
    case = scenario(reset="none")
    once, twice = (case.net.run(case.params, k * np.ones((4, 1, 6))) for k in (1, 2))
    assert not np.array_equal(once, twice)


def test_float32_parameters_stay_float32():
    case = scenario()
    params = jax.tree.map(jnp.float32, case.params)
    loss, grads = otpe.gradients(case.net, params, np.asarray(case.spikes, np.float64), case.labels)
    assert loss.dtype == jnp.float32
    assert {g.dtype for g in jax.tree.leaves(grads)} == {jnp.dtype("float32")}


def test_prediction_is_the_most_spikes_and_silence_is_wrong():
    spikes = np.zeros((3, 3, 2))
    spikes[:2, 0, 1] = 1
    spikes[0, 1, 0] = 1
    spikes = jnp.asarray(spikes)
    np.testing.assert_array_equal(otpe.predict(spikes), [1, 0, -1])
    assert otpe.accuracy(spikes, jnp.array([1, 1, 0])) == pytest.approx(1 / 3)


def test_repr_is_one_short_line():
    assert repr(otpe.dense([700, 512, 20])) == "Network(700 → dense LIF 512 → dense LIF 20)"
    convolutional = otpe.network(
        (2, 34, 34),
        [
            (otpe.layers.conv(16, 5, stride=2, padding=0), otpe.LIF(otpe.Uniform(0.8, 0.9))),
            (otpe.layers.avg_pool(2) >> otpe.layers.conv(8, 3), otpe.CubaLIF(0.9, current_leak=0.8)),
            (otpe.layers.flatten() >> otpe.layers.dense(10), otpe.LeakyIntegrator(0.9)),
        ],
    )
    expected = "Network(2×34×34 → conv LIF 16×15×15 → conv CubaLIF 8×5×5 → dense LeakyIntegrator 10)"
    assert repr(convolutional) == expected
    deep = repr(otpe.dense([700] * 40 + [20], leak=[0.9] * 40))
    assert len(deep) <= 100
    assert deep.startswith("Network(700 → dense LIF 700 →")
    assert deep.endswith("→ … 36 more … → dense LIF 20)")
    per_neuron = otpe.dense([4, 3, 2], leak=[np.full(3, 0.9), np.full(2, 0.8)])
    assert repr(per_neuron) == "Network(4 → dense LIF 3 → dense LIF 2)", "no arrays"
    assert repr(per_neuron) != str(per_neuron)
