"""Arrays kept on the disk: whole or not there, made anew when they are of other settings or damaged.

A cache is an .npz file, so that anyone can open it: every member is compressed and carries a checksum. Large arrays are
cut into parts, which two threads or more unpack at the same time. Nothing is pickled.
"""

import io
import json
import os
import tempfile
import warnings
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from otpe import files

PART = 16 << 20  # bytes
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, KeyError, RuntimeError)


def home() -> Path:
    """Where caches go that belong beside no data: OTPE_CACHE, or the user's folder for such things."""
    try:
        given = os.environ.get("OTPE_CACHE")
        return Path(given or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "otpe").expanduser()
    except RuntimeError:  # a user without a home, as in some containers
        return Path(tempfile.gettempdir()) / "otpe-cache"


def read(folder: Path, name: str, stamp: dict[str, Any]) -> dict[str, np.ndarray] | None:
    """The arrays, if they are there, whole, and made for exactly this stamp."""
    path = _path(folder, name)
    try:
        if not path.exists():
            return None
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("about.json"))
            if about["stamp"] != json.loads(json.dumps(stamp)):
                return None
            return {key: _unpacked(path, key, like) for key, like in about["arrays"].items()}
    except DAMAGED as error:
        warnings.warn(f"The cache {path} cannot be read ({error}) and is made anew.", stacklevel=2)
        return None


def write(folder: Path, name: str, stamp: dict[str, Any], arrays: dict[str, np.ndarray]) -> Path | None:
    """Keep the arrays. A cache that cannot be written is no reason to stop: it says so, and None comes back."""
    about = {
        "stamp": stamp,
        "arrays": {key: {"shape": x.shape, "dtype": x.dtype.str} for key, x in arrays.items()},
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        archive.writestr("about.json", json.dumps(about))
        for key, x in arrays.items():
            for i, (start, stop) in enumerate(_parts(x.shape, x.dtype)):
                with archive.open(_member(key, i), "w") as member:
                    np.lib.format.write_array(member, x[start:stop], allow_pickle=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files.write_atomically(_path(folder, name), packed.getvalue())
    except OSError as error:
        warnings.warn(f"The cache {_path(folder, name)} cannot be written: {error.strerror}.", stacklevel=2)
        return None
    return _path(folder, name)


def _unpacked(path: Path, key: str, like: dict[str, Any]) -> np.ndarray:
    made = np.empty(tuple(like["shape"]), np.dtype(like["dtype"]))

    def unpack(job: tuple[int, tuple[int, int]]) -> None:
        i, (start, stop) = job
        with zipfile.ZipFile(path) as archive:  # one each: a file that threads share is read under a lock
            part = np.lib.format.read_array(io.BytesIO(archive.read(_member(key, i))), allow_pickle=False)
        if part.shape != made[start:stop].shape or part.dtype != made.dtype:
            raise ValueError(f"{_member(key, i)} does not fit")
        made[start:stop] = part

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(unpack, enumerate(_parts(made.shape, made.dtype))))
    return made


def _parts(shape: tuple[int, ...], dtype: np.dtype) -> list[tuple[int, int]]:
    """Ranges of the first axis of about PART bytes each."""
    row = max(1, dtype.itemsize * int(np.prod(shape[1:])))
    rows = max(1, PART // row)
    return [(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows)]


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"


def _member(key: str, part: int) -> str:
    return f"{key}-{part:04}.npy"
