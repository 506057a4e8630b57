"""The program that `hdf5.py` runs: it reads one file and writes a line of JSON and arrays to standard output.

It is another process because the HDF5 library does not survive every damaged file: it crashes, runs for ever, or takes
terabytes of memory. Such a failure ends only this process, whose time and memory are limited. It imports nothing of
otpe, to start fast.

Only this one file is read. HDF5 also follows links to other files and reads numbers from them. This is refused before
any number is read, because a crafted file could in this way return what is in private files of its reader.
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

READY = b"otpe is ready to read\n"  # output before this line, such as that of a sitecustomize module, is ignored
NEEDED = ("spikes/times", "spikes/units", "labels")
OPTIONAL = ("extra/speaker", "extra/keys")
UNPACKED, RATIO = 1_000_000_000, 10  # an archive may unpack to this many bytes, plus this many times its own size


class Unreadable(Exception):
    """What is wrong with the file, as the end of a sentence that begins with its name."""


def main() -> None:
    path, size = sys.argv[1], int(sys.argv[2])
    out = sys.stdout.buffer
    out.write(READY)
    out.flush()
    _limit(size)
    arrays = {}
    try:
        names, arrays = _read(path)
    except Unreadable as error:
        header = {"error": str(error)}
    except Exception as error:  # the library raises errors of many types
        header = {"error": f"cannot be read: {_reason(error)}"}
    else:
        header = {"names": names, "arrays": {name: [x.dtype.str, x.size] for name, x in arrays.items()}}
    out.write(json.dumps(header).encode() + b"\n")
    for array in arrays.values():
        out.write(np.ascontiguousarray(array).data)
    out.flush()


def _read(path: str) -> tuple[list[str] | None, dict[str, np.ndarray]]:
    with h5py.File(_unzipped(path) if path.endswith(".zip") else path, "r") as file:
        found = {name: _dataset(file, name) for name in NEEDED + OPTIONAL}
        data = {name: dataset for name, dataset in found.items() if dataset is not None}
        missing = [name for name in NEEDED if name not in data]
        if missing:
            present = ", ".join(map(repr, file)) or "nothing"
            raise Unreadable(f"has no {missing[0]!r}, but {present}")
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
    """Return the dataset, or None if it is missing. Raises Unreadable if it, or its numbers, may be in another file."""
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
    """Return the rows joined, and the length of each."""
    whole = dataset[()]
    rows = [np.asarray(row) for row in whole] if np.ndim(whole) else [whole]
    if any(row.ndim != 1 for row in rows):
        raise Unreadable(f"has {name!r} of the shape {list(np.shape(whole))}, expected a row for each recording")
    dtype = h5py.check_vlen_dtype(dataset.dtype) or whole.dtype
    if not dtype.isnative:
        raise Unreadable(f"has {name!r} in the byte order of another kind of machine, which cannot be read here")
    return (np.concatenate(rows) if rows else np.empty(0, dtype)), np.array([len(row) for row in rows], np.int64)


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
    """Return the one HDF5 file of an archive, in memory. Its checksum is compared."""
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [name for name in archive.namelist() if name.endswith((".h5", ".hdf5"))]
            if len(inside) != 1:
                raise Unreadable(f"holds {', '.join(archive.namelist()) or 'nothing'}, expected one .h5 file")
            size, most = archive.getinfo(inside[0]).file_size, UNPACKED + RATIO * os.path.getsize(path)
            if size > most:
                raise Unreadable(f"unpacks to {size:,} bytes, expected {most:,} at most in an archive of its size")
            with archive.open(inside[0]) as member:
                return io.BytesIO(member.read(size))  # not more, even if the archive claims a wrong size
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise Unreadable(f"cannot be unzipped: {_reason(error)}") from None


def _limit(size: int) -> None:
    """Limit processor time and memory of this process to far more than a file of this size needs."""
    try:
        import resource
    except ImportError:  # on Windows
        return
    seconds, memory = 10 + size // 5_000_000, 4_000_000_000 + 20 * size
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        _, ceiling = resource.getrlimit(what)
        most = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        resource.setrlimit(what, (most, ceiling))


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    main()
