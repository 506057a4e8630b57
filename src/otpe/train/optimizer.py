"""Optimizers as values.

An optax optimizer is a pair of closures, and two of them built from the same numbers compare different. As an argument
that decides what is compiled, `optax.adamax(1e-3)` written inside a loop would compile anew in every round.
"""

from dataclasses import dataclass
from types import FunctionType
from typing import Any

import optax


@dataclass(frozen=True, eq=False)
class ByValue:
    """An optimizer that equals another if both have the same code and the same plain numbers inside.

    Whatever is inside that is not plain (an array, an object) counts as equal only to itself.
    """

    value: optax.GradientTransformation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue) and _key(self.value) == _key(other.value)

    def __hash__(self) -> int:
        return hash(_key(self.value))


class _Same:
    """Equal to itself alone, and keeps what it stands for alive, so that its id is not given away."""

    def __init__(self, what: Any) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.what is other.what

    def __hash__(self) -> int:
        return id(self.what)


def _key(part: Any) -> Any:
    if part is None or isinstance(part, bool | int | float | str):
        return type(part), part
    if isinstance(part, tuple | list):
        return type(part), tuple(map(_key, part))
    if isinstance(part, FunctionType):
        cells = tuple(cell.cell_contents for cell in part.__closure__ or ())
        return part.__code__, _key(cells), _key(part.__defaults__), _key(tuple((part.__kwdefaults__ or {}).values()))
    return _Same(part)
