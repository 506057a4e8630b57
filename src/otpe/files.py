"""Files that are whole or not there: what was written before stays until the new one is complete.

And files that are read again: whatever is wrong with their content becomes a ValueError that names the file.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

DEEPEST = 100  # levels of JSON: more than any file of ours has, and few enough for every function that walks through
NAME = 200  # bytes of a file name that we choose: file systems allow 255
STRANGE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class ContentError(ValueError):
    """A file does not hold what it should. The message names it."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target, flush to the disk, then rename over it."""
    beside = path.with_name(f".{secrets.token_hex(8)}.partial")  # the target's own name may be as long as is allowed
    try:
        with beside.open("wb") as file:
            file.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        error.filename = str(path)  # a full disk does not say it, and the one beside is nobody's
        raise
    finally:
        beside.unlink(missing_ok=True)
    _flush_folder(path.parent)


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


def short_name(name: str) -> str:
    """As much of it as a file name may have, with room for a number behind it."""
    return name.encode()[:NAME].decode(errors="ignore")


def claim(folder: Path, stem: str, suffix: str) -> Path:
    """A new file stem-001, stem-002, … in the folder, made here and now, so that no one else gets the same number."""
    return _claim(folder, stem, suffix, lambda path: path.touch(exist_ok=False))


def claim_folder(parent: Path, stem: str) -> Path:
    """A new folder stem-001, stem-002, … below the parent, as `claim` does for files."""
    folder(parent)
    return _claim(parent, stem, "", Path.mkdir)


def _claim(parent: Path, stem: str, suffix: str, make: Callable[[Path], None]) -> Path:
    numbers = [path.name[len(stem) + 1 : len(path.name) - len(suffix)] for path in parent.glob(f"{stem}-*{suffix}")]
    number = max((int(text) for text in numbers if text.isdigit()), default=0)
    while True:
        number += 1
        path = parent / f"{stem}-{number:03}{suffix}"
        try:
            make(path)
        except FileExistsError:
            continue
        return path


def folder(path: Path) -> None:
    """Make the folder, if something else does not stand in its place."""
    no_file(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"out is {str(path)!r}, which cannot be made: {error.strerror}. Name another folder.") from None
    if not os.access(path, os.W_OK):
        raise PermissionError(f"out is {str(path)!r}, where nothing may be written. Name another folder.")


def no_file(path: Path) -> None:
    if os.path.exists(path) and not os.path.isdir(path):  # Path.exists raises for a name that is too long
        raise NotADirectoryError(f"out is {str(path)!r}, which is a file, expected a folder. Name another, or move it.")


def _flush_folder(path: Path) -> None:
    """Makes the rename itself last, where the system can open a folder."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clean(path: Path) -> None:
    """Remove what a killed process had begun to write. Only for a folder that is this process's own."""
    for partial in path.glob(".*.partial"):
        partial.unlink(missing_ok=True)
