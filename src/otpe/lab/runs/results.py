"""The results of a run: result.json, and the lines of metrics.jsonl."""

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import jax
import numpy as np

from otpe import contents
from otpe.analysis import Alignment
from otpe.lab.records import FORMAT, read_json
from otpe.lab.report import words
from otpe.lab.runs.loop import Row
from otpe.networks import Network
from otpe.storage import named_leaves


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The content of result.json. Lists have an entry per seed. Entries with a default are missing in older files."""

    rule: str
    mode: str
    dataset: str
    seeds: int
    seed: int  # of the first network; the others have seed + 1, seed + 2, …
    steps: int  # mini-batches
    test_accuracy: list[float]  # with the parameters that validated best
    test_loss: list[float]
    valid_accuracy: list[float]  # the best
    best_step: list[int]  # step of the best validation
    loss: list[float]  # training loss: mean over the steps between the last two evaluations
    learning_rate: float | None  # None for a user's optimizer
    seconds: float  # training and validation, without compilation and without work that a kill lost
    steps_per_second: float
    test_accuracy_mean: float
    test_accuracy_std: float  # over seeds, of the population: divided by n
    test_accuracy_sem: float | None = None  # standard error of the mean over seeds. None for one seed
    test_samples: int | None = None  # of each network
    chance: float | None = None  # test accuracy of a constant answer
    epochs: float | None = None  # how often each recording was seen. None for data that is drawn


@dataclass(frozen=True, kw_only=True)
class Result(Numbers):
    """A finished run: its numbers, and the networks it trained."""

    folder: Path
    net: Network
    params: tuple[Any, ...]  # of each seed, those that validated best
    metrics: list[dict[str, Any]]  # the lines of metrics.jsonl

    def __str__(self) -> str:
        return f"{self.rule} {self.mode}: test accuracy {words.mean_text(self.test_accuracy)}, in {self.folder}"

    def __repr__(self) -> str:
        return f"<Result of {self}>"


NAMES = tuple(field.name for field in fields(Numbers))
NEEDED = tuple(field.name for field in fields(Numbers) if field.default is MISSING)


def numbers(result: Numbers) -> dict[str, Any]:
    """Return the content of result.json."""
    return {"format": FORMAT, **{name: getattr(result, name) for name in NAMES}}


def read(path: Path, needs: Iterable[str] = NEEDED) -> dict[str, Any]:
    """Return the content of result.json. It must have the entries `needs`, and entries of the right types and lengths.

    Entries that an older file does not have get their defaults.
    """
    found = {**{name: getattr(Numbers, name) for name in NAMES if name not in NEEDED}, **read_json(path)}
    hints = {name: kind for name, kind in get_type_hints(Numbers).items() if name in needs or name not in NEEDED}
    with contents.reading(path, "Name another folder."):
        contents.typed(found, hints)
        for name in (name for name, kind in hints.items() if get_origin(kind) is list and "seeds" in hints):
            if len(found[name]) != found["seeds"]:
                raise ValueError(
                    f"{name} has {len(found[name])} entries, expected one for each of {found['seeds']} seeds"
                )
    return found


def from_json(found: dict[str, Any], folder: Path, net: Network, params: Any, metrics: list[dict[str, Any]]) -> Result:
    """Return the result for the output of `read`. `params` of all seeds are [S, …]."""
    each = tuple(jax.tree.map(lambda x, i=i: x[i], params) for i in range(found["seeds"]))
    return Result(**{name: found[name] for name in NAMES}, folder=folder, net=net, params=each, metrics=metrics)


def line(row: Row, steps: int, seconds: float) -> dict[str, Any]:
    """Return an evaluation as a line of metrics.jsonl. Numbers that are not finite, such as some cosines, are null.

    `steps` are mini-batches since the last evaluation, `seconds` the training time of the run.
    """
    measured = {
        "step": int(row.step),
        "loss": (row.loss / steps).tolist(),
        "valid_loss": row.scores.loss.tolist(),
        "valid_accuracy": row.scores.accuracy.tolist(),
        "rates": row.scores.rates.tolist(),
        "seconds": round(seconds, 3),
    }
    aligned = {name: _aligned(found) for name, found in row.alignment.items()}
    return {**measured, "alignment": aligned} if aligned else measured


def _aligned(found: Alignment) -> dict[str, Any]:
    """Return lists with a number per seed: of each layer, from the first to the output, and of the whole model."""
    parts = {"cosine": (found.layers, found.model), "size": (found.size, found.model_size)}
    return {
        name: {
            "layers": [{part: _finite(x) for part, x in named_leaves(layer).items()} for layer in layers],
            "model": _finite(model),
        }
        for name, (layers, model) in parts.items()
    }


def _finite(values: Any) -> list[float | None]:
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in np.asarray(values)]
