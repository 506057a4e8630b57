"""Arrays kept on the disk: whole or not there, made anew when they are of other settings or damaged.

A cache is an .npz file, so that anyone can open it: every member is compressed and carries a checksum. Large arrays are
cut into parts, which two threads or more unpack at the same time. Nothing is pickled.

Only plain files of this user or of root are trusted: anyone else could put other numbers there. What a file says of
itself is checked before memory is taken for it.
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
RATIO = 1032  # deflate makes nothing smaller than by this
HEADER = 1 << 14  # bytes of a member that are not numbers, at most

Arrays = dict[str, np.ndarray]
Layout = tuple[tuple[int, ...], np.dtype]


def home() -> Path | None:
    """Where caches go that belong beside no data: OTPE_CACHE, or the user's folder for such things."""
    try:
        return files.cache_home()
    except RuntimeError:  # a user without a home, as in some containers
        return _temporary()


def read(
    folder: Path | None, name: str, stamp: dict[str, Any], fit: Callable[[Arrays], bool] = lambda _: True
) -> Arrays | None:
    """The arrays, if they are there, whole, made for exactly this stamp, and `fit`."""
    if folder is None:
        return None
    path = _path(folder, name)
    try:
        with _opened(path) as file, zipfile.ZipFile(file) as archive:
            about = json.loads(_member(archive, "about.json", MOST_ABOUT))
            if about["stamp"] != json.loads(json.dumps(stamp)):
                return None
            layouts = {key: _layout(like) for key, like in about["arrays"].items()}
            _check_sizes(layouts, os.fstat(file.fileno()).st_size)
        arrays = {key: _unpacked(path, key, *layout) for key, layout in layouts.items()}
        if not fit(arrays):
            raise ValueError("its arrays do not fit together")
        return arrays
    except (FileNotFoundError, NotADirectoryError, NotOursError):
        return None
    except Exception as error:  # whatever it is, the arrays can be made anew
        warnings.warn(f"The cache {path} cannot be read ({_reason(error)}) and is made anew.", stacklevel=2)
        return None


def write(folder: Path | None, name: str, stamp: dict[str, Any], arrays: Arrays) -> Path | None:
    """Keep the arrays. A cache that cannot be written is no reason to stop: it says so, and None comes back."""
    if folder is None:
        return None
    path = _path(folder, name)
    about = {
        "stamp": stamp,
        "arrays": {key: {"shape": x.shape, "dtype": x.dtype.str} for key, x in arrays.items()},
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=3) as archive:
        archive.writestr("about.json", json.dumps(about))
        for key, x in arrays.items():
            for i, (start, stop) in enumerate(_parts(x.shape, x.dtype)):
                with archive.open(_part_name(key, i), "w") as member:
                    np.lib.format.write_array(member, x[start:stop], allow_pickle=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_replaceable(path)
        files.write_atomically(path, packed.getvalue())
    except OSError as error:
        warnings.warn(f"The cache {path} cannot be written: {error.strerror}.", stacklevel=2)
        return None
    return path


class NotOursError(PermissionError):
    """A file that somebody else could have made, or could change."""


def _temporary() -> Path | None:
    """A folder in the temporary one, where others cannot write. Its name is known, so others may have made it first."""
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


def _user() -> int | None:
    return os.getuid() if hasattr(os, "getuid") else None  # Windows has none, and temporary folders of each user


def _trusted(about: os.stat_result) -> bool:
    return _user() is None or about.st_uid in (_user(), 0)


def _check_replaceable(path: Path) -> None:
    """What another user keeps there, in a folder that both may write to, stays."""
    if path.exists() and not _trusted(path.lstat()):
        raise NotOursError(errno.EPERM, "another user's file is there")


def _opened(path: Path) -> IO[bytes]:
    file = os.fdopen(files.open_plain(path, os.O_RDONLY), "rb")
    if not _trusted(os.fstat(file.fileno())):
        file.close()
        raise NotOursError(path)
    return file


def _layout(like: dict[str, Any]) -> Layout:
    shape, dtype = tuple(like["shape"]), np.dtype(like["dtype"])
    if not shape or not all(isinstance(n, int) and n >= 0 for n in shape) or dtype.kind not in "biufU":
        raise ValueError(f"an array of {dtype} {list(shape)}")
    return shape, dtype


def _check_sizes(layouts: dict[str, Layout], size: int) -> None:
    """Refuse arrays that no file of this size can hold."""
    declared = sum(shape[0] * _row(shape, dtype) for shape, dtype in layouts.values())
    if declared > RATIO * size:
        raise ValueError(f"{declared:,} bytes of arrays in a file of {size:,}")


def _unpacked(path: Path, key: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    made = np.empty(shape, dtype)

    def unpack(job: tuple[int, tuple[int, int]]) -> None:
        i, (start, stop) = job
        with _opened(path) as file, zipfile.ZipFile(file) as archive:  # one each: a shared one is read under a lock
            content = _member(archive, _part_name(key, i), made[start:stop].nbytes + HEADER)
        part = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
        if part.shape != made[start:stop].shape or part.dtype != made.dtype:
            raise ValueError(f"{_part_name(key, i)} does not fit")
        made[start:stop] = part

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(unpack, enumerate(_parts(shape, dtype))))
    return made


def _member(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """The content, which may not be more than this. What it says of its size is a bound, whatever is packed."""
    size = archive.getinfo(name).file_size
    if size > most:
        raise ValueError(f"{name} has {size:,} bytes, expected {most:,} at most")
    with archive.open(name) as member:
        return member.read(size)


def _parts(shape: tuple[int, ...], dtype: np.dtype) -> list[tuple[int, int]]:
    """Ranges of the first axis of about PART bytes each."""
    rows = max(1, PART // _row(shape, dtype))
    return [(start, min(start + rows, shape[0])) for start in range(0, shape[0], rows)]


def _row(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Bytes of one entry of the first axis; one at least."""
    return max(1, dtype.itemsize * math.prod(shape[1:]))


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.npz"


def _part_name(key: str, part: int) -> str:
    return f"{key}-{part:04}.npy"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
