"""What comes out of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from otpe.studies.config import SweepConfig
from otpe.studies.grid import Axes, text


@dataclass(frozen=True)
class SweepResult:
    """Accuracies over rules, modes, every setting that was swept, and seeds; NaN where a run is missing."""

    axes: Axes  # settings and their values, in the order of the arrays' axes
    rules: tuple[str, ...]
    modes: tuple[str, ...]
    accuracy: np.ndarray  # of the test, [rules, modes, *axes, seeds]
    valid_accuracy: np.ndarray  # the same of validation, by which the best point is chosen
    points: list[dict[str, Any]]  # as sweep.json has them
    left_out: list[str]
    folder: Path
    dataset: str

    def best(self, rule: str, mode: str) -> dict[str, Any] | None:
        """The point that validated best, the mean over seeds; None where there is none."""
        finished = [p for p in self.points if (p["rule"], p["mode"], p["state"]) == (rule, mode, "finished")]
        return max(finished, key=lambda point: np.mean(point["valid_accuracy"]), default=None)

    @property
    def diverged(self) -> list[str]:
        return [f"{point['name']}: {point['why']}" for point in self.points if point["state"] == "diverged"]

    def __str__(self) -> str:
        over = ", ".join(f"{name} of {', '.join(map(text, values))}" for name, values in self.axes.items())
        return f"{len(self.points)} runs over {over}, in {self.folder}"

    def __repr__(self) -> str:
        return f"<SweepResult of {self}>"


def gathered(
    config: SweepConfig, axes: Axes, points: Sequence[dict[str, Any]], left_out: list[str], folder: Path
) -> SweepResult:
    """The arrays, from the records of the points."""
    rules, modes = (tuple(dict.fromkeys(point[what] for point in points)) for what in ("rule", "mode"))
    shape = (len(rules), len(modes), *map(len, axes.values()), config.seeds)
    found = {name: np.full(shape, np.nan) for name in ("test_accuracy", "valid_accuracy")}
    for point in points:
        if point["state"] == "finished":
            where = [values.index(point["at"][name]) for name, values in axes.items()]
            for name, array in found.items():
                array[rules.index(point["rule"]), modes.index(point["mode"]), *where] = point[name]
    accuracy, valid = found.values()
    return SweepResult(axes, rules, modes, accuracy, valid, [*points], left_out, folder, config.dataset)
