"""Every map of otpe passes the public check and equals a direct sum. Networks of these maps learn."""

from dataclasses import dataclass
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory.cases import LOCAL

import otpe
from otpe import layers
from otpe.build import network
from otpe.layers import (
    Composition,
    Conv,
    WeightRows,
    avg_pool,
    conv,
    convolution,
    dense,
    flatten,
    grouped,
    masked,
    sum_pool,
)
from otpe.summary import table
from otpe.testing import check_layer, relative_error

RANDOM_MASK = np.random.default_rng(0).random((7, 5)) < 0.4
RANDOM_MASK[:, 2] = False  # a neuron without inputs


@dataclass(frozen=True)
class OneToOne:
    """A user's map that uses nothing of otpe."""

    units: int

    @property
    def in_shape(self):
        return (self.units,)

    @property
    def out_shape(self):
        return (self.units,)

    def init(self, key, dtype):
        return {"gain": jax.random.normal(key, (self.units,), dtype), "bias": jnp.zeros(self.units, dtype)}

    def apply(self, params, x, one=1.0):
        return x * params["gain"] + one * params["bias"]


MAPS = [
    (dense(5), 4),
    (masked(RANDOM_MASK), 7),
    (grouped(6, 3), 9),
    (conv(3, 3), (2, 7)),
    (conv(4, 3, stride=2, padding=1, groups=2), (4, 9)),
    (conv(3, (3, 2)), (2, 6, 5)),
    (conv(4, 3, stride=(2, 1), padding=(0, 2), dilation=(1, 2), bias=False), (2, 6, 5)),
    (conv(4, (3, 2), stride=2, padding="same", groups=2), (2, 6, 5)),
    (avg_pool(2), (2, 5, 6)),
    (sum_pool((3, 2), stride=(2, 1)), (2, 6, 5)),
    (sum_pool(3), (2, 8)),
    (flatten(), (2, 3)),
    (avg_pool(2) >> conv(4, 2), (2, 6, 7)),
    (conv(4, 2) >> sum_pool(2) >> flatten(), (2, 6, 5)),
    (avg_pool(2) >> flatten() >> dense(3), (2, 6, 5)),
    (avg_pool(2) >> flatten(), (2, 6)),
    (flatten() >> OneToOne(6), (2, 3)),
]
WITHOUT_ROWS = {"avg_pool(2)", "sum_pool((3, 2), stride=(2, 1))", "sum_pool(3)", "flatten()", "avg_pool(2) >> flatten()",
                "conv(4, 2) >> sum_pool(2) >> flatten()", "flatten() >> OneToOne"}  # fmt: skip
cases = pytest.mark.parametrize(("spec", "shape"), MAPS, ids=[repr(spec) for spec, _ in MAPS])


@pytest.mark.parametrize("name", layers.NAMED)
def test_every_registered_map_passes_the_public_check(name):
    check_layer(layers.NAMED[name])


@cases
def test_the_public_check_holds(spec, shape):
    check_layer(spec.on(shape))
    assert isinstance(spec.on(shape), WeightRows) == (repr(spec) not in WITHOUT_ROWS)


def randoms(*shapes):
    rng = np.random.default_rng(3)
    return [rng.standard_normal(shape) for shape in shapes]


def slow_conv(x, kernel, bias, stride, pads, dilation, groups):
    """The direct sum, one number at a time."""
    x = np.pad(x, ((0, 0), (0, 0), *pads))
    out, inner, *size = kernel.shape
    axes = zip(x.shape[2:], size, stride, dilation, strict=True)
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in axes]
    c = np.zeros((len(x), out, *counts))
    for o, *position in product(range(out), *map(range, counts)):
        first = o // (out // groups) * inner
        for i, *tap in product(range(inner), *map(range, size)):
            at = [p * s + t * d for p, s, t, d in zip(position, stride, tap, dilation, strict=True)]
            c[(slice(None), o, *position)] += kernel[(o, i, *tap)] * x[(slice(None), first + i, *at)]
    return c + bias.reshape(-1, *(1,) * len(size))


