"""What the rest of the project asks of a neuron, a user's own included.

A neuron of your own is a frozen dataclass with three methods:

    start(shape, dtype) -> state                     the state before the first step: any arrays
    step(state, current) -> (state, output, kept)    `otpe.spike(surrogate, d)` is H(d), and JAX can differentiate it
    linearise(kept) -> (A, b, h)                     from what `step` kept; with one state plain entries, else tuples

All arithmetic is elementwise: neurons do not see each other. `otpe.testing.check_neuron` compares `linearise` with
`step`. Four more facts may stand in the class:

    spiking = True           its output is 0 or 1 at every step
    poles = (0, 1)           see `poles`; found from A without spikes where it is missing
    leaks() -> A             A without spikes; found from `step` where it is missing
    init, values, with_values, causes     numbers of its own that are trained, see `trained`
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import states
from otpe.neurons.leaks import on
from otpe.neurons.models import LIF, AdaptiveLIF, CubaLIF, LeakyIntegrator
from otpe.states import Matrix, Vector

OURS = (LIF, CubaLIF, AdaptiveLIF, LeakyIntegrator)


class Derivatives(NamedTuple):
    """The derivatives of one step, see `otpe.neurons`. Entries are arrays, or plain numbers that all neurons share."""

    A: Matrix
    b: Vector
    h: Vector


def derivatives(neuron: Any, kept: Any) -> Derivatives:
    """What `linearise` says, in one form: entries as they are for one state, tuples for several."""
    A, b, h = neuron.linearise(kept)
    b = _plain_numbers(neuron, b)
    return Derivatives(
        states.matrix(_matrix(A, len(b), neuron)), states.packed(b), states.packed(_vector(h, len(b), neuron))
    )


def check_neuron(neuron: Any) -> None:
    """Refuse what is not a neuron."""
    missing = [name for name in ("start", "step", "linearise") if not callable(getattr(neuron, name, None))]
    if missing or isinstance(neuron, type):
        raise TypeError(
            f"neuron is {neuron!r}, expected a neuron such as otpe.LIF(0.95), or one of your own with the methods"
            f" start, step and linearise{'' if isinstance(neuron, type) else '; missing: ' + ', '.join(missing)}."
        )
    try:
        hash(neuron)
    except TypeError:
        raise TypeError(
            f"{type(neuron).__name__} cannot be hashed, expected a frozen dataclass of plain numbers. For leaks that"
            " differ from neuron to neuron use otpe.Uniform or otpe.PerNeuron."
        ) from None


def check_shape(neuron: Any, shape: tuple[int, ...]) -> None:
    """Refuse neurons whose numbers are not for a layer of this shape."""
    if isinstance(neuron, OURS):
        neuron.check_shape(shape)


def trained(neuron: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
    """Initial trained numbers of a population, by name; empty where there are none.

    A neuron of your own may have them too: `init(shape, dtype)` makes them, `values(trained, shape, dtype)` turns them
    into a dict of arrays, `with_values(values)` returns the neuron that uses these, and `causes(state)` says for each
    name how it acts on the next step: a pair (x, e) with ∂z_t/∂value = e x, where e is a vector of k plain numbers.
    """
    return neuron.init(shape, dtype) if hasattr(neuron, "init") else {}


def values(neuron: Any, trained: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
    """The arrays of a population: they travel as arguments, not as constants of a compiled program."""
    return neuron.values(trained, shape, dtype) if hasattr(neuron, "values") else {}


def fixed_values(neuron: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
    """The arrays of a population that are not trained."""
    if isinstance(neuron, OURS):
        return neuron.values({}, shape, dtype)
    names = _facts(neuron).causes
    given = values(neuron, trained(neuron, shape, dtype), shape, dtype)
    return {name: value for name, value in given.items() if name not in names}


def bound(neuron: Any, values: dict[str, Any]) -> Any:
    """The neuron with these arrays."""
    return neuron.with_values(values) if values else neuron


def rest(neuron: Any, batch: int | None, shape: tuple[int, ...], dtype: Any) -> Any:
    """The state before the first step. Without a batch, a small array stands for a larger one that is full of it."""
    if batch is None:
        return neuron.start((), dtype) if isinstance(neuron, OURS) else neuron.start((1, *shape), dtype)
    return neuron.start((batch, *shape), dtype)


def states_of(neuron: Any) -> int:
    """k, the number of states."""
    return _facts(neuron).states


def is_spiking(neuron: Any) -> bool:
    """Is every output 0 or 1?"""
    return bool(getattr(neuron, "spiking", False))


def arrays_in_A(neuron: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The structure of A, with None in place of entries that are plain numbers."""
    found = []

    def look() -> None:
        one = bound(neuron, values(neuron, trained(neuron, shape, dtype), shape, dtype))
        _, _, kept = one.step(one.start((1, *shape), dtype), jnp.zeros((1, *shape), dtype))
        A = derivatives(one, kept).A
        found.append(jax.tree.map(lambda a: None if states.is_number(a) else True, A))

    jax.eval_shape(look)
    return found[0]


