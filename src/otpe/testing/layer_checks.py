"""Checks for linear maps. Each takes a map and raises an AssertionError that says what is wrong.

otpe.testing.check_layer(MyLayer(…))
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import layers
from otpe.layers.compose import description, shown
from otpe.testing.assertions import require, require_value, same

SAMPLES = 3
ROWS, MATRIX = ("rows", "to_rows", "from_rows"), ("to_matrix", "from_matrix")


class Case(NamedTuple):
    """A map with random parameters and data."""

    layer: Any
    params: Any
    other_params: Any
    x: Array  # inputs    [N, *in]
    y: Array  # other inputs    [N, *in]
    m: Array  # a signal    [N, *out]
    one: Array  # the input of the bias, a different number for each sample    [N, 1, …]

    @property
    def name(self) -> str:
        return description(self.layer)


def check_layer(layer: Any) -> None:
    """Run all checks on a map."""
    check_contract(layer)
    check_init(layer)
    case = _case(layer)
    for check in CHECKS:
        check(case)


def check_contract(layer: Any) -> None:
    """Shapes are tuples, and maps with the same settings are equal, so that they are compiled once."""
    name = description(layer)
    for what in ("in_shape", "out_shape"):
        shape = getattr(layer, what, None)
        fits = isinstance(shape, tuple) and all(isinstance(n, int | np.integer) and n > 0 for n in shape)
        require(fits and shape, f"{name}: {what} is {shape!r}, expected a tuple of whole numbers above 0")
    try:
        hash(layer)
    except TypeError as error:
        raise AssertionError(
            f"{name} cannot be hashed ({error}): make it a frozen dataclass whose fields are numbers, strings or"
            " tuples, and no arrays."
        ) from None
    require_value(layer, name)
    for group in (ROWS, MATRIX):
        present = [part for part in group if hasattr(layer, part)]
        require(len(present) in (0, len(group)), f"{name} has {present} of {list(group)}, expected all of them or none")


def check_init(layer: Any) -> None:
    """Initial parameters are finite, have the requested type, and are the same for the same key."""
    name = description(layer)
    for dtype in {jnp.dtype(jnp.float32), jnp.zeros(()).dtype}:  # also float64, with `jax_enable_x64`
        first, again = (jax.tree.leaves(layer.init(jax.random.key(0), dtype)) for _ in range(2))
        for a, b in zip(first, again, strict=True):
            require(a.dtype == dtype, f"{name}: init gave parameters of type {a.dtype}, expected {dtype}")
            require(jnp.isfinite(a).all(), f"{name}: init gave a parameter that is not finite")
            require(np.array_equal(a, b), f"{name}: init gave different parameters for the same key")


def check_shapes(case: Case) -> None:
    """The current has the shape [N, *out_shape], whether `one` is a number or an array."""
    layer, name = case.layer, case.name
    expected = (SAMPLES, *layer.out_shape)
    for one in (1.0, case.one):
        try:
            c = layer.apply(case.params, case.x, one)
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"{name}: apply fails for inputs {shown(case.x.shape)} and `one` {shown(np.shape(one))}: {error}"
            ) from error
        require(c.shape == expected, f"{name}: apply gave the shape {shown(c.shape)}, expected {shown(expected)}")
        require(c.dtype == case.x.dtype, f"{name}: apply gave the type {c.dtype} for {case.x.dtype}, expected the same")


def check_linear_in_inputs(case: Case) -> None:
    """Without bias, a zero input gives no current, and a sum of inputs gives the sum of the currents."""
    layer, params, name = case.layer, case.params, case.name
    silent = layer.apply(params, jnp.zeros_like(case.x), 0.0)
    wrong = f"{name}: a zero input with `one` 0 gives a current, expected none. Multiply the bias by `one`"
    require(not silent.any(), wrong)
    given = layer.apply(params, case.x + 2 * case.y, 0.0)
    expected = layer.apply(params, case.x, 0.0) + 2 * layer.apply(params, case.y, 0.0)
    _equal(given, expected, f"{name} is not linear in its input: apply(x + 2 y), and apply(x) + 2 apply(y)")


def check_samples_are_apart(case: Case) -> None:
    """The current of a sample does not depend on the other samples."""
    layer, params = case.layer, case.params
    alone = [layer.apply(params, case.x[n : n + 1], case.one[n : n + 1]) for n in range(SAMPLES)]
    given = layer.apply(params, case.x, case.one)
    _equal(given, jnp.concatenate(alone), f"{case.name}: the currents of a batch, and of its samples one by one")


def check_linear_in_parameters(case: Case) -> None:
    """A sum of parameters gives the sum of the currents."""
    layer, x = case.layer, case.x
    given = layer.apply(jax.tree.map(lambda p, q: p + 2 * q, case.params, case.other_params), x, case.one)
    expected = layer.apply(case.params, x, case.one) + 2 * layer.apply(case.other_params, x, case.one)
    if jax.tree.leaves(case.params):
        what = f"{case.name} is not linear in its parameters: the current of p + 2 q, and of p and q,"
        _equal(given, expected, what)


def check_bias(case: Case) -> None:
    """The bias is a weight whose only input is `one`."""
    layer, params = case.layer, case.params
    bias = layer.apply(params, jnp.zeros_like(case.x), 1.0)
    for one in (2.0, case.one):
        expected = layer.apply(params, case.x, 0.0) + one * bias
        given = layer.apply(params, case.x, one)
        _equal(given, expected, f"{case.name}: the current with `one` {shown(np.shape(one))}, and W x + one · bias")


def check_transpose(case: Case) -> None:
    """Signals and gradients computed by transposition, as rules do it, equal those of automatic differentiation."""
    layer, params, name = case.layer, case.params, case.name
    _, back = jax.vjp(lambda p, x: layer.apply(p, x), params, case.x)
    dw, q = back(case.m)
    pairs: list[tuple[str, Any, Callable[[], Any]]] = [("input", q, lambda: layers.transpose(layer, params, case.m))]
    if jax.tree.leaves(params):
        pairs.append(("parameters", dw, lambda: layers.gradient(layer, params, case.x, case.m)))
    for what, expected, transposed in pairs:
        try:
            given = transposed()
        except Exception as error:  # JAX raises different exceptions for different primitives
            wrong = f"{name}: jax.linear_transpose cannot transpose apply in its {what}: {error}"
            raise AssertionError(wrong) from error
        _equal(given, expected, f"{name}: the transpose in its {what}, and jax.vjp")


def check_rows(case: Case) -> None:
    """For each sample, the gradient computed by rows equals that of automatic differentiation."""
    layer, params, name = case.layer, case.params, case.name
    if not isinstance(case.layer, layers.WeightRows):
        return
    rows, expected = layer.to_rows(case.x), (SAMPLES, layer.rows, *layer.out_shape)
    try:
        rows = jnp.broadcast_to(rows, expected)
    except ValueError:
        raise AssertionError(
            f"{name}: to_rows gave the shape {shown(rows.shape)}, expected one that broadcasts to {shown(expected)}:"
            " samples, rows and out_shape."
        ) from None
    for n in range(SAMPLES):
        _, back = jax.vjp(lambda p, n=n: layer.apply(p, case.x[n : n + 1]), params)
        given, (expected_dw,) = layer.from_rows(rows[n] * case.m[n]), back(case.m[n : n + 1])
        _equal(given, expected_dw, f"{name}: the gradient by to_rows and from_rows, and jax.vjp")


def check_matrix(case: Case) -> None:
    """The matrix and the bias give the same current and gradient as `apply`."""
    layer, params, name = case.layer, case.params, case.name
    if not isinstance(case.layer, layers.Matrix):
        return
    kernel, bias = layer.to_matrix(params)
    _equal(case.x @ kernel + bias, layer.apply(params, case.x), f"{name}: x W + bias of to_matrix, and apply")
    _, back = jax.vjp(lambda p: layer.apply(p, case.x), params)
    given = layer.from_matrix(case.x.T @ case.m, case.m.sum(0))
    _equal(given, back(case.m)[0], f"{name}: the gradient by from_matrix, and jax.vjp")


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_shapes, check_linear_in_inputs, check_samples_are_apart, check_linear_in_parameters, check_bias,
    check_transpose, check_rows, check_matrix,
)  # fmt: skip


def _equal(given: Any, expected: Any, what: str) -> None:
    """Raise AssertionError unless two pytrees have the same structure and shapes and are equal up to rounding."""
    shapes = [jax.tree.map(lambda leaf: list(np.shape(leaf)), tree) for tree in (given, expected)]
    require(shapes[0] == shapes[1], f"{what}, differ in shape: {shapes[0]} and {shapes[1]}")
    same(given, expected, what)


def _case(layer: Any) -> Case:
    dtype = jnp.zeros(()).dtype
    rng = np.random.default_rng(0)

    def random(shape: tuple[int, ...]) -> Array:
        return jnp.asarray(rng.standard_normal(shape), dtype)

    like = layer.init(jax.random.key(0), dtype)
    params, other_params = (jax.tree.map(lambda p: random(p.shape), like) for _ in range(2))
    x, y = (random((SAMPLES, *layer.in_shape)) for _ in range(2))
    m = random((SAMPLES, *layer.out_shape))
    return Case(layer, params, other_params, x, y, m, random((SAMPLES, *(1,) * len(layer.out_shape))))
