"""What is printed about the data of a run: epochs, samples of the test, chance level."""

from dataclasses import replace

import numpy as np
from tiny_runs import TINY, arguments

from otpe import cli
from otpe.datasets import from_arrays
from otpe.lab.runs.task import Splits, facts, named


def test_recordings():
    spikes = np.zeros((5, 8, 3), np.float32)
    spikes[0] = 1
    train = from_arrays(spikes, np.arange(8) % 2, names=["a", "b"])
    test = from_arrays(spikes[:, :5], np.array([0, 1, 1, 1, 0]), names=["a", "b"])
    found = facts(replace(TINY, steps=12, batch=4), Splits(train, test, test))
    assert found == ["6 epochs", "tested on 5 samples", "chance 0.600"]


def test_drawn_samples_are_whole_mini_batches_and_have_no_epochs():
    config = replace(TINY, test_samples=10, batch=4)
    assert facts(config, named(config)) == ["tested on 12 samples", "chance 0.333"]


def test_the_commands_print_them(tmp_path, capsys):
    assert cli.main(["train", *arguments(TINY, out=tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "mini-batches of 4, 1 network\n  tested on 12 samples, chance 0.333\n" in printed
    assert cli.main(["compare", *arguments(TINY, out=tmp_path / "several"), "--rules", "ottt"]) == 0
    assert "1 network\n  tested on 12 samples, chance 0.333\n\n" in capsys.readouterr().out
