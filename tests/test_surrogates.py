"""Surrogates: their formulas, their areas, and that equal ones share a compiled program."""

import jax.numpy as jnp
import numpy as np
import pytest

import otpe

AT = np.array([-0.6, 0.0, 0.3])
FORMULAS = [
    (otpe.fast_sigmoid(25.0), 1 / (25 * abs(AT) + 1) ** 2),
    (otpe.superspike(10.0), 10 / (10 * abs(AT) + 1) ** 2),
    (otpe.superspike(10.0, scaled=False), 1 / (10 * abs(AT) + 1) ** 2),
    (otpe.arctan(2.0), 1 / (1 + (np.pi * AT) ** 2)),
    (otpe.triangular(0.5, 0.3), [0, 0.3, 0.3 * 0.4]),
    (otpe.gaussian(0.5), np.exp(-2 * AT**2) / (0.5 * np.sqrt(2 * np.pi))),
]


@pytest.mark.parametrize(("surrogate", "expected"), FORMULAS, ids=[repr(s) for s, _ in FORMULAS])
def test_surrogates_follow_their_formula(surrogate, expected):
    np.testing.assert_allclose(surrogate(jnp.asarray(AT)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("surrogate", "area"),
    [(otpe.superspike(10.0), 2), (otpe.superspike(50.0), 2), (otpe.fast_sigmoid(25.0), 2 / 25), (otpe.arctan(3.0), 1),
     (otpe.gaussian(0.2), 1), (otpe.triangular(2.0, 0.5), 1)],
)  # fmt: skip
def test_surrogates_have_their_area(surrogate, area):
    d = np.sinh(np.linspace(-20, 20, 400_001))  # a grid that is fine at zero and wide enough for the tails
    assert np.trapezoid(np.asarray(surrogate(jnp.asarray(d))), d) == pytest.approx(area, rel=1e-3)


def test_surrogates_are_equal_by_value():
    assert otpe.fast_sigmoid(25) == otpe.fast_sigmoid(25.0)
    assert hash(otpe.dense([2, 2], surrogate=otpe.gaussian(0.3))) == hash(
        otpe.dense([2, 2], surrogate=otpe.gaussian(0.3))
    )
    assert otpe.dense([2, 2], leak=0.9) != otpe.dense([2, 2], leak=0.8)


def test_any_function_can_be_a_surrogate():
    net = otpe.dense([2, 2], surrogate=lambda d: jnp.exp(-jnp.abs(d)))
    params = (otpe.Dense(jnp.ones((2, 2)), jnp.zeros(2)),)
    _, grads = otpe.gradients(net, params, np.ones((3, 1, 2)), [0])
    assert all(jnp.abs(g).sum() > 0 for g in grads[0])
