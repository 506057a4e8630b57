"""Files that are whole or not there: what was written before stays until the new one is complete."""

import os
import secrets
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target, flush to the disk, then rename over it."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
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
    if path.exists() and not path.is_dir():
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
