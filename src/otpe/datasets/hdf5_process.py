"""Run as a program by `hdf5.py`: reads one file and writes it to standard output, first a line of JSON, then arrays.

A process of its own, because the HDF5 library does not survive every damaged file: some make it crash, some loop for
ever, some ask for terabytes. Here that ends this process, under limits, and not the one that wanted the data. It
imports nothing of otpe, so that it starts at once.

Only this one file is read. HDF5 also follows links to other files and takes numbers from them; that is refused before
any number is read, because a file from elsewhere could so return what is in the files of its reader.
"""

import io
import json
import os
import sys
import zipfile
import zlib
from typing import Any

import h5py
import numpy as np
from h5py import h5l  # pyright: ignore[reportAttributeAccessIssue]

READY = b"otpe is ready to read\n"  # what others may have printed before, at start-up, does not count
NEEDED = ("spikes/times", "spikes/units", "labels")
OPTIONAL = ("extra/speaker", "extra/keys")
UNPACKED = 1_000_000_000  # bytes that any archive may hold, and as many times its own size
RATIO = 10


class Unreadable(Exception):
    """What is wrong with the file, as the end of a sentence that began with its name."""


def main() -> None:
    path, size = sys.argv[1], int(sys.argv[2])
    sys.stdout.buffer.write(READY)
    sys.stdout.flush()
    _limit(size)
    try:
        names, arrays = _read(path)
    except Unreadable as error:
        _send({"error": str(error)}, {})
    except Exception as error:  # the library raises whatever it stumbles over
        _send({"error": f"cannot be read: {_reason(error)}"}, {})
    else:
        shapes = {name: [x.dtype.str, x.size] for name, x in arrays.items()}
        _send({"names": names, "arrays": shapes}, arrays)


def _read(path: str) -> tuple[list[str] | None, dict[str, np.ndarray]]:
    with h5py.File(_unzipped(path) if path.endswith(".zip") else path, "r") as file:
        found = {name: _dataset(file, name) for name in NEEDED + OPTIONAL}
        data = {name: dataset for name, dataset in found.items() if dataset is not None}
        missing = [name for name in NEEDED if name not in data]
        if missing:
            there = ", ".join(map(repr, file)) or "nothing"
            raise Unreadable(f"has no {missing[0]!r}, but {there}")
        times, time_counts = _rows(data["spikes/times"], "spikes/times")
        units, unit_counts = _rows(data["spikes/units"], "spikes/units")
        arrays = {"times": times, "time_counts": time_counts, "units": units, "unit_counts": unit_counts}
        arrays["labels"] = data["labels"][()]
        if "extra/speaker" in data:
            arrays["speakers"] = data["extra/speaker"][()]
        names = _names(data["extra/keys"]) if "extra/keys" in data else None
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "fiu":
            raise Unreadable(f"has {name} of {array.dtype} {list(array.shape)}, expected a row of numbers")
    return names, arrays


def _dataset(file: h5py.File, name: str) -> h5py.Dataset | None:
    """The dataset, if it is there. Its numbers are in this file, and so is every step of the way to it."""
    place: Any = file
    for part in name.split("/"):
        if not isinstance(place, h5py.Group) or not place.id.links.exists(part.encode()):
            return None
        if place.id.links.get_info(part.encode()).type != h5l.TYPE_HARD:  # `in` and `get` would follow a link
            raise Unreadable(f"reaches {name!r} through a link, which may lead to another file and is not followed")
        place = place[part]
    if not isinstance(place, h5py.Dataset):
        raise Unreadable(f"has {name!r} as a group, expected a dataset")
    if place.external or place.is_virtual:
        raise Unreadable(f"has the numbers of {name!r} in another file, which is not read")
    return place


def _rows(dataset: h5py.Dataset, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows one behind the other, and how long each is."""
    whole = dataset[()]
    rows = [np.asarray(row) for row in whole] if np.ndim(whole) else [whole]
    if any(row.ndim != 1 for row in rows):
        raise Unreadable(f"has {name!r} of the shape {list(np.shape(whole))}, expected a row for each recording")
    kind = h5py.check_vlen_dtype(dataset.dtype) or whole.dtype
    if not kind.isnative:
        raise Unreadable(f"has {name!r} in the byte order of another kind of machine, which cannot be read here")
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return (np.concatenate(rows) if rows else np.empty(0, kind)), counts


def _names(dataset: h5py.Dataset) -> list[str]:
    keys = np.asarray(dataset[()])
    try:
        if keys.ndim != 1 or keys.dtype.kind not in "SO":
            raise TypeError
        names = [key.decode() if isinstance(key, bytes) else str(key) for key in keys]
    except (UnicodeDecodeError, TypeError):
        raise Unreadable("has 'extra/keys' that are no row of names") from None
    return ["".join(c if c.isprintable() else "�" for c in name) for name in names]


def _unzipped(path: str) -> io.BytesIO:
    """The one HDF5 file of the archive, in memory. Its checksum is compared on the way."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [name for name in archive.namelist() if name.endswith((".h5", ".hdf5"))]
            if len(inside) != 1:
                raise Unreadable(f"holds {', '.join(archive.namelist()) or 'nothing'}, expected one .h5 file")
            size, most = archive.getinfo(inside[0]).file_size, UNPACKED + RATIO * os.path.getsize(path)
            if size > most:
                raise Unreadable(f"unpacks to {size:,} bytes, expected {most:,} at most in an archive of its size")
            with archive.open(inside[0]) as member:
                return io.BytesIO(member.read(size))  # never more, even if more is packed
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise Unreadable(f"cannot be unzipped: {_reason(error)}") from None


def _limit(size: int) -> None:
    """Processor seconds and memory, far above what a file of this size needs."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    seconds, memory = 10 + size // 5_000_000, 4_000_000_000 + 20 * size
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        _, ceiling = resource.getrlimit(what)
        most = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        resource.setrlimit(what, (most, ceiling))


def _send(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    out = sys.stdout.buffer
    out.write(json.dumps(header).encode() + b"\n")
    for array in arrays.values():
        out.write(np.ascontiguousarray(array).data)
    out.flush()


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    main()
