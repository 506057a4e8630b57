"""Checkpoints of a stream: the learner, the score, and the place in the source, in one file.

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
from otpe.lab.runs import checkpoint
from otpe.stream.learner import KIND, MORE, StreamLearner
from otpe.stream.prequential import Prequential
from otpe.stream.sources import BrokenError, Source
from otpe.stream.stream_metrics import Meter
from otpe.stream.time_steps import Step

KEEP = 3  # checkpoints in a folder
STRIDE = 1024  # steps that are read again between two calls of `stopping`
SCORE, METER = "score/", "meter"  # names of arrays


@dataclass
class Place:
    """The place in a stream."""

    steps: int = 0  # taken from the source
    mark: int = 0  # a checksum of these steps, to recognise the source
    seconds: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)
    measured: int = 0  # the step of the last line of metrics
    covers: Literal["spikes and labels", "all"] = "all"  # what the checksum includes: the first in otpe 0.1

    def advance(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if self.covers == "all":
                self.mark = zlib.crc32(struct.pack("<qd?", step.label, step.time, step.reset), self.mark)
                self.mark = zlib.crc32(step.x.tobytes(), self.mark)
            else:
                self.mark = zlib.crc32(step.x.tobytes(), self.mark) ^ (step.label + 1)
            self.steps += 1


class StreamState(NamedTuple):
    """All that a checkpoint has."""

    learner: StreamLearner
    score: Prequential
    place: Place
    meter: Meter
    identity: dict[str, Any]  # of the run


def save(folder: Path, state: StreamState) -> Path:
    """Write a checkpoint beside the earlier ones, of which the last few stay."""
    score, arrays = state.score.parts()
    arrays = {f"{SCORE}{name}": array for name, array in arrays.items()} | {METER: state.meter.state()}
    about = {"score": score, "place": asdict(state.place), "identity": state.identity}
    try:
        return checkpoint.add(
            folder, state.place.steps, KEEP, lambda path: state.learner.save(path, arrays=arrays, stream=about)
        )
    except FloatingPointError:
        raise not_finite(folder, state.place.steps) from None


def not_finite(folder: Path, step: int) -> FloatingPointError:
    found = checkpoint.newest(folder)
    last = f"the last good checkpoint is {found}" if found else "no checkpoint was written before"
    return FloatingPointError(
        f"step {step}: weights or membranes are not finite any more; {last}. Start again with a smaller learning_rate,"
        " or with limit, the largest size that a weight may have"
    )


def load(path: Path) -> StreamState:
    with checkpoint.advised(path):
        arrays, about = tensors.read(path, KIND)
        about = about.get("stream")
        if about is None:
            raise ValueError(f"{path} is a saved learner, but no checkpoint of a stream.")
        learner = StreamLearner.load(path)
        with contents.reading(path):
            contents.typed(about, {"score": dict, "place": dict, "identity": dict})
            place = {"measured": 0, "covers": "spikes and labels", **about["place"]}  # what otpe 0.1 did not write
            prefix = f"{MORE}{SCORE}"
            score = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            return StreamState(
                learner,
                Prequential.from_state(about["score"] | ({"arrays": score} if score else {})),
                Place(**contents.typed(place, get_type_hints(Place))),
                Meter(arrays.get(f"{MORE}{METER}")),
                about["identity"],
            )


def read_again(source: Source, place: Place, stopping: Callable[[], bool]) -> bool:
    """Read the steps that were taken before. Returns False if `stopping` ended it.

    Raises BrokenError if the source has other steps now.
    """
    again, unread = Place(covers=place.covers), iter(source)
    log, source.bad.log = source.bad.log, None  # these skips were logged before
    while again.steps < place.steps:
        if stopping():
            return False
        before = again.steps
        again.advance(islice(unread, min(STRIDE, place.steps - before)))
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
