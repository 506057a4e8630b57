"""Safe opening, writing and naming of files and folders, and the location of the user's cache folder.

Files are replaced atomically: the old one stays until the new one is complete.
"""

import json
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
NAME_BYTES = 200  # the largest size of a name that `short_name` returns; file systems allow 255
SAFE_FLAGS = ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY")  # not every system has all of them


class NotPlainError(OSError):
    """Something other than a plain file is in the place of a file."""


def other_than_file(mode: int) -> str | None:
    """Return what kind of thing has this mode, such as "a folder", or None for a plain file."""
    return None if stat.S_ISREG(mode) else KINDS.get(stat.S_IFMT(mode), "a device")


def open_plain(path: Path, flags: int) -> int:
    """Open a plain file and return its descriptor. Raises NotPlainError for anything else.

    Links are not followed, since their target may belong to someone else. Named pipes are not opened, since that would
    block.
    """
    with suppress(FileNotFoundError):  # a missing file is no error here: with O_CREAT, `os.open` creates it
        _check_plain(path, path.lstat())
    for name in SAFE_FLAGS:
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        _check_plain(path, os.fstat(descriptor))  # the file may have been replaced after the first check
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def append(path: Path) -> IO[str]:
    """Open a plain file to append to it, or create it. Raises NotPlainError for a hard link."""
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
    """Write to a temporary file in the same folder, flush it to the disk, and rename it to the target."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.partial")  # the target's name may have the longest length
    try:
        with temporary.open("xb") as file:  # "x": always a new file, never through a link
            file.write(content.encode(errors="surrogateescape") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename = str(path)  # before this, it is None or the temporary file
        raise
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON to a file, as `write_atomically` does."""
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def short_name(name: str) -> str:
    """Return a name cut to at most NAME_BYTES, so that a number and an ending can be added."""
    return name.encode()[:NAME_BYTES].decode(errors="ignore")


def claim(folder: Path, stem: str, suffix: str) -> Path:
    """Create a new file stem-001, stem-002, … in the folder, so that no other process gets the same number."""
    return _claim(folder, stem, suffix, lambda path: path.touch(exist_ok=False))


def claim_folder(parent: Path, stem: str) -> Path:
    """Create a new folder stem-001, stem-002, … in the parent, as `claim` does for files."""
    make_folder(parent)
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


def make_folder(path: Path) -> None:
    """Create the folder if it is missing. Raises OSError if it cannot be created or written to."""
    refuse_file(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"out is {str(path)!r}, which cannot be made: {error.strerror}. Name another folder.") from None
    if not os.access(path, os.W_OK):
        raise PermissionError(f"out is {str(path)!r}, where nothing may be written. Name another folder.")


def refuse_file(path: Path) -> None:
    """Raise NotADirectoryError if this is a file instead of a folder."""
    if os.path.exists(path) and not os.path.isdir(path):  # Path.exists raises an error if the name is too long
        raise NotADirectoryError(f"out is {str(path)!r}, which is a file, expected a folder. Name another, or move it.")


def _flush_folder(path: Path) -> None:
    """Make a rename in the folder permanent on the disk, if the system can open folders."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partial(path: Path) -> None:
    """Remove temporary files of killed processes. Only for a folder that no other process writes to."""
    for partial in path.glob(".*.partial"):
        partial.unlink(missing_ok=True)


def cache_home() -> Path:
    """The folder for this user's caches: OTPE_CACHE, or `otpe` in the cache folder of the system.

    Raises RuntimeError for a user without a home, as in some containers.
    """
    given = os.environ.get("OTPE_CACHE")
    return Path(given or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "otpe").expanduser()
