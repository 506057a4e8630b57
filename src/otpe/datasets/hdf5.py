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
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import numpy as np

from otpe import files
from otpe.datasets import events

PROGRAM = Path(__file__).with_name("hdf5_process.py")
READY = b"otpe is ready to read\n"
SECONDS, BYTES_A_SECOND = 120, 1_000_000  # of the clock, for the start and for the file: far more than slow disks need
HARMLESS = ("HDF5_USE_FILE_LOCKING",)  # which some network disks need
ENDINGS = {
    "SIGXCPU": "makes the HDF5 library run for ever",
    "SIGKILL": "was being read when the process was killed, perhaps for want of memory",
}


def read(path: str | Path, units: int, *, keep_empty: bool = False) -> events.Events:
    """All recordings of the file, checked: whatever is wrong with it becomes a sentence."""
    path = Path(path)
    if not find_spec("h5py"):
        raise OSError("reading recordings needs h5py, which is not installed. Use: pip install 'otpe[data]'")
    size = _size(path)
    names, found = _received(path, size)
    if found["times"].dtype.kind != "f":
        raise ValueError(
            f"{path} has times of type {found['times'].dtype}, expected seconds as floating-point numbers."
        )
    return events.assemble(**found, names=names, width=units, where=str(path), keep_empty=keep_empty)


def _size(path: Path) -> int:
    """In bytes, if it is a file that may be read."""
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


def _received(path: Path, size: int) -> tuple[list[str] | None, dict[str, Any]]:
    seconds = SECONDS + size / BYTES_A_SECOND
    with tempfile.TemporaryFile() as complaints, _started(path, size, complaints) as process:
        pipe = process.stdout
        assert pipe is not None
        late = threading.Event()
        clock = threading.Timer(seconds, lambda: (late.set(), process.kill()))
        clock.daemon = True
        clock.start()
        try:
            ready = READY in iter(pipe.readline, b"")
            line = pipe.readline()
            header = json.loads(line) if line.endswith(b"\n") else {}
            found = {name: _array(pipe, *like) for name, like in header.get("arrays", {}).items()}
            status = process.wait()
        finally:
            clock.cancel()
            process.kill()  # for whoever presses Ctrl-C; it has ended otherwise
        if not ready and not late.is_set():
            raise _not_started(path, f"it ended with {status}", complaints)
    if "arrays" in header and status == 0:
        return header["names"], found
    if late.is_set():
        raise TimeoutError(
            f"{path} was not read after {seconds:,.0f} seconds, so reading was stopped. Copy it to a faster disk that"
            " answers, and try again."
        )
    why = header.get("error") or _end(status)
    raise ValueError(
        f"{path} {why}. It may be cut short, damaged or not in SHD's layout: fetch it again, or repair it."
    )


def _started(path: Path, size: int, complaints: IO[bytes]) -> subprocess.Popen[bytes]:
    command = [sys.executable or "python", "-P", str(PROGRAM), str(path), str(size)]
    quiet, pipe, env = subprocess.DEVNULL, subprocess.PIPE, _environment()
    try:
        return subprocess.Popen(command, stdin=quiet, stdout=pipe, stderr=complaints, env=env)
    except OSError as error:
        raise _not_started(path, str(error), complaints) from None


def _environment() -> dict[str, str]:
    """No plugins: a file names the filters it needs, and HDF5 would load programs from folders to find them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HDF5_") or name in HARMLESS}
    return kept | {"HDF5_PLUGIN_PRELOAD": "::"}


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
