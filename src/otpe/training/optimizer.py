"""Optimizers as values.

An optax optimizer is a pair of closures, and two of them built from the same numbers compare different. As an argument
that decides what is compiled, `optax.adamax(1e-3)` written inside a loop would compile anew in every round.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from types import CellType, FunctionType
from typing import Any

import numpy as np
import optax


@dataclass(frozen=True, eq=False)
class ByValue:
    """An optimizer that equals another if both are optax's, or ours, and have the same plain numbers inside.

    Whatever else is inside (an array, an object, a function of the user's own) counts as equal only to itself.
    """

    value: optax.GradientTransformation

    @cached_property
    def key(self) -> Any:
        return _key(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Same:
    """Equal to itself alone, and keeps what it stands for alive, so that its id is not given away."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.what is other.what

    def __hash__(self) -> int:
        return id(self.what)


def _key(part: Any, outer: tuple[Any, ...] = ()) -> Any:
    """What two equal parts have in common. `outer` are the functions around it, in case one of them holds itself."""
    if part is None or isinstance(part, bool | str):
        return type(part), part
    if isinstance(part, int | float):
        return float, part  # 10 and 10.0 are the same setting
    if isinstance(part, np.generic):
        return part.dtype.str, part.item()
    if isinstance(part, tuple | list):
        return type(part), tuple(_key(item, outer) for item in part)
    if isinstance(part, FunctionType) and part.__module__.startswith(("optax.", "otpe.")) and part not in outer:
        # A user's function may read a global that changes under it; these do not.
        inside = (tuple(map(_contents, part.__closure__ or ())), part.__defaults__, part.__kwdefaults__)
        return part.__code__, _key(inside, (*outer, part))
    if isinstance(part, dict):
        return dict, tuple((name, _key(item, outer)) for name, item in part.items())
    if isinstance(part, partial):
        return partial, _key((part.func, part.args, part.keywords), outer)
    return _Same(part)


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell: a name that was never given a value
        return None
