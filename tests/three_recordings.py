"""Three recordings, small enough to compute every number about them by hand."""

import json

import numpy as np
import tiny_events

from otpe.lab.settings import DataConfig

FOLDER = DataConfig("folder", units=8)
TIMES = [[0.0, 0.1, 0.1, 0.5], [0.2, 1.2], [0.0, 0.25, 0.5]]
UNITS = [[0, 0, 1, 7], [3, 3], [0, 6, 7]]


def write(path, *, times=TIMES, units=UNITS, labels=(0, 2, 0), speakers=(4, 5, 4), names=("null", "eins", "zwei")):
    """Write a file in SHD's layout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return tiny_events.make(
        path,
        spikes__times=[np.array(row, np.float16) for row in times],
        spikes__units=[np.array(row, np.uint16) for row in units],
        labels=np.array(labels),
        extra__speaker=None if speakers is None else np.array(speakers),
        extra__keys=None if names is None else np.array(names, "S8"),
    )


def read(folder, name="folder-001"):
    """Read the summary that was written."""
    return json.loads((folder / f"{name}.json").read_text())
