"""What comes out of a run."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import jax

from otpe import contents
from otpe.networks import Network
from otpe.runs import spread
from otpe.runs.read import FORMAT, read_json


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
        return f"{self.rule} {self.mode}: test accuracy {spread.text(self.test_accuracy)}, in {self.folder}"

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
