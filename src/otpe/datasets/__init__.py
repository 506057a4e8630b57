"""Labelled spikes: random manifolds, moving shapes, recordings, and your own arrays.

All functions here return a `Dataset`. A seed and a step number determine each mini-batch [time, batch, *shape].
`registry` lists the datasets that have a name on the command line.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otpe.datasets.adapters import from_arrays, from_events, from_tonic, from_torch
    from otpe.datasets.dataset import Dataset, FrameSet, SpikeBatch, flat
    from otpe.datasets.frames import Binning
    from otpe.datasets.heidelberg import Holdout, folder, shd, ssc
    from otpe.datasets.manifolds import Randman, randman
    from otpe.datasets.shapes import MovingShapes, moving_shapes
else:
    # Names are imported on first use: `otpe train --help` reads the registry without jax.
    from importlib import import_module
    from importlib.util import find_spec

    _NAMES = {
        "adapters": ("from_arrays", "from_events", "from_tonic", "from_torch"),
        "dataset": ("Dataset", "FrameSet", "SpikeBatch", "flat"),
        "frames": ("Binning",),
        "heidelberg": ("Holdout", "folder", "shd", "ssc"),
        "manifolds": ("Randman", "randman"),
        "shapes": ("MovingShapes", "moving_shapes"),
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return getattr(import_module(f"otpe.datasets.{_MODULES[name]}"), name)
        if not name.startswith("__") and find_spec(f"otpe.datasets.{name}"):
            return import_module(f"otpe.datasets.{name}")
        raise AttributeError(f"module 'otpe.datasets' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES})


__all__ = [
    "Binning", "Dataset", "FrameSet", "Holdout", "MovingShapes", "Randman", "SpikeBatch",
    "flat", "folder", "from_arrays", "from_events", "from_tonic", "from_torch", "moving_shapes", "randman",
    "shd", "ssc",
]  # fmt: skip
