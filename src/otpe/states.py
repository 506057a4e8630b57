"""Vectors and matrices of k numbers per neuron.

A neuron with k states has a vector of k entries and a matrix of k × k entries. An entry is an array over all neurons,
or a plain number that all neurons share. With one state, a vector or a matrix is its single entry and not a tuple: the
traces of a LIF layer are plain arrays.

The plain numbers 0 and 1 are known at trace time, so terms with these numbers cost nothing.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Vector = Any
Matrix = Any


def entries(v: Vector) -> tuple[Any, ...]:
    """The entries of a vector, or the rows of a matrix."""
    return v if isinstance(v, tuple) else (v,)


def packed(parts: Sequence[Any]) -> Vector:
    """A vector of these entries, or a matrix of these rows."""
    return parts[0] if len(parts) == 1 else tuple(parts)


def rows(A: Matrix) -> list[tuple[Any, ...]]:
    """The rows of a matrix, each as a tuple of its entries."""
    return [entries(row) for row in entries(A)]


def matrix(rows: Sequence[Sequence[Any]]) -> Matrix:
    """The matrix with these rows."""
    return packed([packed(list(row)) for row in rows])


def is_number(a: Any) -> bool:
    """Whether an entry is a plain number and not an array."""
    return isinstance(a, int | float)


def times(a: Any, b: Any) -> Any:
    """a b, without an operation if either is the plain number 0 or 1."""
    for one, other in ((a, b), (b, a)):
        if is_number(one) and one in (0, 1):
            return other if one else 0
    return a * b


def plus(a: Any, b: Any) -> Any:
    """a + b, without an operation if either is the plain number 0."""
    if is_number(a) and a == 0:
        return b
    return a if is_number(b) and b == 0 else a + b


def dot(v: Vector, w: Vector) -> Any:
    """Σ_i v_i w_i."""
    total: Any = 0
    for a, b in zip(entries(v), entries(w), strict=True):
        total = plus(total, times(a, b))
    return total


def scaled(a: Any, v: Vector) -> Vector:
    """a v_i."""
    return packed([times(a, part) for part in entries(v)])


def carried(A: Matrix, D: Vector, x: Vector) -> Vector:
    """A D + x."""
    terms = zip(rows(A), entries(D), entries(x), strict=True)
    return packed([_like(old, plus(dot(row, entries(D)), new)) for row, old, new in terms])


def carried_back(A: Matrix, y: Vector, f: Vector) -> Vector:
    """f + Aᵀ y."""
    columns = zip(*rows(A), strict=True)
    terms = zip(columns, entries(y), entries(f), strict=True)
    return packed([_like(old, plus(new, dot(column, entries(y)))) for column, old, new in terms])


def summed(a: Any, y: Vector, signal: Vector) -> Vector:
    """a y + signal, entry by entry."""
    terms = zip(entries(y), entries(signal), strict=True)
    return packed([_like(old, plus(times(a, old), new)) for old, new in terms])


def split(tree: Any) -> tuple[list[Any], Any]:
    """The arrays of a tree, and a function that rebuilds the tree from such arrays. The plain numbers stay the same."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [leaf for leaf in leaves if not is_number(leaf)]

    def rebuild(arrays: Sequence[Any]) -> Any:
        remaining = iter(arrays)
        return jax.tree.unflatten(structure, [leaf if is_number(leaf) else next(remaining) for leaf in leaves])

    return arrays, rebuild


def arrays_only(tree: Any) -> Any:
    """The same tree with None in place of plain numbers, so that only arrays are carried from step to step."""
    return jax.tree.map(lambda a: None if is_number(a) else a, tree)


def numbers_from(like: Any, arrays: Any) -> Any:
    """The inverse of `arrays_only`. The plain numbers come from `like`."""
    remaining = iter(jax.tree.leaves(arrays))
    return jax.tree.map(lambda a: a if is_number(a) else next(remaining), like)


@jax.tree_util.register_pytree_node_class
class Mixed:
    """A tree of arrays and plain numbers. JAX sees only the arrays, so the numbers stay plain through `jit`."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    def tree_flatten(self) -> Any:
        leaves, structure = jax.tree.flatten(self.tree)
        numbers = tuple(leaf if is_number(leaf) else None for leaf in leaves)
        return [leaf for leaf in leaves if not is_number(leaf)], (numbers, structure)

    @classmethod
    def tree_unflatten(cls, static: Any, arrays: Any) -> "Mixed":
        (numbers, structure), remaining = static, iter(arrays)
        return cls(jax.tree.unflatten(structure, [next(remaining) if n is None else n for n in numbers]))


def number(a: Any) -> Any:
    """Convert a numpy number to a Python number, which is weakly typed: arrays that it multiplies keep their type."""
    return a.item() if isinstance(a, np.generic) else a


def _like(old: Any, new: Any) -> Any:
    """Turn an entry that became a plain number back into an array, because a loop needs arrays in its carry."""
    return jnp.full_like(old, new) if is_number(new) and not is_number(old) else new
