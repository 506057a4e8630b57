"""Checkpoints of a stream: the learner, the score, and how far the source was read, in one file that is whole.

Each is a saved learner too: `otpe.StreamLearner.load(path)`.
"""

import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

from otpe import contents, tensors
from otpe.runs import checkpoint
from otpe.stream.command.meter import Meter
from otpe.stream.command.opening import BrokenError, Source
from otpe.stream.learner import KIND, MORE, StreamLearner
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
    measured: int = 0  # the step of the last line of metrics
    covers: Literal["spikes and labels", "all"] = "all"  # what the checksum is of; the first in checkpoints of otpe 0.1

    def moved(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if self.covers == "all":
                self.mark = zlib.crc32(struct.pack("<qd?", step.label, step.time, step.reset), self.mark)
                self.mark = zlib.crc32(step.x.tobytes(), self.mark)
            else:
                self.mark = zlib.crc32(step.x.tobytes(), self.mark) ^ (step.label + 1)
            self.steps += 1


class Saved(NamedTuple):
    """What is in a checkpoint."""

    learner: StreamLearner
    score: Prequential
    place: Place
    meter: Meter
    identity: dict[str, Any]  # of the run


def save(folder: Path, saved: Saved) -> Path:
    """Beside the earlier ones; only then are those removed that are too many."""
    path = folder / checkpoint.name(saved.place.steps)
    score, arrays = saved.score.parts()
    arrays = {f"score/{name}": array for name, array in arrays.items()} | {"meter": saved.meter.state()}
    about = {"score": score, "place": asdict(saved.place), "identity": saved.identity}
    try:
        saved.learner.save(path, arrays=arrays, stream=about)
    except FloatingPointError:
        raise not_finite(folder, saved.place.steps) from None
    except OSError as error:
        raise OSError(
            f"{path} cannot be written: {error.strerror}. Earlier checkpoints are untouched; make room, and go on with"
            " resume"
        ) from None
    checkpoint.prune(path, KEEP)
    return path


def not_finite(folder: Path, step: int) -> FloatingPointError:
    found = checkpoint.newest(folder)
    last = f"the last good checkpoint is {found}" if found else "no checkpoint was written before"
    return FloatingPointError(
        f"step {step}: weights or membranes are not finite any more; {last}. Start again with a smaller learning_rate,"
        " or with limit, the largest size that a weight may have"
    )


def load(path: Path) -> Saved:
    try:
        arrays, said = tensors.read(path, KIND)
        about = said.get("stream")
        if about is None:
            raise ValueError(f"{path} is a saved learner, but no checkpoint of a stream.")
        learner = StreamLearner.load(path)
        with contents.reading(path):
            contents.typed(about, {"score": dict, "place": dict, "identity": dict})
            place = {"measured": 0, "covers": "spikes and labels", **about["place"]}
            prefix = f"{MORE}score/"
            score = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            return Saved(
                learner,
                Prequential.from_state(about["score"] | ({"arrays": score} if score else {})),
                Place(**contents.typed(place, get_type_hints(Place))),
                Meter(arrays.get(f"{MORE}meter")),
                about["identity"],
            )
    except tensors.NewerFormatError:
        raise
    except ValueError as error:
        raise contents.ContentError(f"{error} {checkpoint.advice(path)}") from None


def read_again(source: Source, place: Place, stopping: Callable[[], bool]) -> bool:
    """Take the steps from the source that were taken before. False: it was to stop first."""
    again, unread = Place(covers=place.covers), iter(source)
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
