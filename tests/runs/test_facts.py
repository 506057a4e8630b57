"""What is printed and recorded about the data of a run: epochs, samples of the test, chance level."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tiny_runs import TINY, arguments

import otpe
from otpe import cli
from otpe.datasets import from_arrays
from otpe.lab.runs.task import Splits, facts, named


def test_recordings():
    spikes = np.zeros((5, 8, 3), np.float32)
    spikes[0] = 1
    train = from_arrays(spikes, np.arange(8) % 2, names=["a", "b"])
    test = from_arrays(spikes[:, :5], np.array([0, 1, 1, 1, 0]), names=["a", "b"])
    found = facts(replace(TINY, steps=12, batch=4), Splits(train, test, test))
    assert str(found) == "6 epochs, tested on 5 samples, chance 0.600"
    assert found == (6, 5, pytest.approx(0.6))


def test_drawn_samples_are_whole_mini_batches_and_have_no_epochs():
    config = replace(TINY, test_samples=10, batch=4)
    assert str(facts(config, named(config))) == "tested on 12 samples, chance 0.333"
    assert facts(config, named(config)) == (None, 12, pytest.approx(1 / 3))


def test_the_commands_print_them(tmp_path, capsys):
    assert cli.main(["train", *arguments(TINY, out=tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "mini-batches of 4, 1 network\n  tested on 12 samples, chance 0.333\n" in printed
    assert cli.main(["compare", *arguments(TINY, out=tmp_path / "several"), "--rules", "ottt"]) == 0
    assert "1 network\n  tested on 12 samples, chance 0.333\n\n" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*spike")
def test_the_result_has_them_and_the_standard_error(tmp_path):
    spikes = (np.random.default_rng(0).random((6, 12, 8)) < 0.4).astype(np.uint8)
    data = from_arrays(spikes, np.arange(12) % 3)
    config = replace(TINY, dataset="mine", seeds=3, out=tmp_path / "run")
    result = otpe.train(config, data=Splits(data, data, data))
    recorded = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (recorded["epochs"], recorded["test_samples"], recorded["chance"]) == (4, 12, pytest.approx(1 / 3))
    accuracy = np.array(result.test_accuracy)
    assert recorded["test_accuracy_sem"] == pytest.approx(accuracy.std(ddof=1) / 3**0.5)
    assert recorded["test_accuracy_std"] == pytest.approx(accuracy.std()), "of the population, as in older results"
    assert (result.epochs, result.test_accuracy_sem) == (4, recorded["test_accuracy_sem"])


def test_a_result_without_them_is_loaded(finished):
    path = finished / "result.json"
    recorded = json.loads(path.read_text())
    assert (recorded["epochs"], recorded["test_accuracy_sem"], recorded["test_samples"]) == (None, None, 12)
    new = ("test_accuracy_sem", "test_samples", "chance", "epochs")
    path.write_text(json.dumps({name: value for name, value in recorded.items() if name not in new}))
    loaded = otpe.load(finished)
    assert [getattr(loaded, name) for name in new] == [None] * 4
    assert loaded.test_accuracy == recorded["test_accuracy"]
