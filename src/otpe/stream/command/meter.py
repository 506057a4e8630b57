"""Loss, spike rates, speed and latency of the last blocks of a stream."""

import time
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from otpe.stream.prequential import Block

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
        losses, now = block.told.losses, time.perf_counter()
        losses = losses[~np.isnan(losses)]
        of_block = [len(block.steps), losses.sum(dtype=float), losses.size]
        self._measured.append(np.append(of_block, block.told.rates.sum(0, dtype=float)))
        self._timed.append(_Timed(now, len(block.steps), seconds))
        while now - self._timed[0].at > SECONDS:
            self._timed.popleft()

    def state(self) -> np.ndarray:
        """A row for each block: its steps, the sum and the number of its losses, the sums of the rates [layers]."""
        return np.array(self._measured)

    def line(self) -> dict[str, Any]:
        """As metrics.jsonl has it."""
        (steps, losses, labelled), rates = np.split(self.state().sum(0), [3])
        p50, p99 = np.percentile([t.seconds / t.steps for t in self._timed], [50, 99]) * 1e3
        return {
            "loss": float(losses / labelled) if labelled else None,
            "steps_per_second": round(self._speed(), 1),
            "latency_ms": [round(float(p50), 4), round(float(p99), 4)],
            "rates": [float(f"{rate:.4g}") for rate in rates / steps],
        }

    def _speed(self) -> float:
        """With the time that is spent waiting."""
        timed = list(self._timed)
        if len(timed) == 1:
            return timed[0].steps / max(timed[0].seconds, 1e-9)
        return sum(t.steps for t in timed[1:]) / max(timed[-1].at - timed[0].at, 1e-9)
