"""Predict, then learn: accuracy along a stream, compared with counting by hand and with a loop of single steps."""

import json
from types import SimpleNamespace

import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import otpe
from otpe.stream.learner import Learned, StreamLearner
from otpe.stream.prequential import Prequential, blocks, decide, evaluate
from otpe.stream.time_steps import Step

CLASSES = 3
numbers = st.integers(-1, CLASSES - 1)
stream = st.lists(st.tuples(numbers, numbers), max_size=120)


def by_hand(pairs, window):
    known = [(p, y) for p, y in pairs if y >= 0]
    right = [p == y for p, y in known]
    confusion = np.zeros((CLASSES, CLASSES + 1), int)
    for p, y in known[-window:]:
        confusion[y, p if p >= 0 else CLASSES] += 1
    return right, confusion


def same(a, b):
    return json.dumps(a.state()) == json.dumps(b.state())


@given(stream, st.integers(1, 30), st.integers(1, 9), st.lists(st.integers(0, 50), max_size=6))
@settings(max_examples=80)
def test_the_score_equals_counting_by_hand(pairs, window, points, cuts):
    one, many = (Prequential(CLASSES, window, points) for _ in range(2))
    for predicted, label in pairs:
        one.add(predicted, label)
    table = np.array(pairs, int).reshape(-1, 2)
    for block in np.split(table, sorted(cuts)):
        many.add_many(*block.T)
    assert same(one, many), "the block size does not matter"
    right, confusion = by_hand(pairs, window)
    assert (one.steps, one.labelled, one.right) == (len(pairs), len(right), sum(right))
    if right:
        assert one.accuracy == pytest.approx(np.mean(right))
        assert one.window_accuracy == pytest.approx(np.mean(right[-window:]))
    np.testing.assert_array_equal(one.confusion, confusion)
    labels = [y for _, y in pairs if y >= 0]
    np.testing.assert_array_equal(one.seen_of, np.bincount(labels, minlength=CLASSES))
    np.testing.assert_array_equal(one.right_of, [sum(r for r, y in zip(right, labels, strict=True) if y == c) for c in range(CLASSES)])  # fmt: skip
    curve = one.curve
    assert len(curve.steps) <= points
    assert list(curve.labelled[-1:]) == ([len(right)] if right else []), "the last point is the current step"
    places = [i + 1 for i, (_, y) in enumerate(pairs) if y >= 0]
    for i, (steps, labelled) in enumerate(zip(curve.steps, curve.labelled, strict=True)):
        assert curve.accuracy[i] == pytest.approx(np.mean(right[:labelled]))
        assert curve.window[i] == pytest.approx(np.mean(right[:labelled][-window:]))
        assert steps in (places[labelled - 1], len(pairs))


def test_a_score_without_steps_is_empty():
    score = Prequential(4)
    assert np.isnan(
        [score.accuracy, score.window_accuracy, score.sequence_accuracy, score.window_sequence_accuracy]
    ).all()
    assert [len(part) for part in score.curve] == [0, 0, 0, 0]
    score.add(2, -1)
    score.add_many([], [])
    assert (score.steps, score.labelled) == (1, 0)
    assert np.isnan(score.accuracy)


def test_memory_does_not_grow_with_the_square_of_the_classes():
    score = Prequential(6000, window=100)
    rng = np.random.default_rng(0)
    predicted, labels = rng.integers(-1, 6000, (2, 500))
    labels[-40:], predicted[-40:-10] = 17, -1
    score.add_many(predicted, np.maximum(labels, 0))
    about, arrays = score.parts()
    assert sum(array.nbytes for array in arrays.values()) < 200_000
    assert len(json.dumps(about)) < 1000
    assert score.confusions(1) == [(17, -1, 30)], "class 17 gave no spikes 30 times"
    with pytest.raises(
        ValueError, match=r"classes is 6,000, and a table of all confusions is made for at most 1,000. U"
    ):
        _ = score.confusion
    assert same(score, Prequential.from_state(about | {"arrays": arrays}))


