"""The numbers that `otpe stream` shows and writes to metrics.jsonl."""

import math
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from otpe.lab.percentiles import percentiles
from otpe.stream.prequential import Block, Prequential

if TYPE_CHECKING:
    from otpe.stream.stream_checkpoint import Place

BLOCKS, SECONDS = 1000, 60.0  # a meter uses the last blocks; for speed and latency only those of the last seconds


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
        """Return steps per second. The time of waiting for steps counts."""
        first, *rest = self._timed
        if not rest:
            return first.steps / max(first.seconds, 1e-9)
        return sum(t.steps for t in rest) / max(rest[-1].at - first.at, 1e-9)


def counts(score: Prequential, place: "Place") -> dict[str, Any]:
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
