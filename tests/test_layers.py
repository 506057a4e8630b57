"""The layer contract is a linear map and its transpose. The rules need nothing else.

The proof is a convolution, written here in a dozen lines. Every rule runs on it unchanged.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory.cases import LOCAL

import otpe
from otpe import layers
from otpe.rulebook.choose import stepper
from otpe.testing import relative_error, scenario


class ConvParams(NamedTuple):
    kernel: jax.Array  # [width, channels in, channels out]
    bias: jax.Array  # [channels out]


@dataclass(frozen=True)
class Conv:
    """A convolution over a line of `length` positions, padded with zeros at both ends."""

    length: int
    channels: tuple[int, int]

    @property
    def in_shape(self):
        return (self.length, self.channels[0])

    @property
    def out_shape(self):
        return (self.length, self.channels[1])

    def init(self, key, dtype):
        return ConvParams(jax.random.normal(key, (3, *self.channels), dtype), jnp.zeros(self.channels[1], dtype))

    def apply(self, params, x, one=1.0):
        pad = [(0, 0)] * (x.ndim - 2) + [(1, 1), (0, 0)]
        x = jnp.pad(x, pad)
        taps = sum(x[..., k : k + self.length, :] @ params.kernel[k] for k in range(3))
        return taps + one * params.bias


@dataclass(frozen=True)
class Pool:
    """A dense layer that reads all positions at once."""

    length: int
    channels: int
    n_out: int

    @property
    def in_shape(self):
        return (self.length, self.channels)

    @property
    def out_shape(self):
        return (self.n_out,)

    def init(self, key, dtype):
        return otpe.DenseLayer(self.length * self.channels, self.n_out).init(key, dtype)

    def apply(self, params, x, one=1.0):
        return x.reshape(*x.shape[:-2], -1) @ params.kernel + one * params.bias


@pytest.fixture
def conv_case():
    neuron = otpe.LIF(0.9, surrogate=otpe.fast_sigmoid(5.0))
    net = otpe.Network((Conv(5, (2, 3)), Conv(5, (3, 4)), Pool(5, 4, 3)), (neuron,) * 3)
    params = jax.tree.map(lambda p: 1.5 * p + 0.1, net.init(jax.random.key(3)))
    spikes = (np.random.default_rng(0).random((9, 2, 5, 2)) < 0.4).astype(float)
    case = (net, params, spikes, np.array([0, 2]))
    assert all(s.any() and not s.all() for s in net.record(params, spikes))
    return case


def test_bptt_of_a_convolution_is_autodiff(conv_case):
    net, params, spikes, labels = conv_case

    def loss(params):
        out = net.run(params, spikes)
        return optax.softmax_cross_entropy_with_integer_labels(out, jnp.broadcast_to(labels, out.shape[:2])).mean()

    actual = otpe.gradients(*conv_case, rule="bptt")
    assert relative_error(actual, jax.value_and_grad(loss)(params)) < 1e-10
    assert relative_error(otpe.gradients(*conv_case, rule="rtrl"), actual) < 1e-10


@pytest.mark.parametrize("rule", LOCAL)
def test_both_forms_agree_on_a_convolution(conv_case, rule):
    """Exact OSTL and OTPE for a convolution, without a trace per weight."""
    expected = otpe.gradients(*conv_case, rule=rule, form="whole")
    assert min(float(jnp.abs(g).max()) for g in jax.tree.leaves(expected)) > 0
    assert relative_error(otpe.gradients(*conv_case, rule=rule, form="steps"), expected) < 1e-10


def test_a_convolution_says_that_it_has_no_trace_per_weight(conv_case):
    with pytest.raises(ValueError, match=r"layer 0 \(Conv\) cannot hold a trace per weight; use traces='factored'"):
        stepper(conv_case[0], "otpe", traces="dense")


def test_transpose_and_gradient_are_those_of_the_map():
    case = scenario((4, 3), seed=2)
    layer, params = case.net.layers[0], case.params[0]
    rng = np.random.default_rng(1)
    x, m = jnp.asarray(rng.random((6, 2, 4))), jnp.asarray(rng.random((6, 2, 3)))
    np.testing.assert_allclose(layers.transpose(layer, params, m), m @ params.kernel.T, rtol=1e-12)
    dw = layers.gradient(layer, params, x, m)
    np.testing.assert_allclose(dw.kernel, np.einsum("tbi,tbj->ij", x, m), rtol=1e-12)
    np.testing.assert_allclose(dw.bias, m.sum((0, 1)), rtol=1e-12)


def test_lift_carries_the_bias():
    case = scenario((4, 3), seed=2)
    layer, params = case.net.layers[0], case.params[0]
    x = jnp.asarray(np.random.default_rng(1).random((6, 4)))
    lifted, one = layers.unlift(2.5 * layers.lift(x), layer.in_shape)
    np.testing.assert_allclose(layer.apply(params, lifted, one[:, None]), 2.5 * layer.apply(params, x), rtol=1e-12)
