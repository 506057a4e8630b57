"""What all contestants share: the problem they get, and how they are called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Problem(NamedTuple):
    """A network of dense LIF layers, subtract reset, and one mini-batch. Plain arrays: every library makes its own."""

    kernels: Sequence[np.ndarray]  # [n_in, n_out] per layer
    biases: Sequence[np.ndarray]  # [n_out] per layer
    spikes: np.ndarray  # [T, B, n_in]
    labels: np.ndarray  # [B]
    leak: float
    threshold: float = 1.0
    slope: float = 25.0  # k of the surrogate 1/(k|d|+1)²

    @property
    def sizes(self) -> list[int]:
        return [self.kernels[0].shape[0], *(k.shape[1] for k in self.kernels)]

    def save(self, file: Path) -> None:
        layers = {f"kernel{i}": k for i, k in enumerate(self.kernels)} | {
            f"bias{i}": b for i, b in enumerate(self.biases)
        }
        scalars = {"leak": self.leak, "threshold": self.threshold, "slope": self.slope}
        np.savez(file, spikes=self.spikes, labels=self.labels, **layers, **scalars)

    @classmethod
    def load(cls, file: Path) -> "Problem":
        with np.load(file) as f:
            depth = sum(key.startswith("kernel") for key in f)
            kernels, biases = ([f[f"{what}{i}"] for i in range(depth)] for what in ("kernel", "bias"))
            scalars = (float(f[key]) for key in ("leak", "threshold", "slope"))
            return cls(kernels, biases, f["spikes"], f["labels"], *scalars)


@dataclass(frozen=True)
class Contestant:
    """One rule of one library, ready to run."""

    name: str
    rule: str  # our rule whose gradient it should give
    run: Callable[[], Any]  # timed: loss and gradient of every weight of the mini-batch, waited for
    kernels: Callable[[Any], list[np.ndarray]]  # not timed: gradient of each kernel [n_in, n_out], of what run returned
    note: str = ""


class Library(NamedTuple):
    """A library that may or may not be installed."""

    name: str
    module: str  # ours, that drives it
    package: str  # theirs
    install: str

    def contestants(self, problem: Problem) -> list[Contestant]:
        return import_module(self.module).contestants(problem)

    def version(self) -> str:
        return metadata.version(self.package)
