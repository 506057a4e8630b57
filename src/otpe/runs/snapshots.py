"""Weights along the way: a file every so many mini-batches, to look back at how a network came to be what it is."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np

from otpe import contents, files, tensors
from otpe.networks import Network
from otpe.runs import checkpoint, load

KIND = "weights along a training run"
WAITING = 4  # at most, until training waits for a slow disk


class Writer:
    """Writes them while training goes on."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.pool = ThreadPoolExecutor(1)
        self.begun: list[Future[None]] = []

    def save(self, step: int, params: Any) -> None:
        if len(self.begun) == WAITING:
            self.begun.pop(0).result()
        self.begun.append(self.pool.submit(save, self.run, step, params))

    def settle(self) -> None:
        """What was saved is on the disk: a checkpoint that is written now may rely on it."""
        while self.begun:
            self.begun.pop(0).result()

    def close(self) -> None:
        self.pool.shutdown()


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
    found = [tensors.read(path, KIND, {"step": int}) for path in paths]
    with contents.reading(run / "snapshots"):
        structure = load.params(run, found[0][0], net)  # of the first, which the others are like
        leaves = [np.stack([arrays[name] for arrays, _ in found]) for name in checkpoint.named(structure)]
    return np.array([about["step"] for _, about in found]), jax.tree.unflatten(jax.tree.structure(structure), leaves)
