"""Checks for learners for streams, modelled on the checks of river.

    otpe.testing.check_learner(lambda: otpe.StreamLearner(net, rule="otpe"))

A learner has the methods predict_one, learn_one, observe_one, reset and clone. It may have learn_many, observe_many,
save and load; these are checked too.
"""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import numpy as np

from otpe.testing.assertions import require

STEPS = 30
PYTHON_SLACK = 100_000  # bytes by which Python's own memory may grow
Make = Callable[[], Any]


def check_learner(make: Make, inputs: int | None = None, classes: int | None = None) -> None:
    """Run all checks on a learner. Raises AssertionError at the first one that fails.

    Args:
      make: returns a new learner. All learners that it returns must be the same.
      inputs, classes: the number of inputs of a step and of classes; by default those of the learner's `net`.
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
    """Every method works on a new learner, whichever is called first."""
    scores = np.asarray(make().predict_one(xs[0]))
    finite = scores.ndim == 1 and np.isfinite(scores).all()
    require(finite, f"predict_one gave {scores!r}, expected finite scores [classes]")
    make().observe_one(xs[0])
    make().reset()
    make().clone()


def check_inputs_are_not_changed(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """The learner does not change its inputs, and does not read an input again after the call."""
    learner, original = make(), xs.copy()
    for x, label in zip(xs, labels, strict=True):
        learner.predict_one(x)
        learner.learn_one(x, int(label))
        learner.observe_one(x)
    require(np.array_equal(xs, original), "an input was changed")
    one, other, x = make(), make(), xs[0].copy()
    one.learn_one(x, int(labels[0]))
    x[:] = 0  # the caller reuses the array
    other.learn_one(xs[0], int(labels[0]))
    require(_same(one, other, xs), "the learner reads an input again after the call")


def check_prediction_is_pure(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """A prediction does not change the learner."""
    one, other = make(), make()
    for x, label in zip(xs, labels, strict=True):
        first, second = (np.asarray(one.predict_one(x)) for _ in range(2))
        require(np.array_equal(first, second), "two predictions of one step differ")
        one.learn_one(x, int(label))
        other.learn_one(x, int(label))
    require(_same(one, other, xs), "predict_one changed the learner: it predicts differently from one without the call")


def check_observing_keeps_weights(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """Observing changes only what `reset` undoes."""
    one, fresh = make(), make()
    for x in xs:
        one.observe_one(x)
    one.reset()
    require(_same(one, fresh, xs), "after observing and a reset the learner predicts differently from a new one")


def check_clone_is_independent(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """A clone equals the original, and does not change when the original learns."""
    one = _fit(make(), xs, labels)
    clone = one.clone()
    require(_same(one, clone, xs), "a clone predicts differently from the learner that it was cloned from")
    before = _predictions(clone, xs)
    _fit(one, xs, labels)
    require(np.array_equal(before, _predictions(clone, xs)), "a clone learns when the learner it was cloned from does")


def check_same_seed_same_result(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """Two learners with the same settings and the same data predict the same."""
    require(_same(_fit(make(), xs, labels), _fit(make(), xs, labels), xs), "two learners with equal settings differ")


def check_memory_is_bounded(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """Python's memory, JAX's arrays and the learner's own `bytes` do not grow with the stream."""
    learner, rounds = make(), 10
    tracemalloc.start()
    try:
        measured = []
        for _ in range(2):  # in the first pass Python's memory pools fill
            for _ in range(rounds):
                _fit(learner, xs, labels)
            gc.collect()
            in_jax = sum(array.nbytes for array in jax.live_arrays())
            measured.append((in_jax, tracemalloc.get_traced_memory()[0], getattr(learner, "bytes", 0)))
    finally:
        tracemalloc.stop()
    names = ("JAX's memory", "Python's memory", "the learner's `bytes`")
    for name, before, after, slack in zip(names, *measured, (0, PYTHON_SLACK, 0), strict=True):
        require(after <= before + slack, f"{name} has grown by {after - before:,} bytes over {rounds * STEPS} steps")


def check_blocks_equal_steps(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """learn_many and observe_many equal learn_one and observe_one in a loop."""
    one, many = make(), make()
    if hasattr(many, "learn_many"):
        many.learn_many(xs, labels)
        require(_close(_fit(one, xs, labels), many, xs), "learn_many differs from learn_one in a loop")
    if hasattr(many, "observe_many"):
        many.observe_many(xs)
        for x in xs:
            one.observe_one(x)
        require(_close(one, many, xs), "observe_many differs from observe_one in a loop")


def check_saved_and_loaded(make: Make, xs: np.ndarray, labels: np.ndarray) -> None:
    """A learner that was saved and loaded goes on learning as the original does."""
    one = _fit(make(), xs, labels)
    if not hasattr(one, "save"):
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "learner"
        one.save(path)
        other = type(one).load(path)
    same = _same(_fit(one, xs, labels), _fit(other, xs, labels), xs)
    require(same, "a learner that was saved and loaded learns differently from the original")


CHECKS = (
    check_called_before_learning, check_inputs_are_not_changed, check_prediction_is_pure, check_observing_keeps_weights,
    check_clone_is_independent, check_same_seed_same_result, check_memory_is_bounded, check_blocks_equal_steps,
    check_saved_and_loaded,
)  # fmt: skip


def _fit(learner: Any, xs: np.ndarray, labels: np.ndarray) -> Any:
    for x, label in zip(xs, labels, strict=True):
        learner.learn_one(x, int(label))
    return learner


def _predictions(learner: Any, xs: np.ndarray) -> np.ndarray:
    """Return the predictions along these steps. They are made by a clone, so the learner does not change."""
    clone, predictions = learner.clone(), []
    for x in xs:
        predictions.append(np.asarray(clone.predict_one(x)))
        clone.observe_one(x)
    return np.array(predictions)


def _same(one: Any, other: Any, xs: np.ndarray) -> bool:
    return np.array_equal(_predictions(one, xs), _predictions(other, xs))


def _close(one: Any, other: Any, xs: np.ndarray) -> bool:
    return np.allclose(_predictions(one, xs), _predictions(other, xs), rtol=1e-4, atol=1e-4)