def resets(neuron: Any) -> bool:
    """Does the survival of the membrane change from step to step?"""
    return _facts(neuron).resets


def arrays_in_h(neuron: Any) -> int:
    """Number of entries of h that change from step to step; the others are plain numbers."""
    return _facts(neuron).surrogates


def causes(neuron: Any) -> dict[str, Vector]:
    """How each trained number enters the states: e in `trained`."""
    return _facts(neuron).causes


def acting(neuron: Any, state: Any, trained: Any) -> dict[str, Array]:
    """How much each trained number acts on the next step: x in `trained`, for a bound neuron in this state."""
    return {name: x for name, (x, _) in neuron.causes(state).items() if name in trained} if trained else {}


def poles(neuron: Any) -> tuple[int, ...]:
    """The states that a current passes on its way to the output, in this order, the membrane last.

    Each is a leaky sum with the leak A⁰[i][i].
    """
    return _facts(neuron).poles


def leak_matrix(neuron: Any, values: dict[str, Array] | None, shape: tuple[int, ...]) -> Matrix:
    """A⁰: A without spikes, for the layer as a whole. Leaks that differ within a layer are replaced by their mean.

    `values` as from the function of that name; None: as they are before any training.
    """
    k = states_of(neuron)
    if isinstance(neuron, OURS):
        neuron = neuron.with_values(neuron.means(values or {}, shape))
        return states.matrix(_matrix(_leaks(neuron), k, neuron))
    if not values:  # plain numbers, inside `jit` too
        with jax.ensure_compile_time_eval():
            given = _values_at_start(neuron, shape) if values is None else {}
            return states.matrix(_matrix(_leaks(bound(neuron, jax.tree.map(jnp.mean, given))), k, neuron))
    found, dtype = _leaks(bound(neuron, jax.tree.map(jnp.mean, values))), next(iter(values.values())).dtype
    return jax.tree.map(
        lambda a: a if states.is_number(a) else a.astype(dtype), states.matrix(_matrix(found, k, neuron))
    )


def largest_leaks(neuron: Any, shape: tuple[int, ...]) -> Matrix:
    """A⁰ with the largest leak of the layer in each place, before any training."""
    with jax.ensure_compile_time_eval():
        if isinstance(neuron, OURS):
            given = {name: getattr(neuron, name) for name in neuron.LEAKS}
            one = neuron.with_values({name: float(on(leak, shape).max()) for name, leak in given.items()})
        else:
            one = bound(neuron, jax.tree.map(jnp.max, _values_at_start(neuron, shape)))
        return states.matrix(_matrix(_leaks(one), states_of(neuron), neuron))


def _values_at_start(neuron: Any, shape: tuple[int, ...]) -> dict[str, Array]:
    return values(neuron, trained(neuron, shape, jnp.float32), shape, jnp.float32)


class _Facts(NamedTuple):
    states: int
    poles: tuple[int, ...]
    resets: bool
    surrogates: int
    causes: dict[str, Vector]


@lru_cache(maxsize=256)
def _facts(neuron: Any) -> _Facts:
    """Found by one step of a single neuron at rest."""
    with jax.ensure_compile_time_eval():
        one = _single(neuron)
        start = one.start((1,), jnp.float32)
        state, _, kept = one.step(start, jnp.zeros(1, jnp.float32))
        A, b, h = derivatives(one, kept)
        k, rows = len(states.entries(b)), states.rows(A)
        if hasattr(neuron, "poles"):
            poles = _given_poles(neuron, k)
        else:
            if len(jax.tree.leaves(state)) != k and not hasattr(neuron, "leaks"):
                raise ValueError(
                    f"{type(neuron).__name__} has {k} numbers in b and a state of {len(jax.tree.leaves(state))} arrays,"
                    " so its leaks cannot be found from its steps. Give it a method leaks() that returns A without"
                    " spikes."
                )
            at_rest = [[_size(entry) for entry in row] for row in _matrix(_leaks(one), k, neuron)]
            into, out = ([_size(entry) != 0 for entry in states.entries(v)] for v in (b, h))
            poles = _poles(at_rest, into, out, type(neuron).__name__)
        names = _trained_names(neuron)
        entering = {name: e for name, (_, e) in one.causes(start).items() if name in names} if names else {}
    membrane = poles[-1] if poles else k - 1
    return _Facts(
        states=k,
        poles=poles,
        resets=not states.is_number(rows[membrane][membrane]),
        surrogates=sum(not states.is_number(entry) for entry in states.entries(h)),
        causes={name: states.packed(_plain_numbers(neuron, e)) for name, e in entering.items()},
    )


