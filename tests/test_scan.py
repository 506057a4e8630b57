"""Kernels of the time loops, run as ordinary JAX (interpret), equal the plain loops for any T, batch and width."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from otpe import scan
from otpe.scan import Parts, Stacked, pallas

SHAPES = [(1, (1, 1)), (2, (3, 5)), (7, (4, 64)), (5, (2, 3, 3, 2)), (3, (33,))]  # steps, lanes


def arrays(steps, lanes, seed=0):
    rng = np.random.default_rng(seed)
    wide = jnp.asarray(rng.normal(size=(steps, *lanes)))
    per_sample = jnp.asarray(rng.random((steps, lanes[0], *(1,) * (len(lanes) - 1))))
    return wide, per_sample


def step(bias, carry, x):
    """Uses every kind of argument: a wide input, one number per sample, a fixed row, a wide and a scalar carry."""
    (u, weight), (wide, per_sample) = carry, x
    u = jnp.tanh(per_sample * u + wide + bias)
    weight = 0.9 * weight + 1
    return (u, weight), (u > 0, {"ratio": (u / weight).astype(jnp.float32), "none": None})


def same(actual, expected):
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a.dtype, b.dtype), actual, expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14), actual, expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("steps", "lanes"), SHAPES)
def test_kernel_equals_plain_loop(steps, lanes, reverse):
    bias = jnp.linspace(-1, 1, lanes[-1])
    for start in (jnp.zeros(()), jnp.ones(lanes)):  # a scalar may stand for a constant array
        args = (step, (start, jnp.zeros(())), arrays(steps, lanes))
        plain, kernel = (scan.recur(*args, fixed=bias, reverse=reverse, backend=b) for b in ("plain", "interpret"))
        assert plain[0][0].shape == lanes
        same(kernel, plain)


def test_steps_run_in_the_order_asked_for():
    def last(_, carry, x):
        return x, carry

    xs = jnp.arange(4.0)[:, None]
    for backend in ("plain", "interpret"):
        assert scan.recur(last, jnp.array([9.0]), xs, backend=backend)[1].ravel().tolist() == [9, 0, 1, 2]
        assert scan.recur(last, jnp.array([9.0]), xs, reverse=True, backend=backend)[1].ravel().tolist() == [1, 2, 3, 9]


@pytest.mark.parametrize("lanes", [(3, 5), (2, 3, 4)])
def test_parts_are_stacked_on_an_axis(lanes):
    wide, _ = arrays(4, lanes)
    stacked = Stacked(jnp.stack([wide, 10 * wide, 100 * wide], axis=2))  # [T, B, parts, …]

    def add(_, total, parts):
        total = total + parts.total
        return total, Parts((total, -total))

    for backend in ("plain", "interpret"):
        total, out = scan.recur(add, jnp.zeros(lanes), stacked, backend=backend)
        np.testing.assert_allclose(total, 111 * wide.sum(0), rtol=1e-12)
        assert out.array.shape == (4, lanes[0], 2, *lanes[1:])
        np.testing.assert_allclose(out.array[:, :, 0], 111 * wide.cumsum(0), rtol=1e-12)
        np.testing.assert_allclose(out.array[:, :, 1], -111 * wide.cumsum(0), rtol=1e-12)


@pytest.mark.parametrize("backend", ["plain", "interpret"])
def test_replace_updates_and_adds_up(backend):
    old, per_sample = arrays(6, (4, 3))

    def double(_, total, rows, x):
        (row,) = rows
        return total + x * row, (2 * row,), row + 1

    total, (new,), ys = scan.replace(double, jnp.zeros((4, 3)), (old,), per_sample, backend=backend)
    np.testing.assert_allclose(total, (per_sample * old).sum(0), rtol=1e-12)
    np.testing.assert_array_equal(new, 2 * old)
    np.testing.assert_array_equal(ys, old + 1)


def test_kernels_work_under_vmap():
    wide, per_sample = arrays(4, (3, 5))
    stack = jnp.stack([wide, 2 * wide])

    def run(w, b):
        carry = (jnp.zeros((3, 5)), jnp.zeros(()))
        return scan.recur(step, carry, (w, per_sample), fixed=jnp.ones(()), backend=b)

    kernel, plain = (jax.vmap(lambda w, b=b: run(w, b))(stack) for b in ("interpret", "plain"))
    same(kernel, plain)


@pytest.mark.usefixtures("for_a_gpu")
def test_a_step_that_holds_an_array_runs_plainly():
    """A kernel cannot use an array from outside the step, such as the learned slope of a surrogate."""
    slope = jnp.arange(5.0)

    def holds(_, u, x):
        return slope * u + x, u

    wide, _ = arrays(3, (2, 5))
    assert isinstance(pallas.kernel(holds, None, wide[0], wide), pallas.NoKernel)
    assert isinstance(pallas.kernel(step, jnp.zeros(()), (wide[0], jnp.zeros(())), arrays(3, (2, 5))), pallas.Kernel)
    with pytest.warns(UserWarning, match="'holds' has no fused kernel.* plain loop .*uses an array from outside of it"):
        fused = scan.recur(holds, wide[0], wide, backend="interpret")
    same(fused, scan.recur(holds, wide[0], wide))


@pytest.mark.usefixtures("for_a_gpu")
@pytest.mark.parametrize(
    ("mixes", "reason"),
    [
        (lambda _, u, x: (u + x - u.mean(), u), "it uses 'reduce_sum', in which neurons see each other"),
        (lambda _, u, x: (jax.scipy.special.betainc(u, u, x), u), "[A-Z][a-z]+"),
    ],
)
def test_the_warning_says_why_there_is_no_kernel(mixes, reason):
    wide, _ = arrays(3, (2, 5))
    with pytest.warns(UserWarning, match=f"has no fused kernel.*The reason: {reason}"):
        same(scan.recur(mixes, wide[0], wide, backend="pallas"), scan.recur(mixes, wide[0], wide))


@pytest.mark.usefixtures("for_a_gpu")
def test_equal_steps_share_a_kernel_and_different_ones_do_not():
    def make(leak, shape=(2, 5), **how):
        def decay(_, u, x):
            return leak * u + x, u

        return pallas.kernel(decay, None, jnp.zeros(shape), jnp.zeros((3, *shape)), **how)

    near = float(np.nextafter(np.float32(0.9), np.float32(1)))
    assert make(0.9) == make(0.9)
    assert len({make(0.9), make(near), make(0.9, reverse=True), make(0.9, (5, 2)), make(0.9, interpret=True)}) == 5


def test_without_kernels_plain_loops_give_the_same_with_a_warning(monkeypatch):
    wide, _ = arrays(3, (2, 5))

    def decay(_, u, x):
        return 0.9 * u + x, u

    expected = scan.recur(decay, wide[0], wide)
    monkeypatch.setitem(sys.modules, "otpe.scan.pallas", None)
    monkeypatch.delattr(scan, "pallas")
    with pytest.warns(
        UserWarning, match=f"jax {jax.__version__} cannot make the kernels of otpe .*plain loops run instead"
    ):
        same(scan.recur(decay, wide[0], wide, backend="pallas"), expected)


def test_unrolled_loops_cover_every_step(monkeypatch):
    wide, _ = arrays(23, (2, 3))

    def count(_, n, x):
        return n + 1, n * x

    for unroll in (1, 4, 23, 50):
        monkeypatch.setattr(pallas, "INTERPRETED_UNROLL", unroll)
        n, ys = scan.recur(count, jnp.zeros((2, 3)), wide, backend="interpret")
        assert n.tolist() == [[23.0] * 3] * 2
        np.testing.assert_allclose(ys, jnp.arange(23.0)[:, None, None] * wide)
