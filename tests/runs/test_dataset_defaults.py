"""Slope and learning rate that are not given depend on the dataset; the paper's data keeps the paper's."""

import json
from dataclasses import replace

import jax
import pytest
import tiny_events
from tiny_runs import TINY, arguments

import otpe
from otpe import cli
from otpe.lab.runs.custom import CustomParts
from otpe.lab.runs.dataset_defaults import with_dataset_defaults
from otpe.lab.settings import CompareConfig, SweepConfig, TrainConfig

RECORDINGS = ("shd", "ssc", "folder")
DRAWN = ("t-randman", "r-randman", "moving-shapes")


def found(config, own=None, swept=()):
    """Return slope and learning rate, and for settings with modes that of mode online."""
    made = with_dataset_defaults(config, own or CustomParts(), swept)
    online = (made.online_learning_rate,) if hasattr(made, "modes") else ()
    return (made.slope, made.learning_rate, *online)


@pytest.mark.parametrize("dataset", RECORDINGS)
def test_recordings_have_their_own(dataset):
    assert found(TrainConfig(dataset=dataset)) == (2.0, 5e-3)
    assert found(TrainConfig(dataset=dataset, mode="online")) == (2.0, 3e-4)
    assert found(TrainConfig(dataset=dataset, slope=7.0)) == (7.0, 5e-3)
    assert found(TrainConfig(dataset=dataset, learning_rate=0.1, mode="online")) == (2.0, 0.1), "as it was given"


@pytest.mark.parametrize("dataset", DRAWN)
def test_drawn_data_has_the_papers(dataset):
    for mode in ("offline", "online"):
        assert found(TrainConfig(dataset=dataset, mode=mode)) == (None, 1e-3)
    assert found(CompareConfig(dataset=dataset, modes=("offline", "online"))) == (None, 1e-3, None)


def test_a_users_own_parts_have_the_papers():
    shd = TrainConfig(dataset="shd")
    assert found(shd, CustomParts(data=object())) == (None, 1e-3), "such as the runs of otpe reproduce"
    assert found(TrainConfig(dataset="mine"), CustomParts(data=object())) == (None, 1e-3)
    assert found(shd, CustomParts(optimizer=object())) == (2.0, 1e-3)
    assert found(shd, CustomParts(net=otpe.dense([4, 2]))) == (None, 5e-3)
    assert found(replace(shd, surrogate="arctan")) == (None, 5e-3)
    assert found(replace(shd, optimizer="sgd")) == (2.0, 1e-3)


def test_comparisons_have_a_rate_for_each_mode():
    both = CompareConfig(dataset="shd", modes=("offline", "online"))
    assert found(both) == (2.0, 5e-3, 3e-4)
    assert found(replace(both, online_learning_rate=0.1)) == (2.0, 5e-3, 0.1)
    assert found(replace(both, learning_rate=0.1)) == (2.0, 0.1, None), "one rate for both, as it was given"
    assert found(replace(both, modes=("online",))) == (2.0, 3e-4, None)
    assert found(replace(both, modes=("offline",))) == (2.0, 5e-3, None)


def test_a_sweep_over_rates_has_no_other_rate_online():
    sweep = SweepConfig(dataset="shd", modes=("offline", "online"))
    assert found(sweep, swept=("learning_rate",)) == (2.0, 5e-3, None)
    assert found(sweep, swept=("width",)) == (2.0, 5e-3, 3e-4)
    for name in ("dataset", "surrogate", "optimizer"):
        assert found(sweep, swept=(name,)) == (None, 1e-3, None)


def stored(path, **settings):
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"format": 1, "kind": "train", **settings}))
    return path


def test_a_run_that_began_with_the_papers_goes_on_with_them(tmp_path):
    older = stored(tmp_path / "older", dataset="shd", learning_rate=1e-3, slope=None)
    newer = stored(tmp_path / "newer", dataset="shd", learning_rate=5e-3, slope=2.0)
    config = TrainConfig(dataset="shd", out=older, resume=True)
    assert found(config) == (None, 1e-3)
    assert found(replace(config, out=newer)) == (2.0, 5e-3)
    assert found(replace(config, resume=False)) == (2.0, 5e-3), "refused later, with what differs"
    both = CompareConfig(dataset="shd", modes=("offline", "online"), out=older, resume=True)
    assert found(both) == (None, 1e-3, None)


def test_the_slope_of_weights_to_start_with_is_taken(tmp_path):
    config = TrainConfig(dataset="shd", surrogate="fast-sigmoid")
    for slope in (None, 7.0):
        run = stored(tmp_path / f"run {slope}", dataset="shd", surrogate="fast-sigmoid", slope=slope)
        assert found(replace(config, start=run)) == (slope, 5e-3)
        resumed = stored(tmp_path / f"on {slope}", dataset="shd", learning_rate=5e-3, slope=slope, start=str(run))
        assert found(replace(config, start=tmp_path / "gone", out=resumed, resume=True)) == (slope, 5e-3)
    for surrogate, slope in ((otpe.fast_sigmoid(7.0), 7.0), (otpe.fast_sigmoid(), None)):
        net = otpe.dense([4, 3, 2], surrogate=surrogate)
        otpe.save(tmp_path / "net.safetensors", net, net.init(jax.random.key(0)))
        assert found(replace(config, start=tmp_path / "net.safetensors")) == (slope, 5e-3)
    assert found(replace(config, start=tmp_path / "gone")) == (2.0, 5e-3), "refused later"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("recordings")
    for i, split in enumerate(("train", "valid", "test")):
        tiny_events.make(root / f"{split}.h5", recordings=(13, 10, 6)[i], seed=i)
    return root


@pytest.mark.filterwarnings("ignore:.*spike")
def test_the_folder_and_the_output_have_the_numbers(root, tmp_path, capsys):
    out = tmp_path / "run"
    line = f"train --dataset folder --root {root} --dt 0.1 --max-steps 8 --hidden 6 --batch 4 --steps 4 --eval-every 4"
    assert cli.main([*line.split(), "--out", str(out)]) == 0
    assert "learning rate 0.005, surrogate fast-sigmoid of slope 2\n" in capsys.readouterr().out
    about, result = (json.loads((out / f"{name}.json").read_text()) for name in ("config", "result"))
    assert (about["slope"], about["learning_rate"], result["learning_rate"]) == (2.0, 5e-3, 5e-3)
    assert otpe.load(out).net.neurons[0].surrogate == otpe.fast_sigmoid(2.0)
    for again in (line.split(), ["train"]):
        assert cli.main([*again, "--out", str(out), "--resume"]) == 0, "it is the same run"
    more = [*line.split(), "--out", str(tmp_path / "next"), "--start", str(out)]
    assert cli.main(more) == 0, "the network of the start has the slope"


def test_the_output_of_randman_has_the_papers(tmp_path, capsys):
    config = replace(TINY, learning_rate=None, steps=4)
    assert cli.main(["train", *arguments(config, out=tmp_path / "run")]) == 0
    assert "learning rate 0.001, surrogate fast-sigmoid of slope 25\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "config.json").read_text())["learning_rate"] == 1e-3
