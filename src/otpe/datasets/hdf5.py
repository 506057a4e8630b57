"""Reads recordings in the layout of SHD and SSC, from an HDF5 file or from its zip archive.

spikes/times   [recordings] rows of seconds (float16 in the originals)
spikes/units   [recordings] rows of unit numbers
labels         [recordings]
extra/speaker  [recordings], and extra/keys [classes], the class names: both may be missing
"""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from otpe import files
from otpe.datasets import events

PROGRAM = Path(__file__).with_name("hdf5_process.py")
READY = b"otpe is ready to read\n"
SECONDS, BYTES_A_SECOND = 120, 1_000_000  # limits of elapsed time: far more than slow disks need
HARMLESS = ("HDF5_USE_FILE_LOCKING",)  # some network disks need it
ENDINGS = {
    "SIGXCPU": "makes the HDF5 library run for ever",
    "SIGKILL": "was being read when the process was killed, perhaps because memory ran out",
}


def read(path: str | Path, units: int, *, keep_empty: bool = False) -> events.Events:
    """Return all recordings of a file, checked. Raises an error that says what is wrong with the file."""
    path = Path(path)
    if not find_spec("h5py"):
        raise OSError("reading recordings needs h5py, which is not installed. Use: pip install 'otpe[data]'")
    names, arrays = _arrays(path, _size(path))
    if arrays["times"].dtype.kind != "f":
        raise ValueError(
            f"{path} has times of type {arrays['times'].dtype}, expected seconds as floating-point numbers."
        )
    return events.assemble(**arrays, names=names, width=units, where=str(path), keep_empty=keep_empty)


def _size(path: Path) -> int:
    """Return the size of a file in bytes. Raises OSError if it cannot be read, or is not a plain file."""
    try:
        about = path.stat()
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}. Name a file in SHD's layout.") from None
    other = files.other_than_file(about.st_mode)
    if other:
        raise OSError(f"{path} is {other}, expected a file in SHD's layout. Name the file itself.")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} may not be read. Ask for permission, or copy it to a folder of yours.")
    return about.st_size


def _arrays(path: Path, size: int) -> tuple[list[str] | None, dict[str, Any]]:
    """Return class names and arrays of the file, read by another process, which is stopped if it takes too long."""
    command = [sys.executable or "python", "-P", str(PROGRAM), str(path), str(size)]
    seconds = SECONDS + size / BYTES_A_SECOND
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, env=_environment(), timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(
            f"{path} was not read after {seconds:,.0f} seconds, so reading was stopped. Copy it to a faster disk, and"
            " try again."
        ) from None
    except OSError as error:
        raise _not_started(path, str(error)) from None
    output, status = done.stdout, done.returncode
    start = output.find(READY)
    if start < 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise _not_started(path, ": ".join([f"it ended with {status}", *last]))
    start += len(READY)
    end = output.find(b"\n", start)
    header = json.loads(output[start:end]) if end >= 0 else {}
    if "arrays" not in header or status != 0:
        why = header.get("error") or _end(status)
        raise ValueError(
            f"{path} {why}. It may be cut short, damaged or not in SHD's layout: fetch it again, or repair it."
        )
    arrays, offset = {}, end + 1
    for name, (dtype, count) in header["arrays"].items():
        arrays[name] = np.frombuffer(output, dtype, count, offset).copy()
        offset += arrays[name].nbytes
    return header["names"], arrays


def _environment() -> dict[str, str]:
    """Return the environment without HDF5's settings, which could make it load filter programs from other folders."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_") or name in HARMLESS}
    return kept | {"HDF5_PLUGIN_PRELOAD": "::"}  # loads no plugins


def _not_started(path: Path, why: str) -> OSError:
    return OSError(
        f"{path} is read by a separate Python process, which could not be started ({why}). Check that"
        f" `{sys.executable} -c 'import h5py'` works."
    )


def _end(status: int) -> str:
    """Return what the exit status of the process says about the file."""
    for name, sentence in ENDINGS.items():
        if status == -int(getattr(signal, name, 0)) != 0:
            return sentence
    return f"makes the HDF5 library crash ({status})"
