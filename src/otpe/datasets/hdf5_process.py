"""Run as a program by `hdf5.py`: reads one file and writes it to standard output, first a line of JSON, then arrays.

A process of its own, because the HDF5 library does not survive every damaged file: some make it crash, some loop for
ever, some ask for terabytes. Here that ends this process, under limits, and not the one that wanted the data. It
imports nothing of otpe, so that it starts at once.
"""

import io
import json
import sys
import zipfile
import zlib
from typing import Any

import h5py
import numpy as np

READY = b"otpe is ready to read\n"  # what others may have printed before, at start-up, does not count
NEEDED = ("spikes/times", "spikes/units", "labels")


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
        missing = [name for name in NEEDED if name not in file]
        if missing:
            there = ", ".join(map(repr, file)) or "nothing"
            raise Unreadable(f"has no {missing[0]!r}, but {there}")
        times, time_counts = _rows(file, "spikes/times")
        units, unit_counts = _rows(file, "spikes/units")
        arrays = {"times": times, "time_counts": time_counts, "units": units, "unit_counts": unit_counts}
        arrays["labels"] = _dataset(file, "labels")[()]
        if "extra/speaker" in file:
            arrays["speakers"] = _dataset(file, "extra/speaker")[()]
        names = _names(file) if "extra/keys" in file else None
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in "fiu":
            raise Unreadable(f"has {name} of {array.dtype} {list(array.shape)}, expected a row of numbers")
    return names, arrays


def _dataset(file: h5py.File, name: str) -> h5py.Dataset:
    found = file[name]
    if not isinstance(found, h5py.Dataset):
        raise Unreadable(f"has {name!r} as a group, expected a dataset")
    return found


def _rows(file: h5py.File, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows one behind the other, and how long each is."""
    dataset = _dataset(file, name)
    whole = dataset[()]
    rows = [np.asarray(row) for row in whole] if np.ndim(whole) else [whole]
    if any(row.ndim != 1 for row in rows):
        raise Unreadable(f"has {name!r} of the shape {list(np.shape(whole))}, expected a row for each recording")
    kind = h5py.check_vlen_dtype(dataset.dtype) or whole.dtype
    if not kind.isnative:
        raise Unreadable(f"has {name!r} in the byte order of another kind of machine, which cannot be read here")
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    return (np.concatenate(rows) if rows else np.empty(0, kind)), counts


def _names(file: h5py.File) -> list[str]:
    keys = np.asarray(_dataset(file, "extra/keys")[()])
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
            return io.BytesIO(archive.read(inside[0]))
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
