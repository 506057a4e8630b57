"""Labelled spikes: of random manifolds, of moving shapes, recorded, or yours.

Everything here makes a `Dataset`: batches [time, batch, *shape] that a seed and a step address.
"""

from otpe.datasets.adapters import from_arrays, from_events, from_tonic, from_torch
from otpe.datasets.dataset import Dataset, SpikeBatch, flat
from otpe.datasets.frames import Binning, FrameSet
from otpe.datasets.heidelberg import Holdout, folder, shd, ssc
from otpe.datasets.manifolds import Randman, randman
from otpe.datasets.shapes import MovingShapes, moving_shapes

__all__ = [
    "Binning", "Dataset", "FrameSet", "Holdout", "MovingShapes", "Randman", "SpikeBatch",
    "flat", "folder", "from_arrays", "from_events", "from_tonic", "from_torch", "moving_shapes", "randman",
    "shd", "ssc",
]  # fmt: skip
