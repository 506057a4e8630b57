"""Reads recordings in the layout of SHD and SSC, from an HDF5 file or from the zip archive that it came in.

spikes/times   [recordings] rows of seconds (float16 in the originals)
spikes/units   [recordings] rows of unit numbers
labels         [recordings]
extra/speaker  [recordings], and extra/keys [classes], the class names: both may be missing
"""

import json
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from otpe.datasets import events

PROGRAM = Path(__file__).with_name("hdf5_process.py")
TOO_LONG = {-int(getattr(signal, name)) for name in ("SIGXCPU", "SIGKILL") if hasattr(signal, name)}


def read(path: Path, units: int, *, keep_empty: bool = False) -> events.Events:
    """All recordings of the file, checked: whatever is wrong with it becomes a sentence."""
    if not find_spec("h5py"):
        raise OSError("reading recordings needs h5py, which is not installed. Use: pip install 'otpe[data]'")
    names, found = _received(path)
    if found["times"].dtype.kind != "f":
        raise ValueError(
            f"{path} has times of type {found['times'].dtype}, expected seconds as floating-point numbers."
        )
    return events.assemble(**found, names=names, width=units, where=str(path), keep_empty=keep_empty)


def _received(path: Path) -> tuple[list[str] | None, dict[str, Any]]:
    command = [sys.executable, "-P", str(PROGRAM), str(path), str(path.stat().st_size)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        with process.stdout as pipe:
            line = pipe.readline()
            header = json.loads(line) if line.endswith(b"\n") else {}
            found = {name: _array(pipe, *like) for name, like in header.get("arrays", {}).items()}
        status = process.wait()
    finally:
        process.kill()  # for whoever presses Ctrl-C; it has ended otherwise
        process.wait()
    if "arrays" in header and status == 0:
        return header["names"], found
    why = header.get("error")
    if why is None:
        why = (
            "makes the HDF5 library run for ever" if status in TOO_LONG else f"makes the HDF5 library crash ({status})"
        )
    raise ValueError(
        f"{path} {why}. It may be cut short, damaged or not in SHD's layout: fetch it again, or repair it."
    )


def _array(pipe: IO[bytes], dtype: str, size: int) -> np.ndarray:
    array = np.empty(size, dtype)
    rest = memoryview(array.view(np.uint8).data)
    while rest and (got := pipe.readinto(rest)):  # pyright: ignore[reportAttributeAccessIssue]
        rest = rest[got:]
    return array
