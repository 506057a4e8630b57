"""What the page shows of a stream while it runs: the last steps, the accuracy so far, speed and memory.

    live = Live([700, 512, 20], dt=0.01, learner_bytes=learner.bytes)
    for block in blocks(learner, steps, score):
        live(block, score, seconds)         # the time that the block took
    live.end("All steps are taken.")

The thread that learns writes it, the thread of the server reads it. Its size does not grow with the stream.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from otpe import check
from otpe.lab.percentiles import percentiles
from otpe.stream.prequential import Block, Curve, Prequential
from otpe.stream.programs import NO_LABEL

STATM = Path("/proc/self/statm")
BLOCKS = 1000  # the number of last blocks whose times are kept
MARKS, APART = 20, 0.25  # speed is measured over this many marks, which are this many seconds apart
VITAL_POINTS = 240  # maximum number of points of the curve of memory
ROWS = 200  # maximum of a raster: with more units, only every second, third, … one is shown
POINTS = 500  # of the curve of accuracy
SECONDS = 0.2  # between two updates of that curve, which take longer than a small block
CONFUSIONS = 5  # maximum number shown, the most frequent ones
DETAIL_SECONDS, DETAIL_SHARE = 1.0, 0.01  # between two updates of the details, and their share of the learner's time
LEAST_LABELS, LEAST_SHARE = (
    100,
    0.1,
)  # a curve of accuracy needs these labels, or this share of the window if it is more


class Vitals:
    """Time per step, steps per second, and memory."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._began = clock, clock()
        self.steps = 0
        self._per_step: deque[float] = deque(maxlen=BLOCKS)
        self._marks: deque[tuple[float, int]] = deque([(self._began, 0)], maxlen=MARKS)
        self._last = self._began  # time of the last block
        self._over: float | None = None  # time of the end
        self._memory: list[tuple[float, int]] = []
        self._next, self._apart = self._began, APART  # time of the next look at the memory

    def add(self, steps: int, seconds: float) -> None:
        now = self._clock()
        self.steps, self._last = self.steps + steps, now
        self._per_step.append(seconds / steps)
        if now - self._marks[-1][0] >= APART:
            self._marks.append((now, self.steps))
        if now >= self._next and (used := resident()) is not None:
            self._memory.append((round(now - self._began, 2), used))
            if len(self._memory) == VITAL_POINTS:
                self._memory, self._apart = self._memory[::2], 2 * self._apart
            self._next = now + self._apart

    def end(self) -> None:
        """Stop the clock."""
        self._over = self._clock()

    def now(self) -> dict[str, Any]:
        """Return seconds, steps per second and bytes, as plain JSON. Unknown values are None."""
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
        p50, p99 = percentiles(found, 50, 99)
        return {"p50": p50, "p99": p99, "worst": float(found.max()), "blocks": len(found)}


def resident() -> int | None:
    """Return the memory of this process in bytes. On some systems only its peak is known, on others nothing: None."""
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


class Seen(NamedTuple):
    """The last N time steps. Step i is at place i % N."""

    inputs: np.ndarray  # [N, rows] whether the unit spiked
    outputs: np.ndarray  # [N, classes]
    labels: np.ndarray  # [N]
    predicted: np.ndarray  # [N]
    resets: np.ndarray  # [N]
    rates: np.ndarray  # [N, 1 + layers] share of units that spiked, in the input and in each layer


