"""`otpe.train` learns what a loop written by hand learns, and reports correct numbers."""

import json
import struct
from dataclasses import replace

import by_hand
import jax
import numpy as np
import pytest
import tiny_events
from tiny_runs import TINY, arguments, state, steps_of

import otpe
from otpe import cli
from otpe.lab.runs import loop, task
from otpe.lab.runs.train import prepared

TOLERANCE = {"rtol": 1e-4, "atol": 1e-6}  # float32 with another order of operations


def assert_close(given, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **TOLERANCE), given, expected)


def draws(seed, count):
    """Return the mini-batches of an evaluation."""
    data = task.named(TINY).train
    return [data.batch(seed, i, TINY.batch) for i in range(count)]


def test_offline_training_equals_a_loop_by_hand(trained):
    expected = by_hand.train(TINY, task.named(TINY), TINY.seed)
    best = trained.best_step[0]
    assert 0 < best < TINY.steps, "otherwise the test does not show which parameters are kept"
    assert_close(trained.params[0], expected.params[best])
    for line in trained.metrics:
        step, params = line["step"], expected.params[line["step"]]
        np.testing.assert_allclose(line["loss"], np.mean(expected.losses[step - 4 : step]), **TOLERANCE)
        np.testing.assert_allclose(
            line["valid_loss"], by_hand.loss(expected.net, params, draws(2**32 - 1, 4)), **TOLERANCE
        )
        np.testing.assert_allclose(line["valid_accuracy"], by_hand.accuracy(expected.net, params, draws(2**32 - 1, 4)))


@pytest.mark.parametrize("given", [{}, {"standardize": "batch", "rule": "bptt", "align": ("otpe",)}])
def test_each_network_of_several_draws_trains_as_alone(tmp_path, given):
    config = replace(TINY, seed=3, snapshots=4, **given)
    together = otpe.train(replace(config, seeds=4, draws=2, manifolds=5, out=tmp_path / "together"))
    for number, manifolds in enumerate((5, 5, 6, 6)):
        alone = otpe.train(replace(config, seed=3 + number, manifolds=manifolds, out=tmp_path / str(number)))
        assert_close(together.params[number], alone.params[0])
        assert together.test_accuracy[number] == pytest.approx(alone.test_accuracy[0])
        for line, own in zip(together.metrics, alone.metrics, strict=True):
            for what in ("loss", "valid_loss", "valid_accuracy"):
                np.testing.assert_allclose(line[what][number], own[what][0], **TOLERANCE)
            if config.align:
                cosines = [each["alignment"]["otpe"]["cosine"]["model"] for each in (line, own)]
                np.testing.assert_allclose(cosines[0][number], cosines[1][0], **TOLERANCE)


def test_all_programs_are_compiled_before_the_first_step(tmp_path):
    run = prepared(replace(TINY, hidden=(7,), out=tmp_path / "run"))
    before = [program._cache_size() for program in (loop.advance, loop.score)]
    run.compile()
    compiled = [program._cache_size() for program in (loop.advance, loop.score)]
    assert [after - earlier for after, earlier in zip(compiled, before, strict=True)] == [1, 1]
    run()
    assert [program._cache_size() for program in (loop.advance, loop.score)] == compiled


def test_the_best_parameters_are_tested(trained):
    accuracy = [line["valid_accuracy"][0] for line in trained.metrics]
    assert trained.valid_accuracy == [max(accuracy)]
    assert trained.best_step == [4 * (1 + accuracy.index(max(accuracy)))]
    exam = draws(2**32 - 2, 3)
    assert trained.test_accuracy[0] == pytest.approx(by_hand.accuracy(trained.net, trained.params[0], exam))
    assert trained.test_loss[0] == pytest.approx(by_hand.loss(trained.net, trained.params[0], exam), rel=1e-5)
    assert trained.test_accuracy_mean == trained.test_accuracy[0]


