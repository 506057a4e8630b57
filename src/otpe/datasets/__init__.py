"""Labelled spikes: of random manifolds, recorded, or yours.

Everything here makes a `Dataset`: batches [time, batch, *shape] that a seed and a step address.
"""

from otpe.datasets.adapters import from_arrays, from_events, from_tonic, from_torch
from otpe.datasets.contract import Dataset, SpikeBatch, flat
from otpe.datasets.frames import Binning
from otpe.datasets.frameset import FrameSet
from otpe.datasets.heidelberg import folder, shd, ssc
from otpe.datasets.randman import Randman, randman
from otpe.datasets.splits import Holdout

__all__ = [
    "Binning", "Dataset", "FrameSet", "Holdout", "Randman", "SpikeBatch",
    "flat", "folder", "from_arrays", "from_events", "from_tonic", "from_torch", "randman",
    "shd", "ssc",
]  # fmt: skip
