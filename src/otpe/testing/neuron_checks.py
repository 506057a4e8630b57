"""Checks for neurons. The AssertionError says what is wrong, and in which entry.

    otpe.testing.check_neuron(MyNeuron(…))

`linearise` is compared with `jax.jvp` through `step`, for many random neurons, half of them near their threshold:

  as a whole       ∂s_{t+n}/∂c_t by `step` equals h_{t+n} A_{t+n-1} … A_t b, for all t and n of a trajectory
  entry by entry   If the state of `step` has k arrays, state i of `linearise` is array i, before the spike changes it.
                   Then A, b and h follow from the derivatives of two steps, see `_wrong_entries`.

The tolerance for derivatives is 1e-7 with `jax_enable_x64`, else 5e-3.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import neurons, states
from otpe.neurons import contract
from otpe.testing.assertions import require, require_value

SAMPLES, STEPS = 16, 10
REACH = 30.0  # the smallest current of a spike is searched between −REACH and REACH
SMALL = 2.0**-10  # a difference that is exact in binary


class Point(NamedTuple):
    """One step of the neurons and its derivatives. The last axes of all arrays are [B, *shape], one per neuron."""

    before: Any  # the state before the step
    current: Array
    after: Any  # the state after the step
    output: np.ndarray
    J: np.ndarray  # by JAX: rows are the arrays of the new state, then the output; columns those of `before`, then c
    A: np.ndarray  # by linearise    [k, k, …]
    b: np.ndarray  # by linearise    [k]
    h: np.ndarray  # by linearise    [k, …]


class Case(NamedTuple):
    """A population and a trajectory."""

    kind: Any  # the neuron as the user gave it
    neuron: Any  # the neuron bound to its arrays
    shape: tuple[int, ...]
    points: list[Point]
    quiet: list[Point]  # from the same states as `points`, with currents that are too small for a spike

    @property
    def name(self) -> str:
        return type(self.kind).__name__


def check_neuron(neuron: Any, shape: tuple[int, ...] = (4,)) -> None:
    """Run all checks on a neuron, in a population of this shape."""
    check_contract(neuron)
    check_shapes(neuron, shape)
    case = _case(neuron, shape)
    for check in CHECKS:
        check(case)


def check_contract(neuron: Any) -> None:
    """It has the three methods, is hashable, and equals a copy of itself, so that equal neurons are compiled once."""
    try:
        contract.check_neuron(neuron)
    except TypeError as error:
        raise AssertionError(str(error)) from None
    name = type(neuron).__name__
    require_value(neuron, name)
    missing = [part for part in ("values", "with_values", "causes") if not hasattr(neuron, part)]
    if hasattr(neuron, "init"):
        lacks = f"{name} has init but not {' and '.join(missing)}"
        require(not missing, f"{lacks}: trained parameters need all four methods")


def check_shapes(neuron: Any, shape: tuple[int, ...]) -> None:
    """All arrays of `start` and `step` have one number per neuron, and `linearise` returns entries that fit."""
    name, dtype, full = type(neuron).__name__, jnp.zeros(()).dtype, (SAMPLES, *shape)
    one = _bound(neuron, shape)
    state = one.start(full, dtype)
    result = one.step(state, jnp.zeros(full, dtype))
    triple, given = isinstance(result, tuple) and len(result) == 3, type(result).__name__
    require(triple, f"step of {name} returned {given}, expected (state, output, kept), where linearise takes kept")
    after, output, kept = result
    same_structure = jax.tree.structure(state) == jax.tree.structure(after)
    require(same_structure, f"step of {name} returned a state of another structure than start")
    results = {"start": state, "the state of step": after, "the output of step": output}
    for what, tree in (results | {"the third result of step": kept}).items():
        for a in jax.tree.leaves(tree):
            given = f"the shape {list(np.shape(a))} and the type {a.dtype}"
            expected = f"the shape {list(full)} and the type {dtype}"
            require(given == expected, f"{name}: {what} has {given}, expected {expected}")
    try:
        at = neurons.derivatives(one, kept)
    except ValueError as error:
        raise AssertionError(str(error).removesuffix(".")) from None
    for what, entries in (("A", sum(states.rows(at.A), ())), ("h", states.entries(at.h))):
        for a in entries:
            fits = np.broadcast_shapes(np.shape(a), full) == full
            require(fits, f"linearise of {name}: an entry of {what} has the shape {np.shape(a)}, expected {full}")


def check_finite(case: Case) -> None:
    """A, h and the output are finite."""
    for point in case.points:
        for what, a in (("A", point.A), ("h", point.h), ("the output", point.output)):
            require(
                np.isfinite(a).all(),
                f"{case.name}: {what} is {_first(~np.isfinite(a), a):g} at some step, expected finite numbers. A"
                " frequent cause is a surrogate with a power or a division that fails",
            )


def check_output(case: Case) -> None:
    """If the class has spiking = True, all outputs are 0 or 1."""
    if not neurons.is_spiking(case.kind):
        return
    for point in case.points:
        binary = np.isin(point.output, (0, 1))
        given = _first(~binary, point.output)
        require(binary.all(), f"{case.name} says that it is spiking, but its output is {given:g}, expected 0 or 1")


def check_elementwise(case: Case) -> None:
    """A neuron does not depend on other neurons or other samples: a change in one neuron changes no other."""
    changed, runs = (0,) * (1 + len(case.shape)), []
    for change in (0.0, 0.7):
        state, results = case.points[0].before, []
        for point in case.points:
            state, output, kept = case.neuron.step(state, point.current.at[changed].add(change))
            at = neurons.derivatives(case.neuron, kept)
            step = (state, output, at.A, at.h)
            results.append(jax.tree.map(lambda a: np.broadcast_to(a, point.current.shape), step))  # noqa: B023
        runs.append(jax.tree.leaves(results))
    for a, b in zip(*runs, strict=True):
        others_differ = a != b
        others_differ[changed] = False
        require(
            not others_differ.any(), f"{case.name}: another current in one neuron changed another neuron. All of step"
            " and linearise must be elementwise: no sums or means over neurons or samples",
        )  # fmt: skip


def check_linearise(case: Case) -> None:
    """A, b and h are the derivatives of step."""
    wrong = _wrong_entries(case)
    whole = _wrong_response(case)
    if whole or (wrong and _same_states(case, wrong)):
        fix = (
            ". Correct linearise; state i is array i of the state that step carries, before the spike changes it"
            if wrong
            else ". Correct linearise: the derivatives go through the spike too, by the surrogate"
        )
        raise AssertionError(f"linearise of {case.name}: {'; '.join(wrong[:3]) or whole}{fix}.")


def check_leaks(case: Case) -> None:
    """leaks() is A without spikes."""
    measured = _measured_leaks(case)
    if measured is None or _wrong_entries(case) or not hasattr(case.neuron, "leaks"):
        return
    wrong = _wrong_leaks(case, measured)
    require(not wrong, f"{case.name}: {'; '.join(wrong)}")


def check_poles(case: Case) -> None:
    """A current acts on the output as a chain of leaky sums does, unless the class defines `poles`."""
    try:
        poles = neurons.poles(case.kind)
    except ValueError as error:
        raise AssertionError(str(error).removesuffix(".")) from None
    given = f"poles of {case.name} are {poles!r}"
    require(poles, f"{given}, expected the states that a current passes on its way to the output")
    drives_output = any(np.any(point.h[poles[-1]]) for point in case.points)
    require(drives_output, f"{given}, but state {poles[-1]} does not drive the output: the membrane is last")
    if hasattr(case.kind, "poles"):
        return
    rows = states.rows(neurons.leak_matrix(case.kind, None, case.shape))
    leaks = np.array([[_number(a) for a in row] for row in rows])
    z, sums = np.array(case.points[0].b, float), np.zeros(len(poles))
    for n in range(8):
        passed = float(n == 0)
        for i, pole in enumerate(poles):
            passed = sums[i] = leaks[pole, pole] * sums[i] + passed
        same = abs(z[poles[-1]] - passed) <= 1e-3
        require(
            same, f"{case.name}: {n} steps after a current of 1 its membrane is {z[poles[-1]]:g}, but a chain of leaky"
            f" sums through the states {poles} gives {passed:g}. Rules with stages are then not exact, even where"
            f" neurons are linear. If this is intended, say so in the class: poles = {poles}",
        )  # fmt: skip
        z = leaks @ z


def check_trained(case: Case) -> None:
    """The derivative of the outputs by each trained parameter, computed with causes(), equals that of step."""
    dtype, points = jnp.zeros(()).dtype, case.points
    trained = neurons.trained(case.kind, case.shape, dtype)
    if not trained:
        return
    values = neurons.values(case.kind, trained, case.shape, dtype)
    missing = sorted(set(trained) - set(values))
    require(not missing, f"values of {case.name} lack {', '.join(missing)}, which init returned")
    values = {name: jnp.broadcast_to(value, points[0].current.shape) for name, value in values.items()}
    for name in trained:
        by_rule, by_step = np.zeros_like(points[0].h), np.zeros(points[0].J[:-1, -1].shape)
        for t, point in enumerate(points):
            causes = case.neuron.causes(point.before)
            require(name in causes, f"causes of {case.name} lack {name}, which init returned")
            x, e = causes[name]
            direct = np.stack([_number(part) * np.asarray(x) for part in states.entries(e)])
            A = points[t - 1].A if t else np.zeros_like(point.A)
            by_rule = np.einsum("ij...,j...->i...", A, by_rule) + direct
            total = np.einsum("ij...,j...->i...", point.J[:, :-1], by_step) + _by_value(case, values, name, point)
            by_step, given, expected = total[:-1], (point.h * by_rule).sum(0), total[-1]
            bad = ~_close(given, expected)
            require(
                not bad.any(), f"{case.name}: by causes(), the derivative of the output by {name} is"
                f" {_first(bad, given):.4g} at step {t}, but by step it is {_first(bad, expected):.4g}. causes(state)"
                f" must return (x, e) with ∂z/∂{name} = e x; its argument is the state before the step",
            )  # fmt: skip


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_finite, check_output, check_elementwise, check_linearise, check_leaks, check_poles, check_trained,
)  # fmt: skip


# linearise


def _wrong_response(case: Case) -> str:
    """Return what is wrong with the derivative of the outputs by earlier currents, or an empty text."""
    points = case.points
    for start, first in enumerate(points):
        z, carried = np.zeros_like(first.h) + _columns(first.b, first.h), first.J[:-1, -1]
        for n, point in enumerate(points[start:]):
            given = (point.h * z).sum(0)
            expected = point.J[-1, -1] if n == 0 else (point.J[-1, :-1] * carried).sum(0)
            bad = ~_close(given, expected)
            if bad.any():
                before = {0: "of the same step", 1: "one step before"}.get(n, f"{n} steps before")
                product = "h b" if n == 0 else "h A b" if n == 1 else f"h A{'¹²³⁴⁵⁶⁷⁸⁹'[n - 1]} b"
                return (
                    f"the derivative of the output by the current {before} is {_first(bad, given):.4g} by {product},"
                    f" but {_first(bad, expected):.4g} by step"
                )
            if n:
                carried = np.einsum("ij...,j...->i...", point.J[:-1, :-1], carried)
            z = np.einsum("ij...,j...->i...", point.A, z)
    return ""


def _wrong_entries(case: Case) -> list[str]:
    """Return a sentence for each entry of b, h and A that differs from the derivatives of step.

    The list is empty if step does not determine the entries. x_t is the state of step, s_t the output. With
    P_t = ∂z_{t+1}/∂x_t and M_t = ∂x_t/∂z_t,

        A_t = P_t M_t        ∂x_t/∂x_{t-1} = M_t P_{t-1}        ∂x_t/∂c_t = M_t b        ∂s_t/∂x_{t-1} = h_t P_{t-1}

    Without a spike, M = 1 + w h for some w. So P_t is ∂x_{t+1}/∂x_t − w ∂s_{t+1}/∂x_t, and w follows from ∂x/∂c. P does
    not depend on the current, so it can be computed with a current that is too small for a spike.

    For example, the LIF neuron has z = v and x = v − θ s. So P = λ, h = g, M = 1 − θ g, w = −θ and A = λ(1 − θ g).
    """
    first = case.points[0]
    if len(first.J) - 1 != len(first.b):
        return []
    wrong = _compare("b", _columns(first.b, first.h), _measured_b(case), "state {} by the current", first)
    if wrong:
        return wrong
    P = [matrix for matrix in map(_measured_P, case.quiet) if matrix is not None]
    if len(P) < len(case.quiet):
        return []
    sentences = {}  # the first one for each entry
    for t, point in enumerate(case.points[:-1]):
        M, h = _solved(point, np.concatenate([P[t], _columns(point.b, point.h)[:, None]], 1))
        A = np.einsum("ij...,jk...->ik...", P[t + 1], M)
        for line in (
            *_compare("h", point.h, h, "the output by state {}", point),
            *_compare("A", point.A, A, "state {} by state {} one step before", point),
        ):
            sentences.setdefault(line.split(" is ")[0], line)
    return list(sentences.values())


def _solved(point: Point, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return M and h, given J = M [P, b] and h [P, b], and `known` = [P, b]. They are NaN if its rank is below k."""
    known, J = (np.moveaxis(a, (0, 1), (-2, -1)) for a in (known, point.J))
    full_rank = np.linalg.matrix_rank(known, tol=1e-4) == len(point.b)
    both = np.where(full_rank[..., None, None], J @ np.linalg.pinv(known), np.nan)
    both = np.moveaxis(both, (-2, -1), (0, 1))
    return both[:-1], both[-1]


