"""A few random recordings in SHD's layout, with every class and unequal lengths."""

import zipfile
from pathlib import Path

import h5py
import numpy as np

NAMES = ("zero", "one", "two", "drei")
UNITS = 12


def rows(recordings: int = 20, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return times and units of each recording."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(30, 90, recordings)
    times = [np.sort(rng.uniform(0, 0.4 + 0.05 * i, n)).astype(np.float16) for i, n in enumerate(counts)]
    return times, [rng.integers(0, UNITS, n).astype(np.uint16) for n in counts]


def make(path: Path, recordings: int = 20, seed: int = 0, **change) -> Path:
    """Write a file. `change` replaces a dataset ("extra__keys" means extra/keys), or removes it (None)."""
    times, units = rows(recordings, seed)
    content = {
        "spikes/times": times,
        "spikes/units": units,
        "labels": (np.arange(recordings) % len(NAMES)).astype(np.uint16),
        "extra/speaker": (np.arange(recordings) // 7).astype(np.uint16),
        "extra/keys": np.array(NAMES, "S5"),
    } | {name.replace("__", "/"): value for name, value in change.items()}
    with h5py.File(path, "w") as file:
        for name, value in content.items():
            if isinstance(value, list):
                kind = h5py.vlen_dtype(value[0].dtype if value else np.dtype(np.float16))
                dataset = file.create_dataset(name, (len(value),), kind)
                for i, row in enumerate(value):
                    dataset[i] = row
            elif value is not None:
                file[name] = value
    return path


def zipped(path: Path) -> Path:
    """Replace the file by a zip archive, as the original files are packed."""
    archive = path.with_name(f"{path.name}.zip")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(path, path.name)
    path.unlink()
    return archive


def recordings(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Read the recordings back in the simplest way."""
    with h5py.File(path) as file:
        return list(zip(file["spikes/times"][:], file["spikes/units"][:], strict=True))
