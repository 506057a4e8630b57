"""Checks of the content of files, and values as short text for messages.

Every error in the content becomes a ContentError, which is a ValueError and names the file.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

MAX_DEPTH = 100  # levels of JSON: more than otpe's files have, and few enough for recursive functions
PARSING_ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class ContentError(ValueError):
    """The content of a file is not what it should be. The message names the file."""


def parsed(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError if it is not JSON, or nested more than MAX_DEPTH levels deep."""
    too_deep = f"its values are nested more than {MAX_DEPTH} levels deep"
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level, depth = [value], 0
    while level and depth < MAX_DEPTH:
        level, depth = _inside(level), depth + 1
    if level:
        raise ValueError(too_deep)
    return value


def _inside(values: list[Any]) -> list[Any]:
    """Return the values inside these lists and dictionaries that are lists or dictionaries themselves."""
    outer = [value.values() if isinstance(value, dict) else value for value in values if isinstance(value, dict | list)]
    return [inner for value in outer for inner in value if isinstance(inner, dict | list)]


@contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """Context for code that relies on the structure of a file: errors become a ContentError that names the file."""
    try:
        yield
    except ContentError:
        raise
    except PARSING_ERRORS as error:
        what = f"there is no {error.args[0]} in it" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ContentError(f"{path} is damaged: {what or type(error).__name__}.{advice and f' {advice}'}") from error


def typed(value: Any, needs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dictionary if it has these keys, with values of these types: `int`, `float | None`, `list[float]`, …

    Raises ValueError otherwise.
    """
    if not isinstance(value, dict):
        raise ValueError(f"it holds {shown(value)}, expected names and values")
    missing = [name for name in needs if name not in value]
    if missing:
        raise ValueError(f"there is no {', '.join(missing[:3])} in it")
    for name, kind in needs.items():
        if not fits(value[name], kind):
            expected = kind.__name__ if isinstance(kind, type) else kind
            raise ValueError(f"{name} is {shown(value[name])}, expected {expected}")
    return value


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value from JSON fits a type. In JSON, tuples are lists, paths are text, floats may be ints."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin in (list, tuple, Sequence):
        alike = origin is not tuple or parts[1:] == (...,)
        kinds = [parts[0]] * len(value) if alike and isinstance(value, list | tuple) else parts
        return isinstance(value, list | tuple) and len(value) == len(kinds) and all(map(fits, value, kinds))
    if kind is NoneType:
        return value is None
    if kind is Path:
        return isinstance(value, str | Path)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, origin or kind) and (kind is bool or not isinstance(value, bool))


def shown(value: Any) -> str:
    """Return a value as text for a message, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
