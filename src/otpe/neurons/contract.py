"""The contract of a neuron, and the functions through which the project uses neurons.

A neuron of your own is a frozen dataclass with three methods:

    start(shape, dtype) -> state                     the state before the first step: any arrays
    step(state, current) -> (state, output, kept)    `otpe.spike(surrogate, d)` is H(d), and JAX can differentiate it
    linearise(kept) -> (A, b, h)                     from the third output of `step`; A, b and h are tuples if k > 1

All arithmetic is elementwise: neurons do not see each other. `otpe.testing.check_neuron` compares `linearise` with
`step`. The class may also define:

    spiking = True           the output is 0 or 1 at every step
    poles = (0, 1)           the states that filter the current, see `poles`; computed from leaks() if missing
    leaks() -> A             A without spikes; computed from `step` if missing
    init, values, with_values, causes     for trained parameters, see `trained`
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import states
from otpe.neurons.leaks import per_neuron
from otpe.neurons.models import Leaky
from otpe.states import Matrix, Vector


class Derivatives(NamedTuple):
    """The derivatives of one step, see `otpe.neurons`. An entry is an array, or a plain number for all neurons."""

    A: Matrix
    b: Vector
    h: Vector


def derivatives(neuron: Any, kept: Any) -> Derivatives:
    """Return the output of `linearise` in a standard form: plain entries for one state, tuples for several."""
    A, b, h = neuron.linearise(kept)
    b = _plain_numbers(neuron, b)
    return Derivatives(
        states.matrix(_matrix(A, len(b), neuron)), states.packed(b), states.packed(_vector(h, len(b), neuron))
    )


def check_neuron(neuron: Any) -> None:
    """Raise TypeError if this is not a neuron."""
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
    """Raise ValueError if the leaks do not fit a layer of this shape."""
    if isinstance(neuron, Leaky):
        neuron.check_shape(shape)


def trained(neuron: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
    """Return the initial trained parameters of a population by name, or an empty dict if it has none.

    A neuron of your own may have trained parameters too. It then has four methods:

        init(shape, dtype)               the initial parameters
        values(trained, shape, dtype)    the arrays that the neuron uses, as a dict
        with_values(values)              the neuron that uses these arrays
        causes(state)                    for each name, how the value acts on the next step: a pair (x, e) with
                                         ∂z_t/∂value = e x, where x is an array and e a vector of k plain numbers
    """
    return neuron.init(shape, dtype) if hasattr(neuron, "init") else {}


def values(neuron: Any, trained: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
    """Return the arrays that a population computes with, such as trained leaks or one leak per neuron.

    A compiled program takes them as arguments, not as constants.
    """
    return neuron.values(trained, shape, dtype) if hasattr(neuron, "values") else {}


def fixed_values(neuron: Any, shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
    """Return the arrays of a population that are not trained."""
    if isinstance(neuron, Leaky):
        return neuron.values({}, shape, dtype)
    names = _properties(neuron).cause_vectors
    arrays = values(neuron, trained(neuron, shape, dtype), shape, dtype)
    return {name: value for name, value in arrays.items() if name not in names}


def bind(neuron: Any, values: dict[str, Any]) -> Any:
    """Return the neuron with these arrays."""
    return neuron.with_values(values) if values else neuron


def initial_state(neuron: Any, batch: int | None, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the state before the first step. With batch None, its arrays may be smaller and broadcast."""
    small = () if issubclass(type(neuron), Leaky) else (1, *shape)
    return neuron.start(small if batch is None else (batch, *shape), dtype)


def state_count(neuron: Any) -> int:
    """Return k, the number of states."""
    return _properties(neuron).state_count


def is_spiking(neuron: Any) -> bool:
    """Return whether every output is 0 or 1."""
    return bool(getattr(neuron, "spiking", False))


