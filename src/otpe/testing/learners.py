"""Checks of a learner for streams, after river's: whatever learns one step at a time should pass them.

    otpe.testing.check_learner(lambda: otpe.StreamLearner(net, rule="otpe"))

A learner has predict_one, learn_one, observe_one, reset and clone; where it has learn_many, observe_many, save and load
too, they are checked as well.
"""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from otpe.testing.oracles import require

STEPS = 30
POOLS = 100_000  # bytes that Python may keep for later
Make = Callable[[], Any]


def check_learner(make: Make, inputs: int | None = None, classes: int | None = None) -> None:
    """Raise AssertionError, with a sentence, at the first thing that is wrong.

    Args:
      make: makes a fresh learner, always the same one.
      inputs, classes: of its steps and labels; by default those of its `net`.
    """
    net: Any = getattr(make(), "net", None)
    inputs = int(np.prod(net.layers[0].in_shape)) if inputs is None else inputs
    classes = net.classes if classes is None else classes
    rng = np.random.default_rng(0)
    xs = (rng.random((STEPS, inputs)) < 0.3).astype(np.float32)
    labels = rng.integers(0, classes, STEPS)
    for check in CHECKS:
        check(make, xs, labels)


def check_called_before_learning(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """A learner answers before it has learned anything, whatever is called first."""
    scores = np.asarray(make().predict_one(xs[0]))
    require(
        scores.ndim == 1 and np.isfinite(scores).all(), f"predict_one gave {scores!r}, expected finite scores [classes]"
    )
    make().observe_one(xs[0])
    make().reset()
    make().clone()


def check_inputs_are_not_changed(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """What is handed over stays as it was, also later."""
    learner, kept = make(), xs.copy()
    for x, label in zip(xs, labels, strict=True):
        learner.predict_one(x)
        learner.learn_one(x, int(label))
        learner.observe_one(x)
    require(np.array_equal(xs, kept), "an input was changed")
    one, other, x = make(), make(), xs[0].copy()
    one.learn_one(x, int(labels[0]))
    x[:] = 0  # the caller uses his array for something else
    other.learn_one(xs[0], int(labels[0]))
    require(_same(one, other, xs), "the learner looks at an input again after the call")


def check_prediction_is_pure(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    one, other = make(), make()
    for x, label in zip(xs, labels, strict=True):
        first, second = (np.asarray(one.predict_one(x)) for _ in range(2))
        require(np.array_equal(first, second), "two predictions of one step differ")
        one.learn_one(x, int(label))
        other.learn_one(x, int(label))
    require(_same(one, other, xs), "a learner that was asked to predict has become another than one that was not")


def check_observing_keeps_weights(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    one, fresh = make(), make()
    for x in xs:
        one.observe_one(x)
    one.reset()
    require(_same(one, fresh, xs), "after observing and a reset the learner answers otherwise than a fresh one")


def check_clone_is_independent(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    one = _taught(make(), xs, labels)
    clone = one.clone()
    require(_same(one, clone, xs), "a clone answers otherwise than what it was cloned from")
    before = _answers(clone, xs)
    _taught(one, xs, labels)
    require(np.array_equal(before, _answers(clone, xs)), "a clone learns when the learner it was cloned from does")


def check_same_seed_same_result(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    require(_same(_taught(make(), xs, labels), _taught(make(), xs, labels), xs), "two learners that are alike differ")


def check_memory_is_bounded(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """Neither Python's memory nor JAX's arrays nor what the learner says of its own grows with the stream."""
    learner, rounds = make(), 10
    tracemalloc.start()
    try:
        measured = []
        for _ in range(2):  # the first time, Python's own pools fill
            for _ in range(rounds):
                _taught(learner, xs, labels)
            gc.collect()
            kept = sum(array.nbytes for array in jax.live_arrays())
            measured.append((kept, tracemalloc.get_traced_memory()[0], getattr(learner, "bytes", 0)))
    finally:
        tracemalloc.stop()
    names = ("JAX's memory", "Python's memory", "what the learner keeps")
    for name, before, after, slack in zip(names, *measured, (0, POOLS, 0), strict=True):
        require(after <= before + slack, f"{name} has grown by {after - before:,} bytes over {rounds * STEPS} steps")


def check_blocks_equal_steps(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    one, many = make(), make()
    if hasattr(many, "learn_many"):
        many.learn_many(xs, labels)
        require(_close(_taught(one, xs, labels), many, xs), "learn_many differs from learn_one in a loop")
    if hasattr(many, "observe_many"):
        many.observe_many(xs)
        for x in xs:
            one.observe_one(x)
        require(_close(one, many, xs), "observe_many differs from observe_one in a loop")


def check_saved_and_loaded(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    one = _taught(make(), xs, labels)
    if not hasattr(one, "save"):
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "learner"
        one.save(path)
        other = type(one).load(path)
    require(
        _same(_taught(one, xs, labels), _taught(other, xs, labels), xs),
        "one that was saved and loaded goes another way",
    )


CHECKS = [
    check_called_before_learning,
    check_inputs_are_not_changed,
    check_prediction_is_pure,
    check_observing_keeps_weights,
    check_clone_is_independent,
    check_same_seed_same_result,
    check_memory_is_bounded,
    check_blocks_equal_steps,
    check_saved_and_loaded,
]


def _taught(learner: Any, xs: np.ndarray, labels: np.ndarray) -> Any:
    for x, label in zip(xs, labels, strict=True):
        learner.learn_one(x, int(label))
    return learner


def _answers(learner: Any, xs: np.ndarray) -> np.ndarray:
    """What a clone of it says along these steps, so that the learner itself stays where it is."""
    copy, found = learner.clone(), []
    for x in xs:
        found.append(np.asarray(copy.predict_one(x)))
        copy.observe_one(x)
    return np.array(found)


def _same(one: Any, other: Any, xs: np.ndarray) -> bool:
    return np.array_equal(_answers(one, xs), _answers(other, xs))


def _close(one: Any, other: Any, xs: np.ndarray) -> bool:
    return np.allclose(_answers(one, xs), _answers(other, xs), rtol=1e-4, atol=1e-4)
