"""Input that `otpe.StreamLearner` refuses, and the messages. The learner's state does not change."""

import jax
import numpy as np
import optax
import pytest

import otpe
from otpe.stream.learner import StreamLearner

NET = otpe.dense([9, 8, 7, 4], leak=0.9, threshold=0.4)
RNG = np.random.default_rng(0)
X, Y = (RNG.random((40, 9)) < 0.4).astype(np.float32), RNG.integers(0, 4, 40)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros(8), r"x has the shape \[8\], expected \[9\]: one time step of the network's inputs"),
        (np.zeros((1, 9)), r"x has the shape \[1, 9\], expected \[9\]"),
        (np.full(9, np.nan), "x holds nan, expected spikes or how many there were: finite numbers, none below 0"),
        ([0, 0, 0, 0, -2, 0, 0, 0, 0], "x holds -2.0, expected spikes"),
        (np.full(9, 1e300), "x holds inf, expected spikes"),
        (["a"] * 9, "x is of type <U1, expected real numbers"),
        ([1j] * 9, "x is of type complex128, expected real numbers"),
        ([[1], [1, 2]], "x is a list whose rows differ in length"),
    ],
)
def test_a_bad_step_is_refused_and_nothing_is_lost(x, words):
    learner, other = StreamLearner(NET), StreamLearner(NET)
    for call in (learner.predict_one, learner.observe_one, lambda x: learner.learn_one(x, 1)):
        with pytest.raises((ValueError, TypeError), match=words):
            call(x)
    memories = zip(jax.tree.leaves(learner._memory), jax.tree.leaves(other._memory), strict=True)
    assert all(np.array_equal(mine, theirs) for mine, theirs in memories)
    assert learner.steps == other.steps


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (4, "label is 4, expected 0 to 3: the network has 4 outputs. Build it with more if classes may come"),
        (-1, "label is -1, expected 0 to 3"),
        (1.0, "label is 1.0, expected a whole number from 0 to 3; without one: observe_one"),
        (None, "label is None, expected a whole number"),
        (True, "label is True, expected a whole number"),
        ([1], r"label is \[1\], expected a whole number"),
    ],
)
def test_a_bad_label_is_refused(label, words):
    learner = StreamLearner(NET)
    with pytest.raises((ValueError, TypeError), match=words):
        learner.learn_one(X[0], label)
    assert learner.steps == 0


@pytest.mark.parametrize(
    ("xs", "labels", "words"),
    [
        (X[:, :8], 1, r"xs has the shape \[40, 8\], expected \[time, 9\], with at least one time step"),
        (X[:0], 1, r"xs has the shape \[0, 9\]"),
        (X, Y[:3], r"labels have the shape \[3\], expected one for all, or \[40\]: one per time step"),
        (X, Y + 1, r"labels run from 1 to 4, expected −1 \(none\) or 0 to 3"),
        (X, Y - 2, r"labels run from -2 to 1"),
        (X, Y * 1.0, "labels are of type float64, expected whole numbers"),
    ],
)
def test_a_bad_block_is_refused(xs, labels, words):
    with pytest.raises((ValueError, TypeError), match=words):
        StreamLearner(NET).learn_many(xs, labels)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rule": "bptt"}, "rule 'bptt' has no per-step form"),
        ({"rule": "otppe"}, "Did you mean 'otpe'"),
        ({"optimizer": "adam"}, "optimizer is 'adam', expected an optax optimizer"),
        ({"every": 0}, "every is 0, expected a whole number above 0"),
        ({"every": 2**31}, "every is 2147483648, expected a whole number above 0, 2,147,483,647 at most"),
        ({"score_leak": 1.5}, "score_leak is 1.5, expected a number from 0 to 1"),
        ({"decay": 1.0}, "decay is 1.0, expected a share from 0 to below 1"),
        ({"limit": 0}, "limit is 0, expected a finite number above 0"),
        ({"seed": -1}, "seed is -1, expected a whole number from 0"),
        ({"params": (1,)}, "params has 1 entries, expected a tuple of 3"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        StreamLearner(NET, **settings)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_initial_weights_that_are_not_finite_are_refused(bad):
    params = StreamLearner(NET).params
    params[1].kernel[2, 3] = bad
    with pytest.raises(ValueError, match=r"params has weights that are not finite, in 1\.kernel\. Use finite ones"):
        StreamLearner(NET, params=params)


@pytest.mark.parametrize("rate", [np.nan, np.inf])
@pytest.mark.parametrize("every", [1, 2])
def test_weights_that_are_no_longer_finite_are_reported_at_their_step(rate, every, tmp_path):
    at = f"step {every}: weights or membranes are not finite any more"
    one, many = (StreamLearner(NET, "otpe", optax.sgd(rate), every=every) for _ in range(2))
    for x, y in zip(X[: every - 1], Y, strict=False):
        assert np.isfinite(one.learn_one(x, y))
    with pytest.raises(FloatingPointError, match=rf"{at} \(the learner is at step {every}\)\. Go on from a learner"):
        one.learn_one(X[every - 1], Y[every - 1])
    with pytest.raises(FloatingPointError, match=rf"{at} \(the learner is at step 16\)"):
        many.learn_many(X[:16], Y[:16])
    assert many.steps == 16
    path = tmp_path / "learner.safetensors"
    for learner in (one, many):
        with pytest.raises(
            FloatingPointError, match=r"learner.safetensors was not written: params\.0\.kernel has numbers"
        ):
            learner.save(path)
    assert not path.exists()


def test_a_single_non_finite_weight_is_found_within_a_step_or_a_block():
    def update(updates, state, params=None):
        """Make one weight non-finite in the third update, but no bias."""
        first, *rest = updates
        return (
            first._replace(kernel=first.kernel.at[2, 3].add(jax.numpy.where(state == 2, np.inf, 0))),
            *rest,
        ), state + 1

    spoils = optax.GradientTransformation(lambda params: jax.numpy.zeros((), int), update)
    one, many = StreamLearner(NET, "otpe", spoils), StreamLearner(NET, "otpe", spoils)
    for x, y in zip(X[:3], Y, strict=False):
        one.learn_one(x, y)
    with pytest.raises(FloatingPointError, match="step 4: "):
        one.learn_one(X[3], Y[3])
    many.learn_many(X[:2], Y[:2])
    with pytest.raises(FloatingPointError, match=r"step 3: .* at step 3\)"):
        many.learn_many(X[2:3], Y[2:3])
