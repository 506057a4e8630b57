"""Predict, then learn: every step of a stream is a test before it is a lesson.

    score = evaluate(learner, steps, window=1000)
    score.accuracy, score.window_accuracy      # over all steps, and over the last 1,000 steps with a label
    score.curve                                # both along the stream

The prediction at a step is the class with the highest score. If all scores are zero it is −1, which is always wrong.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from otpe import check, memory
from otpe.stream.programs import NO_LABEL
from otpe.stream.time_steps import Step

if TYPE_CHECKING:
    from otpe.stream.learner import Learned, StreamLearner


FORMATS = (1, 2)  # of a saved state. The last one is written, all can be read
TABLE = 1000  # maximum number of classes for which there is a table of all confusions
NUMBERS = ("steps", "labelled", "right", "sequences", "sequences_right", "_stride", "_decision", "_label")
ARRAYS = ("seen_of", "right_of", "_ring")


class Curve(NamedTuple):
    """Accuracy along the stream at a limited number P of points."""

    steps: np.ndarray  # [P] number of steps until then, with a label or without
    labelled: np.ndarray  # [P] number of steps with a label
    accuracy: np.ndarray  # [P] over all labelled steps until then
    window: np.ndarray  # [P] over the sliding window


class Prequential:
    """Accuracy of predictions that were made before learning, in memory that does not grow.

    Args:
      classes: number of classes.
      window: number of labelled steps of the sliding accuracy.
      points: maximum number of points of the curve. When it is full, every second point is removed.
    """

    def __init__(self, classes: int, window: int = 1000, points: int = 2000) -> None:
        self.classes, self.window = check.count("classes", classes), check.count("window", window)
        self.points = check.count("points", points)
        memory.check_fits("a score", 16 * classes + 8 * window, {"classes": classes, "window": window}, memory.host())
        self.steps = 0  # all steps
        self.labelled = 0  # steps with a label
        self.right = 0  # steps with the right prediction
        self.seen_of = np.zeros(classes, np.int64)  # steps with a label, by class
        self.right_of = np.zeros(classes, np.int64)
        self.sequences = 0  # complete sequences with a label
        self.sequences_right = 0
        self._ring = np.full((2, window), NO_LABEL, np.int32)  # predictions and labels of the window
        self._window_right = 0
        self._curve: list[tuple[int, int, float, float]] = []
        self._stride = 1  # labelled steps per point
        self._endings: deque[bool] = deque(maxlen=window)  # of the last sequences: was the decision right?
        self._decision = self._label = NO_LABEL  # the last prediction and the last label of the present sequence

    @property
    def accuracy(self) -> float:
        """Share of right predictions in all labelled steps. NaN before the first."""
        return _share(self.right, self.labelled)

    @property
    def window_accuracy(self) -> float:
        """Share of right predictions in the last `window` labelled steps."""
        return _share(self._window_right, min(self.labelled, self.window))

    @property
    def sequence_accuracy(self) -> float:
        """Share of sequences with a right prediction at the last step."""
        return _share(self.sequences_right, self.sequences)

    @property
    def window_sequence_accuracy(self) -> float:
        """The same for the last `window` sequences."""
        return _share(sum(self._endings), len(self._endings))

    @property
    def confusion(self) -> np.ndarray:
        """How often each label [classes] got each prediction [classes + 1] in the window. Last column: silence."""
        if self.classes > TABLE:
            raise ValueError(
                f"classes is {self.classes:,}, and a table of all confusions is made for at most {TABLE:,}. Use"
                " confusions(), which lists the most frequent ones."
            )
        table = np.zeros((self.classes, self.classes + 1), np.int64)
        predicted, labels = self._in_window()
        np.add.at(table, (labels, predicted), 1)  # prediction −1 is the last column
        return table

    def confusions(self, most: int = 10) -> list[tuple[int, int, int]]:
        """Return the most frequent wrong predictions in the window: label, prediction (−1: silence), and how often."""
        predicted, labels = (part.astype(np.int64) for part in self._in_window())
        wrong = predicted != labels
        codes = (predicted[wrong] + 1) * self.classes + labels[wrong]  # one number per pair is faster to count
        found, counts = np.unique(codes, return_counts=True)
        order = np.argsort(-counts, kind="stable")[: check.count("most", most)]
        rows = np.column_stack([found % self.classes, found // self.classes - 1, counts])[order]
        return [(label, predicted, count) for label, predicted, count in rows.tolist()]

    @property
    def curve(self) -> Curve:
        """The curve until now. Its last point is the present."""
        rows = list(self._curve)
        if self.labelled % self._stride:
            rows.append(self._point(self.steps))
        steps, labelled, accuracy, window = zip(*rows, strict=True) if rows else ((), (), (), ())
        return Curve(np.array(steps, np.int64), np.array(labelled, np.int64), np.array(accuracy), np.array(window))

    def add(self, predicted: int, label: int) -> None:
        """Add one step: its prediction (−1: silence) and its label (−1: none)."""
        self.add_many([predicted], [label])

    def add_many(self, predicted: Any, labels: Any) -> None:
        """Add steps in the order of time: predictions [T] and labels [T]."""
        predicted, labels = _checked("predicted", predicted, self.classes), _checked("labels", labels, self.classes)
        if predicted.shape != labels.shape:
            raise ValueError(
                f"predicted has {predicted.size} entries and labels has {labels.size}, expected as many: one per step."
            )
        places = np.flatnonzero(labels != NO_LABEL)
        at = 0
        while at < places.size:  # up to the next point of the curve, and at most one window
            to_point = self._stride - self.labelled % self._stride
            some = places[at : at + min(to_point, self.window)]
            self._count(predicted[some], labels[some])
            if self.labelled % self._stride == 0:
                self._add_point(self.steps + int(some[-1]) + 1)
            at += some.size
        if labels.size:
            self.steps += labels.size
            self._decision = int(predicted[-1])
            self._label = int(labels[places[-1]]) if places.size else self._label

    def reset(self) -> None:
        """End a sequence. If it had labels, compare its last prediction with the last label."""
        if self._label != NO_LABEL:
            right = self._decision == self._label
            self.sequences, self.sequences_right = self.sequences + 1, self.sequences_right + right
            self._endings.append(right)
        self._decision = self._label = NO_LABEL

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the state in two parts: numbers as plain JSON, and arrays."""
        about = {
            "format": FORMATS[-1],
            "settings": {"classes": self.classes, "window": self.window, "points": self.points},
            "numbers": {name: getattr(self, name) for name in NUMBERS},
        }
        arrays = {name: getattr(self, name).copy() for name in ARRAYS}
        arrays["curve_at"] = np.array([row[:2] for row in self._curve], np.int64).reshape(-1, 2)
        arrays["curve"] = np.array([row[2:] for row in self._curve], np.float64).reshape(-1, 2)
        return about, arrays | {"endings": np.array(self._endings, bool)}

    def state(self) -> dict[str, Any]:
        """Return the state as plain JSON."""
        about, arrays = self.parts()
        return about | {"arrays": {name: array.tolist() for name, array in arrays.items()}}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Prequential":
        """Return the score with the state that `state` returned. Its arrays may be numpy arrays."""
        if not isinstance(state, dict) or state.get("format") not in FORMATS:
            given = state.get("format") if isinstance(state, dict) else type(state).__name__
            raise ValueError(f"state has the format {given!r}, expected {FORMATS[-1]}: what Prequential.state() gave.")
        score, arrays = cls(**state["settings"]), state["arrays"]
        for name in NUMBERS:
            setattr(score, name, state["numbers"][name])
        for name in ARRAYS:
            getattr(score, name)[...] = arrays[name]
        if state["format"] == 1:
            rows, endings = state["curve"], state["endings"]
        else:
            at, shares = (np.asarray(arrays[name]).tolist() for name in ("curve_at", "curve"))
            rows, endings = ((*a, *b) for a, b in zip(at, shares, strict=True)), arrays["endings"]
        score._curve = [tuple(row) for row in rows]
        score._endings.extend(map(bool, endings))
        predicted, labels = score._in_window()
        score._window_right = int((predicted == labels).sum())
        return score

    def _in_window(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the predictions and labels of the window."""
        return tuple(self._ring[:, self._ring[1] != NO_LABEL])

    def _count(self, predicted: np.ndarray, labels: np.ndarray) -> None:
        """Count labelled steps, at most as many as the window has."""
        right = predicted == labels
        self.right += int(right.sum())
        np.add.at(self.seen_of, labels, 1)
        np.add.at(self.right_of, labels[right], 1)
        places = (self.labelled + np.arange(labels.size)) % self.window
        old_predicted, old_labels = self._ring[:, places]
        old_right = (old_predicted == old_labels) & (old_labels != NO_LABEL)
        self._window_right += int(right.sum()) - int(old_right.sum())
        self._ring[:, places] = predicted, labels
        self.labelled += labels.size

    def _add_point(self, steps: int) -> None:
        self._curve.append(self._point(steps))
        if len(self._curve) == self.points:
            self._stride *= 2
            self._curve = [row for row in self._curve if row[1] % self._stride == 0]

    def _point(self, steps: int) -> tuple[int, int, float, float]:
        return steps, self.labelled, self.accuracy, self.window_accuracy


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _checked(what: str, given: Any, classes: int) -> np.ndarray:
    """Return classes [T], where −1 means none."""
    found = np.asarray(given)
    if found.ndim != 1 or not (found.dtype.kind in "iu" or not found.size):
        raise TypeError(f"{what} is {found.dtype} {list(found.shape)}, expected a row of whole numbers, one per step.")
    if found.size and not (found.min() >= NO_LABEL and found.max() < classes):
        raise ValueError(f"{what} runs from {found.min()} to {found.max()}, expected −1 (none) or 0 to {classes - 1}.")
    return found.astype(np.int32)


class Block(NamedTuple):
    """Steps that a learner took in one call."""

    steps: list[Step]
    predicted: np.ndarray  # [T] before learning
    learned: "Learned"


def evaluate(
    learner: "StreamLearner",
    steps: Iterable[Step],
    *,
    window: int = 1000,
    block: int = 64,
    learn: bool = True,
    score: Prequential | None = None,
    on_step: Callable[[Step, int, np.ndarray], object] | None = None,
) -> Prequential:
    """Predict, then learn, at all steps of a stream. Returns the score.

    Args:
      learner: continues from its present state, and is reset where a step says so.
      steps: any iterator of steps, see `sources.py`.
      window: number of labelled steps of the sliding accuracy.
      block: number of steps that are collected, and then taken in one call. The results are the same. Use 1 for a live
        stream.
      learn: False: only predict.
      score: a score to continue, with its own window.
      on_step: is called with every step, its prediction, and its scores [classes].
    """
    score = Prequential(learner.net.classes, window) if score is None else score
    for taken in blocks(learner, steps, score, size=block, learn=learn):
        if on_step is not None:
            for each in zip(taken.steps, taken.predicted.tolist(), taken.learned.scores, strict=True):
                on_step(*each)
    return score


def blocks(
    learner: "StreamLearner", steps: Iterable[Step], score: Prequential, *, size: int = 64, learn: bool = True
) -> Iterator[Block]:
    """Predict and learn block by block, and yield each block. Between blocks, learner and score can be saved."""
    for some in _grouped(steps, check.count("block", size)):
        if some[0].reset:
            learner.reset()
            score.reset()
        xs, labels = np.stack([step.x for step in some]), np.array([step.label for step in some])
        learned = learner.learn_many(xs, labels) if learn else learner.observe_many(xs)
        predicted = decide(learned.scores)
        score.add_many(predicted, labels)
        yield Block(some, predicted, learned)
    score.reset()


def decide(scores: np.ndarray) -> np.ndarray:
    """Return the class with the highest score, [T, classes] -> [T], or −1 where all scores are zero."""
    return np.where(scores.max(-1) > 0, scores.argmax(-1), -1)


def _grouped(steps: Iterable[Step], size: int) -> Iterator[list[Step]]:
    """Return groups of steps of the same sequence. If the source raises an error, the steps before it come first."""
    group: list[Step] = []
    try:
        for step in steps:
            if group and step.reset:
                yield group
                group = []
            group.append(step)
            if len(group) == size:
                yield group
                group = []
    except Exception:
        if group:
            yield group
        raise
    if group:
        yield group