def test_the_result_has_all_documented_fields(trained):
    recorded = json.loads((trained.folder / "result.json").read_text())
    promised = "rule mode dataset seeds test_accuracy valid_accuracy loss steps seconds steps_per_second"
    assert recorded.keys() >= set(promised.split())
    assert (recorded["rule"], recorded["mode"], recorded["dataset"], recorded["steps"]) == (
        "otpe",
        "offline",
        "t-randman",
        12,
    )
    assert recorded["loss"] == trained.metrics[-1]["loss"]
    assert recorded["seconds"] == pytest.approx(12 / recorded["steps_per_second"], abs=6e-4), "rounded to milliseconds"
    assert steps_of(trained.folder) == [4, 8, 12]
    assert str(trained).startswith("otpe offline: test accuracy 0.")


def test_the_last_evaluation_is_at_the_end(tmp_path):
    result = otpe.train(replace(TINY, steps=16, eval_every=12, out=tmp_path / "run"))
    assert [line["step"] for line in result.metrics] == [12, 16]
    expected = by_hand.train(replace(TINY, steps=16), task.named(TINY), TINY.seed)
    np.testing.assert_allclose(result.loss, np.mean(expected.losses[12:]), **TOLERANCE)


def test_the_same_seed_gives_the_same_bits(tmp_path, trained):
    otpe.train(replace(TINY, out=tmp_path / "run"))
    assert state(tmp_path / "run") == state(trained.folder)


def test_a_run_is_loaded_from_its_folder(finished, trained):
    loaded = otpe.load(finished)
    jax.tree.map(np.testing.assert_array_equal, loaded.params, trained.params)
    assert (loaded.net, loaded.metrics, loaded.test_loss) == (trained.net, trained.metrics, trained.test_loss)
    assert loaded.folder == finished


def test_folders_that_cannot_be_loaded_are_refused(finished, unfinished, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"not finished. Go on with: otpe train --resume --out"):
        otpe.load(unfinished)
    with pytest.raises(FileNotFoundError, match=r"holds no run: there is no config.json in it"):
        otpe.load(tmp_path)
    with pytest.raises(ValueError, match=r"the parameters of another network than the one given"):
        otpe.load(finished, net=otpe.dense([8, 7, 3]))
    config = json.loads((finished / "config.json").read_text())
    (finished / "config.json").write_text(json.dumps(config | {"own_net": "Network(...)"}))
    with pytest.raises(ValueError, match=r"a network of your own. Hand it over: otpe.load\(.*net=...\)"):
        otpe.load(finished)
    own = otpe.dense([8, 6, 3], leak=0.5)
    assert otpe.load(finished, net=own).net is own


# Recordings of unequal lengths, in mini-batches that do not divide their number, with two networks at once


ONLINE = {"mode": "online", "rule": "otpe", "every": 5, "learning_rate": 0.003}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    root = tmp_path_factory.mktemp("recordings")
    for i, split in enumerate(("train", "valid", "test")):
        tiny_events.make(root / f"{split}.h5", recordings=(13, 10, 6)[i], seed=i)
    return otpe.TrainConfig(
        dataset="folder", root=root, units=12, dt=0.1, max_steps=8, hidden=(6,), threshold=0.3, slope=25.0, learning_rate=0.03, batch=4,
        steps=6, eval_every=3, seeds=2, rule="f-otpe", out=root / "run",
    )  # fmt: skip


@pytest.fixture(scope="module")
def offline(recorded):
    return otpe.train(recorded)


