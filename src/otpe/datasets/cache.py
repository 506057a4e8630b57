"""Arrays cached on the disk. An entry is either complete or missing, and is made anew if its settings differ.

An entry is an .npz file, so that anyone can open it. Every member is compressed and has a checksum. Large arrays are
cut into parts, which several threads unpack at the same time. Nothing is pickled.

Only plain files of this user or of root are read, because other users could put other numbers there. The sizes that an
entry claims are checked before memory is taken for it.
"""

import errno
import io
import json
import math
import os
import stat
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import numpy as np

from otpe import files

PART = 16 << 20  # bytes
MOST_ABOUT = 1 << 20  # bytes of about.json
RATIO = 1032  # the largest ratio by which deflate compresses
HEADER = 1 << 14  # bytes of a member in front of the numbers, at most

Arrays = dict[str, np.ndarray]


class NotOursError(PermissionError):
    """A file or folder that another user could have made, or could change."""


def home() -> Path | None:
    """Return the folder for caches that do not belong beside data. None, with a warning, if there is no safe one."""
    try:
        return files.cache_home()
    except RuntimeError:  # a user without a home, as in some containers
        return _temporary()


def _temporary() -> Path | None:
    """Return a private folder in the system's temporary folder. Others can guess its name, so they may own it."""
    path = None
    try:
        path = Path(tempfile.gettempdir()) / ("otpe-cache" if _user() is None else f"otpe-cache-{_user()}")
        path.mkdir(mode=0o700, exist_ok=True)
        about = path.lstat()
        if not stat.S_ISDIR(about.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is no folder")
        if _user() is not None and (about.st_uid != _user() or about.st_mode & 0o022):
            raise NotOursError(errno.EPERM, "others may write to it")
    except OSError as error:
        warnings.warn(
            f"{path or 'The temporary folder'} is not used as a cache: {error.strerror}. Set OTPE_CACHE to a folder of"
            " yours.",
            stacklevel=3,
        )
        return None
    return path


def read(
    folder: Path | None, name: str, stamp: dict[str, Any], fit: Callable[[Arrays], bool] = lambda _: True
) -> Arrays | None:
    """Return the arrays of an entry, or None if it is missing, has another stamp, is damaged, or does not `fit`."""
    if folder is None:
        return None
    path = folder / f"{name}.npz"
    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            about = json.loads(_member(archive, "about.json", MOST_ABOUT))
            if about["stamp"] != json.loads(json.dumps(stamp)):
                return None
            layouts = {key: _layout(entry) for key, entry in about["arrays"].items()}
            size = os.fstat(file.fileno()).st_size
        claimed = sum(shape[0] * _row(shape, dtype) for shape, dtype in layouts.values())
        if claimed > RATIO * size:
            raise ValueError(f"{claimed:,} bytes of arrays in a file of {size:,}")
        arrays = {key: _unpacked(path, key, *layout) for key, layout in layouts.items()}
        if not fit(arrays):
            raise ValueError("its arrays do not fit together")
        return arrays
    except (FileNotFoundError, NotADirectoryError, NotOursError):
        return None
    except Exception as error:  # whatever it is, the arrays can be made anew
        warnings.warn(f"The cache {path} cannot be read ({reason(error)}) and is made anew.", stacklevel=2)
        return None


def write(folder: Path | None, name: str, stamp: dict[str, Any], arrays: Arrays) -> Path | None:
    """Write an entry and return its path. If that is impossible, warn and return None."""
    if folder is None:
        return None
    path, packed = folder / f"{name}.npz", io.BytesIO()
    layouts = {key: {"shape": x.shape, "dtype": x.dtype.str} for key, x in arrays.items()}
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        archive.writestr("about.json", json.dumps({"stamp": stamp, "arrays": layouts}))
        for key, x in arrays.items():
            for i, part in enumerate(_parts(x.shape, x.dtype)):
                with archive.open(_part_name(key, i), "w") as member:
                    np.lib.format.write_array(member, x[part], allow_pickle=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and not _trusted(path.lstat()):  # in a folder to which both users may write
            raise NotOursError(errno.EPERM, "another user's file is there")
        files.write_atomically(path, packed.getvalue())
    except OSError as error:
        warnings.warn(f"The cache {path} cannot be written: {error.strerror}.", stacklevel=2)
        return None
    return path


def reason(error: Exception) -> str:
    """Return the message of an error on one line, or the name of its type if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__


def _user() -> int | None:
    return os.getuid() if hasattr(os, "getuid") else None  # Windows has no user ids, but a temporary folder per user


def _trusted(about: os.stat_result) -> bool:
    return _user() is None or about.st_uid in (_user(), 0)


def _opened(path: Path) -> IO[bytes]:
    file = os.fdopen(files.open_plain(path, os.O_RDONLY), "rb")
    if not _trusted(os.fstat(file.fileno())):
        file.close()
        raise NotOursError(path)
    return file


def _layout(entry: dict[str, Any]) -> tuple[tuple[int, ...], np.dtype]:
    shape, dtype = tuple(entry["shape"]), np.dtype(entry["dtype"])
    if not shape or not all(isinstance(n, int) and n >= 0 for n in shape) or dtype.kind not in "biufU":
        raise ValueError(f"an array of {dtype} {list(shape)}")
    return shape, dtype


def _unpacked(path: Path, key: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    result = np.empty(shape, dtype)

    def unpack(job: tuple[int, slice]) -> None:
        i, rows = job
        with _opened(path) as file, zipfile.ZipFile(file) as archive:  # one per thread: a shared one has a lock
            content = _member(archive, _part_name(key, i), result[rows].nbytes + HEADER)
        part = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        if part.shape != result[rows].shape or part.dtype != result.dtype:
            raise ValueError(f"{_part_name(key, i)} does not fit")
        result[rows] = part

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(unpack, enumerate(_parts(shape, dtype))))
    return result


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return the content of a member. Raises ValueError if its stated size is above `most`. Never reads more."""
    size = archive.getinfo(name).file_size
    if size > most:
        raise ValueError(f"{name} has {size:,} bytes, expected {most:,} at most")
    with archive.open(name) as member:
        return member.read(size)


def _parts(shape: tuple[int, ...], dtype: np.dtype) -> list[slice]:
    """Return slices of the first axis of about PART bytes each."""
    rows = max(1, PART // _row(shape, dtype))
    return [slice(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows)]


def _row(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Return the bytes of one entry of the first axis, at least 1."""
    return max(1, dtype.itemsize * math.prod(shape[1:]))


def _part_name(key: str, part: int) -> str:
    return f"{key}-{part:04}.npy"
