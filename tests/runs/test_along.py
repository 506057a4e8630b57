"""What a run records during training: alignment with BPTT, and weights."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny_runs import TINY

import otpe
from otpe.lab.runs import saved_weights, task
from otpe.lab.runs.train import prepared

RULES = ("ostl", "approx-otpe", "f-otpe", "bptt")
ALONG = replace(TINY, rule="bptt", hidden=(6, 5), align=RULES, snapshots=4, seeds=2, standardize="batch")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return otpe.train(replace(ALONG, out=tmp_path_factory.mktemp("along") / "run"))


def test_alignment_is_measured_at_the_current_weights_on_the_next_mini_batch(run):
    data, (steps, params) = task.named(ALONG).train, saved_weights.read_snapshot(run.folder)
    for line in run.metrics:
        assert list(line["alignment"]) == sorted(RULES)
        for s in range(ALONG.seeds):
            then = jax.tree.map(lambda x, at=(list(steps).index(line["step"]), s): x[at], params)
            spikes, labels = data.batch(ALONG.seed + s, line["step"], ALONG.batch)
            for name, expected in otpe.alignment(run.net, then, spikes, labels, rules=RULES).items():
                alignment = line["alignment"][name]
                for kind, layers, model in (
                    ("cosine", expected.layers, expected.model), ("size", expected.size, expected.model_size)
                ):  # fmt: skip
                    given = [layer[part][s] for layer in alignment[kind]["layers"] for part in ("kernel", "bias")]
                    given = np.array([*given, alignment[kind]["model"][s]], float)  # null is NaN
                    np.testing.assert_allclose(given, [*jax.tree.leaves(layers), model], rtol=2e-5, atol=1e-6)


def test_bptt_is_aligned_with_itself(run):
    cosines = [line["alignment"]["bptt"]["cosine"]["model"] for line in run.metrics]
    np.testing.assert_allclose(cosines, 1, rtol=1e-6)


def test_measuring_does_not_change_what_is_learned(run, tmp_path):
    plain = otpe.train(replace(ALONG, align=(), snapshots=0, out=tmp_path / "plain"))
    assert plain.test_accuracy == run.test_accuracy
    assert all("alignment" not in line for line in plain.metrics)
    assert not (plain.folder / "snapshots").exists()


def test_weights_are_saved_at_the_start_at_intervals_and_at_the_end(tmp_path):
    config = replace(TINY, snapshots=5, out=tmp_path / "run")
    run = prepared(config)
    first = jax.tree.map(np.asarray, run.state.params)
    run()
    steps, params = saved_weights.read_snapshot(config.out)
    assert steps.tolist() == [0, 5, 10, 12]
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x: x[0], params), first)
    last = jax.tree.map(np.asarray, run.state.params)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(lambda x: x[-1], params), last)
    assert run.recipe.stride == 1
    half = config.out / "snapshots" / ".step.partial"
    half.touch()
    prepared(replace(config, resume=True)).folder.close()
    assert not half.exists(), "the half-written file of a killed run"


def test_snapshots_are_written_before_the_checkpoint_that_follows(tmp_path, monkeypatch):
    config, save = replace(TINY, snapshots=2, out=tmp_path / "run"), saved_weights.save_snapshot

    def full(run, step, params):
        if step == 12:
            raise OSError(28, "No space left on device")
        save(run, step, params)

    monkeypatch.setattr(saved_weights, "save_snapshot", full)
    with pytest.raises(OSError, match="No space left"):
        otpe.train(config)
    assert not list((config.out / "checkpoints").iterdir())
    monkeypatch.undo()
    otpe.train(replace(config, resume=True))
    assert saved_weights.read_snapshot(config.out)[0].tolist() == [*range(0, 13, 2)]


def test_a_run_without_snapshots_says_how_to_get_them(tmp_path):
    result = otpe.train(replace(TINY, out=tmp_path / "run"))
    with pytest.raises(FileNotFoundError, match=r"has no snapshots of the weights. Train with snapshots, such as"):
        saved_weights.read_snapshot(result.folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"align": ("otpe", "otpe")}, r"align is \('otpe', 'otpe'\), expected names of rules, none twice"),
        ({"align": "otpe"}, "align is 'otpe', expected names of rules"),
        ({"align": ("oppe",)}, "oppe.*otpe"),
        ({"snapshots": -1}, "snapshots is -1, expected a whole number from 0"),
    ],
)
def test_bad_settings_are_refused(tmp_path, change, words):
    with pytest.raises(ValueError, match=words):
        prepared(replace(TINY, out=tmp_path / "run", **change))
    assert not (tmp_path / "run").exists()