class Live:
    """The state of the page.

    Args:
      sizes: of the network, from input to output.
      steps: the number of last steps whose spikes are shown.
      dt: seconds of a time step, if it has a length.
      title: of the page.
      names: of the classes. By default their numbers.
      learner_bytes: the size of the learner.
      skipped: counts of unusable input, by kind, such as those of a `Binner`. Read at every request.
      changes: of the world: the step and a short name of each. The curve marks them.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        steps: int = 300,
        dt: float | None = None,
        title: str = "otpe stream",
        names: Sequence[str] | None = None,
        learner_bytes: int | None = None,
        skipped: Mapping[str, int] | None = None,
        changes: Iterable[tuple[int, str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.sizes = check.sizes(sizes)
        self.length = check.count("steps", steps)
        if dt is not None:
            check.number("dt", dt, "seconds above 0, or None", lambda x: 0 < x < float("inf"))
        self.names = [str(i) for i in range(self.sizes[-1])] if names is None else [str(name) for name in names]
        if len(self.names) != self.sizes[-1]:
            raise ValueError(
                f"names has {len(self.names)} entries, expected {self.sizes[-1]}: one for each class of the network."
            )
        self.dt, self.title, self.learner_bytes = dt, str(title), learner_bytes
        self.every = ceil(self.sizes[0] / ROWS)  # every unit whose number is a multiple of this is shown
        self._changes = sorted((check.whole("step of a change", at, 2**63), str(name)) for at, name in changes)
        self._skipped: Mapping[str, int] = {} if skipped is None else skipped
        self._lock = Lock()
        self._vitals = Vitals(clock)
        self._clock, self._looked, self._next_details = clock, float("-inf"), float("-inf")
        n, shown = self.length, len(range(0, self.sizes[0], self.every))
        self._seen = Seen(
            inputs=np.zeros((n, shown), bool),
            outputs=np.zeros((n, self.sizes[-1]), bool),
            labels=np.full(n, NO_LABEL),
            predicted=np.full(n, NO_LABEL),
            resets=np.zeros(n, bool),
            rates=np.zeros((n, len(self.sizes))),
        )
        self._curve: list[tuple[int, float, float]] = []
        self._score: dict[str, Any] = {"steps": 0, "labelled": 0, "window": None, "accuracy": None, "recent": None}
        self._sliding: dict[str, Any] = {"labels": 0, "needed": None, "from": None, "span": None}
        self._one_label = True  # whether each sequence has only one label
        self._details: dict[str, Any] = {
            "sequences": {"all": 0, "accuracy": None, "window": 0, "recent": None},
            "confusions": {"labels": 0, "rows": []},
        }
        self._last: Prequential | None = None
        self._why: str | None = None

    def __call__(self, block: Block, score: Prequential, seconds: float) -> None:
        """Add a block of steps. `seconds` is the time that it took."""
        steps, learned, last = block.steps[-self.length :], block.learned, slice(-self.length, None)
        x = np.concatenate([step.x.reshape(1, -1) for step in steps]) != 0
        given, want = [x.shape[1], learned.rates.shape[1], learned.spikes.shape[1]], self.sizes
        if given != [want[0], len(want) - 1, want[-1]]:
            raise ValueError(
                f"the block is of a network with {given[0]} inputs, {given[1]} layers and {given[2]} outputs, but sizes"
                f" is {want}. Give Live the sizes of the learner's network."
            )
        with self._lock:
            self._vitals.add(len(block.steps), seconds)
            first, seen = (self._vitals.steps - len(steps)) % self.length, self._seen
            end = first + len(steps)
            places = slice(first, end) if end <= self.length else np.arange(first, end) % self.length
            seen.inputs[places] = x[:, :: self.every]
            seen.outputs[places] = learned.spikes[last] != 0
            seen.labels[places] = [step.label for step in steps]
            seen.predicted[places] = block.predicted[last]
            seen.resets[places] = [step.reset for step in steps]
            labels, resets = seen.labels[places], seen.resets[places]
            self._one_label &= not ((labels[1:] != labels[:-1]) & ~resets[1:]).any()
            seen.rates[places, 0] = x.sum(1) / self.sizes[0]
            seen.rates[places, 1:] = learned.rates[last]
            self._look(score)

    def end(self, why: str = "The stream is over.") -> None:
        """End the stream, and show the reason. Later calls do not change the reason."""
        with self._lock:
            if self._why is None:
                self._why = why
                self._vitals.end()
                self._looked = self._next_details = float("-inf")
                if self._last is not None:
                    self._look(self._last)

    @property
    def over(self) -> bool:
        return self._why is not None

    def now(self) -> dict[str, Any]:
        """Return the state as plain JSON."""
        with self._lock:
            taken = self._vitals.steps
            places = np.arange(max(0, taken - self.length), taken) % self.length
            seen = Seen(*(ring[places] for ring in self._seen))
            rates = self._seen.rates[: taken or 1].mean(0)
            vitals, why, score, points = self._vitals.now(), self._why, dict(self._score), [*self._curve]
            sliding, details = self._sliding, self._details
        present = (score["steps"], score["accuracy"], score["recent"])
        wide = sliding["span"] is not None and sliding["span"] > score["window"]
        if score["labelled"] and points[-1:] != [present] and not wide:
            points.append(present)
        layers = ["input", *(f"hidden {i}" for i in range(1, len(self.sizes) - 1)), "output"]
        return {
            "title": self.title,
            "state": "over" if why is not None else "running" if taken else "waiting",
            "why": why,
            "classes": self.names,
            "score": score,
            "curve": [list(part) for part in zip(*points, strict=True)] or [[], [], []],
            "sliding": sliding,
            "chance": round(1 / self.sizes[-1], 4),
            "changes": self._changes,
            **details,
            "raster": {
                "length": self.length,
                "dt": self.dt,
                "units": self.sizes[0],
                "every": self.every,
                "inputs": _places(seen.inputs),
                "outputs": _places(seen.outputs),
                "labels": seen.labels.tolist(),
                "predicted": seen.predicted.tolist(),
                "resets": np.flatnonzero(seen.resets).tolist(),
            },
            "rates": [list(each) for each in zip(layers, self.sizes, _rounded(rates), strict=True)],
            "skipped": dict(self._skipped),
            "learner": self.learner_bytes,
            **vitals,
        }

    def _look(self, score: Prequential) -> None:
        """Update the score. The curve is expensive, so it is updated less often."""
        self._last = score
        known = score.labelled > 0
        self._score = {
            "steps": score.steps,
            "labelled": score.labelled,
            "window": score.window,
            "accuracy": round(score.accuracy, 4) if known else None,
            "recent": round(score.window_accuracy, 4) if known else None,
        }
        now = self._clock()
        if known and now - self._looked >= SECONDS:
            self._looked, curve, span = now, score.curve, self._span(score)
            few = np.unique(np.linspace(0, len(curve.steps) - 1, POINTS - 1).round().astype(int))
            recent = curve.window if span == score.window else _sliding(curve, span)
            shares = (_rounded(part[few]) for part in (curve.accuracy, recent))
            self._curve = list(zip(curve.steps[few].tolist(), *shares, strict=True))
            needed = _needed(score.window) if span == score.window else span
            enough = np.flatnonzero(curve.labelled >= needed)
            from_step = int(curve.steps[enough[0]]) if enough.size else None
            self._sliding = {"needed": needed, "from": from_step, "span": span}
        elif not known:
            self._sliding = {"needed": _needed(score.window), "from": None, "span": score.window}
        self._sliding = self._sliding | {"labels": min(score.labelled, score.window)}
        if now >= self._next_details:
            began = time.perf_counter()
            self._details = _details(score)
            spent = time.perf_counter() - began  # it grows with the window
            self._next_details = now + max(DETAIL_SECONDS, spent / DETAIL_SHARE)

    def _span(self, score: Prequential) -> int:
        """Return the number of labels of the sliding curve: the window, or 100 sequences if these are more.

        The labels of a sequence with one label are one sample, so that a window of 20 such sequences would show noise.
        """
        if score.sequences < 2 or not self._one_label:
            return score.window
        return max(score.window, LEAST_LABELS * round(score.labelled / score.sequences))


def _sliding(curve: Curve, span: int) -> np.ndarray:
    """Return the accuracy over the last `span` labels at each point of the curve, as far as its points allow."""
    right, labelled = np.append(0, curve.accuracy * curve.labelled), np.append(0, curve.labelled)
    start = np.searchsorted(labelled, labelled[1:] - span, side="right") - 1
    start = np.maximum(start, 0)
    return (right[1:] - right[start]) / (labelled[1:] - labelled[start])


def _needed(window: int) -> int:
    """Return the number of labels in the window that a curve needs. With fewer it would show noise."""
    return min(window, max(LEAST_LABELS, ceil(LEAST_SHARE * window)))


def _details(score: Prequential) -> dict[str, Any]:
    """Return the accuracy of whole sequences and the most frequent confusions, each with its n."""
    sequences, window = score.sequences, min(score.sequences, score.window)
    return {
        "sequences": {
            "all": sequences,
            "accuracy": round(score.sequence_accuracy, 4) if sequences else None,
            "window": window,
            "recent": round(score.window_sequence_accuracy, 4) if sequences else None,
        },
        "confusions": {
            "labels": min(score.labelled, score.window),
            "rows": [list(row) for row in score.confusions(CONFUSIONS)],
        },
    }


def _places(spikes: np.ndarray) -> list[list[int]]:
    """Return the places of each row that are True."""
    found, ends = np.nonzero(spikes)[1].tolist(), spikes.sum(1).cumsum().tolist()
    return [found[start:end] for start, end in pairwise([0, *ends])]


def _rounded(numbers: Any) -> list[float]:
    return [round(float(number), 4) for number in numbers]
