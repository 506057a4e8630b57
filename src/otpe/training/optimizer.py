"""Optimizers that are equal if their settings are equal.

An optax optimizer is a pair of closures. Two optimizers with the same settings are therefore not equal. If
`optax.adamax(1e-3)` were a static argument and written inside a loop, JAX would compile again in every iteration.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from types import CellType, FunctionType
from typing import Any

import numpy as np
import optax


@dataclass(frozen=True, eq=False)
class ByValue:
    """An optimizer that equals another if both come from optax or otpe and contain the same plain numbers.

    Any other content (an array, an object, a user's function) is equal only to itself.
    """

    value: optax.GradientTransformation

    @cached_property
    def key(self) -> Any:
        return _key(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _ById:
    """Equal only to itself. It holds a reference to its object, so that no other object gets the same id."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _key(part: Any, outer: tuple[Any, ...] = ()) -> Any:
    """A key that is equal for equal parts. `outer` are the functions that contain this part, to end recursion."""
    if part is None or isinstance(part, bool | str):
        return type(part), part
    if isinstance(part, int | float):
        return float, part  # 10 and 10.0 are the same setting
    if isinstance(part, np.generic):
        return part.dtype.str, part.item()
    if isinstance(part, tuple | list):
        return type(part), tuple(_key(item, outer) for item in part)
    if isinstance(part, FunctionType) and part.__module__.startswith(("optax.", "otpe.")) and part not in outer:
        # A user's function may read a global variable that changes. Functions of optax and otpe do not.
        inside = (tuple(map(_contents, part.__closure__ or ())), part.__defaults__, part.__kwdefaults__)
        return part.__code__, _key(inside, (*outer, part))
    if isinstance(part, dict):
        return dict, tuple((name, _key(item, outer)) for name, item in part.items())
    if isinstance(part, partial):
        return partial, _key((part.func, part.args, part.keywords), outer)
    return _ById(part)


def _contents(cell: CellType) -> Any:
    """The value in a closure's cell, None if the cell is empty."""
    try:
        return cell.cell_contents
    except ValueError:  # the name was never assigned a value
        return None