def test_a_score_saved_in_the_first_format_is_read():
    """The state as otpe 0.1 wrote it."""
    score, old = Prequential(3, window=4, points=5), Prequential(3, window=4, points=5)
    pairs = [(0, 0), (1, 0), (2, 2), (-1, 1), (0, 0), (1, 1)]
    for predicted, label in pairs:
        score.add(predicted, label)
    state = score.state()
    arrays = state["arrays"]
    curve = [[*at, *shares] for at, shares in zip(arrays.pop("curve_at"), arrays.pop("curve"), strict=True)]
    first = state | {"format": 1, "curve": curve, "endings": [int(e) for e in arrays.pop("endings")]}
    first["arrays"] = arrays | {"confusion": [[0] * 4] * 3}
    old = Prequential.from_state(json.loads(json.dumps(first)))
    assert same(score, old)
    assert old.window_accuracy == score.window_accuracy == 0.75


def test_long_curves_are_thinned_evenly():
    score = Prequential(2, window=10, points=100)
    for _ in range(50):
        score.add_many(np.ones(1000, int), np.ones(1000, int))
    curve = score.curve
    assert 50 <= len(curve.steps) <= 100
    assert set(np.diff(curve.labelled[:-1])) == {512}
    assert curve.steps[-1] == 50_000
    assert len(json.dumps(score.state())) < 10_000


def test_whole_sequences_are_decided_at_their_end():
    score = Prequential(3, window=2)
    score.reset()  # no spikes
    for predicted, labels in [
        ([0, 1], [1, 1]),
        ([1, 0], [1, 1]),
        ([2, 2], [-1, -1]),
        ([-1, -1], [0, 0]),
        ([0, 2], [2, -1]),
    ]:
        score.add_many(predicted, labels)
        score.reset()
    assert (score.sequences, score.sequences_right) == (4, 2), (
        "the third sequence has no label, the fifth an earlier one"
    )
    assert score.sequence_accuracy == 0.5
    assert score.window_sequence_accuracy == 0.5  # first no spikes (wrong), then right
    assert score.accuracy == pytest.approx(2 / 7)
    score.reset()
    assert score.sequences == 4, "a second reset ends no sequence"


@given(stream, stream)
@settings(max_examples=20)
def test_a_score_saved_in_mid_sequence_resumes(before, after):
    score = Prequential(CLASSES, 7, 5)
    for pair in before[:-2]:
        score.add(*pair)
    score.reset()
    for pair in before[-2:]:
        score.add(*pair)
    loaded = Prequential.from_state(json.loads(json.dumps(score.state())))
    for each in (score, loaded):
        for pair in after:
            each.add(*pair)
        each.reset()
    assert same(score, loaded)
    np.testing.assert_array_equal(np.array(score.curve), np.array(loaded.curve))


