"""Reads recordings in the layout of SHD and SSC, from an HDF5 file or from the zip archive that it came in.

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
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from otpe.datasets import events

PROGRAM = Path(__file__).with_name("hdf5_process.py")
READY = b"otpe is ready to read\n"
ENDINGS = {
    "SIGXCPU": "makes the HDF5 library run for ever",
    "SIGKILL": "was being read when the process was killed, perhaps for want of memory",
}


def read(path: str | Path, units: int, *, keep_empty: bool = False) -> events.Events:
    """All recordings of the file, checked: whatever is wrong with it becomes a sentence."""
    path = Path(path)
    if not find_spec("h5py"):
        raise OSError("reading recordings needs h5py, which is not installed. Use: pip install 'otpe[data]'")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} may not be read. Ask for permission, or copy it to a folder of yours.")
    names, found = _received(path)
    if found["times"].dtype.kind != "f":
        raise ValueError(
            f"{path} has times of type {found['times'].dtype}, expected seconds as floating-point numbers."
        )
    return events.assemble(**found, names=names, width=units, where=str(path), keep_empty=keep_empty)


def _received(path: Path) -> tuple[list[str] | None, dict[str, Any]]:
    with tempfile.TemporaryFile() as complaints, _started(path, complaints) as process:
        pipe = process.stdout
        assert pipe is not None
        try:
            ready = READY in iter(pipe.readline, b"")
            line = pipe.readline()
            header = json.loads(line) if line.endswith(b"\n") else {}
            found = {name: _array(pipe, *like) for name, like in header.get("arrays", {}).items()}
            status = process.wait()
        finally:
            process.kill()  # for whoever presses Ctrl-C; it has ended otherwise
        if not ready:
            raise _not_started(path, f"it ended with {status}", complaints)
    if "arrays" in header and status == 0:
        return header["names"], found
    why = header.get("error") or _end(status)
    raise ValueError(
        f"{path} {why}. It may be cut short, damaged or not in SHD's layout: fetch it again, or repair it."
    )


def _started(path: Path, complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable or "python", "-P", str(PROGRAM), str(path), str(path.stat().st_size)]
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints)
    except OSError as error:
        raise _not_started(path, str(error), complaints) from None


def _not_started(path: Path, why: str, complaints: IO[bytes]) -> OSError:
    complaints.seek(0)
    last = complaints.read().decode(errors="replace").strip().splitlines()[-1:]
    said = f": {last[0]}" if last else ""
    return OSError(
        f"{path} is read by a Python process of its own, which could not be started ({why}{said}). Check that"
        f" `{sys.executable} -c 'import h5py'` works."
    )


def _end(status: int) -> str:
    for name, sentence in ENDINGS.items():
        if status == -int(getattr(signal, name, 0)) != 0:
            return sentence
    return f"makes the HDF5 library crash ({status})"


def _array(pipe: IO[bytes], dtype: str, size: int) -> np.ndarray:
    array = np.empty(size, dtype)
    rest = memoryview(array.view(np.uint8).data)
    while rest and (got := pipe.readinto(rest)):  # pyright: ignore[reportAttributeAccessIssue]
        rest = rest[got:]
    return array
