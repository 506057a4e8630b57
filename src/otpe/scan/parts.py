"""Numbers kept as a sum of parts, side by side in one array.

A matrix product of several parts is one product with a wider matrix, if the parts lie side by side. So a recurrence may
read `Stacked` arrays and write `Parts` without a copy in between:

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
        """Their sum, the smallest first: by convention the largest part comes first."""
        total, *rest = reversed(self.arrays)
        for part in rest:
            total = total + part
        return total


class Stacked(NamedTuple):
    """The parts of all steps in one array."""

    array: Any  # [T, B, parts, *out]


def leaves(tree: Any) -> tuple[list[Any], Any]:
    """The arrays of a tree and its structure, parts that belong together being one leaf."""
    return jax.tree.flatten(tree, is_leaf=lambda a: isinstance(a, Parts | Stacked))


def one_step(xs: Any) -> Any:
    """The shapes that a step sees."""

    def struct(shape: tuple[int, ...], a: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, a.dtype)

    def one(a: Any) -> Any:
        if not isinstance(a, Stacked):
            return struct(a.shape[1:], a)
        _, batch, parts, *out = a.array.shape
        return Parts((struct((batch, *out), a.array),) * parts)

    arrays, structure = leaves(xs)
    return jax.tree.unflatten(structure, [one(a) for a in arrays])


def settled(step: Any, fixed: Any, carry: Any, x: Any) -> Any:
    """The shapes of a carry once it has gone through the step: a single number grows to an array on the way."""
    like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), carry)
    while True:
        after, _ = jax.eval_shape(step, fixed, like, x)
        if jax.tree.map(jax.numpy.shape, after) == jax.tree.map(jax.numpy.shape, like):
            return like
        like = jax.tree.map(lambda a, b: jax.ShapeDtypeStruct(b.shape, a.dtype), like, after)
