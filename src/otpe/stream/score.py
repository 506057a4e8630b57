"""What was predicted, held against what was right, along a stream that never ends."""

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from otpe import check
from otpe.stream.programs import NO_LABEL

FORMAT = 1  # of a state
NUMBERS = ("steps", "labelled", "right", "sequences", "sequences_right", "_stride", "_decision", "_label")
ARRAYS = ("seen_of", "right_of", "confusion", "_ring")


class Curve(NamedTuple):
    """How accuracy went, at no more than so many points."""

    steps: np.ndarray  # [P] of the stream until then, with a label or without
    labelled: np.ndarray  # [P] of them, those with one
    accuracy: np.ndarray  # [P] over all of those
    window: np.ndarray  # [P] over the last of them


class Prequential:
    """Accuracy of what was predicted before it was learned, in memory that does not grow.

    Args:
      classes: how many.
      window: labelled steps that the sliding accuracy looks back on.
      points: the most that the curve has: whenever it is full, every second one goes.
    """

    def __init__(self, classes: int, window: int = 1000, points: int = 2000) -> None:
        self.classes, self.window = check.count("classes", classes), check.count("window", window)
        self.points = check.count("points", points)
        self.steps = 0  # of the stream
        self.labelled = 0
        self.right = 0
        self.seen_of = np.zeros(classes, np.int64)  # labelled steps of each class
        self.right_of = np.zeros(classes, np.int64)
        self.confusion = np.zeros((classes, classes + 1), np.int64)  # in the window; the last column: silence
        self.sequences = 0  # that are over, and had a label
        self.sequences_right = 0
        self._ring = np.full((2, window), NO_LABEL, np.int32)  # predictions and labels of the window
        self._curve: list[tuple[int, int, float, float]] = []
        self._stride = 1  # labelled steps to a point
        self._endings: deque[bool] = deque(maxlen=window)  # of the last sequences: was the decision right?
        self._decision = self._label = NO_LABEL  # of the sequence that is running: the last of each

    @property
    def accuracy(self) -> float:
        """Share of all labelled steps. NaN before the first."""
        return _share(self.right, self.labelled)

    @property
    def window_accuracy(self) -> float:
        """Share of the last `window` labelled steps."""
        return _share(int(np.trace(self.confusion)), min(self.labelled, self.window))

    @property
    def sequence_accuracy(self) -> float:
        """Share of the sequences in which the prediction at their last step was right."""
        return _share(self.sequences_right, self.sequences)

    @property
    def window_sequence_accuracy(self) -> float:
        """Share of the last `window` sequences."""
        return _share(sum(self._endings), len(self._endings))

    @property
    def curve(self) -> Curve:
        """With the present as its last point."""
        rows = list(self._curve)
        if self.labelled % self._stride:
            rows.append(self._point(self.steps))
        steps, labelled, accuracy, window = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Curve(np.array(steps, np.int64), np.array(labelled, np.int64), np.array(accuracy), np.array(window))

    def add(self, predicted: int, label: int) -> None:
        """One step: what was predicted, −1 for silence, and its label, −1 for none."""
        self.add_many([predicted], [label])

    def add_many(self, predicted: Any, labels: Any) -> None:
        """Steps in the order of time, [T] each."""
        predicted, labels = _numbers("predicted", predicted, self.classes), _numbers("labels", labels, self.classes)
        if predicted.shape != labels.shape:
            raise ValueError(
                f"predicted has {predicted.size} entries and labels has {labels.size}, expected as many: one per step."
            )
        places = np.flatnonzero(labels != NO_LABEL)
        at = 0
        while at < places.size:
            to_point = self._stride - self.labelled % self._stride
            some = places[at : at + min(to_point, self.window)]
            self._take(predicted[some], labels[some])
            if self.labelled % self._stride == 0:
                self._mark(self.steps + int(some[-1]) + 1)
            at += some.size
        if labels.size:
            self.steps += labels.size
            self._decision = int(predicted[-1])
            self._label = int(labels[places[-1]]) if places.size else self._label

    def reset(self) -> None:
        """A sequence is over: its decision is what was predicted last, held against its last label, if it had any."""
        if self._label != NO_LABEL:
            right = self._decision == self._label
            self.sequences, self.sequences_right = self.sequences + 1, self.sequences_right + right
            self._endings.append(right)
        self._decision = self._label = NO_LABEL

    def state(self) -> dict[str, Any]:
        """All of it as plain JSON."""
        return {
            "format": FORMAT,
            "settings": {"classes": self.classes, "window": self.window, "points": self.points},
            "numbers": {name: getattr(self, name) for name in NUMBERS},
            "arrays": {name: getattr(self, name).tolist() for name in ARRAYS},
            "curve": [list(row) for row in self._curve],
            "endings": list(map(int, self._endings)),
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Prequential":
        """What `state` gave, and what goes on as if nothing had happened."""
        if not isinstance(state, dict) or state.get("format") != FORMAT:
            given = state.get("format") if isinstance(state, dict) else type(state).__name__
            raise ValueError(f"state has the format {given!r}, expected {FORMAT}: what Prequential.state() gave.")
        made = cls(**state["settings"])
        for name in NUMBERS:
            setattr(made, name, state["numbers"][name])
        for name in ARRAYS:
            getattr(made, name)[...] = state["arrays"][name]
        made._curve = [tuple(row) for row in state["curve"]]
        made._endings.extend(map(bool, state["endings"]))
        return made

    def _take(self, predicted: np.ndarray, labels: np.ndarray) -> None:
        """As many as the window holds, at most."""
        right = predicted == labels
        self.right += int(right.sum())
        np.add.at(self.seen_of, labels, 1)
        np.add.at(self.right_of, labels[right], 1)
        places = (self.labelled + np.arange(labels.size)) % self.window
        gone, known = self._ring[:, places]
        np.subtract.at(self.confusion, (known[known != NO_LABEL], gone[known != NO_LABEL]), 1)  # −1: the last column
        np.add.at(self.confusion, (labels, predicted), 1)
        self._ring[:, places] = predicted, labels
        self.labelled += labels.size

    def _mark(self, steps: int) -> None:
        self._curve.append(self._point(steps))
        if len(self._curve) == self.points:
            self._stride *= 2
            self._curve = [row for row in self._curve if row[1] % self._stride == 0]

    def _point(self, steps: int) -> tuple[int, int, float, float]:
        return steps, self.labelled, self.accuracy, self.window_accuracy


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _numbers(what: str, given: Any, classes: int) -> np.ndarray:
    """Classes [T], −1 for none."""
    found = np.asarray(given)
    if found.ndim != 1 or not (found.dtype.kind in "iu" or not found.size):
        raise TypeError(f"{what} is {found.dtype} {list(found.shape)}, expected a row of whole numbers, one per step.")
    if found.size and not (found.min() >= NO_LABEL and found.max() < classes):
        raise ValueError(f"{what} runs from {found.min()} to {found.max()}, expected −1 (none) or 0 to {classes - 1}.")
    return found.astype(np.int32)
