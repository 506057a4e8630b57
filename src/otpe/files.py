"""Files that are whole or not there: what was written before stays until the new one is complete."""

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
NAME = 200  # bytes of a file name that we choose: file systems allow 255
CAREFUL = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")  # each where the system has it


class NotPlainError(OSError):
    """Where a file of ours should be, there is something else."""


def other_than_file(mode: int) -> str | None:
    """What this is, by its mode, if it is no plain file."""
    return None if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "a device")


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of a plain file.

    Never of what a link leads to, which may be somebody else's. And never waits, as a named pipe would make us do.
    """
    with suppress(FileNotFoundError):  # the flags may ask for a new one
        _check_plain(path, path.lstat())
    for name in CAREFUL:
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        _check_plain(path, os.fstat(descriptor))  # something else may have come there since
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def append(path: Path) -> IO[str]:
    """Open a plain file to append to it, a new one if there is none. One that has another name too is refused."""
    descriptor = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise NotPlainError(
            f"{path} is a hard link: the same file has another name too, and would change there. Put a copy in its"
            " place."
        )
    return os.fdopen(descriptor, "a")


def _check_plain(path: Path, about: os.stat_result) -> None:
    other = other_than_file(about.st_mode)
    if other:
        raise NotPlainError(f"{path} is {other}, expected a plain file. Move it away.")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write beside the target, flush to the disk, then rename over it."""
    beside = path.with_name(f".{secrets.token_hex(8)}.partial")  # the target's own name may be as long as is allowed
    try:
        with beside.open("xb") as file:  # a new one, through no link
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


def cache_home() -> Path:
    """The folder for this user's caches: OTPE_CACHE, or `otpe` in the cache folder of the system.

    Raises RuntimeError for a user without a home, as in some containers.
    """
    given = os.environ.get("OTPE_CACHE")
    return Path(given or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "otpe").expanduser()
