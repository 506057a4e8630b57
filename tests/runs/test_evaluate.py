"""`otpe evaluate`: the same answers as the test of the run, counted class by class."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tiny_runs import TINY

import otpe
from otpe import cli
from otpe.lab.runs.evaluate import Evaluation


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return otpe.train(
        replace(TINY, out=tmp_path_factory.mktemp("runs") / "run", seeds=2, test_samples=64, hidden=(16,), steps=48)
    )


def test_the_accuracy_is_that_of_the_test(result):
    found = otpe.evaluate(result)
    np.testing.assert_allclose(found.accuracy, result.test_accuracy, atol=1e-7)
    assert found.samples == 64
    assert found.confusion.shape == (2, TINY.classes, TINY.classes + 1)
    np.testing.assert_allclose(found.standard_error, np.sqrt(found.accuracy * (1 - found.accuracy) / 64))
    by_folder = otpe.evaluate(result.folder)
    np.testing.assert_array_equal(by_folder.confusion, found.confusion)
    valid = otpe.evaluate(result, split="valid")
    np.testing.assert_allclose(valid.accuracy, result.valid_accuracy, atol=1e-7)


def test_the_matrix_counts_every_answer(result):
    task = {name: getattr(TINY, name) for name in ("classes", "units", "dims", "alpha", "standardize")}
    batch = otpe.datasets.randman("time", **task, steps=TINY.time_steps).batch(seed=3, step=0, size=40)
    spikes, labels = np.array(batch.spikes), np.array(batch.labels)
    spikes[:, 5] = 0
    data = otpe.datasets.from_arrays(spikes, labels, names=[str(i) for i in range(TINY.classes)])
    found = otpe.evaluate(result, data)
    for params, confusion in zip(result.params, found.confusion, strict=True):
        answers = np.asarray(otpe.predict(result.net.run(params, spikes)))
        expected = np.zeros_like(confusion)
        np.add.at(expected, (labels, answers), 1)  # −1 for silence is the last column
        np.testing.assert_array_equal(confusion, expected)
    np.testing.assert_allclose(found.silent, found.confusion[:, :, -1].sum(1) / 40)
    assert found.chance == np.bincount(labels).max() / 40


def test_numbers_of_a_known_matrix():
    found = Evaluation("run", "data", ("a", "b", "c"), np.array([[[6, 2, 0, 2], [5, 5, 0, 0], [0, 0, 0, 0]]]))
    assert found.accuracy.tolist() == [11 / 20]
    assert found.silent.tolist() == [0.1]
    assert found.chance == 0.5
    np.testing.assert_array_equal(found.per_class, [0.6, 0.5, np.nan])
    text = str(found)
    assert "20 samples, 3 classes" in text
    assert "one of them is 5.0%" in text
    assert "a (50%)" in text, "class b was most often taken for a"
    assert found.as_json()["per_class"] == [0.6, 0.5, None]


def test_the_command(result, tmp_path, capsys):
    assert cli.main(["evaluate", str(result.folder), "--json", str(tmp_path / "numbers.json")]) == 0
    found = json.loads((tmp_path / "numbers.json").read_text())
    np.testing.assert_allclose(found["accuracy"], result.test_accuracy, atol=1e-7)
    printed = capsys.readouterr().out
    assert "mean and standard deviation of 2 networks" in printed
    assert "chance" in printed


def test_bad_input(result, tmp_path, capsys):
    def refused(*args):
        assert cli.main(["evaluate", *map(str, args)]) == 2
        return capsys.readouterr().err

    assert "holds no run" in refused(tmp_path)
    assert "no use for it" in refused(result.folder, "--bins", 40)
    assert "which has no files" in refused(result.folder, "--data", tmp_path)
    assert "draws new samples" in refused(result.folder, "--split", "train")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.json").write_text((result.folder / "config.json").read_text())
    assert "not finished. Go on with: otpe train --resume" in refused(tmp_path / "half")
    wide = otpe.datasets.from_arrays(np.zeros((5, 4, TINY.units + 1), bool), np.zeros(4, int), names=["a", "b"])
    with pytest.raises(ValueError, match=rf"shape \[{TINY.units + 1}\], but the networks of .* take \[{TINY.units}\]"):
        otpe.evaluate(result, wide)
    many = otpe.datasets.from_arrays(np.zeros((5, 4, TINY.units), bool), np.zeros(4, int), names=[*"abcdef"])
    with pytest.raises(ValueError, match=rf"{TINY.classes + 3} classes, but the networks of .* have {TINY.classes}"):
        otpe.evaluate(result, many)


def test_bins_of_recordings(tmp_path, monkeypatch):
    from otpe.lab.runs import evaluate
    from otpe.lab.settings import EvaluateConfig

    trained = otpe.TrainConfig(dataset="shd", bins=20)
    with pytest.raises(ValueError, match="bins is 40, but the run was trained with bins 20"):
        evaluate._check_binning(EvaluateConfig(run=tmp_path, bins=40), trained)
    evaluate._check_binning(EvaluateConfig(run=tmp_path, bins=20), trained)
    with pytest.raises(ValueError, match=r"dt is 0\.01, but the run was trained with dt None"):
        evaluate._check_binning(EvaluateConfig(run=tmp_path, dt=0.01), trained)
