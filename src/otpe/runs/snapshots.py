"""Weights along the way: a file every so many mini-batches, to look back at how a network came to be what it is."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from otpe import files, tensors
from otpe.network import Network
from otpe.runs import checkpoint, load

KIND = "weights along a training run"


def save(run: Path, step: int, params: Any) -> None:
    files.folder(run / "snapshots")
    arrays = {name: np.asarray(leaf) for name, leaf in checkpoint.named(params).items()}
    tensors.write(run / "snapshots" / checkpoint.name(step), KIND, arrays, {"step": step})


def read(run: Path, net: Network | None = None) -> tuple[np.ndarray, Any]:
    """The steps [K], and the parameters of all networks [K, S, ...]. `net`: where it is one of the user's own."""
    paths = checkpoint.everything(run / "snapshots")
    if not paths:
        raise FileNotFoundError(
            f"{run} holds no weights along the way. Train with snapshots, such as --snapshots 200, in another folder."
        )
    found = [tensors.read(path, KIND) for path in paths]
    params = [load.params(run, arrays, net) for arrays, _ in found]
    return np.array([about["step"] for _, about in found]), jax.tree.map(lambda *each: np.stack(each), *params)