@pytest.fixture(scope="module")
def online(recorded):
    return otpe.train(replace(recorded, **ONLINE, out=recorded.root / "online"))


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_training_on_recordings_of_unequal_lengths(mode, recorded, request):
    result, splits = request.getfixturevalue(mode), task.named(recorded)
    assert splits.train.lengths is not None
    config = recorded if mode == "offline" else replace(recorded, **ONLINE)
    valid, test = list(splits.valid.in_order(4)), list(splits.test.in_order(4))
    for i in range(2):
        expected = by_hand.train(config, splits, i)
        assert_close(result.params[i], expected.params[result.best_step[i]])
        for line in result.metrics:
            step, params = line["step"], expected.params[line["step"]]
            leak = expected.net.readout_leak if config.rule == "f-otpe" else 0.0
            np.testing.assert_allclose(line["loss"][i], np.mean(expected.losses[step - 3 : step]), **TOLERANCE)
            np.testing.assert_allclose(
                line["valid_loss"][i], by_hand.loss(expected.net, params, valid, leak), **TOLERANCE
            )
            np.testing.assert_allclose(line["valid_accuracy"][i], by_hand.accuracy(expected.net, params, valid))
        tested = by_hand.accuracy(expected.net, result.params[i], test)
        assert result.test_accuracy[i] == pytest.approx(tested)
        assert 6 * tested == pytest.approx(round(6 * tested)), "each of the 6 recordings counts once"


def test_networks_side_by_side_train_as_alone(offline, recorded):
    alone = otpe.train(replace(recorded, seeds=1, seed=1, out=recorded.root / "alone"))
    assert_close(alone.params[0], offline.params[1])
    for one, both in zip(alone.metrics, offline.metrics, strict=True):
        np.testing.assert_allclose(one["valid_loss"][0], both["valid_loss"][1], **TOLERANCE)
        np.testing.assert_allclose(one["rates"][0], both["rates"][1], **TOLERANCE)
    differ = [np.abs(np.subtract(a, b)).max() for a, b in zip(*map(jax.tree.leaves, offline.params), strict=True)]
    assert max(differ) > 0.01, "each network has its own weights and mini-batches"


def test_rates_are_spikes_per_neuron_and_valid_step(online, recorded):
    at = online.metrics.index(next(line for line in online.metrics if line["step"] == online.best_step[0]))
    spikes, counts = [0.0, 0.0], 0
    for batch in task.named(recorded).valid.in_order(4):
        layers = online.net.record(online.params[0], batch.spikes)
        spikes = [total + float((s.mean(-1) * batch.mask).sum()) for total, s in zip(spikes, layers, strict=True)]
        counts += int(batch.mask.sum())
    np.testing.assert_allclose(online.metrics[at]["rates"][0], np.array(spikes) / counts, rtol=1e-5)


def test_moved_files_count_as_the_same_data(offline, recorded, tmp_path):
    recorded.root.rename(tmp_path / "moved")
    try:
        run = tmp_path / "moved" / "run"
        again = otpe.train(replace(recorded, root=tmp_path / "moved", out=run, resume=True))
        assert again.test_accuracy == offline.test_accuracy
        tiny_events.make(tmp_path / "moved" / "train.h5", recordings=13, seed=9)
        with pytest.raises(FileExistsError, match=r"other settings: data was '\w+', now is '\w+'"):
            otpe.train(replace(recorded, root=tmp_path / "moved", out=run, resume=True))
    finally:
        (tmp_path / "moved").rename(recorded.root)


def scalars(folder):
    """Return every (name, step, value) in the event files of a folder."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    events = []
    for path in sorted(folder.glob("events*")):
        content = path.read_bytes()
        while content:  # length, its checksum, the event, its checksum
            (size,) = struct.unpack("<Q", content[:8])
            event = event_pb2.Event.FromString(content[12 : 12 + size])
            events += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
            content = content[16 + size :]
    return events


def test_tensorboard_files_have_the_metrics(tmp_path, trained):
    out = tmp_path / "run"
    assert cli.main(["train", "--resume", "--out", str(out), *arguments(TINY), "--tensorboard"]) == 0
    expected = [
        (name, line["step"], pytest.approx(line[name][0]))
        for line in trained.metrics
        for name in ("loss", "valid_loss", "valid_accuracy")
    ]
    assert scalars(out / "tensorboard") == expected
