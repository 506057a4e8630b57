"""Predict, then learn: every step of a stream is a test before it is a lesson.

    score = evaluate(learner, steps, window=1000)
    score.accuracy, score.window_accuracy      # whole, and over the last 1,000 steps with a label
    score.curve                                # how they came about

The prediction at a step is the class with the highest score, and −1, which is always wrong, where all of them are zero.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from otpe import check
from otpe.stream.score import Curve, Prequential
from otpe.stream.steps import Step

if TYPE_CHECKING:
    from otpe.stream.learner import Learned, StreamLearner

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