def arrays_in_A(neuron: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a tree like A with True for each array and None for each plain number."""
    trees = []  # filled while tracing: plain Python values cannot be returned from `eval_shape`

    def trace() -> None:
        one = bind(neuron, values(neuron, trained(neuron, shape, dtype), shape, dtype))
        _, _, kept = one.step(one.start((1, *shape), dtype), jnp.zeros((1, *shape), dtype))
        A = derivatives(one, kept).A
        trees.append(jax.tree.map(lambda a: None if states.is_number(a) else True, A))

    jax.eval_shape(trace)
    return trees[0]


def survival_varies(neuron: Any) -> bool:
    """Return whether the membrane's diagonal entry of A changes from step to step."""
    return _properties(neuron).survival_varies


def arrays_in_h(neuron: Any) -> int:
    """Return the number of entries of h that change from step to step. The others are plain numbers."""
    return _properties(neuron).arrays_in_h


def cause_vectors(neuron: Any) -> dict[str, Vector]:
    """Return for each trained parameter the vector e that `trained` defines: how it enters the states."""
    return _properties(neuron).cause_vectors


def cause_inputs(neuron: Any, state: Any, trained: Any) -> dict[str, Array]:
    """Return for each of these parameters the array x that `trained` defines, for a bound neuron in this state."""
    return {name: x for name, (x, _) in neuron.causes(state).items() if name in trained} if trained else {}


def poles(neuron: Any) -> tuple[int, ...]:
    """Return the indices of the states that filter a current on its way to the output, in order, the membrane last.

    State i is a leaky sum with the leak A⁰[i][i].
    """
    return _properties(neuron).poles


def leak_matrix(neuron: Any, values: dict[str, Array] | None, shape: tuple[int, ...]) -> Matrix:
    """Return A⁰: A without spikes, for the layer as a whole. Leaks that differ in a layer are replaced by their mean.

    `values` are the arrays from the function `values`, or None for those before any training.
    """
    k = state_count(neuron)
    if isinstance(neuron, Leaky):
        neuron = neuron.with_values(neuron.means(values or {}, shape))
        return states.matrix(_matrix(_leaks(neuron), k, neuron))
    if not values:  # the result is plain numbers, also inside `jit`
        with jax.ensure_compile_time_eval():
            arrays = _initial_values(neuron, shape) if values is None else {}
            return states.matrix(_matrix(_leaks(bind(neuron, jax.tree.map(jnp.mean, arrays))), k, neuron))
    leaks, dtype = _leaks(bind(neuron, jax.tree.map(jnp.mean, values))), next(iter(values.values())).dtype
    return jax.tree.map(
        lambda a: a if states.is_number(a) else a.astype(dtype), states.matrix(_matrix(leaks, k, neuron))
    )


def largest_leaks(neuron: Any, shape: tuple[int, ...]) -> Matrix:
    """Return A⁰ before any training, each entry computed from the largest leaks of the layer."""
    with jax.ensure_compile_time_eval():
        if isinstance(neuron, Leaky):
            leaks = {name: getattr(neuron, name) for name in neuron.LEAKS}
            one = neuron.with_values({name: float(per_neuron(leak, shape).max()) for name, leak in leaks.items()})
        else:
            one = bind(neuron, jax.tree.map(jnp.max, _initial_values(neuron, shape)))
        return states.matrix(_matrix(_leaks(one), state_count(neuron), neuron))


def _initial_values(neuron: Any, shape: tuple[int, ...]) -> dict[str, Array]:
    return values(neuron, trained(neuron, shape, jnp.float32), shape, jnp.float32)


class _Properties(NamedTuple):
    """Properties of a neuron, which functions above return one by one."""

    state_count: int
    poles: tuple[int, ...]
    survival_varies: bool
    arrays_in_h: int
    cause_vectors: dict[str, Vector]


@lru_cache(maxsize=256)
def _properties(neuron: Any) -> _Properties:
    """Determine the properties by one step of a single neuron from its initial state."""
    with jax.ensure_compile_time_eval():
        one = _single_neuron(neuron)
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
            leaks = [[_first_number(entry) for entry in row] for row in _matrix(_leaks(one), k, neuron)]
            driven, read = ([_first_number(entry) != 0 for entry in states.entries(v)] for v in (b, h))
            poles = _poles(leaks, driven, read, type(neuron).__name__)
        names = _trained_names(neuron)
        vectors = {name: e for name, (_, e) in one.causes(start).items() if name in names} if names else {}
    membrane = poles[-1] if poles else k - 1
    return _Properties(
        state_count=k,
        poles=poles,
        survival_varies=not states.is_number(rows[membrane][membrane]),
        arrays_in_h=sum(not states.is_number(entry) for entry in states.entries(h)),
        cause_vectors={name: states.packed(_plain_numbers(neuron, e)) for name, e in vectors.items()},
    )


def _given_poles(neuron: Any, k: int) -> tuple[int, ...]:
    poles = neuron.poles
    are_states = isinstance(poles, tuple | list) and all(isinstance(i, int) and 0 <= i < k for i in poles)
    if not are_states or len(set(poles)) < len(poles):
        raise ValueError(
            f"poles of {type(neuron).__name__} are {poles!r}, expected numbers of states from 0 to {k - 1}, each at"
            " most once, the membrane last."
        )
    return tuple(poles)


def _trained_names(neuron: Any) -> tuple[str, ...]:
    if isinstance(neuron, Leaky):
        return tuple(name for name in neuron.LEAKS if getattr(neuron, f"learn_{name}"))
    return tuple(trained(neuron, (1,), jnp.float32))


def _single_neuron(neuron: Any) -> Any:
    """Return the neuron bound for a layer with one neuron."""
    if isinstance(neuron, Leaky):
        return neuron.with_values({name: 0.5 for name in neuron.LEAKS})
    return bind(neuron, values(neuron, trained(neuron, (1,), jnp.float32), (1,), jnp.float32))


def _poles(A: list[list[float]], driven: list[bool], read: list[bool], name: str) -> tuple[int, ...]:
    """Return the states on a path from the current to the output, each before the states that it feeds.

    `driven` says which states the current enters, `read` which states the output depends on.
    """
    k = len(A)
    feeds = [[i != j and A[i][j] != 0 for j in range(k)] for i in range(k)]  # does j feed i?
    for _ in range(k):
        driven = [driven[i] or any(feeds[i][j] and driven[j] for j in range(k)) for i in range(k)]
        read = [read[j] or any(feeds[i][j] and read[i] for i in range(k)) for j in range(k)]
    left, order = [i for i in range(k) if driven[i] and read[i]], []
    while left:
        ready = [i for i in left if not any(feeds[i][j] for j in left)]
        if not ready:
            raise ValueError(
                f"the states of {name} feed each other, so no chain of leaky sums leads from its current to its output."
                " Give the class `poles`: the numbers of the states to filter through, the membrane last."
            )
        order.append(ready[0])
        left.remove(ready[0])
    return tuple(order)


def _leaks(neuron: Any) -> Matrix:
    return neuron.leaks() if hasattr(neuron, "leaks") else _measured_leaks(neuron)


def _measured_leaks(neuron: Any) -> Matrix:
    """Return A⁰, computed from `step` with states that are too small for a spike.

    Leaks are linear. So the difference between a step from 2⁻¹⁰ in one state and a step from the initial state gives
    one column, without rounding.
    """
    dtype, small = jax.dtypes.canonicalize_dtype(float), 2.0**-10
    leaves, structure = jax.tree.flatten(neuron.start((1,), dtype))
    zero = jnp.zeros(1, dtype)

    def after(leaves: list[Array]) -> list[Array]:
        return jax.tree.leaves(neuron.step(jax.tree.unflatten(structure, leaves), zero)[0])

    unchanged, columns = after(leaves), []
    for j in range(len(leaves)):
        changed = after([leaf + small if i == j else leaf for i, leaf in enumerate(leaves)])
        columns.append([((a - b) / small)[0] for a, b in zip(changed, unchanged, strict=True)])
    rows = zip(*columns, strict=True)
    return states.matrix([[a if isinstance(a, Tracer) else float(a) for a in row] for row in rows])


def _first_number(entry: Any) -> float:
    return float(np.ravel(entry)[0])


def _plain_numbers(neuron: Any, b: Any) -> list[Any]:
    """Return b as a list of plain numbers. Raises ValueError if an entry is an array or a traced value."""
    try:
        entries = list(b) if isinstance(b, tuple | list) or np.ndim(b) else [b]
        return [e if states.is_number(e) else np.asarray(e).item() for e in entries]
    except (TypeError, ValueError, jax.errors.TracerArrayConversionError):
        raise ValueError(
            f"linearise of {type(neuron).__name__} returned {b!r} for b, expected plain numbers, one per state. A"
            " current must enter the states of all neurons in the same way."
        ) from None


def _vector(v: Any, k: int, neuron: Any) -> list[Any]:
    """Return a list of k entries, given a tuple, a list, an array [k, …], or the single entry if k is 1."""
    entries = [v] if k == 1 and not isinstance(v, tuple | list) else list(v)
    if len(entries) != k:
        raise ValueError(
            f"linearise of {type(neuron).__name__} returned {len(entries)} entries where b has {k}, expected {k}: one"
            " per state."
        )
    return [states.number(entry) for entry in entries]


def _matrix(A: Any, k: int, neuron: Any) -> list[list[Any]]:
    """Return a list of k rows with k entries each. If k is 1, the entry may be in any number of tuples."""
    if k == 1:
        while isinstance(A, tuple | list):
            (A,) = A
        return [[states.number(A)]]
    return [_vector(row, k, neuron) for row in _vector(A, k, neuron)]
