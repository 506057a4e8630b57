"""Numbers that are stored as a sum of parts, side by side in one array.

A matrix product of several parts is one product with a wider matrix, if the parts are side by side in memory. So a
recurrence may read `Stacked` arrays and write `Parts` without a copy:

    in memory, all steps        Stacked([T, B, parts, *out])
    inside a step               Parts((a, b, …)), each [B, *out]
"""

from typing import Any, NamedTuple

import jax
from jax import Array


class Parts(NamedTuple):
    """One array per part, inside a step."""

    arrays: tuple[Array, ...]

    @property
    def total(self) -> Array:
        """The sum of the parts, added from the smallest to the largest. By convention the largest part comes first."""
        total, *rest = reversed(self.arrays)
        for part in rest:
            total = total + part
        return total


class Stacked(NamedTuple):
    """The parts of all steps in one array."""

    array: Any  # [T, B, parts, *out]


def leaves(tree: Any) -> tuple[list[Any], Any]:
    """The arrays of a tree and its structure. A `Parts` or `Stacked` is one leaf."""
    return jax.tree.flatten(tree, is_leaf=lambda a: isinstance(a, Parts | Stacked))


def step_shapes(xs: Any) -> Any:
    """The shapes of the inputs at one step."""

    def struct(shape: tuple[int, ...], a: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, a.dtype)

    def one(a: Any) -> Any:
        if not isinstance(a, Stacked):
            return struct(a.shape[1:], a)
        _, batch, parts, *out = a.array.shape
        return Parts((struct((batch, *out), a.array),) * parts)

    arrays, structure = leaves(xs)
    return jax.tree.unflatten(structure, [one(a) for a in arrays])


def carry_shapes(step: Any, fixed: Any, carry: Any, x: Any) -> Any:
    """The shapes of a carry after enough steps: a single number becomes an array when it is combined with an array."""
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), carry)
    while True:
        after, _ = jax.eval_shape(step, fixed, shapes, x)
        if jax.tree.map(jax.numpy.shape, after) == jax.tree.map(jax.numpy.shape, shapes):
            return shapes
        shapes = jax.tree.map(lambda a, b: jax.ShapeDtypeStruct(b.shape, a.dtype), shapes, after)
