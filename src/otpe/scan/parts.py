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
