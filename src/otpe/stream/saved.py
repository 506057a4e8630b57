"""Loss, spike rates, speed and latency of the last blocks of a stream."""

import struct
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_type_hints

import numpy as np

from otpe import contents, tensors
from otpe.lab.percentiles import percentiles
from otpe.lab.runs import checkpoint
from otpe.stream.learner import KIND, MORE, StreamLearner
from otpe.stream.prequential import Block, Prequential
from otpe.stream.sources import BrokenError, Source
from otpe.stream.time_steps import Step

BLOCKS, SECONDS = 1000, 60.0  # that are looked back on, at most; seconds only for what depends on the machine


class _Timed(NamedTuple):
    """A block."""

    at: float  # when it was done
    steps: int
    seconds: float  # it took, without waiting for its steps


class Meter:
    """Loss and rates depend on the blocks alone, so a stream that is resumed goes on with them: `state`."""

    def __init__(self, state: np.ndarray | None = None) -> None:
        self._timed: deque[_Timed] = deque(maxlen=BLOCKS)
        self._measured: deque[np.ndarray] = deque([] if state is None else state, maxlen=BLOCKS)

    def add(self, block: Block, seconds: float) -> None:
        losses, now = block.learned.losses, time.perf_counter()
        losses = losses[~np.isnan(losses)]
        of_block = [len(block.steps), losses.sum(dtype=float), losses.size]
        self._measured.append(np.append(of_block, block.learned.rates.sum(0, dtype=float)))
        self._timed.append(_Timed(now, len(block.steps), seconds))
        while now - self._timed[0].at > SECONDS:
            self._timed.popleft()

    def state(self) -> np.ndarray:
        """A row for each block: its steps, the sum and the number of its losses, the sums of the rates [layers]."""
        return np.array(self._measured)

    def line(self) -> dict[str, Any]:
        """As metrics.jsonl has it."""
        (steps, losses, labelled), rates = np.split(self.state().sum(0), [3])
        p50, p99 = percentiles([1e3 * t.seconds / t.steps for t in self._timed], 50, 99)
        return {
            "loss": float(losses / labelled) if labelled else None,
            "steps_per_second": round(self._speed(), 1),
            "latency_ms": [round(p50, 4), round(p99, 4)],
            "rates": [float(f"{rate:.4g}") for rate in rates / steps],
        }

    def _speed(self) -> float:
        """With the time that is spent waiting."""
        timed = list(self._timed)
        if len(timed) == 1:
            return timed[0].steps / max(timed[0].seconds, 1e-9)
        return sum(t.steps for t in timed[1:]) / max(timed[-1].at - timed[0].at, 1e-9)


# --------------------
# Checkpoints of a stream: the learner, the score, and how far the source was read, in one file that is whole.
#
# Each is a saved learner too: `otpe.StreamLearner.load(path)`.


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
