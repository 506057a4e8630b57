"""What was predicted, held against what was right, along a stream that never ends."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from otpe import check, memory
from otpe.stream.programs import NO_LABEL
from otpe.stream.time_steps import Step

if TYPE_CHECKING:
    from otpe.stream.learner import Learned, StreamLearner


FORMATS = (1, 2)  # of a state, that can be read; the last one is written
TABLE = 1000  # classes, up to which there is a table of all confusions
NUMBERS = ("steps", "labelled", "right", "sequences", "sequences_right", "_stride", "_decision", "_label")
ARRAYS = ("seen_of", "right_of", "_ring")


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
        memory.check_fits("a score", 16 * classes + 8 * window, {"classes": classes, "window": window}, memory.host())
        self.steps = 0  # of the stream
        self.labelled = 0
        self.right = 0
        self.seen_of = np.zeros(classes, np.int64)  # labelled steps of each class
        self.right_of = np.zeros(classes, np.int64)
        self.sequences = 0  # that are over, and had a label
        self.sequences_right = 0
        self._ring = np.full((2, window), NO_LABEL, np.int32)  # predictions and labels of the window
        self._window_right = 0  # of them
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
        return _share(self._window_right, min(self.labelled, self.window))

    @property
    def sequence_accuracy(self) -> float:
        """Share of the sequences in which the prediction at their last step was right."""
        return _share(self.sequences_right, self.sequences)

    @property
    def window_sequence_accuracy(self) -> float:
        """Share of the last `window` sequences."""
        return _share(sum(self._endings), len(self._endings))

    @property
    def confusion(self) -> np.ndarray:
        """How often each label [classes] got each prediction [classes + 1] in the window; last column: silence."""
        if self.classes > TABLE:
            raise ValueError(
                f"classes is {self.classes:,}, and a table of all confusions is made for at most {TABLE:,}. Use"
                " confusions(), which lists the most frequent ones."
            )
        table = np.zeros((self.classes, self.classes + 1), np.int64)
        predicted, labels = self._window()
        np.add.at(table, (labels, predicted), 1)  # −1: the last column
        return table

    def confusions(self, most: int = 10) -> list[tuple[int, int, int]]:
        """The most frequent wrong predictions in the window: label, prediction (−1: silence), and how often."""
        pairs = np.stack(self._window(), 1)
        found, counts = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[: check.count("most", most)]
        rows = np.column_stack([found[:, 1], found[:, 0], counts])[order]
        return [(label, predicted, count) for label, predicted, count in rows.tolist()]

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

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All of it: what is small, as plain JSON, and the arrays."""
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
        """All of it as plain JSON."""
        about, arrays = self.parts()
        return about | {"arrays": {name: array.tolist() for name, array in arrays.items()}}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> "Prequential":
        """What `state` gave, and what goes on as if nothing had happened. Its arrays may be numpy's."""
        if not isinstance(state, dict) or state.get("format") not in FORMATS:
            given = state.get("format") if isinstance(state, dict) else type(state).__name__
            raise ValueError(f"state has the format {given!r}, expected {FORMATS[-1]}: what Prequential.state() gave.")
        made, arrays = cls(**state["settings"]), state["arrays"]
        for name in NUMBERS:
            setattr(made, name, state["numbers"][name])
        for name in ARRAYS:
            getattr(made, name)[...] = arrays[name]
        if state["format"] == 1:
            made._curve = [tuple(row) for row in state["curve"]]
            made._endings.extend(map(bool, state["endings"]))
        else:
            at, shares = (np.asarray(arrays[name]).tolist() for name in ("curve_at", "curve"))
            made._curve = [(*numbers, *values) for numbers, values in zip(at, shares, strict=True)]
            made._endings.extend(map(bool, arrays["endings"]))
        predicted, labels = made._window()
        made._window_right = int((predicted == labels).sum())
        return made

    def _window(self) -> tuple[np.ndarray, np.ndarray]:
        """Predictions and labels."""
        return tuple(self._ring[:, self._ring[1] != NO_LABEL])

    def _take(self, predicted: np.ndarray, labels: np.ndarray) -> None:
        """As many as the window holds, at most."""
        right = predicted == labels
        self.right += int(right.sum())
        np.add.at(self.seen_of, labels, 1)
        np.add.at(self.right_of, labels[right], 1)
        places = (self.labelled + np.arange(labels.size)) % self.window
        gone, known = self._ring[:, places]
        self._window_right += int(right.sum()) - int(((gone == known) & (known != NO_LABEL)).sum())
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


# --------------------
# Predict, then learn: every step of a stream is a test before it is a lesson.
#
#     score = evaluate(learner, steps, window=1000)
#     score.accuracy, score.window_accuracy      # whole, and over the last 1,000 steps with a label
#     score.curve                                # how they came about
#
# The prediction at a step is the class with the highest score, and −1, which is always wrong, where all of them are
# zero.


__all__ = ["Block", "Curve", "Prequential", "blocks", "decide", "evaluate"]


class Block(NamedTuple):
    """Steps that a learner has taken at once."""

    steps: list[Step]
    predicted: np.ndarray  # [T] before learning
    told: "Learned"


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
    """Predict, then learn, over all steps of a stream.

    Args:
      learner: goes on from where it is, and is reset where a step says so.
      steps: any iterator of them, see `sources.py`.
      window: labelled steps that the sliding accuracy looks back on.
      block: steps that are waited for, and then taken at once. The numbers are the same; 1 for a live stream.
      learn: False for one that only predicts.
      score: one to go on with; its own window counts then.
      on_step: is given every step, what was predicted, and the scores [classes].
    """
    score = Prequential(learner.net.classes, window) if score is None else score
    for taken in blocks(learner, steps, score, size=block, learn=learn):
        if on_step is not None:
            for step, predicted, scores in zip(taken.steps, taken.predicted.tolist(), taken.told.scores, strict=True):
                on_step(step, predicted, scores)
    return score


def blocks(
    learner: "StreamLearner", steps: Iterable[Step], score: Prequential, *, size: int = 64, learn: bool = True
) -> Iterator[Block]:
    """The same block by block. Between two of them learner and score have seen the same steps, and may be saved."""
    for some in _gathered(steps, check.count("block", size)):
        if some[0].reset:
            learner.reset()
            score.reset()
        xs, labels = np.stack([step.x for step in some]), np.array([step.label for step in some])
        told = learner.learn_many(xs, labels) if learn else learner.observe_many(xs)
        predicted = decide(told.scores)
        score.add_many(predicted, labels)
        yield Block(some, predicted, told)
    score.reset()


def decide(scores: np.ndarray) -> np.ndarray:
    """The class with the highest score, [T, classes] -> [T]; −1 where none has any."""
    return np.where(scores.max(-1) > 0, scores.argmax(-1), -1)


def _gathered(steps: Iterable[Step], size: int) -> Iterator[list[Step]]:
    """As many steps of one sequence, or fewer at its end. What came before an error is not lost."""
    some: list[Step] = []
    try:
        for step in steps:
            if some and step.reset:
                yield some
                some = []
            some.append(step)
            if len(some) == size:
                yield some
                some = []
    except Exception:
        if some:
            yield some
        raise
    if some:
        yield some