def _given_poles(neuron: Any, k: int) -> tuple[int, ...]:
    poles = neuron.poles
    numbers = isinstance(poles, tuple | list) and all(isinstance(i, int) and 0 <= i < k for i in poles)
    if not numbers or len(set(poles)) < len(poles):
        raise ValueError(
            f"poles of {type(neuron).__name__} are {poles!r}, expected numbers of states from 0 to {k - 1}, each at"
            " most once, the membrane last."
        )
    return tuple(poles)


def _trained_names(neuron: Any) -> tuple[str, ...]:
    if isinstance(neuron, OURS):
        return tuple(name for name in neuron.LEAKS if getattr(neuron, f"learn_{name}"))
    return tuple(trained(neuron, (1,), jnp.float32))


def _single(neuron: Any) -> Any:
    """The neuron with leaks for a layer of one."""
    if isinstance(neuron, OURS):
        return neuron.with_values({name: 0.5 for name in neuron.LEAKS})
    return bound(neuron, values(neuron, trained(neuron, (1,), jnp.float32), (1,), jnp.float32))


def _poles(A: list[list[float]], into: list[bool], out: list[bool], name: str) -> tuple[int, ...]:
    """States on a way from the current to the output, each before those that it feeds."""
    k = len(A)
    feeds = [[i != j and A[i][j] != 0 for j in range(k)] for i in range(k)]  # does j feed i?
    for _ in range(k):
        into = [into[i] or any(feeds[i][j] and into[j] for j in range(k)) for i in range(k)]
        out = [out[j] or any(feeds[i][j] and out[i] for i in range(k)) for j in range(k)]
    left, order = [i for i in range(k) if into[i] and out[i]], []
    while left:
        free = [i for i in left if not any(feeds[i][j] for j in left)]
        if not free:
            raise ValueError(
                f"the states of {name} feed each other, so no chain of leaky sums leads from its current to its output."
                " Give the class `poles`: the numbers of the states to filter through, the membrane last."
            )
        order.append(free[0])
        left.remove(free[0])
    return tuple(order)


def _leaks(neuron: Any) -> Matrix:
    return neuron.leaks() if hasattr(neuron, "leaks") else _measured_leaks(neuron)


def _measured_leaks(neuron: Any) -> Matrix:
    """A⁰ from `step`: what a small state has become one step later, where nothing spikes.

    Leaks are linear, so a step from 2⁻¹⁰ of one state, minus a step from rest, gives one column without rounding.
    """
    dtype, small = jax.dtypes.canonicalize_dtype(float), 2.0**-10
    leaves, structure = jax.tree.flatten(neuron.start((1,), dtype))
    zero = jnp.zeros(1, dtype)

    def after(leaves: list[Array]) -> list[Array]:
        return jax.tree.leaves(neuron.step(jax.tree.unflatten(structure, leaves), zero)[0])

    at_rest, columns = after(leaves), []
    for j in range(len(leaves)):
        moved = after([leaf + small if i == j else leaf for i, leaf in enumerate(leaves)])
        columns.append([((a - b) / small)[0] for a, b in zip(moved, at_rest, strict=True)])
    rows = zip(*columns, strict=True)
    return states.matrix([[a if isinstance(a, Tracer) else float(a) for a in row] for row in rows])


def _size(entry: Any) -> float:
    return float(np.ravel(entry)[0])


def _plain_numbers(neuron: Any, b: Any) -> list[Any]:
    try:
        entries = list(b) if isinstance(b, tuple | list) or np.ndim(b) else [b]
        return [e if states.is_number(e) else np.asarray(e).item() for e in entries]
    except (TypeError, ValueError, jax.errors.TracerArrayConversionError):
        raise ValueError(
            f"linearise of {type(neuron).__name__} returned {b!r} for b, expected plain numbers, one per state: how a"
            " current enters them is the same for all neurons."
        ) from None


def _vector(v: Any, k: int, neuron: Any) -> list[Any]:
    """k entries, from a tuple, a list, an array [k, …], or the entry itself."""
    entries = [v] if k == 1 and not isinstance(v, tuple | list) else list(v)
    if len(entries) != k:
        raise ValueError(
            f"linearise of {type(neuron).__name__} returned {len(entries)} entries where b has {k}, expected {k}: one"
            " per state."
        )
    return [states.number(entry) for entry in entries]


def _matrix(A: Any, k: int, neuron: Any) -> list[list[Any]]:
    if k == 1:
        while isinstance(A, tuple | list):
            (A,) = A
        return [[states.number(A)]]
    return [_vector(row, k, neuron) for row in _vector(A, k, neuron)]
