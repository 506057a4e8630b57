"""Late labels: the current network predicts, and learning equals that of a learner with labels in time."""

import jax
import numpy as np
import optax
import pytest

import otpe
from otpe.stream.learner import StreamLearner

NET = otpe.dense([9, 8, 7, 4], leak=0.9, threshold=0.4)
RNG = np.random.default_rng(0)
X, Y = (RNG.random((64, 9)) < 0.4).astype(np.float32), RNG.integers(0, 4, 64)
DELAY, SECOND = (
    16,
    32,
)  # start of the second sequence. All lengths are multiples of a block, so that few programs are compiled


def learner(**more):
    return StreamLearner(NET, "otpe", optax.adam(0.01), **more)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def in_time(steps, labels=Y, **more):
    """Return a learner whose labels come at once, after this number of steps."""
    one = learner(**more)
    one.learn_many(X[:SECOND], labels[:SECOND])
    one.reset()
    one.learn_many(X[SECOND:steps], labels[SECOND:steps])
    return one


@pytest.mark.parametrize("every", [3, 4])  # a sequence ends inside a group of steps, and at its end
def test_late_labels_give_the_weights_of_a_learner_with_timely_labels(every):
    late = learner(delay=DELAY, every=every)
    losses = late.learn_many(X[:SECOND], Y[:SECOND]).losses
    late.reset()
    losses = np.append(losses, late.learn_many(X[SECOND:], Y[SECOND:]).losses)
    expected = learner(every=every)
    assert same(in_time(64 - DELAY, every=every).params, late.params)
    assert not same(in_time(64, every=every).params, late.params)
    assert np.isnan(losses[:DELAY]).all(), "no step has waited long enough"
    np.testing.assert_allclose(
        losses[DELAY:SECOND], expected.learn_many(X[: SECOND - DELAY], Y[: SECOND - DELAY]).losses
    )


def test_label_late_equals_passing_labels_at_once():
    late = learner(delay=DELAY)
    for i, x in enumerate(X):
        if i == SECOND:
            late.reset()
        late.observe_one(x)
        if i >= 5:
            late.label_late(Y[i - 5], ago=5)
    for one, other in zip(*map(jax.tree.leaves, (in_time(64 - DELAY).params, late.params)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)  # another program, which rounds differently
    assert late.labelled == 59
    late.label_late(Y[62:64])
    late.label_late(Y[61], ago=2)
    late.label_late(3, ago=2)
    assert late.labelled == 62, "a label given again is not counted twice"


def test_the_current_network_predicts():
    """Membranes and scores include all steps, weights only the learned ones."""
    late, frozen = learner(delay=DELAY), learner()
    learned = late.learn_many(X[:DELAY], Y[:DELAY])
    observed = frozen.observe_many(X[:DELAY])
    np.testing.assert_array_equal(learned.scores, observed.scores)
    np.testing.assert_array_equal(learned.spikes, observed.spikes)
    np.testing.assert_allclose(learned.rates, observed.rates, rtol=1e-6)
    assert observed.spikes.any()
    np.testing.assert_array_equal(late.predict_one(X[DELAY]), frozen.predict_one(X[DELAY]))
    late.reset()
    np.testing.assert_array_equal(late.predict_one(X[DELAY]), learner().predict_one(X[DELAY]))


def test_a_save_between_steps_and_blocks_keeps_waiting_labels(tmp_path):
    many, one = learner(delay=DELAY), learner(delay=DELAY)
    whole = many.learn_many(X, Y)
    scores = []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        if i in (3, 40):  # before and after the first update
            one = StreamLearner.load(one.save(tmp_path / "learner"))
        if i == 20:
            one, left = one.clone(), one
            left.learn_one(x, y)
        scores.append(one.predict_one(x))
        one.learn_one(x, y)
    np.testing.assert_array_equal(whole.scores, scores)
    np.testing.assert_allclose(jax.tree.leaves(one.params)[0], jax.tree.leaves(many.params)[0], rtol=1e-5, atol=1e-7)
    assert one.steps == many.steps == one.labelled == 64
    assert one.bytes == learner(delay=DELAY).bytes > learner().bytes


def test_a_reset_is_saved(tmp_path):
    late = learner(delay=DELAY)
    late.learn_many(X[:SECOND], Y[:SECOND])
    late.reset()
    late = StreamLearner.load(late.save(tmp_path / "learner"))
    late.learn_many(X[SECOND:], Y[SECOND:])
    assert same(in_time(64 - DELAY).params, late.params)


def test_a_learner_with_late_labels_passes_the_checks():
    otpe.testing.check_learner(lambda: StreamLearner(NET, "approx-otpe", delay=3))


@pytest.mark.parametrize(
    ("delay", "call", "message"),
    [
        (0, lambda late: late.label_late(1), r"labels are for 1 steps, 0 before the last one, and 0 wait .* it is 0"),
        (4, lambda late: late.label_late(1, ago=4), r"labels are for 1 steps, 4 before the last one, and 4 wait"),
        (4, lambda late: late.label_late([1] * 5), r"with a larger delay, the number of steps .* it is 4"),
        (4, lambda late: late.label_late(4), r"labels run from 4 to 4, expected −1 \(none\) or 0 to 3"),
        (4, lambda late: late.label_late(1, ago=-1), r"ago is -1"),
    ],
)
def test_a_label_that_cannot_be_used_changes_nothing(delay, call, message):
    late, other = learner(delay=delay), learner(delay=delay)
    for each in (late, other):
        each.observe_many(X[:10])
    with pytest.raises(ValueError, match=message):
        call(late)
    assert same(late.learn_many(X, Y).scores, other.learn_many(X, Y).scores)
    assert same(late.params, other.params)
    assert late.labelled == other.labelled


def test_an_invalid_delay_is_refused():
    with pytest.raises(ValueError, match="delay is -1"):
        learner(delay=-1)
