"""Products of spikes in 16-bit parts are as exact as float32 products. float64 is the reference."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otpe.engine import Engine
from otpe.layers import DenseLayer, apply, current, gradient, products, transpose
from otpe.layers.linear import Current
from otpe.scan import Parts, Stacked
from otpe.testing import relative_error

ROWS, N_IN, N_OUT = (3, 4), 21, 10  # an odd width, so that nothing is aligned
INTERPRET = Engine("interpret", "float32")


def problem(counts=False):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (*ROWS, N_IN)) if counts else rng.random((*ROWS, N_IN)) < 0.3
    layer = DenseLayer(N_IN, N_OUT)
    params = layer.init(jax.random.key(0), jnp.float32)._replace(bias=jnp.asarray(rng.normal(size=N_OUT), jnp.float32))
    κ = jnp.asarray(rng.normal(size=(*ROWS, N_OUT)) * 10.0 ** rng.integers(-6, 6, (*ROWS, N_OUT)), jnp.float32)
    return layer, params, jnp.asarray(x, products.EXACT), κ


@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=20))
def test_three_parts_represent_a_float32_exactly(numbers):
    a = np.float32(numbers)
    a = np.where(np.abs(a) < 1e-25, np.float32(0), a)  # below this, the last part is too small for float32
    parts = products.split(jnp.asarray(a), "float32").arrays
    assert all(p.dtype == jnp.bfloat16 for p in parts)
    np.testing.assert_array_equal(sum(np.asarray(p, np.float64) for p in parts), a.astype(np.float64))


@pytest.mark.parametrize(("precision", "bound"), [("float32", 0.0), ("tf32", 2.0**-16), ("bf16", 2.0**-8)])
def test_fewer_parts_stay_within_their_error_bound(precision, bound):
    a = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    total = sum(np.asarray(p, np.float64) for p in products.split(jnp.asarray(a), precision).arrays)
    error = np.abs(total - a) / np.abs(a)
    assert error.max() <= bound
    assert bound == 0 or error.max() > bound / 8  # no more parts than needed


@pytest.mark.parametrize("counts", [False, True])
def test_products_of_spikes_are_exact_in_float32(counts):
    layer, params, x, κ = problem(counts)
    x_64, kernel, κ_64 = (np.asarray(a, np.float64) for a in (x, params.kernel, κ))
    given = current(layer, params, x, INTERPRET)
    assert isinstance(given.terms, Stacked)
    c = Current(Parts(tuple(given.terms.array[..., k, :] for k in range(3))), given.bias).total
    assert relative_error(c, x_64 @ kernel + np.asarray(params.bias, np.float64)) < 2e-7
    dw = gradient(layer, params, x, κ, engine=INTERPRET)
    assert relative_error(dw.kernel, np.einsum("tbi,tbj->ij", x_64, κ_64)) < 2e-7
    assert relative_error(dw.bias, κ_64.sum((0, 1))) < 2e-7
    assert relative_error(transpose(layer, params, κ, INTERPRET), κ_64 @ kernel.T) < 5e-7


def test_zeros_at_the_end_change_nothing():
    layer, params, x, κ = problem()
    wide = jnp.pad(x, ((0, 0), (0, 0), (0, 3)))
    same = (gradient(layer, params, a, κ, engine=INTERPRET) for a in (x, wide))
    assert relative_error(*same) == 0.0


def test_only_exact_spikes_are_taken_apart():
    layer, params, x, _ = problem()
    real = x.astype(jnp.float32) + jnp.float32(1e-4)
    assert isinstance(current(layer, params, real, INTERPRET).terms, jax.Array)
    double = jax.tree.map(lambda p: p.astype(jnp.float64), params)
    assert apply(layer, double, x, INTERPRET).dtype == jnp.float64
    assert isinstance(current(layer, double, x, INTERPRET).terms, jax.Array)


def test_a_shared_factor_under_vmap_gives_the_same():
    layer, params, x, κ = problem()
    many = jax.tree.map(lambda p: jnp.stack([p, 2 * p]), params)
    parts = jax.vmap(lambda p: current(layer, p, x, INTERPRET).terms.array)(many)
    np.testing.assert_array_equal(parts[0], current(layer, params, x, INTERPRET).terms.array)
    dw = jax.vmap(lambda κ: gradient(layer, params, x, κ, engine=INTERPRET))(jnp.stack([κ, 3 * κ]))
    assert relative_error(jax.tree.map(lambda g: g[0], dw), gradient(layer, params, x, κ, engine=INTERPRET)) < 1e-6
