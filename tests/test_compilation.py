"""A second call with the same shapes is not traced again."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import otpe


class Counting:
    """A surrogate that counts how often it is traced."""

    def __init__(self):
        self.traced = 0

    def __call__(self, d):
        self.traced += 1
        return 1 / jnp.square(5 * jnp.abs(d) + 1)


@pytest.fixture
def counted():
    count = Counting()
    net = otpe.dense([4, 6, 5, 3], surrogate=count)
    params = net.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    return count, net, params, (rng.random((7, 2, 4)) < 0.5).astype(float), np.array([0, 2])


@pytest.mark.parametrize("rule", otpe.rules())
def test_gradients_trace_once(counted, rule):
    count, net, params, spikes, labels = counted
    otpe.gradients(net, params, spikes, labels, rule=rule)
    once = count.traced
    assert once > 0
    moved = jax.tree.map(lambda p: p + 0.1, params)
    otpe.gradients(net, moved, 1 - spikes, labels[::-1], rule=rule)
    otpe.gradients(net, moved, spikes.astype(np.float32), list(labels), rule=otpe.rule(rule))
    weak = tuple(otpe.Dense(jnp.full(p.kernel.shape, 0.1), jnp.full(p.bias.shape, 0.1)) for p in params)
    otpe.gradients(net, weak, spikes, labels.astype(np.int8), rule=rule)
    assert count.traced == once
    otpe.gradients(net, params, spikes[:-1], labels, rule=rule)
    assert count.traced > once, "a new shape must be traced, or the counter does not work"
    otpe.gradients(
        net, params, spikes.astype(bool), labels, rule=rule
    )  # spikes of one byte stay so: this is another program
    once = count.traced
    otpe.gradients(net, params, spikes.astype(bool), labels, rule=rule)
    assert count.traced == once


def test_an_equal_network_reuses_the_compiled_program():
    spikes, labels = np.ones((3, 2, 4)), np.array([0, 1])

    def gradients():
        net = otpe.dense([4, 6, 3], surrogate=otpe.fast_sigmoid(3.0))
        return otpe.gradients(net, net.init(jax.random.key(0)), spikes, labels)

    from otpe.training.offline import _whole

    gradients()
    before = _whole._cache_size()
    gradients()
    assert _whole._cache_size() == before


def test_an_optimizer_written_inside_the_loop_does_not_trace_again(counted):
    count, net, params, spikes, labels = counted
    opt_state = optax.adamax(1e-3).init(params)

    def learn(optimizer):
        nonlocal params, opt_state
        params, opt_state, _ = otpe.online_pass(net, params, opt_state, spikes, labels, optimizer=optimizer)

    learn(optax.adamax(1e-3))
    once = count.traced
    for _ in range(3):
        learn(optax.adamax(1e-3))
    assert count.traced == once
    learn(optax.adamax(2e-3))
    assert count.traced > once, "another learning rate is another program"


def test_run_traces_once(counted):
    count, net, params, spikes, _ = counted
    net.run(params, spikes)
    once = count.traced
    net.run(params, 1 - spikes)
    assert count.traced == once


@pytest.mark.usefixtures("for_a_gpu")
@pytest.mark.parametrize("rule", ["bptt", "ostl", "ottt", "otpe", "f-approx-otpe"])
def test_on_a_gpu_equal_layers_share_their_kernels(rule):
    spikes, labels = np.zeros((12, 4, 8), np.uint8), np.zeros(4, int)

    def kernels(layers):
        net = otpe.dense([8] * layers + [3])
        two = jax.vmap(net.init)(jax.random.split(jax.random.key(0)))
        gradients = jax.vmap(lambda p: otpe.gradients(net, p, spikes, labels, rule=rule, backend="pallas"))
        program = jax.jit(gradients).trace(two).lower(lowering_platforms=("cuda",)).as_text()
        assert "stablehlo.while" not in program
        return program.count("xla.gpu.triton")

    assert kernels(4) == kernels(5) >= 4


@pytest.mark.usefixtures("for_a_gpu")
@pytest.mark.parametrize("rule", ["bptt", "f-approx-otpe", "deep-otpe"])
def test_on_a_gpu_every_neuron_has_fused_kernels(rule):
    """In these tests, the warning that there is no kernel is an error."""
    layer, uniform = otpe.layers.dense, otpe.Uniform(0.8, 0.9)
    net = otpe.network(
        8,
        [
            (layer(8), otpe.CubaLIF(0.9, 0.8, learn_current_leak=True)),
            (layer(8), otpe.AdaptiveLIF(uniform, learn_adaptation_leak="neuron")),
            (layer(8), otpe.LIF(0.9, learn_leak=True, reset="zero")),
            (layer(3), otpe.LeakyIntegrator(0.9, learn_leak=True)),
        ],
    )
    params, spikes, labels = net.init(jax.random.key(0)), np.zeros((12, 4, 8), np.uint8), np.zeros(4, int)
    gradients = jax.jit(lambda p: otpe.gradients(net, p, spikes, labels, rule=rule, backend="pallas"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # not the deprecations of newer versions of jax
        program = gradients.trace(params).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.while" not in program
    assert program.count("xla.gpu.triton") >= 8
