"""A run that has come to its end, as items look at it: its numbers and metrics. Weights may be gone."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from otpe import files
from otpe.lab.records import read_training
from otpe.lab.report.content import Line
from otpe.lab.report.words import mean, std, thinned
from otpe.lab.runs import folder
from otpe.lab.runs.results import read as read_result
from otpe.lab.settings import TrainConfig

DIVERGED = "diverged.txt"
NEEDED = ("rule", "steps", "test_accuracy", "valid_accuracy", "learning_rate", "seconds")  # of a result


class Finished(NamedTuple):
    path: Path
    about: dict[str, Any]  # config.json
    result: dict[str, Any]
    metrics: list[dict[str, Any]]

    @property
    def rule(self) -> str:
        return self.result["rule"]

    @property
    def steps(self) -> np.ndarray:
        return np.array([line["step"] for line in self.metrics])

    def along(self, what: str) -> np.ndarray:
        """A metric at every evaluation [K, S]; NaN where the file has none."""
        return np.array([line[what] for line in self.metrics], float)

    def last(self, what: str, mini_batches: int) -> np.ndarray:
        """Mean over the end of the run [S]."""
        return mean(self.along(what)[self.steps > self.result["steps"] - mini_batches], 0)

    def by_draw(self, values: np.ndarray) -> np.ndarray:
        """Numbers of networks [S], a row for each draw of the manifolds."""
        return values.reshape(self.about.get("draws", 1), -1)

    @property
    def test(self) -> np.ndarray:
        return np.array(self.result["test_accuracy"], float)


class Diverged(NamedTuple):
    """A run that has no result, and will have none."""

    about: dict[str, Any]
    why: str


def read(path: Path) -> Finished | Diverged | None:
    """None where the run has not come to its end."""
    if (path / DIVERGED).exists():
        return Diverged(folder.read_config(path), (path / DIVERGED).read_text())
    if not (path / "result.json").exists():
        return None
    about, result = folder.read_settings(TrainConfig, path), read_result(path / "result.json", NEEDED)
    metrics = read_training(path)
    if not metrics or metrics[-1]["step"] != result["steps"]:
        raise OSError(
            f"{path / 'metrics.jsonl'} is damaged: it ends before the run did. Remove {path} to train it again"
        )
    return Finished(path, about, result, metrics)


def note_diverged(path: Path, why: str) -> None:
    """So that the run is not tried again."""
    files.write_atomically(path / DIVERGED, why)


def curve(run: Finished, what: str) -> Line:
    """Mean ± σ over networks."""
    steps, values = thinned(run.steps, run.along(what))
    middle, around = mean(values, 1), std(values, 1)
    return Line(name=run.rule, x=steps.tolist(), y=middle.tolist(), spread=around.tolist())