def _measured_b(case: Case) -> np.ndarray:
    """Return b: the change of the states by a small change of the current, without a spike, per unit of current."""
    quiet = case.quiet[0]
    changed = case.neuron.step(quiet.before, quiet.current - SMALL)[0]
    pairs = zip(jax.tree.leaves(quiet.after), jax.tree.leaves(changed), strict=True)
    return np.stack([(np.asarray(a) - np.asarray(b)) / SMALL for a, b in pairs])


def _measured_P(quiet: Point) -> np.ndarray | None:
    """Return P [k, k, …] of `_wrong_entries`, or None if the derivatives do not determine it."""
    J, by_state, by_current = quiet.J[:-1, :-1], quiet.J[-1, :-1], quiet.J[-1, -1]
    nonzero = by_current != 0
    if (by_state[:, ~nonzero] != 0).any():
        return None
    w = np.where(nonzero, quiet.J[:-1, -1] - _columns(quiet.b, quiet.h), 0) / np.where(nonzero, by_current, 1)
    return J - w[:, None] * by_state[None]


def _same_states(case: Case, wrong: list[str]) -> bool:
    """Return whether the states of linearise must be those of step.

    A single state may be scaled. Several states may have other coordinates, if the class has leaks() for them. But if
    leaks() and b agree with step, the coordinates are the same.
    """
    measured = _measured_leaks(case)
    if len(case.points[0].b) == 1 or measured is None:
        return False
    return not hasattr(case.neuron, "leaks") or not (wrong[0].startswith("b") or _wrong_leaks(case, measured))


