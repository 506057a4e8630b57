"""Checks that any neuron must pass. An AssertionError says what is wrong, and which entry.

    otpe.testing.check_neuron(MyNeuron(…))

`linearise` is compared with `jax.jvp` through `step`, on many random neurons, half of them near their threshold:

  as a whole       ∂s_{t+n}/∂c_t by `step` equals h_{t+n} A_{t+n-1} … A_t b, for all t and n of a trajectory
  entry by entry   where the state that `step` carries has k arrays, state i of `linearise` is array i before the spike
                   changes it: then A, b and h follow from the derivatives of two steps, see `_entries`

With `jax_enable_x64` turned on, derivatives are compared to 1e-7, else to 5e-3.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import neurons, states
from otpe.neurons import contract
from otpe.testing.oracles import require

SAMPLES, STEPS = 16, 10
REACH = 30.0  # currents between which a spike is looked for
SMALL = 2.0**-10  # a difference that is exact in binary


class Point(NamedTuple):
    """One step of the neurons, and its derivatives by JAX. All arrays have the lanes [B, *shape] last."""

    before: list[Array]
    current: Array
    state: Any  # after the step
    output: np.ndarray
    J: np.ndarray  # of the arrays of the state, then the output, by the arrays of the state before, then the current
    A: np.ndarray  # what linearise says     [k, k, …]
    b: np.ndarray  # [k]
    h: np.ndarray  # [k, …]


class Case(NamedTuple):
    """A population, and a trajectory."""

    kind: Any  # the neuron as it was given
    neuron: Any  # with its arrays
    shape: tuple[int, ...]
    points: list[Point]
    quiet: list[Point]  # the same states before the step, with a current that is too small for a spike

    @property
    def name(self) -> str:
        return type(self.kind).__name__


def check_neuron(neuron: Any, shape: tuple[int, ...] = (4,)) -> None:
    """Run a neuron through every check, in a population of this shape."""
    check_contract(neuron)
    check_shapes(neuron, shape)
    case = _case(neuron, shape)
    for check in CHECKS:
        check(case)


def check_contract(neuron: Any) -> None:
    """It has the three methods, can be hashed, and equals a copy of itself, so that equal ones are compiled once."""
    try:
        contract.check_neuron(neuron)
    except TypeError as error:
        raise AssertionError(str(error)) from None
    twin, name = copy.deepcopy(neuron), type(neuron).__name__
    alike = twin == neuron and hash(twin) == hash(neuron)
    require(
        alike, f"{name} differs from a copy of itself: make it a frozen dataclass, so that equal ones compare equal"
    )
    if hasattr(neuron, "init"):
        missing = [part for part in ("values", "with_values", "causes") if not hasattr(neuron, part)]
        require(not missing, f"{name} has init but not {' and '.join(missing)}: trained numbers need all four methods")


def check_shapes(neuron: Any, shape: tuple[int, ...]) -> None:
    """The state keeps its shapes and types; output and kept arrays have one number per neuron; linearise fits."""
    name, dtype, full = type(neuron).__name__, jnp.zeros(()).dtype, (SAMPLES, *shape)
    one = _bound(neuron, shape)
    state = one.start(full, dtype)
    found = one.step(state, jnp.zeros(full, dtype))
    triple = isinstance(found, tuple) and len(found) == 3
    require(triple, f"step of {name} returned {type(found).__name__}, expected a state, an output and what to keep")
    after, output, kept = found
    like = jax.tree.structure(state) == jax.tree.structure(after)
    require(like, f"step of {name} returned a state of another structure than start")
    arrays = [("start", a) for a in jax.tree.leaves(state)] + [("the state of step", a) for a in jax.tree.leaves(after)]
    for what, a in [*arrays, ("the output of step", output), *(("what step kept", a) for a in jax.tree.leaves(kept))]:
        fits = np.shape(a) == full and a.dtype == dtype
        require(fits, f"{name}: {what} has {_described(a)}, expected {_described(jnp.zeros(full, dtype))}")
    try:
        found = neurons.derivatives(one, kept)
    except ValueError as error:
        raise AssertionError(str(error).removesuffix(".")) from None
    for what, entries in (("A", sum(states.rows(found.A), ())), ("h", states.entries(found.h))):
        for a in entries:
            fits = np.broadcast_shapes(np.shape(a), full) == full
            require(fits, f"linearise of {name}: an entry of {what} has the shape {np.shape(a)}, expected {full}")


def check_finite(case: Case) -> None:
    for point in case.points:
        for what, a in (("A", point.A), ("h", point.h), ("the output", point.output)):
            require(
                np.isfinite(a).all(),
                f"{case.name}: {what} is {_first(~np.isfinite(a), a):g} at some step, expected finite numbers. A"
                " frequent cause is a surrogate with a power or a division that fails",
            )


def check_output(case: Case) -> None:
    """A neuron that says that it spikes gives 0 or 1."""
    for point in case.points:
        binary = np.isin(point.output, (0, 1))
        if neurons.is_spiking(case.kind):
            given = _first(~binary, point.output)
            require(binary.all(), f"{case.name} says that it is spiking, but its output is {given:g}, expected 0 or 1")


def check_elementwise(case: Case) -> None:
    """A neuron does not see its neighbours, nor other samples."""
    first, mine = case.points[0].before, (0,) * (1 + len(case.shape))
    runs = []
    for change in (0.0, 0.7):
        state, seen = _as_state(case, first), []
        for point in case.points:
            state, output, kept = case.neuron.step(state, point.current.at[mine].add(change))
            at = neurons.derivatives(case.neuron, kept)
            seen.append(jax.tree.map(lambda a: np.broadcast_to(a, point.current.shape), (state, output, at.A, at.h)))  # noqa: B023
        runs.append(jax.tree.leaves(seen))
    for a, b in zip(*runs, strict=True):
        others = a != b
        others[mine] = False
        require(
            not others.any(), f"{case.name}: another current in one neuron changed another neuron. All of step and"
            " linearise must be elementwise: no sums or means over neurons or samples",
        )  # fmt: skip


def check_linearise(case: Case) -> None:
    """A, b and h are the derivatives of step."""
    wrong = _entries(case)
    whole = _response(case)
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
    if measured is None or _entries(case) or not hasattr(case.neuron, "leaks"):
        return
    wrong = _wrong_leaks(case, measured)
    require(not wrong, f"{case.name}: {'; '.join(wrong)}")


def check_poles(case: Case) -> None:
    """The chain of leaky sums is how a current acts on the output, unless the class says which chain to use."""
    try:
        poles = neurons.poles(case.kind)
    except ValueError as error:
        raise AssertionError(str(error).removesuffix(".")) from None
    require(poles, f"poles of {case.name} are (), expected the states that a current passes on its way to the output")
    h = any(np.any(point.h[poles[-1]]) for point in case.points)
    require(
        h, f"poles of {case.name} are {poles!r}, but state {poles[-1]} does not drive the output: the membrane is last"
    )
    if hasattr(case.kind, "poles"):
        return
    rows = states.rows(neurons.leak_matrix(case.kind, None, case.shape))
    leaks = np.array([[_number(a) for a in row] for row in rows])
    z, filters = np.array(case.points[0].b, float), np.zeros(len(poles))
    for n in range(8):
        passed = float(n == 0)
        for i, pole in enumerate(poles):
            passed = filters[i] = leaks[pole, pole] * filters[i] + passed
        same = abs(z[poles[-1]] - passed) <= 1e-3
        require(
            same, f"{case.name}: {n} steps after a current of 1 its membrane is {z[poles[-1]]:g}, but a chain of leaky"
            f" sums through the states {poles} gives {passed:g}, so that rules with stages are not exact even where"
            f" neurons are linear. If that is meant, say so in the class: poles = {poles}",
        )  # fmt: skip
        z = leaks @ z


def check_trained(case: Case) -> None:
    """By causes(), the derivative of the outputs by each trained number is that of step."""
    dtype, points = jnp.zeros(()).dtype, case.points
    trained = neurons.trained(case.kind, case.shape, dtype)
    if not trained:
        return
    values = neurons.values(case.kind, trained, case.shape, dtype)
    missing = sorted(set(trained) - set(values))
    require(not missing, f"values of {case.name} lack {', '.join(missing)}, which init returned")
    values = {name: jnp.broadcast_to(value, points[0].current.shape) for name, value in values.items()}
    for name in trained:
        by_rule, by_step = np.zeros_like(points[0].h), np.zeros((len(points[0].before), *points[0].output.shape))
        for t, point in enumerate(points):
            causes = case.neuron.causes(_as_state(case, point.before))
            require(name in causes, f"causes of {case.name} lack {name}, which init returned")
            x, e = causes[name]
            entering = np.stack([_number(part) * np.asarray(x) for part in states.entries(e)])
            before = points[t - 1].A if t else np.zeros_like(point.A)
            by_rule = np.einsum("ij...,j...->i...", before, by_rule) + entering
            direct = _by_value(case, values, name, point)
            full = np.einsum("ij...,j...->i...", point.J[:, :-1], by_step) + direct
            by_step, given, wanted = full[:-1], (point.h * by_rule).sum(0), full[-1]
            bad = ~_close(given, wanted)
            require(
                not bad.any(), f"{case.name}: by causes(), the derivative of the output by {name} is"
                f" {_first(bad, given):.4g} at step {t}, but by step it is {_first(bad, wanted):.4g}. causes(state)"
                f" gives (x, e) such that {name} moves the states by e x; it sees the state before the step",
            )  # fmt: skip


CHECKS: tuple[Callable[[Case], None], ...] = (
    check_finite,
    check_output,
    check_elementwise,
    check_linearise,
    check_leaks,
    check_poles,
    check_trained,
)


# linearise


def _response(case: Case) -> str:
    """What is wrong with the derivative of the outputs by earlier currents; empty if nothing is."""
    points = case.points
    for start, first in enumerate(points):
        z, carried = np.zeros_like(first.h) + _columns(first.b, first.h), first.J[:-1, -1]
        for n, point in enumerate(points[start:]):
            given = (point.h * z).sum(0)
            wanted = point.J[-1, -1] if n == 0 else (point.J[-1, :-1] * carried).sum(0)
            bad = ~_close(given, wanted)
            if bad.any():
                before = {0: "of the same step", 1: "one step before"}.get(n, f"{n} steps before")
                product = "h b" if n == 0 else "h A b" if n == 1 else f"h A{'¹²³⁴⁵⁶⁷⁸⁹'[n - 1]} b"
                return (
                    f"the derivative of the output by the current {before} is {_first(bad, given):.4g} by {product},"
                    f" but {_first(bad, wanted):.4g} by step"
                )
            if n:
                carried = np.einsum("ij...,j...->i...", point.J[:-1, :-1], carried)
            z = np.einsum("ij...,j...->i...", point.A, z)
    return ""


def _entries(case: Case) -> list[str]:
    """The entries of b, h and A that differ from the derivatives of step; none where these cannot be told apart.

    x_t is the state that step carries, s_t the output. With P_t = ∂z_{t+1}/∂x_t and M_t = ∂x_t/∂z_t,

        A_t = P_t M_t        ∂x_t/∂x_{t-1} = M_t P_{t-1}        ∂x_t/∂c_t = M_t b        ∂s_t/∂x_{t-1} = h_t P_{t-1}

    Where nothing spikes, M = 1 + w h with some w: so ∂x_{t+1}/∂x_t − w ∂s_{t+1}/∂x_t is P_t, with w from ∂x/∂c. P does
    not depend on the current, so a smaller current gives it.
    """
    k = len(case.points[0].b)
    if len(case.points[0].before) != k:
        return []
    wrong = _compare("b", _columns(case.points[0].b, case.points[0].h), _entering(case), "state {} by the current",
                     case.points[0])  # fmt: skip
    if wrong:
        return wrong
    P = [part for part in map(_to_states, case.quiet) if part is not None]
    if len(P) < len(case.quiet):
        return []
    found = {}
    for t, point in enumerate(case.points[:-1]):
        M, h = _solved(point, np.concatenate([P[t], _columns(point.b, point.h)[:, None]], 1))
        A = np.einsum("ij...,jk...->ik...", P[t + 1], M)
        for line in (
            *_compare("h", point.h, h, "the output by state {}", point),
            *_compare("A", point.A, A, "state {} by state {} one step before", point),
        ):
            found.setdefault(line.split(" is ")[0], line)
    return list(found.values())


def _solved(point: Point, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """M and h from M [P, b] and h [P, b]; NaN where [P, b] has not k independent columns."""
    known, J = (np.moveaxis(a, (0, 1), (-2, -1)) for a in (known, point.J))
    full_rank = np.linalg.matrix_rank(known, tol=1e-4) == len(point.b)
    both = np.where(full_rank[..., None, None], J @ np.linalg.pinv(known), np.nan)
    both = np.moveaxis(both, (-2, -1), (0, 1))
    return both[:-1], both[-1]


def _entering(case: Case) -> np.ndarray:
    """b: how a current changes a state without a spike, by a difference."""
    quiet = case.quiet[0]
    moved = case.neuron.step(_as_state(case, quiet.before), quiet.current - SMALL)[0]
    pairs = zip(jax.tree.leaves(quiet.state), jax.tree.leaves(moved), strict=True)
    return np.stack([(np.asarray(a) - np.asarray(b)) / SMALL for a, b in pairs])


def _to_states(quiet: Point) -> np.ndarray | None:
    """P [k, k, …]; None where it cannot be told."""
    J, by_state, by_current = quiet.J[:-1, :-1], quiet.J[-1, :-1], quiet.J[-1, -1]
    acts = by_current != 0
    if (by_state[:, ~acts] != 0).any():
        return None
    w = np.where(acts, quiet.J[:-1, -1] - _columns(quiet.b, quiet.h), 0) / np.where(acts, by_current, 1)
    return J - w[:, None] * by_state[None]


def _same_states(case: Case, wrong: list[str]) -> bool:
    """Must the states of linearise be those that step carries?

    One state may be scaled. Several may have other coordinates if leaks() says what these do; where leaks() and b agree
    with step, the coordinates are the same.
    """
    measured = _measured_leaks(case)
    if len(case.points[0].b) == 1 or measured is None:
        return False
    return not hasattr(case.neuron, "leaks") or not (wrong[0].startswith("b") or _wrong_leaks(case, measured))


def _wrong_leaks(case: Case, measured: np.ndarray) -> list[str]:
    rows, full = contract._matrix(case.neuron.leaks(), len(measured), case.neuron), case.points[0].output.shape
    given = np.stack([np.stack([np.broadcast_to(a, full) for a in row]) for row in rows])
    return _compare("leaks()", given, measured, "state {} by state {}, spikes aside,", case.points[0])


def _measured_leaks(case: Case) -> np.ndarray | None:
    """What a small state has become one step later, where nothing spikes     [k, k, …]."""
    rest = jax.tree.leaves(case.neuron.start(case.points[0].output.shape, jnp.zeros(()).dtype))
    if len(rest) != len(case.points[0].b):
        return None

    def after(leaves: list[Array]) -> np.ndarray:
        return np.stack(jax.tree.leaves(case.neuron.step(_as_state(case, leaves), jnp.zeros_like(leaves[0]))[0]))

    still = after(rest)
    columns = [after([a + SMALL * (i == j) for i, a in enumerate(rest)]) - still for j in range(len(rest))]
    return np.stack(columns, 1) / SMALL


def _by_value(case: Case, values: dict[str, Array], name: str, point: Point) -> np.ndarray:
    """The derivative of the state after a step, and of the output, by a trained number."""

    def step(value: Array) -> Any:
        state, output, _ = case.kind.with_values(values | {name: value}).step(
            _as_state(case, point.before), point.current
        )
        return [*jax.tree.leaves(state), output]

    return np.stack(jax.jvp(step, (values[name],), (jnp.ones_like(values[name]),))[1])


def _compare(what: str, given: np.ndarray, wanted: np.ndarray, words: str, point: Point) -> list[str]:
    """A sentence for each entry that differs somewhere. NaN in `wanted` is not known."""
    found, alone = [], len(point.b) == 1
    for index in np.ndindex(given.shape[: given.ndim - point.output.ndim]):
        bad = ~_close(given[index], wanted[index]) & ~np.isnan(wanted[index])
        if bad.any():
            label = what if alone else what + "".join(f"[{i}]" for i in index)
            where = "with" if _first(bad, point.output) else "without"
            at = f" at a step {where} a spike" if what in ("A", "h") else ""
            of = words.format(*index) if not alone else words.replace("state {}", "the state")
            found.append(
                f"{label} is {_first(bad, given[index]):.4g}, but the derivative of {of} is"
                f" {_first(bad, wanted[index]):.4g}{at}"
            )
    return found


# Cases


def _case(kind: Any, shape: tuple[int, ...]) -> Case:
    neuron, dtype, rng = _bound(kind, shape), jnp.zeros(()).dtype, np.random.default_rng(0)
    state, full = neuron.start((SAMPLES, *shape), dtype), (SAMPLES, *shape)
    structure, look = jax.tree.structure(state), _looker(neuron)
    fire = jax.jit(lambda state, c: neuron.step(state, c)[1])
    points, quiet = [], []
    for _ in range(STEPS):
        edge = _edge(fire, state, full, dtype)
        away = rng.choice([1e-3, 0.05, 0.5, 2.0], full) * rng.standard_normal(full)
        before = jax.tree.leaves(state)
        points.append(_point(before, jnp.asarray(edge + away, dtype), structure, look))
        quiet.append(_point(before, jnp.asarray(edge - 1, dtype), structure, look))
        state = points[-1].state
    return Case(kind, neuron, shape, points, quiet)


def _edge(fire: Any, state: Any, full: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The smallest current with a spike, by bisection; 0 for neurons without one."""
    low, high = jnp.full(full, -REACH, dtype), jnp.full(full, REACH, dtype)
    if not (np.isin(fire(state, low), 0) & np.isin(fire(state, high), 1)).all():
        return np.zeros(full)
    for _ in range(40):
        middle = (low + high) / 2
        spikes = fire(state, middle) > 0
        low, high = jnp.where(spikes, low, middle), jnp.where(spikes, middle, high)
    return np.asarray(high)


