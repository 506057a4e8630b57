"""Content that is read again: whatever is wrong with it becomes a ValueError that names the file."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

DEEPEST = 100  # levels of JSON: more than any file of ours has, and few enough for every function that walks through
STRANGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class ContentError(ValueError):
    """A file does not hold what it should. The message names it."""


def parsed(text: str | bytes) -> Any:
    """What JSON text says. ValueError for all that is wrong with it, also for values nested very deep."""
    too_deep = f"its values are nested more than {DEEPEST} levels deep"
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level, depth = [found], 0
    while level and depth < DEEPEST:
        level, depth = _inside(level), depth + 1
    if level:
        raise ValueError(too_deep)
    return found


def _inside(values: list[Any]) -> list[Any]:
    """The lists and dictionaries in these lists and dictionaries."""
    outer = [value.values() if isinstance(value, dict) else value for value in values if isinstance(value, dict | list)]
    return [inner for value in outer for inner in value if isinstance(inner, dict | list)]


@contextmanager
def reading(path: Path, advice: str = "") -> Iterator[None]:
    """For code that trusts the structure of a file: where the structure is another one, the error names the file."""
    try:
        yield
    except ContentError:
        raise
    except STRANGE as error:
        what = f"there is no {error.args[0]} in it" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ContentError(f"{path} is damaged: {what or type(error).__name__}.{advice and f' {advice}'}") from error


def typed(found: Any, needs: Mapping[str, Any]) -> dict[str, Any]:
    """The dictionary, if it has these keys with values of these types: `int`, `float | None`, `list[float]`, …"""
    if not isinstance(found, dict):
        raise ValueError(f"it holds {shown(found)}, expected names and values")
    missing = [name for name in needs if name not in found]
    if missing:
        raise ValueError(f"there is no {', '.join(missing[:3])} in it")
    for name, kind in needs.items():
        if not fits(found[name], kind):
            expected = kind.__name__ if isinstance(kind, type) else kind
            raise ValueError(f"{name} is {shown(found[name])}, expected {expected}")
    return found


def fits(value: Any, kind: Any) -> bool:
    """Is a value, as JSON has it, of this type? Tuples are lists in JSON, paths are text, floats may be whole."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return any(value == part and type(value) is type(part) for part in parts)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin in (list, tuple):
        return isinstance(value, list | tuple) and all(fits(each, parts[0]) for each in value)
    if kind is NoneType:
        return value is None
    if kind is Path:
        return isinstance(value, str | Path)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, origin or kind) and (kind is bool or not isinstance(value, bool))


def shown(value: Any) -> str:
    """In a message: of a long value, the beginning."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