def _wrong_leaks(case: Case, measured: np.ndarray) -> list[str]:
    """Return a sentence for each entry of leaks() that differs from the measured leaks."""
    rows, full = contract._matrix(case.neuron.leaks(), len(measured), case.neuron), case.points[0].output.shape
    given = np.stack([np.stack([np.broadcast_to(a, full) for a in row]) for row in rows])
    return _compare("leaks()", given, measured, "state {} by state {} without spikes", case.points[0])


def _measured_leaks(case: Case) -> np.ndarray | None:
    """Return A without spikes [k, k, …], from steps with small states, or None if the state has not k arrays."""
    start = case.neuron.start(case.points[0].output.shape, jnp.zeros(()).dtype)
    initial, structure = jax.tree.flatten(start)
    if len(initial) != len(case.points[0].b):
        return None

    def after(leaves: list[Array]) -> np.ndarray:
        state = jax.tree.unflatten(structure, leaves)
        return np.stack(jax.tree.leaves(case.neuron.step(state, jnp.zeros_like(leaves[0]))[0]))

    unchanged = after(initial)
    columns = [after([a + SMALL * (i == j) for i, a in enumerate(initial)]) - unchanged for j in range(len(initial))]
    return np.stack(columns, 1) / SMALL


def _by_value(case: Case, values: dict[str, Array], name: str, point: Point) -> np.ndarray:
    """Return the derivatives of the state after a step, and of the output, by a trained parameter."""

    def step(value: Array) -> Any:
        state, output, _ = case.kind.with_values(values | {name: value}).step(point.before, point.current)
        return [*jax.tree.leaves(state), output]

    return np.stack(jax.jvp(step, (values[name],), (jnp.ones_like(values[name]),))[1])


