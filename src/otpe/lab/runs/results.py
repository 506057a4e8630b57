"""What comes out of a run."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
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


@dataclass(frozen=True)
class Numbers:
    """The content of result.json. Lists have an entry per seed."""

    rule: str
    mode: str
    dataset: str
    seeds: int
    seed: int  # the first; the others count on from it
    steps: int  # mini-batches
    test_accuracy: list[float]  # with the parameters that validated best
    test_loss: list[float]
    valid_accuracy: list[float]  # the best
    best_step: list[int]  # where that was
    loss: list[float]  # of training: mean since the evaluation before the last
    learning_rate: float | None  # None for an optimizer of the user's own
    seconds: float  # of training and validation, without compilation and what a killed run lost
    steps_per_second: float
    test_accuracy_mean: float
    test_accuracy_std: float  # over seeds, of the population


@dataclass(frozen=True)
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


def numbers(result: Numbers) -> dict[str, Any]:
    """As JSON."""
    return {"format": FORMAT, **{field.name: getattr(result, field.name) for field in fields(Numbers)}}


def read(path: Path, needs: Iterable[str] = tuple(field.name for field in fields(Numbers))) -> dict[str, Any]:
    """result.json, in which there is what is needed."""
    found, hints = read_json(path), {name: kind for name, kind in get_type_hints(Numbers).items() if name in needs}
    with contents.reading(path, "Name another folder."):
        contents.typed(found, hints)
        for name in (name for name, kind in hints.items() if get_origin(kind) is list and "seeds" in hints):
            if len(found[name]) != found["seeds"]:
                raise ValueError(
                    f"{name} has {len(found[name])} entries, expected one for each of {found['seeds']} seeds"
                )
    return found


def from_json(found: dict[str, Any], folder: Path, net: Network, params: Any, metrics: list[dict[str, Any]]) -> Result:
    """The result, from what `read` gave."""
    known = {field.name: found[field.name] for field in fields(Numbers)}
    return Result(**known, folder=folder, net=net, params=of_each(params), metrics=metrics)


def of_each(params: Any) -> tuple[Any, ...]:
    """Parameters with an axis of seeds first, as those of each seed."""
    seeds = len(jax.tree.leaves(params)[0])
    return tuple(jax.tree.map(lambda x, i=i: x[i], params) for i in range(seeds))


# --------------------
# A line of metrics.jsonl: one evaluation. Numbers that are not finite, such as the cosine to nothing, are null.


def line(row: Row, steps: int, seconds: float) -> dict[str, Any]:
    """`steps`: mini-batches since the evaluation before; `seconds`: of training until now."""
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
    """Per layer, from the first to the output, and over all: one number per seed."""
    return {
        "cosine": {"layers": _layers(found.layers), "model": _numbers(found.model)},
        "size": {"layers": _layers(found.size), "model": _numbers(found.model_size)},
    }


def _layers(layers: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [
        {
            jax.tree_util.keystr(place, simple=True): _numbers(x)
            for place, x in jax.tree_util.tree_leaves_with_path(layer)
        }
        for layer in layers
    ]


def _numbers(values: Any) -> list[float | None]:
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in np.asarray(values)]
