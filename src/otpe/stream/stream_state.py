"""The state of a stream, in checkpoints and as metrics: the learner, the score, the place in the source, and a meter.

A checkpoint is a single file. It can also be loaded as a saved learner: `otpe.StreamLearner.load(path)`.
"""

import math
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

KEEP = 3  # checkpoints in a folder
STRIDE = 1024  # steps that are read again between two calls of `stopping`
SCORE, METER = "score/", "meter"  # names of arrays
BLOCKS, SECONDS = 1000, 60.0  # a meter uses the last blocks; for speed and latency only those of the last seconds


@dataclass
class Place:
    """The place in a stream."""

    steps: int = 0  # number of steps taken from the source
    mark: int = 0  # a checksum of these steps, to recognise the source
    seconds: float = 0.0
    skipped: dict[str, int] = field(default_factory=dict)
    measured: int = 0  # the step of the last line of metrics
    covers: Literal["spikes and labels", "all"] = "all"  # what the checksum includes; otpe 0.1 used the first

    def advance(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if self.covers == "all":
                self.mark = zlib.crc32(struct.pack("<qd?", step.label, step.time, step.reset), self.mark)
                self.mark = zlib.crc32(step.x.tobytes(), self.mark)
            else:
                self.mark = zlib.crc32(step.x.tobytes(), self.mark) ^ (step.label + 1)
            self.steps += 1


class _Timed(NamedTuple):
    at: float  # when the block ended
    steps: int
    seconds: float  # duration of the block, without waiting for its steps


class Meter:
    """Loss, spike rates, speed and latency of the last blocks of a stream.

    Loss and rates depend only on the blocks, not on the machine. A resumed stream continues them with `state`.
    """

    def __init__(self, state: np.ndarray | None = None) -> None:
        self._timed: deque[_Timed] = deque(maxlen=BLOCKS)
        self._measured: deque[np.ndarray] = deque([] if state is None else state, maxlen=BLOCKS)

    def add(self, block: Block, seconds: float) -> None:
        losses, now = block.learned.losses, time.perf_counter()
        losses = losses[~np.isnan(losses)]
        sums = [len(block.steps), losses.sum(dtype=float), losses.size]
        self._measured.append(np.append(sums, block.learned.rates.sum(0, dtype=float)))
        self._timed.append(_Timed(now, len(block.steps), seconds))
        while now - self._timed[0].at > SECONDS:
            self._timed.popleft()

    def state(self) -> np.ndarray:
        """Return a row for each block: number of steps, sum and number of losses, sums of the rates [layers]."""
        return np.array(self._measured)

    def numbers(self) -> dict[str, Any]:
        (steps, losses, labelled), rates = np.split(self.state().sum(0), [3])
        p50, p99 = percentiles([1e3 * t.seconds / t.steps for t in self._timed], 50, 99)
        return {
            "loss": float(losses / labelled) if labelled else None,
            "steps_per_second": round(self._speed(), 1),
            "latency_ms": [round(p50, 4), round(p99, 4)],
            "rates": [float(f"{rate:.4g}") for rate in rates / steps],
        }

    def _speed(self) -> float:
        """Return steps per second. The time includes waiting for steps."""
        first, *rest = self._timed
        if not rest:
            return first.steps / max(first.seconds, 1e-9)
        return sum(t.steps for t in rest) / max(rest[-1].at - first.at, 1e-9)


class StreamState(NamedTuple):
    """The content of a checkpoint."""

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


# Metrics


def counts(score: Prequential, place: Place) -> dict[str, Any]:
    """Return the numbers that do not depend on the machine, and the seconds."""

    def known(share: float) -> float | None:
        return None if math.isnan(share) else share  # JSON has no NaN

    return {
        "step": place.steps,
        "labelled": score.labelled,
        "accuracy": known(score.accuracy),
        "window_accuracy": known(score.window_accuracy),
        "sequences": score.sequences,
        "sequence_accuracy": known(score.sequence_accuracy),
        "skipped": dict(place.skipped),
        "seconds": round(place.seconds, 3),
    }


def as_text(numbers: dict[str, Any], window: int) -> str:
    """Return a line of metrics as text."""
    recent, overall = (
        "–" if numbers[name] is None else f"{numbers[name]:.3f}" for name in ("window_accuracy", "accuracy")
    )
    p50, p99 = numbers["latency_ms"]
    skipped = sum(numbers["skipped"].values())
    return (
        f"step {numbers['step']:,}  accuracy {recent} (last {window:,}), {overall} (all) "
        f" {numbers['steps_per_second']:,.0f} steps/s  latency {p50:.3g}/{p99:.3g} ms (p50/p99) "
        f" rates {' '.join(f'{rate:.3f}' for rate in numbers['rates'])}{f'  skipped {skipped:,}' if skipped else ''}"
    )