def _looker(neuron: Any) -> Any:
    """A step with its derivatives, compiled."""

    def look(state: Any, current: Array) -> Any:
        leaves, structure = jax.tree.flatten(state)

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
        A = [[jnp.broadcast_to(a, current.shape) for a in row] for row in states.rows(at.A)]
        h = [jnp.broadcast_to(a, current.shape) for a in states.entries(at.h)]
        return after, outputs[-1], jnp.stack(columns, 1), A, h, [jnp.asarray(e, float) for e in states.entries(at.b)]

    return jax.jit(look)


def _point(before: list[Array], current: Array, structure: Any, look: Any) -> Point:
    after, output, J, A, h, b = look(jax.tree.unflatten(structure, before), current)
    A = np.stack([np.stack(row) for row in A])
    return Point(before, current, after, np.asarray(output), np.asarray(J), A, np.stack(b), np.stack(h))


def _bound(neuron: Any, shape: tuple[int, ...]) -> Any:
    dtype = jnp.zeros(()).dtype
    return neurons.bind(neuron, neurons.values(neuron, neurons.trained(neuron, shape, dtype), shape, dtype))


def _as_state(case: Case, leaves: list[Array]) -> Any:
    return jax.tree.unflatten(jax.tree.structure(case.points[0].state), leaves)


def _columns(b: np.ndarray, like: np.ndarray) -> np.ndarray:
    """A number per state, for all lanes."""
    return np.broadcast_to(b.reshape(-1, *(1,) * (like.ndim - 1)), like.shape)


def _close(given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    tolerance = 1e-7 if jnp.zeros(()).dtype == jnp.float64 else 5e-3
    return np.abs(given - wanted) <= tolerance * (1 + np.abs(wanted))


def _first(where: np.ndarray, of: Any) -> float:
    """The first number for which `where` is true."""
    return float(np.asarray(of)[where][0]) if where.any() else 0.0


def _number(a: Any) -> float:
    return float(np.ravel(a)[0])


def _described(a: Any) -> str:
    return f"the shape {list(np.shape(a))} and the type {a.dtype}"