BAD = [
    (lambda: Prequential(0), r"classes is 0, expected a whole number above 0"),
    (lambda: Prequential(3, window=0), r"window is 0, expected a whole number above 0"),
    (lambda: Prequential(3, points=0), r"points is 0, expected a whole number above 0"),
    (lambda: Prequential(3).add(3, 0), r"predicted runs from 3 to 3, expected −1 \(none\) or 0 to 2"),
    (lambda: Prequential(3).add(0, -2), r"labels runs from -2 to -2, expected −1"),
    (lambda: Prequential(3).add(0.0, 0), r"predicted is float64 \[1\], expected a row of whole numbers, one per step"),
    (lambda: Prequential(3).add_many([[1]], [1]), r"predicted is int64 \[1, 1\], expected a row"),
    (lambda: Prequential(3).add_many([1, 2], [1]), r"predicted has 2 entries and labels has 1, expected as many"),
    (
        lambda: Prequential.from_state({"format": 7}),
        r"state has the format 7, expected 2: what Prequential.state\(\) gave",
    ),
    (lambda: Prequential.from_state([]), r"state has the format 'list', expected 2"),
    (lambda: evaluate(Recorder(), [Step(np.zeros(2))], block=0), r"block is 0, expected a whole number above 0"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_the_error_messages(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_sequence_without_spikes_has_no_decision():
    assert decide(np.array([[0, 0, 0], [0, 0.1, 0], [2, 0, 2]])).tolist() == [-1, 1, 0]


class Recorder:
    """A learner that predicts the content of x, and records its calls."""

    net = SimpleNamespace(classes=2)

    def __init__(self):
        self.calls = []

    def reset(self):
        self.calls.append("reset")

    def learn_many(self, xs, labels):
        self.calls.append([int(y) for y in labels])
        return Learned(xs, np.zeros(len(xs)), np.zeros((len(xs), 1)), xs)

    def observe_many(self, xs):
        self.calls.append(len(xs))
        return Learned(xs, np.zeros(len(xs)), np.zeros((len(xs), 1)), xs)


def made_up(labels, resets, answers):
    eye = np.eye(3, dtype=np.float32)[:, :2]  # the third step has no spikes
    return [Step(eye[a], y, float(i), i in resets) for i, (y, a) in enumerate(zip(labels, answers, strict=True))]


STEPS = made_up([0, 1, 1, 0, -1, 1, 0], resets=(0, 3), answers=[0, 1, 2, 1, 1, 1, 0])


def test_the_learner_is_reset_between_sequences():
    learner, seen = Recorder(), []
    score = evaluate(learner, iter(STEPS), block=2, window=3, on_step=lambda *given: seen.append(given))
    assert learner.calls == ["reset", [0, 1], [1], "reset", [0, -1], [1, 0]]
    assert (score.steps, score.labelled, score.right) == (7, 6, 4)
    assert score.window_accuracy == pytest.approx(2 / 3)
    assert (score.sequences, score.sequences_right) == (2, 1), "the last sequence ends with the stream"
    assert [(step.time, predicted) for step, predicted, _ in seen] == list(enumerate([0, 1, -1, 1, 1, 1, 0]))
    np.testing.assert_array_equal(seen[2][2], [0, 0])


def test_a_frozen_learner_only_observes_with_any_block():
    learner = Recorder()
    frozen = evaluate(learner, STEPS, learn=False)
    assert learner.calls == ["reset", 3, "reset", 4]
    assert all(same(frozen, evaluate(Recorder(), STEPS, block=n)) for n in (1, 3, 100))


def test_a_given_score_is_continued():
    score = evaluate(Recorder(), STEPS[:3])
    assert evaluate(Recorder(), STEPS[3:], score=score) is score
    assert same(score, evaluate(Recorder(), STEPS))


def test_between_blocks_learner_and_score_have_seen_the_same():
    learner, score = Recorder(), Prequential(2)
    for n, block in enumerate(blocks(learner, STEPS, score, size=1), 1):
        assert (score.steps, len(block.steps)) == (n, 1)
        if n == 5:
            break
    assert score.sequences == 1, "the second sequence still runs"
    assert len([call for call in learner.calls if call != "reset"]) == 5


def test_a_step_is_learned_before_the_next_one_is_read():
    learner = Recorder()

    def live():
        for n, step in enumerate(STEPS):
            assert len([call for call in learner.calls if call != "reset"]) == n
            yield step

    assert evaluate(learner, live(), block=1).steps == 7


def test_steps_before_an_error_are_learned():
    learner, score = Recorder(), Prequential(2)

    def broken():
        yield from STEPS[:5]
        raise ValueError("line 6 is no event")

    with pytest.raises(ValueError, match="line 6 is no event"):
        evaluate(learner, broken(), score=score)
    assert learner.calls == ["reset", [0, 1, 1], "reset", [0, -1]]
    assert (score.steps, score.sequences) == (5, 1)


def test_prequential_equals_predict_one_and_learn_one():
    net, rng = otpe.dense([6, 8, 3], leak=0.9, threshold=0.2), np.random.default_rng(0)
    xs, labels = rng.poisson(3, (32, 6)).astype(np.float32), rng.integers(-1, 3, 32).tolist()
    steps = [Step(x, y, float(i), i in (0, 16)) for i, (x, y) in enumerate(zip(xs, labels, strict=True))]
    together, single = (StreamLearner(net, optimizer=optax.adamax(0.1), seed=5) for _ in range(2))
    seen = []
    score = evaluate(together, steps, block=16, on_step=lambda *given: seen.append(given))
    by_one = Prequential(3)
    for step, predicted, scores in seen:
        if step.reset:
            single.reset()
            by_one.reset()
        expected = single.predict_one(step.x)
        np.testing.assert_allclose(scores, expected, rtol=1e-5)
        assert predicted == decide(expected)
        by_one.add(predicted, step.label)
        single.observe_one(step.x) if step.label < 0 else single.learn_one(step.x, step.label)
    by_one.reset()
    assert same(score, by_one)
    assert len({predicted for _, predicted, _ in seen}) > 2
    assert together.steps == single.steps == 32
