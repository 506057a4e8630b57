"""`otpe.StreamLearner`: numbers do not depend on how steps are passed, and a file holds the complete learner."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import otpe
from otpe.stream.learner import StreamLearner
from otpe.testing import relative_error

NET = otpe.dense([9, 8, 7, 4], leak=0.9, threshold=0.4)
RULES = [name for name in otpe.rules() if otpe.rule(name).has_steps]
RNG = np.random.default_rng(0)
X, Y = (RNG.random((40, 9)) < 0.4).astype(np.float32), RNG.integers(0, 4, 40)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def looped(learner, xs, labels):
    """Learn step by step. Return scores before learning, and losses."""
    results = []
    for x, label in zip(xs, labels, strict=True):
        scores = learner.predict_one(x)
        results.append((scores, learner.learn_one(x, label)))
    return results


@pytest.mark.parametrize("rule", RULES)
def test_learn_one_learn_many_and_an_online_pass_agree(rule):
    xs, ys = (X, Y) if rule == "otpe" else (X[:32], Y[:32])  # 40 steps need programs of two lengths, 32 steps need one
    one, many = StreamLearner(NET, rule, optax.adam(0.01), seed=3), StreamLearner(NET, rule, optax.adam(0.01), seed=3)
    start, optimizer = one.params, optax.adam(0.01)
    singles, block = looped(one, xs, ys), many.learn_many(xs, ys)
    np.testing.assert_allclose(block.losses, [loss for _, loss in singles], rtol=1e-5)
    np.testing.assert_array_equal(block.scores, [scores for scores, _ in singles])
    assert relative_error(one.params, many.params) < 1e-5
    start = jax.tree.map(jnp.asarray, start)
    losses = []
    params, state = start, optimizer.init(start)
    # A pass takes one label per sample. So there is one pass with one label, and the learner gets it at every step.
    same_label = StreamLearner(NET, rule, optimizer, seed=3)
    params, state, losses = otpe.online_pass(
        NET, params, state, xs[:, None], np.array([2]), rule=rule, optimizer=optimizer, traces="dense"
    )
    learned = same_label.learn_many(xs, 2)
    np.testing.assert_allclose(learned.losses, losses, rtol=1e-5)
    assert relative_error(same_label.params, params) < 1e-5
    assert relative_error(same_label.params, start) > 1e-3, "the weights must change"


def test_updates_after_every_few_steps_equal_an_online_pass():
    optimizer = optax.adam(0.01)
    learner = StreamLearner(NET, "otpe", optimizer, every=7)
    params = jax.tree.map(jnp.asarray, learner.params)
    params, _, _ = otpe.online_pass(
        NET, params, optimizer.init(params), X[:, None], np.array([1]), optimizer=optimizer, every=7, traces="dense"
    )
    learner.learn_many(X, 1)
    assert relative_error(learner.params, params) > 1e-6, "after five steps there is no update yet"
    learner.reset()
    assert relative_error(learner.params, params) < 1e-5
    before = learner.params
    learner.reset()
    assert same(before, learner.params), "no gradient is left over"


def test_steps_without_a_label_change_the_state_but_not_the_weights():
    labels = np.where(np.arange(40) % 3, Y, -1)
    one, many = StreamLearner(NET), StreamLearner(NET)
    for x, label in zip(X, labels, strict=True):
        before = one.params
        if label < 0:
            one.observe_one(x)
            assert same(before, one.params)
        else:
            one.learn_one(x, int(label))
    learned = many.learn_many(X, labels)
    assert relative_error(one.params, many.params) < 1e-6
    np.testing.assert_array_equal(np.isnan(learned.losses), labels < 0)
    assert (one.steps, one.labelled) == (many.steps, many.labelled) == (40, int((labels >= 0).sum()))
    quiet = StreamLearner(NET)
    learned = quiet.observe_many(X)
    assert same(quiet.params, StreamLearner(NET).params)
    np.testing.assert_array_equal(learned.scores[-1] != StreamLearner(NET).predict_one(X[-1]), learned.scores[-1] != 0)


def test_scores_are_the_leaky_sum_of_output_spikes():
    learner, spikes = StreamLearner(NET), np.asarray(NET.run(StreamLearner(NET).params, X[:, None])[:, 0])
    assert spikes.any()
    expected, scores = np.zeros(4), learner.observe_many(X).scores
    for s, actual in zip(spikes, scores, strict=True):
        expected = NET.readout_leak * expected + s
        np.testing.assert_allclose(actual, expected, rtol=1e-5)
    counting = StreamLearner(NET, score_leak=1.0)
    np.testing.assert_array_equal(counting.observe_many(X).scores[-1], spikes.sum(0))


def test_a_prediction_changes_nothing():
    learner, other = StreamLearner(NET), StreamLearner(NET)
    for x in X:
        learner.predict_one(x)
    learner.learn_many(X, Y)
    other.learn_many(X, Y)
    assert same(learner._memory, other._memory)


def test_a_reset_begins_a_new_sequence():
    learner = StreamLearner(NET)
    learner.learn_many(X, Y)
    weights = learner.params
    learner.reset()
    assert same(weights, learner.params)
    fresh = StreamLearner(NET, params=weights)
    np.testing.assert_array_equal(learner.observe_many(X).scores, fresh.observe_many(X).scores)


@pytest.mark.parametrize("rule", ["otpe", "f-approx-otpe", "rtrl"])
@pytest.mark.parametrize("every", [1, 3])
def test_a_learner_saved_in_mid_sequence_resumes_bit_for_bit(rule, every, tmp_path):
    learner = StreamLearner(NET, rule, optax.adamax(2e-3), every=every, decay=1e-4, limit=2.0)
    learner.learn_many(X[:17], Y[:17])
    path = learner.save(tmp_path / "learner.safetensors")
    loaded = StreamLearner.load(path)
    assert same(learner._memory, loaded._memory)
    assert (loaded.steps, loaded.labelled, loaded.net, loaded.rule) == (17, 17, NET, otpe.rule(rule))
    for each in (learner, loaded):
        each.learn_many(X[17:], Y[17:])
    assert same(learner._memory, loaded._memory)
    assert jax.tree.structure(learner._memory) == jax.tree.structure(loaded._memory)


def test_user_parts_must_be_given_again_when_loading(tmp_path):
    own = otpe.dense([9, 4], surrogate=lambda d: jnp.exp(-jnp.abs(d)))
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamax(1e-3))
    path = StreamLearner(own, "otpe", optimizer).save(tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match=r"was saved with net of your own, which a file cannot hold. Hand it over:"):
        StreamLearner.load(path)
    with pytest.raises(ValueError, match=r"was saved with optimizer of your own"):
        StreamLearner.load(path, net=own)
    StreamLearner.load(path, net=own, optimizer=optimizer)
    with pytest.raises(ValueError, match=r"was saved with another network, rule or optimizer than the ones given"):
        StreamLearner.load(path, net=NET, optimizer=optimizer)
    rule = replace(otpe.rule("otpe"), name="mine")
    path = StreamLearner(NET, rule).save(tmp_path / "rule.safetensors")
    with pytest.raises(ValueError, match=r"was saved with rule of your own"):
        StreamLearner.load(path)


@pytest.mark.parametrize("make", [optax.adamax, optax.sgd, optax.lion, optax.adamw])
def test_an_optax_optimizer_is_recognised_by_its_settings(make, tmp_path):
    learner = StreamLearner(NET, "ottt", make(0.0123))
    learner.learn_many(X, Y)
    loaded = StreamLearner.load(learner.save(tmp_path / "a.safetensors"))
    for each in (learner, loaded):
        each.learn_many(X, Y)
    assert same(learner.params, loaded.params)


def test_an_optimizer_by_name_is_saved_with_all_its_settings(tmp_path):
    optimizer = otpe.Optimizer("sgd", 0.01, momentum=0.9, clip=0.5, schedule="linear", steps=100, warmup=3)
    learner = StreamLearner(NET, "ottt", optimizer)
    learner.learn_many(X, Y)
    loaded = StreamLearner.load(learner.save(tmp_path / "a.safetensors"))
    for each in (learner, loaded):
        each.learn_many(X, Y)
    assert same(learner._memory, loaded._memory)


def test_a_random_optimizer_resumes_its_random_numbers(tmp_path):
    noisy = optax.noisy_sgd(0.01, eta=0.1, key=jax.random.key(3))
    learner = StreamLearner(NET, "ottt", noisy)
    learner.learn_many(X, Y)
    loaded = StreamLearner.load(learner.save(tmp_path / "a.safetensors"), optimizer=noisy)
    for each in (learner, loaded):
        each.learn_many(X, Y)
    assert same(learner.params, loaded.params)


def test_a_user_class_with_our_class_name_is_not_taken_for_ours(tmp_path):
    @dataclass(frozen=True)
    class arctan(type(otpe.arctan())):
        pass

    path = StreamLearner(otpe.dense([9, 4], surrogate=arctan())).save(tmp_path / "own.safetensors")
    with pytest.raises(ValueError, match=r"was saved with net of your own"):
        StreamLearner.load(path)


def test_a_damaged_file_is_refused(tmp_path):
    path = StreamLearner(NET).save(tmp_path / "a.safetensors")
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged: its content does not match the hash"):
        StreamLearner.load(path)


def test_a_clone_is_independent():
    learner = StreamLearner(NET)
    learner.learn_many(X, Y)
    clone = learner.clone()
    before = clone.params
    learner.learn_many(X, Y)
    assert same(before, clone.params)
    clone.learn_many(X, Y)
    assert same(learner._memory, clone._memory)
    assert clone.steps == learner.steps == 80


def test_weights_are_limited_and_decay():
    learner = StreamLearner(NET, "otpe", optax.sgd(1.0), decay=0.5, limit=0.25)
    learner.learn_many(X, Y)
    assert max(np.abs(w).max() for w in jax.tree.leaves(learner.params)) <= 0.25
    plain, decayed = StreamLearner(NET, "otpe", optax.sgd(0.0)), StreamLearner(NET, "otpe", optax.sgd(0.0), decay=0.5)
    for each in (plain, decayed):
        each.learn_many(X[:2], Y[:2])
    assert relative_error(jax.tree.map(lambda w: 4 * w, decayed.params), plain.params) < 1e-6


def test_memory_stays_constant():
    learner = StreamLearner(NET)
    before = learner.bytes
    learner.learn_many(np.tile(X, (30, 1)), np.tile(Y, 30))
    assert learner.bytes == before
    assert learner.bytes < 20_000


def test_arguments_are_neither_changed_nor_kept():
    learner, x = StreamLearner(NET), X[0].copy()
    learner.learn_one(x, 1)
    np.testing.assert_array_equal(x, X[0])
    weights = learner.params
    jax.tree.map(lambda w: w.fill(0), weights)
    assert all(np.abs(w).sum() for w in jax.tree.leaves([layer.kernel for layer in learner.params]))
