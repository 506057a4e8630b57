"""Runs on data whose time steps have several axes: moving shapes, and user grids."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from tiny_runs import TINY

import otpe
from otpe import cli, memory
from otpe.datasets import from_arrays, moving_shapes
from otpe.lab.runs import task
from otpe.lab.settings import TrainConfig

SHAPES = TrainConfig(
    dataset="moving-shapes", size=12, time_steps=5, noise=0.01, hidden=(6,), threshold=0.1, batch=4, steps=6, eval_every=3,
    valid_samples=8, test_samples=8, checkpoint_seconds=0,
)  # fmt: skip


def splits():
    rng = np.random.default_rng(0)
    whole = from_arrays(rng.random((5, 18, 2, 3, 4)) < 0.3, np.arange(18) % 3)
    return otpe.Splits(*(whole.subset(np.arange(18) % 3 == part) for part in range(3)))


def test_moving_shapes_from_the_command_line(tmp_path, capsys):
    args = ["--dataset", "moving-shapes", "--label", "shape", "--size", "12", "--time-steps", "5", "--noise", "0.01"]
    small = ["--hidden", "6", "--batch", "4", "--steps", "4", "--valid-samples", "8", "--test-samples", "8"]
    assert cli.main(["train", *args, *small, "--eval-every", "2", "--out", str(tmp_path / "run")]) == 0
    result = otpe.load(tmp_path / "run")
    assert result.dataset == "moving-shapes"
    assert result.params[0][0].kernel.shape == (288, 6)
    assert result.params[0][1].kernel.shape == (6, 5)
    assert "test accuracy" in capsys.readouterr().out


def test_named_moving_shapes_equal_the_dataset_given_by_hand(tmp_path):
    """The named dataset and the same one given by hand. Validation and test samples are drawn alike."""
    named = otpe.train(replace(SHAPES, out=tmp_path / "named"))
    data = moving_shapes(size=12, time_steps=5, noise=0.01)
    own = otpe.train(replace(SHAPES, out=tmp_path / "own", dataset="mine"), data=otpe.Splits(data, data, data))
    for given, expected in zip(jax.tree.leaves(own.params), jax.tree.leaves(named.params), strict=True):
        np.testing.assert_array_equal(given, expected)
    resumed = otpe.train(replace(SHAPES, out=tmp_path / "named", resume=True))
    assert resumed.test_accuracy == named.test_accuracy
    assert task.named(SHAPES).test.shape == (2, 12, 12)


def test_a_grid_is_flattened_for_dense_layers(tmp_path):
    """Older runs, in which a grid was a row of units, have the same data and can be resumed."""
    config = replace(TINY, dataset="mine")
    data = splits()
    flat = otpe.Splits(*(part.flat() for part in data))
    grid = otpe.train(replace(config, out=tmp_path / "run"), data=data)
    assert grid.params[0][0].kernel.shape == (24, 6)
    resumed = otpe.train(replace(config, out=tmp_path / "run", resume=True), data=flat)
    assert resumed.test_accuracy == grid.test_accuracy
    assert task.fingerprint(task.flattened(data), 0, 4) == task.fingerprint(flat, 0, 4)
    compared = otpe.compare(
        otpe.CompareConfig(dataset="mine", rules=("otpe",), hidden=(6,), batch=4, steps=2, out=tmp_path / "all"),
        data=data,
    )
    assert compared[0].params[0][0].kernel.shape == (24, 6)


@partial(jax.tree_util.register_dataclass, data_fields=["spikes"], meta_fields=[])
@dataclass(frozen=True)
class OfBefore:
    """A dataset with the older contract: it has units, but no shape."""

    spikes: Any
    steps, units, names = 5, 8, ("a", "b", "c")

    def batch(self, seed, step, size):
        return otpe.datasets.SpikeBatch(self.spikes[:, :size], jax.numpy.arange(size) % 3)


def test_a_dataset_with_units_but_no_shape_is_accepted(tmp_path):
    data = OfBefore(np.random.default_rng(0).integers(0, 2, (5, 4, 8)))
    config = replace(TINY, dataset="mine", steps=2, eval_every=2, out=tmp_path / "run")
    result = otpe.train(config, data=otpe.Splits(data, data, data))
    assert result.params[0][0].kernel.shape == (8, 6)


@pytest.mark.parametrize("take", ["train", "valid", "test"])
def test_datasets_of_different_shapes_are_refused(take, tmp_path):
    data = splits()
    odd = data._replace(**{take: getattr(data, take).flat()})
    with pytest.raises(ValueError, match=rf"shapes and classes of the datasets differ: .*{take} has \[24\] and 3"):
        otpe.train(replace(TINY, dataset="mine", out=tmp_path / "run"), data=odd)
    assert not list(tmp_path.iterdir())


def test_a_grid_beyond_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "device", lambda: 1e8)
    config = replace(SHAPES, size=2000, hidden=(), seeds=2, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"size is 2000, with .*: the weights and .* Make size smaller"):
        otpe.train(config)
    assert not list(tmp_path.iterdir())


def test_sizes_are_computed_before_data_is_made():
    assert task.expected_shape(SHAPES)[:3] == (5, 288, 8)
    assert task.expected_shape(TrainConfig(dataset="folder", shape=(2, 4, 6), pool=2, bins=7))[:3] == (7, 12, 1)
    assert task.found_shape(splits())[:3] == (5, 24, 3)