def _compare(what: str, given: np.ndarray, expected: np.ndarray, derivative: str, point: Point) -> list[str]:
    """Return a sentence for each entry that differs somewhere. NaN in `expected` means unknown.

    `derivative` describes the entry in words, with {} for the numbers of the states.
    """
    sentences, single = [], len(point.b) == 1
    for index in np.ndindex(given.shape[: given.ndim - point.output.ndim]):
        bad = ~_close(given[index], expected[index]) & ~np.isnan(expected[index])
        if bad.any():
            label = what if single else what + "".join(f"[{i}]" for i in index)
            where = "with" if _first(bad, point.output) else "without"
            at = f" at a step {where} a spike" if what in ("A", "h") else ""
            of = derivative.replace("state {}", "the state") if single else derivative.format(*index)
            sentences.append(
                f"{label} is {_first(bad, given[index]):.4g}, but the derivative of {of} is"
                f" {_first(bad, expected[index]):.4g}{at}"
            )
    return sentences


# Cases


def _case(kind: Any, shape: tuple[int, ...]) -> Case:
    """Return a trajectory with random currents around the smallest current that makes each neuron spike."""
    neuron, dtype, rng = _bound(kind, shape), jnp.zeros(()).dtype, np.random.default_rng(0)
    state, full = neuron.start((SAMPLES, *shape), dtype), (SAMPLES, *shape)
    point = _differentiated_step(neuron)
    output = jax.jit(lambda state, c: neuron.step(state, c)[1])
    points, quiet = [], []
    for _ in range(STEPS):
        critical = _critical_current(output, state, full, dtype)
        distance = rng.choice([1e-3, 0.05, 0.5, 2.0], full) * rng.standard_normal(full)
        points.append(point(state, jnp.asarray(critical + distance, dtype)))
        quiet.append(point(state, jnp.asarray(critical - 1, dtype)))
        state = points[-1].after
    return Case(kind, neuron, shape, points, quiet)


