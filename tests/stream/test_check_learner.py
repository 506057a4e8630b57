"""Learners of every rule pass the checks, and each check finds a broken learner."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import otpe
from otpe.testing import check_learner

NET = otpe.dense([6, 5, 3], leak=0.8, threshold=0.3)


def make(rule="otpe", **settings):
    return otpe.StreamLearner(NET, rule, optax.sgd(0.5), **settings)


@pytest.mark.parametrize("rule", ["otpe", "f-approx-otpe"])  # test_learner.py checks the other rules
def test_learners_of_all_rules_pass(rule):
    check_learner(lambda: make(rule))


def test_a_learner_that_updates_every_few_steps_passes():
    check_learner(lambda: make(every=4, decay=1e-3))


class Broken:
    """A learner that wraps another one."""

    def __init__(self, inner=None):
        self.inner, self.net = make() if inner is None else inner, NET

    def __getattr__(self, name):
        if name in ("save", "learn_many", "observe_many", "inner"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def clone(self):
        return type(self)(self.inner.clone())


class SilentAtFirst(Broken):
    def predict_one(self, x):
        return np.full(3, np.nan)


class Greedy(Broken):
    def learn_one(self, x, label):
        self.inner.learn_one(x, label)
        x *= 0


class Peeking(Broken):
    def learn_one(self, x, label):
        self.x = x
        self.inner.learn_one(x, label)

    def predict_one(self, x):
        return self.inner.predict_one(self.x if hasattr(self, "x") else x)

    def clone(self):
        other = super().clone()
        other.__dict__.update({"x": self.x} if hasattr(self, "x") else {})
        return other


class Impure(Broken):
    def predict_one(self, x):
        scores = self.inner.predict_one(x)
        self.inner.observe_one(x)
        return scores


class Learning(Broken):
    def observe_one(self, x):
        self.inner.learn_one(x, 0)


class Shared(Broken):
    def clone(self):
        return Shared(self.inner)


class Random(Broken):
    def __init__(self, inner=None):
        super().__init__(make(seed=int(np.random.default_rng().integers(1000))) if inner is None else inner)


class Hoarding(Broken):
    def __init__(self, inner=None):
        super().__init__(inner)
        self.seen = []

    def learn_one(self, x, label):
        self.seen.append(np.tile(x, 100))
        self.inner.learn_one(x, label)


class Keeping(Hoarding):
    def learn_one(self, x, label):
        self.seen.append(jnp.asarray(x))
        self.inner.learn_one(x, label)


class Otherwise(Broken):
    def learn_many(self, xs, labels):
        self.inner.observe_many(xs)


class Forgetful(Broken):
    def save(self, path):
        pass

    @classmethod
    def load(cls, path):
        return cls()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (SilentAtFirst, "expected finite scores"),
        (Greedy, "an input was changed"),
        (Peeking, "the learner reads an input again after the call"),
        (Impure, "two predictions of one step differ"),
        (Learning, "after observing and a reset the learner predicts differently from a new one"),
        (Shared, "a clone predicts differently from the learner that it was cloned from"),
        (Random, "two learners with equal settings differ|predict_one changed|predicts differ|reads an input again"),
        (Hoarding, "Python's memory has grown by [0-9,]+ bytes over 300 steps"),
        (Keeping, "JAX's memory has grown by"),
        (Otherwise, "learn_many differs from learn_one in a loop"),
        (Forgetful, "a learner that was saved and loaded learns differently from the original"),
    ],
)
def test_broken_learners_are_found(kind, words):
    with pytest.raises(AssertionError, match=words):
        check_learner(kind)


def test_a_learner_without_a_network_passes_with_given_sizes():
    class Counting:
        """Predicts the most frequent label."""

        def __init__(self, counts=None):
            self.counts = np.zeros(3) if counts is None else counts

        def predict_one(self, x):
            return self.counts.copy()

        def learn_one(self, x, label):
            self.counts[label] += 1

        def observe_one(self, x):
            pass

        def reset(self):
            pass

        def clone(self):
            return Counting(self.counts.copy())

    check_learner(Counting, inputs=6, classes=3)
