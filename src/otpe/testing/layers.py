"""Checks that any map must pass. Each takes a map and raises an AssertionError that says what is wrong.

    otpe.testing.check_layer(MyLayer(…))

With `jax_enable_x64` turned on, equalities are held to 1e-10.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import layers
from otpe.layers.compose import shown, words
from otpe.testing.checks import same
from otpe.testing.oracles import require

SAMPLES = 3
ROWS, MATRIX = ("rows", "to_rows", "from_rows"), ("to_matrix", "from_matrix")


class Case(NamedTuple):
    """A map with random parameters and data."""

    layer: Any
    params: Any
    others: Any  # parameters too
    x: Array  # inputs             [N, *in]
    y: Array  # inputs too         [N, *in]
    m: Array  # a signal           [N, *out]
    one: Array  # of the bias, another number for each sample    [N, 1, …]


def check_layer(layer: Any) -> None:
    """Run a map through every check."""
    check_contract(layer)
    check_init(layer)
    case = _case(layer)
    for check in CHECKS:
        check(case)


def check_contract(layer: Any) -> None:
    """Shapes are tuples, and two maps that are built alike are equal, so that they are compiled once."""
    name = words(layer)
    for what in ("in_shape", "out_shape"):
        shape = getattr(layer, what, None)
        whole = isinstance(shape, tuple) and all(isinstance(n, int | np.integer) and n > 0 for n in shape)
        require(whole and shape, f"{name}: {what} is {shape!r}, expected a tuple of whole numbers above 0")
    try:
        hash(layer)
    except TypeError as error:
        raise AssertionError(
            f"{name} cannot be hashed ({error}): make it a frozen dataclass whose fields are numbers, strings or"
            " tuples, and no arrays."
        ) from None
    twin = copy.deepcopy(layer)
    alike = twin == layer and hash(twin) == hash(layer)
    require(
        alike, f"{name} differs from a copy of itself: make it a frozen dataclass, so that equal ones compare equal"
    )
    for group in (ROWS, MATRIX):
        there = [part for part in group if hasattr(layer, part)]
        require(len(there) in (0, len(group)), f"{name} has {there} of {list(group)}, expected all of them or none")


def check_init(layer: Any) -> None:
    """Parameters are finite, of the type that was asked for, and the same for the same key."""
    name = words(layer)
    for dtype in {jnp.dtype(jnp.float32), jnp.zeros(()).dtype}:  # also float64, where it is turned on
        first, again = (jax.tree.leaves(layer.init(jax.random.key(0), dtype)) for _ in range(2))
        for a, b in zip(first, again, strict=True):
            require(a.dtype == dtype, f"{name}: init gave parameters of type {a.dtype}, expected {dtype}")
            require(jnp.isfinite(a).all(), f"{name}: init gave a parameter that is not finite")
            require(np.array_equal(a, b), f"{name}: init gave different parameters for the same key")


def check_shapes(case: Case) -> None:
    """The current has the shape [N, *out_shape], for a bias driven by a number and by an array."""
    layer, name = case.layer, words(case.layer)
    wanted = (SAMPLES, *layer.out_shape)
    for one in (1.0, case.one):
        try:
            c = layer.apply(case.params, case.x, one)
        except (TypeError, ValueError) as error:
            raise AssertionError(
                f"{name}: apply fails for inputs {shown(case.x.shape)} and `one` {shown(np.shape(one))}: {error}"
            ) from error
        require(c.shape == wanted, f"{name}: apply gave the shape {shown(c.shape)}, expected {shown(wanted)}")
        require(c.dtype == case.x.dtype, f"{name}: apply gave the type {c.dtype} for {case.x.dtype}, expected the same")


def check_linear_in_inputs(case: Case) -> None:
    """Without bias, nothing in gives nothing out, and a sum of inputs gives the sum of the currents."""
    layer, params, name = case.layer, case.params, words(case.layer)
    silent = layer.apply(params, jnp.zeros_like(case.x), 0.0)
    require(
        not silent.any(), f"{name}: a zero input with `one` 0 gives a current, expected none. Multiply the bias by one"
    )
    given = layer.apply(params, case.x + 2 * case.y, 0.0)
    wanted = layer.apply(params, case.x, 0.0) + 2 * layer.apply(params, case.y, 0.0)
    _equal(given, wanted, f"{name} is not linear in its input: apply(x + 2 y), and apply(x) + 2 apply(y)")


def check_samples_are_apart(case: Case) -> None:
    """What a sample gives does not depend on the other samples."""
    layer, params = case.layer, case.params
    alone = [layer.apply(params, case.x[n : n + 1], case.one[n : n + 1]) for n in range(SAMPLES)]
    given = layer.apply(params, case.x, case.one)
    _equal(given, jnp.concatenate(alone), f"{words(layer)}: the currents of a batch, and of its samples one by one")


def check_linear_in_parameters(case: Case) -> None:
    layer, x = case.layer, case.x
    given = layer.apply(jax.tree.map(lambda p, q: p + 2 * q, case.params, case.others), x, case.one)
    wanted = layer.apply(case.params, x, case.one) + 2 * layer.apply(case.others, x, case.one)
    if jax.tree.leaves(case.params):
        _equal(
            given, wanted, f"{words(layer)} is not linear in its parameters: the current of p + 2 q, and of p and q,"
        )


def check_bias(case: Case) -> None:
    """The bias is a weight whose input is `one`: nothing else drives it."""
    layer, params = case.layer, case.params
    bias = layer.apply(params, jnp.zeros_like(case.x), 1.0)
    for one in (2.0, case.one):
        wanted = layer.apply(params, case.x, 0.0) + one * bias
        given = layer.apply(params, case.x, one)
        _equal(given, wanted, f"{words(layer)}: the current with `one` {shown(np.shape(one))}, and W x + one · bias")


def check_transpose(case: Case) -> None:
    """The signal and the gradient that rules make by transposition are those of automatic differentiation."""
    layer, params, name = case.layer, case.params, words(case.layer)
    _, back = jax.vjp(lambda p, x: layer.apply(p, x), params, case.x)
    dw, q = back(case.m)
    pairs: list[tuple[str, Any, Callable[[], Any]]] = [("input", q, lambda: layers.transpose(layer, params, case.m))]
    if jax.tree.leaves(params):
        pairs.append(("parameters", dw, lambda: layers.gradient(layer, params, case.x, case.m)))
    for what, wanted, transposed in pairs:
        try:
            given = transposed()
        except Exception as error:  # each primitive refuses in its own way
            raise AssertionError(
                f"{name}: jax.linear_transpose cannot transpose apply in its {what}: {error}"
            ) from error
        _equal(given, wanted, f"{name}: the transpose in its {what}, and jax.vjp")


def check_rows(case: Case) -> None:
    """A trace per weight gives the gradient of automatic differentiation, sample by sample."""
    layer, params, name = case.layer, case.params, words(case.layer)
    if not isinstance(case.layer, layers.WeightRows):
        return
    rows, wanted = layer.to_rows(case.x), (SAMPLES, layer.rows, *layer.out_shape)
    try:
        rows = jnp.broadcast_to(rows, wanted)
    except ValueError:
        raise AssertionError(
            f"{name}: to_rows gave the shape {shown(rows.shape)}, expected one that broadcasts to {shown(wanted)}:"
            " samples, rows and out_shape."
        ) from None
    for n in range(SAMPLES):
        _, back = jax.vjp(lambda p, n=n: layer.apply(p, case.x[n : n + 1]), params)
        given, (wanted_dw,) = layer.from_rows(rows[n] * case.m[n]), back(case.m[n : n + 1])
        _equal(given, wanted_dw, f"{name}: the gradient by to_rows and from_rows, and jax.vjp")


def check_matrix(case: Case) -> None:
    """The matrix and the bias are those of `apply`."""
    layer, params, name = case.layer, case.params, words(case.layer)
    if not isinstance(case.layer, layers.Matrix):
        return
    kernel, bias = layer.to_matrix(params)
    _equal(case.x @ kernel + bias, layer.apply(params, case.x), f"{name}: x W + bias of to_matrix, and apply")
    _, back = jax.vjp(lambda p: layer.apply(p, case.x), params)
    given = layer.from_matrix(case.x.T @ case.m, case.m.sum(0))
    _equal(given, back(case.m)[0], f"{name}: the gradient by from_matrix, and jax.vjp")


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_shapes,
    check_linear_in_inputs,
    check_samples_are_apart,
    check_linear_in_parameters,
    check_bias,
    check_transpose,
    check_rows,
    check_matrix,
)


def _equal(given: Any, wanted: Any, what: str) -> None:
    """Two pytrees have the same structure and shapes, and are equal to rounding."""
    shapes = [jax.tree.map(lambda leaf: list(np.shape(leaf)), tree) for tree in (given, wanted)]
    require(shapes[0] == shapes[1], f"{what}, differ in shape: {shapes[0]} and {shapes[1]}")
    same(given, wanted, what)


def _case(layer: Any) -> Case:
    dtype = jnp.zeros(()).dtype
    rng = np.random.default_rng(0)

    def random(shape: tuple[int, ...]) -> Array:
        return jnp.asarray(rng.standard_normal(shape), dtype)

    like = layer.init(jax.random.key(0), dtype)
    params, others = (jax.tree.map(lambda p: random(p.shape), like) for _ in range(2))
    x, y = (random((SAMPLES, *layer.in_shape)) for _ in range(2))
    m = random((SAMPLES, *layer.out_shape))
    return Case(layer, params, others, x, y, m, random((SAMPLES, *(1,) * len(layer.out_shape))))
