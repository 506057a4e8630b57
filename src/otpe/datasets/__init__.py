"""Labelled spikes of random manifolds, moving shapes, recordings, or from your own arrays.

All functions here return a `Dataset`: mini-batches [time, batch, *shape], which a seed and a step number address.
"""

from otpe.datasets.adapters import from_arrays, from_events, from_tonic, from_torch
from otpe.datasets.dataset import Dataset, FrameSet, SpikeBatch, flat
from otpe.datasets.frames import Binning
from otpe.datasets.heidelberg import Holdout, folder, shd, ssc
from otpe.datasets.manifolds import Randman, randman
from otpe.datasets.shapes import MovingShapes, moving_shapes

__all__ = [
    "Binning", "Dataset", "FrameSet", "Holdout", "MovingShapes", "Randman", "SpikeBatch",
    "flat", "folder", "from_arrays", "from_events", "from_tonic", "from_torch", "moving_shapes", "randman",
    "shd", "ssc",
]  # fmt: skip
