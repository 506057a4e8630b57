"""Compiled programs on the disk: a command that has run before starts without compiling again.

JAX does the work. This module chooses the folder, and removes files that a killed process has left half written. It
sets environment variables that JAX reads when it is imported, so it must be called before that.

The folder is `compiled` in the user's cache folder, with one subfolder for each kind of processor.
OTPE_COMPILATION_CACHE names another folder, or is `off`.
"""

import hashlib
import os
import platform
import stat
from contextlib import suppress
from pathlib import Path

from otpe import files

VARIABLE = "OTPE_COMPILATION_CACHE"
OFF = ("off", "0", "false", "no")
FLAG = "--no-compilation-cache"
MOST_BYTES = 1 << 30  # above this size JAX removes the least recently used programs


def enable() -> Path | None:
    """Let JAX keep compiled programs on the disk, and return the folder. None: the cache stays off."""
    wish = os.environ.get(VARIABLE, "")
    if wish.lower() in OFF or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    try:
        folder = Path(wish).expanduser() if wish else files.cache_home() / "compiled" / _machine()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_ours(folder):
            return None
        _remove_unfinished(folder)
    except (OSError, RuntimeError, ImportError):  # no room, no home, no filelock: commands work without the cache
        return None
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(MOST_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
    return folder


def _is_ours(folder: Path) -> bool:
    """Return whether only this user can write to the folder. JAX runs its programs, so others must not add any."""
    about = folder.stat()
    writable_by_others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return not hasattr(os, "getuid") or (about.st_uid == os.getuid() and not writable_by_others)


def _remove_unfinished(folder: Path) -> None:
    """Remove programs without a file for the time of their last use. JAX writes this file after the program."""
    from filelock import FileLock, Timeout

    with suppress(Timeout), FileLock(folder / ".lockfile", timeout=0.2):
        for program in folder.glob("*-cache"):
            if not program.with_name(program.name.removesuffix("-cache") + "-atime").exists():
                program.unlink(missing_ok=True)


def _machine() -> str:
    """A short name for the processor: a program for one may not run on another that shares the home folder."""
    what = [platform.machine(), platform.processor()]
    with suppress(OSError), open("/proc/cpuinfo") as lines:
        what += [line for line in lines if line.startswith(("flags", "Features", "model name"))][:2]
    return hashlib.sha256("".join(what).encode()).hexdigest()[:12]
