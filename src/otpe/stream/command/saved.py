"""Checkpoints of a stream: the learner, the score, and how far the source was read, in one file that is whole.

Each is a saved learner too: `otpe.StreamLearner.load(path)`.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, get_type_hints

import jax
import numpy as np

from otpe import files, tensors
from otpe.runs import checkpoint
from otpe.stream.command.opening import BrokenError, Source
from otpe.stream.learner import KIND, StreamLearner
from otpe.stream.score import Prequential
from otpe.stream.steps import Step

KEEP = 3
STRIDE = 1024  # steps that are read again at once


@dataclass
class Place:
    """How far a stream has come."""

    steps: int = 0  # taken from the source
    mark: int = 0  # a checksum of them: is it the same source?
    seconds: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)

    def moved(self, steps: Iterable[Step]) -> None:
        for step in steps:
            self.mark = zlib.crc32(step.x.tobytes(), self.mark) ^ (step.label + 1)
            self.steps += 1


def save(folder: Path, learner: StreamLearner, score: Prequential, place: Place, identity: dict[str, Any]) -> Path:
    """Beside the earlier ones; only then are those removed that are too many. Never weights that are not finite."""
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(learner.params)):
        raise FloatingPointError(
            f"step {place.steps}: weights are not finite any more; {_last(folder)}. Start again with a smaller"
            " learning_rate, or with limit, the largest size that a weight may have"
        )
    path = folder / checkpoint.name(place.steps)
    try:
        learner.save(path, stream={"score": score.state(), "place": asdict(place), "identity": identity})
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror}. Earlier checkpoints are untouched; make room, and go on with"
            " resume"
        ) from None
    for old in checkpoint.everything(folder)[:-KEEP]:
        old.unlink(missing_ok=True)
    return path


def load(path: Path) -> tuple[StreamLearner, Prequential, Place, dict[str, Any]]:
    """The same, and the identity of the run."""
    try:
        about = tensors.read(path, KIND)[1].get("stream")
        if about is None:
            raise ValueError(f"{path} is a saved learner, but no checkpoint of a stream.")
        learner = StreamLearner.load(path)
        with files.reading(path):
            files.typed(about, {"score": dict, "place": dict, "identity": dict})
            place = Place(**files.typed(about["place"], get_type_hints(Place)))
            return learner, Prequential.from_state(about["score"]), place, about["identity"]
    except tensors.NewerFormatError:
        raise
    except ValueError as error:
        raise files.ContentError(f"{error} {checkpoint.advice(path)}") from None


def read_again(source: Source, place: Place, stopping: Callable[[], bool]) -> bool:
    """Take the steps from the source that were taken before. False: it was to stop first."""
    again, unread = Place(), iter(source)
    log, source.bad.log = source.bad.log, None  # what is skipped was told then
    while again.steps < place.steps:
        if stopping():
            return False
        before = again.steps
        again.moved(islice(unread, min(STRIDE, place.steps - before)))
        if again.steps == before:
            break
    source.bad.log = log
    if (again.steps, again.mark) != (place.steps, place.mark):
        what = "has other steps than those" if again.steps == place.steps else f"ends after step {again.steps:,}"
        raise BrokenError(
            f"{source.name} {what}, but this run has taken {place.steps:,} from it. Put the file back as it was, or"
            " start anew in another folder"
        )
    return True


def _last(folder: Path) -> str:
    found = checkpoint.newest(folder)
    return f"the last good checkpoint is {found}" if found else "no checkpoint was written before"
