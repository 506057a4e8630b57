"""Events for TensorBoard, where it is asked for."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np


def check_installed() -> None:
    if not find_spec("tensorboardX"):
        raise OSError("tensorboard needs tensorboardX, which is not installed. Use: pip install 'otpe[tensorboard]'")


class Board:
    """Scalars of every evaluation: the mean over seeds, and each of them where there are several."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboardX import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1 if step else None)

    def add(self, line: dict[str, Any], seeds: range) -> None:
        for name in ("loss", "valid_loss", "valid_accuracy"):
            self.writer.add_scalar(name, float(np.mean(line[name])), line["step"])
            if len(seeds) > 1:
                for seed, value in zip(seeds, line[name], strict=True):
                    self.writer.add_scalar(f"{name}/seed {seed}", value, line["step"])

    def close(self) -> None:
        self.writer.close()