@pytest.mark.parametrize(
    ("shape", "size", "stride", "padding", "pads", "dilation", "groups"),
    [
        ((4, 9), (3,), (1,), 0, [(0, 0)], (1,), 1),
        ((4, 9), (3,), (2,), "same", [(1, 1)], (1,), 2),
        ((2, 34, 34), (5, 5), (2, 2), "valid", [(0, 0), (0, 0)], (1, 1), 1),
        ((4, 6, 7), (3, 2), (2, 1), (1, 2), [(1, 1), (2, 2)], (1, 3), 4),
        ((4, 6, 7), (2, 3), (1, 1), "same", [(0, 1), (2, 2)], (1, 2), 1),
    ],
)  # fmt: skip
def test_a_convolution_is_the_direct_sum(shape, size, stride, padding, pads, dilation, groups):
    layer = conv(4, size, stride, padding, dilation, groups).on(shape)
    x, kernel, bias = randoms((2, *shape), (4, shape[0] // groups, *size), 4)
    expected = slow_conv(x, kernel, bias, stride, pads, dilation, groups)
    actual = layer.apply(Conv(jnp.asarray(kernel), jnp.asarray(bias)), jnp.asarray(x))
    assert layer.out_shape == expected.shape[1:]
    assert relative_error(actual, expected) < 1e-10


@pytest.mark.parametrize("samples", [3, 6, 7, 13])
@pytest.mark.parametrize("stride", [1, (2, 3)])
def test_blocks_of_samples_are_the_convolution_of_xla(monkeypatch, samples, stride):
    """Forward and both transposes: matrix products for a few samples at a time (on a CPU) equal XLA's convolution."""
    layer = conv(4, (3, 2), stride, padding=1, groups=2, dilation=(2, 1)).on((4, 7, 6))
    monkeypatch.setattr(convolution, "BLOCK", 3 * 4 * 6 * np.prod(layer.out_shape[1:]))  # three samples
    x, kernel, m = map(jnp.asarray, randoms((samples, 4, 7, 6), (4, 2, 3, 2), (samples, *layer.out_shape)))
    actual, back = jax.vjp(layer._by_patches, kernel, x)
    expected, wanted_back = jax.vjp(layer._by_convolution, kernel, x)
    assert relative_error((actual, back(m)), (expected, wanted_back(m))) < 1e-10
    transposed = jax.linear_transpose(lambda kernel: layer._by_patches(kernel, x), kernel)(m)
    assert relative_error(transposed, wanted_back(m)[:1]) < 1e-10


@pytest.mark.parametrize(("spec", "scale"), [(avg_pool((2, 3), (2, 1)), 1 / 6), (sum_pool((2, 3), (2, 1)), 1)])
def test_pooling_is_the_direct_sum(spec, scale):
    (x,) = randoms((2, 3, 7, 5))
    expected = np.zeros((2, 3, 3, 3))
    for a, b, i, j in product(range(3), range(3), range(2), range(3)):
        expected[:, :, a, b] += scale * x[:, :, 2 * a + i, b + j]
    assert relative_error(spec.on((3, 7, 5)).apply((), jnp.asarray(x)), expected) < 1e-10


def test_a_masked_map_is_a_dense_one_whose_other_weights_are_zero():
    layer = masked(RANDOM_MASK).on(7)
    x, weights, bias = randoms((2, 7), RANDOM_MASK.shape, 5)
    params = layer.from_matrix(weights, bias)
    assert params.kernel.shape == (RANDOM_MASK.sum(),)
    actual = layer.apply(layers.Dense(jnp.asarray(params.kernel), jnp.asarray(bias)), jnp.asarray(x))
    assert relative_error(actual, x @ (weights * RANDOM_MASK) + bias) < 1e-10
    assert layer.rows == RANDOM_MASK.sum(0).max() + 1


def test_groups_see_only_their_inputs():
    layer = grouped(4, 2).on(6)
    kernel, _ = layer.to_matrix(layer.init(jax.random.key(0), float))
    np.testing.assert_array_equal(np.asarray(kernel) != 0, np.kron(np.eye(2), np.ones((3, 2))))


def test_a_composition_applies_its_parts_and_has_the_parameters_of_one():
    layer = (avg_pool(2) >> conv(4, 3) >> sum_pool(2)).on((2, 12, 12))
    pool, kernel_part, last = layer.parts
    params = layer.init(jax.random.key(1), float)
    assert isinstance(params, Conv)
    (x,) = randoms((3, 2, 12, 12))
    one = jnp.asarray([1.0, -2.0, 0.5]).reshape(3, 1, 1, 1)
    expected = last.apply((), kernel_part.apply(params, pool.apply((), jnp.asarray(x)), one))
    np.testing.assert_array_equal(layer.apply(params, jnp.asarray(x), one), expected)


def test_built_maps_and_user_maps_compose_as_specs_do():
    small, large = avg_pool(2).on((1, 4, 4)), conv(2, 2).on((1, 2, 2))
    assert small >> large == (avg_pool(2) >> conv(2, 2)).on((1, 4, 4))
    three = flatten() >> OneToOne(6)
    assert [type(part).__name__ for part in three.on((2, 3)).parts] == ["FlattenLayer", "OneToOne"]
    assert isinstance(avg_pool(1).on((1, 4)) >> flatten().on((1, 4)) >> OneToOne(4), Composition)
    with pytest.raises(TypeError, match="unsupported operand"):
        conv(2, 3) >> 5


@pytest.mark.parametrize(("spec", "shape", "fan_in"), [
    (conv(4000, (3, 2), groups=2), (4, 8, 8), 12), (grouped(4000, 4), 40, 10), (dense(2000), 20, 20),
])  # fmt: skip
def test_kernels_start_with_the_variance_of_their_fan_in(spec, shape, fan_in):
    params = spec.on(shape).init(jax.random.key(0), float)
    assert np.isclose(float(params.kernel.var()) * fan_in, 1, atol=0.02)
    assert not params.bias.any()


# Networks


@pytest.fixture(scope="module")
def case():
    neuron = otpe.LIF(0.9, surrogate=otpe.fast_sigmoid(5.0))
    net = network((2, 8, 8), [
        (conv(3, 3, stride=2), neuron),
        (avg_pool(2, stride=1) >> conv(4, 2, padding=1, groups=1), neuron),
        (flatten() >> dense(6), neuron),
        (grouped(4, 2), neuron),
    ])  # fmt: skip
    params = jax.tree.map(lambda p: 1.5 * p + 0.1, net.init(jax.random.key(3)))
    spikes = (np.random.default_rng(0).random((9, 2, 2, 8, 8)) < 0.4).astype(float)
    assert all(s.any() and not s.all() for s in net.record(params, spikes))
    return net, params, spikes, np.array([0, 2])


def test_bptt_is_autodiff(case):
    net, params, spikes, labels = case

    def loss(params):
        out = net.run(params, spikes)
        return optax.softmax_cross_entropy_with_integer_labels(out, jnp.broadcast_to(labels, out.shape[:2])).mean()

    assert relative_error(otpe.gradients(*case, rule="bptt"), jax.value_and_grad(loss)(params)) < 1e-10


def test_several_networks_learn_side_by_side(case):
    net, params, spikes, labels = case
    expected = otpe.gradients(*case, rule="ottt")
    pair = jax.tree.map(lambda p: jnp.stack([p, 0.9 * p]), params)
    actual = jax.vmap(lambda p: otpe.gradients(net, p, spikes, labels, rule="ottt"))(pair)
    assert relative_error(jax.tree.map(lambda g: g[0], actual), expected) < 1e-10


@pytest.mark.parametrize("traces", ["dense", "factored"])
@pytest.mark.parametrize("rule", [name for name in LOCAL if otpe.rule(name).at(0, 2).trace == "weight"])
def test_both_forms_agree_with_traces_of_either_kind(case, rule, traces):
    expected = otpe.gradients(*case, rule=rule, form="whole")
    assert min(float(jnp.abs(g).max()) for g in jax.tree.leaves(expected)) > 0
    assert relative_error(otpe.gradients(*case, rule=rule, form="steps", traces=traces), expected) < 1e-10


def test_shapes_are_inferred_and_numbers_and_user_maps_are_accepted():
    neuron = otpe.LIF(0.9)
    net = network(12, [(dense(6), neuron), (OneToOne(6), neuron), (otpe.DenseLayer(6, 3), neuron)])
    assert [layer.in_shape + layer.out_shape for layer in net.layers] == [(12, 6), (6, 6), (6, 3)]
    assert net.neurons == (neuron,) * 3
    assert net == network((12,), [(dense(6), neuron), (OneToOne(6), neuron), (dense(3), neuron)])


def test_a_network_is_shown_as_a_table():
    net = network((2, 34, 34), [
        (conv(16, 5, stride=2), otpe.LIF(0.9)),
        (conv(4, 3) >> avg_pool(2), otpe.LIF(0.5)),
        (flatten() >> dense(10), otpe.LIF(0.95257)),
    ])  # fmt: skip
    assert table(net).splitlines() == [
        "  layer  map                          neurons     output    parameters  trace per input  trace per weight",
        "  0      conv 16, 5×5, stride 2       LIF 0.9     16×15×15         816            9,252           734,400",
        "  1      conv 4, 3×3 >> avg pool 2×2  LIF 0.5     4×6×6            580           14,404                 –",
        "  2      flatten >> dense 10          LIF 0.9526  10             1,450              580             5,800",
        "         total                                                   2,846           24,236           740,200",
        "Traces: bytes per sample in float32, with one trace per input as in OTTT, or one per weight as in OSTL.",
    ]


@pytest.mark.parametrize(("spec", "shape", "words"), [
    (conv(4, (3, 2), stride=(2, 1), padding="same", dilation=(1, 2), groups=2, bias=False), (2, 6, 5),
     "conv 4, 3×2, stride 2×1, padding 0+1×1, dilation 1×2, 2 groups, no bias"),
    (conv(4, 3, padding=1), (2, 9), "conv 4, 3, padding 1"),
    (sum_pool(3, stride=2) >> flatten(), (2, 9), "sum pool 3, stride 2 >> flatten"),
    (grouped(6, 3), 9, "masked 6, 18 of 54 weights"),
])  # fmt: skip
def test_maps_have_short_names(spec, shape, words):
    assert str(spec.on(shape)) == words


# Errors

NEURON = otpe.LIF(0.9)
MESSAGES = [
    (lambda: conv(4, 3).on(700), r"conv\(4, 3\) takes an input \[channels, length\] or .* is \[700\]. For a flat input use dense"),
    (lambda: conv(4, 3).on((1, 2, 3, 4)), r"conv\(4, 3\) takes an input .*, but its input is \[1, 2, 3, 4\]"),
    (lambda: conv(4, 5).on((2, 4, 9)), r"conv\(4, 5\): the kernel spans \[5, 5\] inputs, but there are only \[4, 9\].*smaller size"),
    (lambda: conv(4, 3, dilation=2, padding=(1,)).on((2, 2)), r"the kernel spans \[5\] inputs, but there are only \[4\], the padding"),
    (lambda: conv(4, (3, 3)).on((2, 9)), r"\(3, 3\) has 2 entries, but the input \[2, 9\] has 1 axes after its channels"),
    (lambda: conv(4, 3, groups=2).on((3, 9)), r"conv\(4, 3, groups=2\): 3 input channels cannot be divided into 2 groups"),
    (lambda: conv(5, 3, groups=2), r"conv: 5 channels cannot be divided into 2 groups. Choose a divisor"),
    (lambda: conv(0, 3), r"conv: channels is 0, expected a whole number above 0"),
    (lambda: conv(4, 2.5), r"conv: size is 2.5, expected a whole number from 1 on, or one per axis"),
    (lambda: conv(4, 3, stride=0), r"conv: stride is 0, expected a whole number from 1 on"),
    (lambda: conv(4, 3, padding=-1), r"conv: padding is -1, expected a whole number from 0 on"),
    (lambda: conv(4, 3, padding="some"), r"conv: padding 'some' is not known. Did you mean 'same'\?"),
    (lambda: avg_pool(4).on((2, 3, 8)), r"avg_pool\(4\): the window has the size \[4, 4\], but there are only \[3, 8\] inputs"),
    (lambda: sum_pool(2, stride=1).on(10), r"sum_pool\(2, stride=1\) takes an input \[channels, length\] or .*, but its input is \[10\]"),
    (lambda: avg_pool(0), r"avg_pool: size is 0, expected a whole number from 1 on"),
    (lambda: dense(10).on((2, 5, 5)), r"dense\(10\) takes a flat input, but its input is \[2, 5, 5\]. Use flatten\(\) >> dense\(10\)"),
    (lambda: dense(0), r"dense: n is 0, expected a whole number above 0"),
    (lambda: masked(np.ones((4, 3))).on(5), r"masked\(\[4, 3\]\): the mask is for 4 inputs, but there are 5. Make a mask \[5, neurons\]"),
    (lambda: masked(np.ones(4)), r"masked: the mask has the shape \[4\] and the type float64, expected a table of True and False"),
    (lambda: masked(np.full((2, 2), 0.5)), r"masked: the mask has the shape \[2, 2\] and the type float64, expected a table"),
    (lambda: masked(np.zeros((2, 2), bool)), r"masked: the mask \[2, 2\] is false everywhere, expected at least one weight"),
    (lambda: grouped(6, 4).on(8), r"grouped\(6, 4\): 8 inputs and 6 neurons cannot both be divided into 4 groups"),
    (lambda: dense(4).on("12"), r"the input shape is '12', expected whole numbers above 0 without time and batch"),
    (lambda: dense(4).on((2, 0)), r"the input shape is \(2, 0\), expected whole numbers above 0"),
    (lambda: (dense(4) >> dense(3)).on(5), r"dense 4 >> dense 3: dense 4 and dense 3 both have parameters.*with neurons in between"),
    (lambda: avg_pool(2).on((1, 4)) >> avg_pool(2).on((1, 4)), r"avg pool 2 gives the shape \[1, 2\] and avg pool 2 takes \[1, 4\]"),
    (lambda: (avg_pool(2) >> OneToOne(4)).on((1, 4)), r"OneToOne takes the shape \[4\], but its input is \[1, 2\]"),
    (lambda: network((2, 8, 8), [(conv(4, 3), NEURON), (dense(3), NEURON)]), r"layer 1: dense\(3\) takes a flat input.*\[4, 6, 6\]"),
    (lambda: network(5, [(dense(4), NEURON), (OneToOne(6), NEURON)]), r"layer 1: OneToOne takes the shape \[6\], but its input is \[4\]"),
    (lambda: network((2, 8), [(conv(4, 3), NEURON)]), r"layer 0: the last layer gives the shape \[4, 6\], expected one number per class"),
    (lambda: network(5, []), r"layers is \[\], expected a list of pairs: a map and its neurons"),
    (lambda: network(5, [dense(4)]), r"layer 0 is dense\(4\), expected a map and its neurons, such as \(otpe.layers.dense"),
    (lambda: network(5, [(dense, NEURON)]), r"layer 0: the map is <function dense.*, expected one such as otpe.layers.dense\(10\)"),
    (lambda: network(5, [(dense(4), 0.9)]), r"layer 0: the neurons are 0.9, expected neurons such as otpe.LIF\(0.9\)"),
    (lambda: network(5, [(dense(4), otpe.LIF)]), r"layer 0: the neurons are <class .*LIF'>, expected neurons such as"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), MESSAGES, ids=[row[1][:40] for row in MESSAGES])
def test_the_error_message(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


# The check finds broken maps


class Unhashable(OneToOne):
    __hash__ = None


class ListShape(OneToOne):
    @property
    def in_shape(self):
        return [4]


class Half(OneToOne):
    def init(self, key, dtype):
        return jax.tree.map(lambda p: p.astype("bfloat16"), super().init(key, dtype))


class NotFinite(OneToOne):
    def init(self, key, dtype):
        return jax.tree.map(lambda p: p / 0, super().init(key, dtype))


class Moody(OneToOne):
    moods = iter(range(1000))

    def init(self, key, dtype):
        return super().init(jax.random.key(next(self.moods)), dtype)


class WrongShape(OneToOne):
    out_shape = (3,)


class NotLinear(OneToOne):
    def apply(self, params, x, one=1.0):
        return x**2 * params["gain"] + one * params["bias"]


class NotLinearInParameters(OneToOne):
    def apply(self, params, x, one=1.0):
        return x * params["gain"] ** 2 + one * params["bias"]


class FreeBias(OneToOne):
    def apply(self, params, x, one=1.0):
        return x * params["gain"] + params["bias"]


class BiasWithInput(OneToOne):
    def apply(self, params, x, one=1.0):
        return x * params["gain"] + x * one * params["bias"]


class BiasAsNumber(OneToOne):
    def apply(self, params, x, one=1.0):
        return x * params["gain"] + (one if isinstance(one, float) else jnp.mean(one)) * params["bias"]


class Mixing(OneToOne):
    def apply(self, params, x, one=1.0):
        return (x + x[::-1]) * params["gain"] + one * params["bias"]


class NotTransposable(OneToOne):
    def apply(self, params, x, one=1.0):
        return jnp.where(x > 0, x, x) * params["gain"] + one * params["bias"]


class HalfRows(OneToOne):
    rows = 2


class Rows(OneToOne):
    rows = 2

    def to_rows(self, x):
        return jnp.stack([x, jnp.ones_like(x)], axis=1)

    def from_rows(self, dw):
        return {"gain": dw[0], "bias": dw[1]}


class RowsTransposed(Rows):
    def to_rows(self, x):
        return super().to_rows(x).swapaxes(1, 2)


class RowsSwapped(Rows):
    def from_rows(self, dw):
        return {"gain": dw[1], "bias": dw[0]}


class RowsFlat(Rows):
    def from_rows(self, dw):
        return {"gain": dw[0, :1], "bias": dw[1]}


class WrongMatrix(OneToOne):
    def to_matrix(self, params):
        return jnp.diag(params["gain"]) + 1, params["bias"]

    def from_matrix(self, kernel, bias):
        return {"gain": jnp.diag(kernel), "bias": bias}


def test_a_user_map_passes_the_check():
    check_layer(OneToOne(4))
    check_layer(Rows(4))


@pytest.mark.parametrize(("layer", "message"), [
    (Unhashable(4), "Unhashable cannot be hashed .*make it a frozen dataclass"),
    (ListShape(4), r"ListShape: in_shape is \[4\], expected a tuple"),
    (Half(4), "Half: init gave parameters of type bfloat16, expected float"),
    (NotFinite(4), "NotFinite: init gave a parameter that is not finite"),
    (Moody(4), "Moody: init gave different parameters for the same key"),
    (WrongShape(4), r"WrongShape: apply gave the shape \[3, 4\], expected \[3, 3\]"),
    (NotLinear(4), "NotLinear is not linear in its input"),
    (NotLinearInParameters(4), "NotLinearInParameters is not linear in its parameters"),
    (FreeBias(4), "FreeBias: a zero input with `one` 0 gives a current, expected none. Multiply the bias by `one`"),
    (BiasWithInput(4), r"BiasWithInput: the current with `one` \[\], and W x \+ one · bias, differ"),
    (BiasAsNumber(4), "BiasAsNumber: the currents of a batch, and of its samples one by one, differ"),
    (Mixing(4), "Mixing: the currents of a batch, and of its samples one by one, differ"),
    (NotTransposable(4), "NotTransposable: jax.linear_transpose cannot transpose apply in its input"),
    (HalfRows(4), r"HalfRows has \['rows'\] of \['rows', 'to_rows', 'from_rows'\], expected all of them or none"),
    (RowsTransposed(4), r"RowsTransposed: to_rows gave the shape \[3, 4, 2\], expected one that broadcasts to \[3, 2, 4\]"),
    (RowsSwapped(4), "RowsSwapped: the gradient by to_rows and from_rows, and jax.vjp, differ"),
    (RowsFlat(4), r"from_rows, and jax.vjp, differ in shape: {'bias': \[4\], 'gain': \[1\]} and {'bias': \[4\], 'gain': \[4\]}"),
    (WrongMatrix(4), r"WrongMatrix: x W \+ bias of to_matrix, and apply, differ"),
], ids=lambda value: type(value).__name__ if isinstance(value, OneToOne) else "")  # fmt: skip
def test_a_broken_map_is_found(layer, message):
    with pytest.raises(AssertionError, match=message):
        check_layer(layer)