def _critical_current(output: Any, state: Any, full: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return the smallest current that causes a spike, found by bisection, or 0 for neurons that do not spike."""
    low, high = jnp.full(full, -REACH, dtype), jnp.full(full, REACH, dtype)
    if not (np.isin(output(state, low), 0) & np.isin(output(state, high), 1)).all():
        return np.zeros(full)
    for _ in range(40):
        middle = (low + high) / 2
        spikes = output(state, middle) > 0
        low, high = jnp.where(spikes, low, middle), jnp.where(spikes, middle, high)
    return np.asarray(high)


def _differentiated_step(neuron: Any) -> Callable[[Any, Array], Point]:
    """Return a function that takes a state and a current, and returns the step and its derivatives."""

    @jax.jit
    def differentiated(before: Any, current: Array) -> tuple[Any, ...]:
        leaves, structure = jax.tree.flatten(before)

        def step(*given: Array) -> Any:
            after, output, kept = neuron.step(jax.tree.unflatten(structure, given[:-1]), given[-1])
            return [*jax.tree.leaves(after), output], (after, kept)

        given = [*leaves, current]
        columns = []
        for i in range(len(given)):
            ones = [jnp.full_like(a, i == j) for j, a in enumerate(given)]
            columns.append(jnp.stack(jax.jvp(step, given, ones, has_aux=True)[1]))
        outputs, (after, kept) = step(*given)
        at = neurons.derivatives(neuron, kept)

        def stacked(entries: Any) -> Array:
            return jnp.stack([jnp.broadcast_to(a, current.shape) for a in entries])

        A, h = jnp.stack([stacked(row) for row in states.rows(at.A)]), stacked(states.entries(at.h))
        b = jnp.stack([jnp.asarray(e, float) for e in states.entries(at.b)])
        return after, outputs[-1], jnp.stack(columns, 1), A, b, h

    def point(before: Any, current: Array) -> Point:
        after, *arrays = differentiated(before, current)
        return Point(before, current, after, *map(np.asarray, arrays))

    return point


def _bound(neuron: Any, shape: tuple[int, ...]) -> Any:
    """Return the neuron bound to its initial arrays."""
    dtype = jnp.zeros(()).dtype
    return neurons.bind(neuron, neurons.values(neuron, neurons.trained(neuron, shape, dtype), shape, dtype))


def _columns(b: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Repeat b, one number per state, for all neurons: [k] to the shape [k, …] of `like`."""
    return np.broadcast_to(b.reshape(-1, *(1,) * (like.ndim - 1)), like.shape)


def _close(given: np.ndarray, expected: np.ndarray) -> np.ndarray:
    tolerance = 1e-7 if jnp.zeros(()).dtype == jnp.float64 else 5e-3
    return np.abs(given - expected) <= tolerance * (1 + np.abs(expected))


def _first(where: np.ndarray, of: Any) -> float:
    """Return the first number where `where` is true, or 0."""
    return float(np.asarray(of)[where][0]) if where.any() else 0.0


def _number(a: Any) -> float:
    return float(np.ravel(a)[0])
