"""How a stream fares on its machine: time per step, steps per second, memory. Kept in memory that does not grow."""

import os
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STATM = Path("/proc/self/statm")
BLOCKS = 1000  # the last ones, whose times are told
MARKS, APART = 20, 0.25  # how many looks at the clock speed is taken from, and the seconds between two of them
POINTS = 240  # the most that the course of memory has


class Vitals:
    """Is told of every block of steps."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self.steps = 0
        self._per_step: deque[float] = deque(maxlen=BLOCKS)
        self._marks: deque[tuple[float, int]] = deque([(self._began, 0)], maxlen=MARKS)
        self._last = self._began  # when a block came
        self._over: float | None = None
        self._memory: list[tuple[float, int]] = []
        self._next, self._apart = self._began, APART  # look at the memory

    def add(self, steps: int, seconds: float) -> None:
        now = self._clock()
        self.steps, self._last = self.steps + steps, now
        self._per_step.append(seconds / steps)
        if now - self._marks[-1][0] >= APART:
            self._marks.append((now, self.steps))
        if now >= self._next:
            self._look_at_memory(now)

    def end(self) -> None:
        """From here on the clock stands still."""
        self._over = self._clock()

    def now(self) -> dict[str, Any]:
        """Seconds, steps per second and bytes, as plain JSON; None for what is not known."""
        at = self._clock() if self._over is None else self._over
        began, steps = self._marks[0]
        used = resident()
        return {
            "seconds": round(at - self._began, 2),
            "idle": round(at - self._last, 2),
            "speed": round((self.steps - steps) / max(at - began, 1e-3), 2),
            "latency": self._latency(),
            "memory": {
                "resident": used,
                "peak": not STATM.exists(),
                "course": [*self._memory, *([] if used is None else [(round(at - self._began, 2), used)])],
            },
        }

    def _latency(self) -> dict[str, float] | None:
        if not self._per_step:
            return None
        found = np.array(self._per_step)
        p50, p99 = np.percentile(found, (50, 99)).tolist()
        return {"p50": p50, "p99": p99, "worst": float(found.max()), "blocks": len(found)}

    def _look_at_memory(self, now: float) -> None:
        used = resident()
        if used is None:
            return
        self._memory.append((round(now - self._began, 2), used))
        if len(self._memory) == POINTS:
            self._memory, self._apart = self._memory[::2], 2 * self._apart
        self._next = now + self._apart


def resident() -> int | None:
    """Bytes of this process in memory; the most there ever were, where the system tells no more; None without that."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most
