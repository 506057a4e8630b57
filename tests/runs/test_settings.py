"""Error messages of `otpe train` and `otpe.train` for invalid settings."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import tiny_events
from tiny_runs import TINY, arguments

import otpe
from otpe import cli, networks
from otpe.datasets import SpikeBatch, from_arrays
from otpe.lab import settings
from otpe.lab.report import sections
from otpe.lab.runs import check_settings
from otpe.stream import session

SMALL = arguments(TINY)  # for messages that need the data
BAD = [
    (["--dataset", "sdh"], r"dataset 'sdh' is not known. Did you mean 'shd'\? Expected one of: 't-randman'"),
    (["--rule", "otp"], r"rule 'otp' is not known. Did you mean 'otpe'\?"),
    (["--optimizer", "adamx"], r"optimizer 'adamx' is not known. Did you mean 'adamax'\?"),
    ([*SMALL, "--surrogate", "fast sigmoid!"], r"surrogate 'fast sigmoid!' is not known. Did you mean 'fast-sigmoid'\?"),
    (["--optimizer", "adam", "--momentum", "0.9"], r"momentum is 0.9, but adam has none.*use one of: sgd, rmsprop"),
    (["--optimizer", "sgd", "--weight-decay", "0.1"], r"weight_decay is 0.1, but sgd has none.*adamw, nadamw, lamb, lion"),
    (["--every", "5"], r"every is 5, which is for mode 'online', but the mode is 'offline'"),
    (["--traces", "dense"], r"traces is 'dense', which is for mode 'online', but the mode is 'offline'"),
    (["--final-rate", "0.1"], r"final_rate is 0.1, but the schedule is constant. Choose linear, cosine or exponential"),
    (["--schedule", "exponential", "--final-rate", "0"], r"final_rate is 0, which an exponential schedule never reaches"),
    (["--schedule", "linear", "--final-rate", "2"], r"final_rate is 2.0, expected a share from 0 to 1"),
    (["--warmup", "2000"], r"warmup is 2000, expected less than the 2000 steps of the run"),
    (["--warmup", "-1"], r"warmup is -1, expected a whole number from 0"),
    (["--rule", "bptt", "--mode", "online"], r"rule 'bptt' cannot learn online.*Use mode 'offline', or a rule"),
    (["--bins", "3"], r"bins is 3, but t-randman has no use for it: it is for shd, ssc and folder"),
    (["--root", "x"], r"root is 'x', but t-randman has no use for it"),
    (["--dataset", "shd", "--classes", "3"], r"classes is 3, but shd has no use for it: it is for t-randman and r-randman"),
    (["--dataset", "shd", "--test-samples", "3"], r"test_samples is 3, but shd has no use for it"),
    (["--dataset", "shd", "--units", "70"], r"units is 70, but shd has no use for it: it is for t-randman, r-randman and folder"),
    (["--dataset", "ssc", "--validation", "stratified"], r"validation is 'stratified', but ssc has no use for it"),
    (["--dataset", "shd", "--max-steps", "5"], r"max_steps is 5 without dt. Give dt as well, or bins instead"),
    (["--dataset", "shd", "--bins", "5", "--dt", "0.1"], r"bins is 5 and dt is 0.1, expected one of them"),
    (["--dataset", "shd", "--dt", "0.1", "--max-steps", "0"], r"max_steps is 0, expected a whole number above 0"),
    (["--dataset", "shd", "--dt", "nan"], r"dt is nan, expected seconds"),
    (["--dataset", "shd", "--pool", "3"], r"pool is 3, which does not divide 700 units"),
    (["--dataset", "shd"], r"data/shd/shd_train.h5 is not there, nor its .zip"),
    (["--dataset", "folder"], r"data/folder holds no train.h5, nor anything_train.h5 \(there is no such folder\)"),
    (["--dataset", "folder", "--units", "8", "--shape", "2", "2", "3"], r"units is 8 and shape is \(2, 2, 3\), which has 12 units"),
    (["--dataset", "folder", "--shape", "2", "0", "3"], r"shape is 0, expected a whole number above 0"),
    (["--dataset", "folder", "--shape", "2", "4", "3", "--pool", "2"], r"pool is 2, which does not divide the height and width of the shape \[2, 4, 3\]"),
    (["--shape", "2", "2", "3"], r"shape is '\(2, 2, 3\)', but t-randman has no use for it: it is for folder"),
    (["--noise", "0.1"], r"noise is 0.1, but t-randman has no use for it: it is for moving-shapes"),
    (["--dataset", "moving-shapes", "--classes", "3"], r"classes is 3, but moving-shapes has no use for it"),
    (["--dataset", "moving-shapes", "--noise", "2"], r"noise is 2.0, expected a probability from 0 to 0.5"),
    (["--dataset", "moving-shapes", "--size", "3"], r"size is 3, expected at least 12 pixels"),
    (["--dataset", "moving-shapes", "--time-steps", "0"], r"time_steps is 0, expected a whole number above 0"),
    (["--dataset", "folder", "--units", "8"], r"data/folder holds no train.h5"),
    (["--steps", "9" * 12], r"steps is 9{12}, expected less than 2,147,483,648"),
    (["--test-samples", "9" * 12], r"test_samples is 9{12}, expected less than 2,147,483,648"),
    (["--seed", "-1"], r"seed is -1, expected a whole number from 0"),
    (["--seed", str(2**31)], r"seed is 2147483648, expected a whole number from 0 to 2,147,483,647"),
    (["--seed", str(2**31 - 1), "--seeds", "2"], r"seed is 2147483647 and seeds is 2, expected less than"),
    (["--checkpoint-seconds", "-1"], r"checkpoint_seconds is -1.0, expected seconds, or 0 for every evaluation"),
    (["--checkpoint-seconds", "nan"], r"checkpoint_seconds is nan, expected seconds"),
    (["--learning-rate", "0"], r"learning_rate is 0.0, expected a finite number above 0, such as 1e-3"),
    (["--learning-rate", "-1"], r"learning_rate is -1.0, expected a finite number above 0"),
    (["--learning-rate", "nan"], r"learning_rate is nan, expected a finite number above 0"),
    (["--learning-rate", "inf"], r"learning_rate is inf, expected a finite number above 0"),
    (["--clip", "0"], r"clip is 0.0, expected a finite number above 0"),
    (["--clip", "nan"], r"clip is nan, expected a finite number above 0"),
    (["--optimizer", "sgd", "--momentum", "1"], r"momentum is 1.0, expected a number from 0 on, below 1"),
    (["--optimizer", "lion", "--weight-decay", "inf"], r"weight_decay is inf, expected a number from 0 on, below inf"),
    (["--dims", "0"], r"dims is 0, expected a whole number above 0"),
    (["--alpha", "nan"], r"alpha is nan, expected a number above 0 and at most 10"),
    (["--time-steps", "0"], r"time_steps is 0, expected a whole number above 0"),
    (["--manifolds", "-1"], r"manifolds is -1, expected a whole number from 0"),
    (["--draws", "3", "--seeds", "4"], r"draws is 3 and seeds is 4, expected the same number of networks for each draw .* Use 6 seeds"),
    (["--draws", "3", "--dataset", "shd", "--seeds", "3"], r"draws is 3, but shd has no use for it: it is for t-randman and r-randman"),
    ([*SMALL, "--hidden", "0"], r"hidden is 0, expected a whole number above 0"),
    ([*SMALL, "--leak", "1.5"], r"leak is 1.5, expected"),
    ([*SMALL, "--leak", "nan"], r"leak is nan, expected"),
    ([*SMALL, "--threshold", "0"], r"threshold is 0.0, expected"),
    ([*SMALL, "--threshold", "inf"], r"threshold is inf, expected"),
    ([*SMALL, "--slope", "0"], r"slope is 0.0, expected"),
    (["--loss", "mes"], r"loss 'mes' is not known. Did you mean 'mse'\? Expected one of: 'rule', 'spikes'"),
    (["--loss", "membrane"], r"loss is 'membrane', but the output neurons spike. Use readout 'integrator'"),
    (["--rate", "0.1"], r"rate is 0.1, which changes nothing without rate_weight"),
    (["--rate-weight", "-1"], r"rate_weight is -1.0, expected a finite number, 0 or above"),
    (["--current-leak", "0.7"], r"current_leak is 0.7, which is for neuron 'cuba', but neuron is 'lif'"),
    (["--adaptation-strength", "2", "--neuron", "cuba"], r"adaptation_strength is 2.0, which is for neuron 'adaptive', but"),
    (["--neuron", "cuba", "--current-leak", "1"], r"current_leak is 1.0, expected a number in \[0, 1\)"),
    (["--leak-to", "0.5"], r"leak_to is 0.5 and leak is 0.95.*, expected leak_to to be the larger one"),
    (["--leak-to", "1"], r"leak_to is 1.0, expected a number in \[0, 1\)"),
    (["--leak-to", "0.99", "--learn-leak", "layer"], r"learn_leak is 'layer', but with leak_to every neuron has its own"),
    (["--conv", "16"], r"conv is \(16,\), which is for data on a grid .* but the data has the shape \[50\]. Leave conv out"),
    (["--conv", "0"], r"conv is 0, expected a whole number above 0"),
    (["--conv-stride", "2"], r"conv_stride is 2, but there is no convolution. Give conv, such as 16 32"),
    ([*SMALL, "--out", "a-file"], r"out is 'a-file', which is a file, expected a folder"),
    ([*SMALL, "--out", "a-file/below"], r"out is 'a-file/below', which cannot be made: Not a directory"),
]  # fmt: skip
BAD += [
    ([f"--{name.replace('_', '-')}", "0"], f"{name} is 0, expected a whole number above 0")
    for name in check_settings.COUNTS
]


def spoken(args):
    return " ".join(args).replace(" ".join(SMALL), "tiny")


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(("args", "message"), BAD, ids=[spoken(args) for args, _ in BAD])
def test_bad_input_is_refused_with_a_sentence(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("mine")
    assert cli.main(["train", *args]) == 2
    output = capsys.readouterr().err
    assert output.startswith("otpe: ")
    assert "Traceback" not in output
    assert re.search(message, output)
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]
    assert (tmp_path / "a-file").read_text() == "mine"


WRONG = {
    "steps": ({"steps": 1.5}, ValueError, r"steps is 1.5, expected a whole number above 0"),
    "a flag as a number": ({"steps": True}, ValueError, r"steps is True, expected a whole number"),
    "text for a number": ({"batch": "12"}, ValueError, r"batch is '12', expected a whole number"),
    "rate": ({"learning_rate": "fast"}, ValueError, r"learning_rate is 'fast', expected a finite number"),
    "seed": ({"seed": 0.5}, ValueError, r"seed is 0.5, expected a whole number from 0"),
    "flag": ({"resume": "yes"}, TypeError, r"resume is 'yes', expected True or False"),
    "mode": ({"mode": "of-line"}, ValueError, r"mode 'of-line' is not known. Did you mean 'offline'\?"),
    "schedule": ({"schedule": "cosinus"}, ValueError, r"schedule 'cosinus' is not known. Did you mean 'cosine'\?"),
    "reset": ({"reset": None}, ValueError, r"reset None is not known"),
    "dataset": ({"dataset": None}, ValueError, r"dataset None is not known"),
    "rule": ({"rule": "otpe2"}, ValueError, r"rule 'otpe2' is not known"),
    "optimizer": ({"optimizer": optax.adam(1e-3)}, ValueError, r"optimizer .* is not known"),
    "one hidden layer": ({"hidden": 6}, ValueError, r"hidden is 6, expected the units of each hidden layer, such as \(128, 128\)"),
    "hidden layers": ({"hidden": ("6",)}, ValueError, r"hidden is '6', expected a whole number above 0"),
}  # fmt: skip


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("kind", WRONG)
def test_values_of_the_wrong_type_are_refused(kind, tmp_path):
    change, error, message = WRONG[kind]
    with pytest.raises(error, match=message):
        otpe.train(replace(TINY, out=tmp_path / "new", **change))
    assert not list(tmp_path.iterdir())


def recordings_of(units=8, classes=3, recordings=10):
    spikes = np.random.default_rng(0).integers(0, 2, (6, recordings, *np.atleast_1d(units)))
    return from_arrays(spikes, np.arange(recordings) % classes)


class Foreign:
    """Has all methods of a dataset, but is not registered as a JAX pytree."""

    steps, units, names = 6, 8, ("a", "b", "c")

    def batch(self, *_):
        return recordings_of().batch(0, 0, 4)


@partial(jax.tree_util.register_dataclass, data_fields=["spikes"], meta_fields=[])
@dataclass(frozen=True)
class Own:
    """A user's grid [2, 2, 2] with a wrong `shape`."""

    spikes: jax.Array
    steps, shape, names = 6, (8,), ("a", "b", "c")

    def batch(self, seed, step, size):
        return SpikeBatch(self.spikes[:, :size], jnp.zeros(size, int))


GIVEN = {
    "data": ({"data": 3}, r"data is a int, expected three datasets: otpe.Splits\(train=..., valid=..., test=...\)"),
    "two datasets": ({"data": (recordings_of(), recordings_of())}, r"data is a tuple, expected three datasets"),
    "no datasets": ({"data": (1, 2, 3)}, r"data.train is a int without steps, shape, names, batch, expected a dataset"),
    "not a pytree": ({"data": (Foreign(),) * 3}, r"data.train is a Foreign, which JAX does not know.*register"),
    "units": ({"data": (recordings_of(), recordings_of(), recordings_of(units=7))}, r"shapes and classes of the datasets differ: train has \[8\] and 3, .*test has \[7\] and 3\. Expected the same"),
    "another shape": ({"data": (Own(np.ones((6, 4, 2, 2, 2))),) * 3}, r"data.train says that its time steps have the shape \[8\], but those of its batches have \[2, 2, 2\]\. Make its `shape` \(2, 2, 2\)"),
    "few recordings": ({"data": (recordings_of(recordings=3),) * 3}, r"batch is 4, more than the 3 recordings to learn from"),
    "net": ({"net": 3}, r"net is a int, expected a network such as otpe.dense"),
    "inputs": ({"net": otpe.dense([9, 3])}, r"net takes inputs of the shape \[9\], but the data has \[8\]\. Build the network for it"),
    "a grid": ({"net": otpe.dense([8, 3]), "data": (recordings_of(units=(2, 2, 2)),) * 3}, r"net takes inputs of the shape \[8\], but the data has \[2, 2, 2\]\. Use otpe.datasets.flat on the data"),
    "another grid": ({"net": otpe.dense([9, 3]), "data": (recordings_of(units=(2, 2, 2)),) * 3}, r"net takes inputs of the shape \[9\], but the data has \[2, 2, 2\]\. Build the network for it"),
    "outputs": ({"net": otpe.dense([8, 2])}, r"net has 2 outputs, but the data has 3 classes\. Build it with 3 outputs"),
    "optimizer": ({"optimizer": 3}, r"optimizer is 3, expected an optax optimizer such as optax.adamax\(1e-3\)"),
    "no optimizer yet": ({"optimizer": optax.adam}, r"expected an optax optimizer such as"),
    "rule": ({"rule": 3}, r"rule 3 is not known"),
}  # fmt: skip


@pytest.mark.usefixtures("no_training")
def test_draws_are_refused_for_data_without_draws(tmp_path):
    with pytest.raises(ValueError, match=r"draws is 2, but this data has no draws of manifolds\. Leave draws out"):
        otpe.train(replace(TINY, seeds=2, draws=2, out=tmp_path / "new"), data=(recordings_of(),) * 3)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("kind", GIVEN)
def test_wrong_objects_given_as_parts_are_refused(kind, tmp_path):
    given, message = GIVEN[kind]
    with pytest.raises((ValueError, TypeError), match=message):
        otpe.train(replace(TINY, out=tmp_path / "new"), **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", ["otpe", None, otpe.CompareConfig(), {"steps": 3}], ids=lambda x: type(x).__name__)
def test_a_config_of_the_wrong_type_is_refused(given):
    with pytest.raises(TypeError, match=rf"config is a {type(given).__name__}, expected otpe.TrainConfig\(dataset="):
        otpe.train(given)


@pytest.mark.usefixtures("no_training")
def test_a_batch_larger_than_the_recordings_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for split in ("train", "test"):
        tiny_events.make(tmp_path / "data" / f"{split}.h5")
    args = ["--dataset", "folder", "--root", "data", "--units", "12", "--bins", "6", "--batch", "19"]
    assert cli.main(["train", *args]) == 2
    assert "batch is 19, more than the 18 recordings to learn from. Use a smaller batch." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.usefixtures("no_training")
def test_a_folder_without_write_permission_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "otpe.files.os.access", lambda *_: False
    )  # the user who runs the tests may have all permissions
    assert cli.main(["train", *SMALL, "--out", str(tmp_path)]) == 2
    assert "where nothing may be written. Name another folder." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("no_training")
def test_a_folder_with_other_files_is_left_unchanged(tmp_path, capsys):
    (tmp_path / "letter.txt").write_text("mine")
    assert cli.main(["train", *SMALL, "--out", str(tmp_path)]) == 2
    assert "which has other files (letter.txt), but no run. Name another folder." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_missing_tensorboard_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert cli.main(["train", *SMALL, "--tensorboard", "--out", str(tmp_path / "new")]) == 2
    assert "Use: pip install 'otpe[tensorboard]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_both_default_leaks_are_those_of_the_paper():
    assert settings.PAPER_LEAK == networks.PAPER_LEAK


def test_settings_import_no_jax():
    code = """
import sys, otpe.lab.settings
from otpe import cli
for verb in ("train", "compare"):
    try:
        cli.main([verb, "--help"])
    except SystemExit as stop:
        assert stop.code == 0
assert "jax" not in sys.modules
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "--learning-rate" in output
    assert "--online-learning-rate" in output


def test_a_folder_of_recordings_gives_its_name_to_runs_and_titles(tmp_path, monkeypatch):
    root = tmp_path / "data" / "my-digits"
    root.mkdir(parents=True)
    for i, split in enumerate(("train", "valid", "test")):
        tiny_events.make(root / f"{split}.h5", recordings=8, seed=i)
    monkeypatch.chdir(tmp_path)
    config = otpe.TrainConfig(
        dataset="folder", root=Path("data/my-digits"), units=12, bins=5, hidden=(4,), batch=4, steps=2, eval_every=1
    )
    result = otpe.train(config)
    assert result.folder == Path("runs/my-digits-otpe-offline-001")
    assert result.dataset == "folder"
    about, written = (json.loads((result.folder / f"{name}.json").read_text()) for name in ("config", "result"))
    title = sections.of_run("run", about, written, result.metrics).title
    assert title.endswith("on my-digits")
    assert str(otpe.evaluate(result)).startswith(f"{result.folder} on my-digits, test")
    assert otpe.TrainConfig(dataset="folder", root=root / "..").data_name == "data"
    assert otpe.TrainConfig(dataset="folder").data_name == "folder"
    assert otpe.TrainConfig(dataset="shd", root=root).data_name == "shd"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A finished run on recordings, in 6 bins of 3 pooled units each."""
    root = tmp_path_factory.mktemp("recordings")
    for i, split in enumerate(("train", "valid", "test")):
        tiny_events.make(root / f"{split}.h5", recordings=8, seed=i)
    config = otpe.TrainConfig(
        dataset="folder", root=root, units=12, bins=6, pool=3, hidden=(4,), batch=4, steps=2, eval_every=1
    )
    otpe.train(replace(config, out=root / "run"))
    return config


def test_time_steps_that_contradict_a_trained_network_are_refused(recorded, tmp_path):
    start = recorded.root / "run"
    other = replace(recorded, start=start, out=tmp_path / "other")
    for change, message in [
        ({"bins": 100}, r"bins is 100, but start, .*run, was trained with bins 6: .* Leave bins out, or start"),
        ({"bins": None, "dt": 0.1}, r"dt is 0.1, but start, .*run, was trained with bins 6"),
        ({"pool": 2}, r"pool is 2, but start, .*run, was trained with pool 3"),
        ({"binary": True}, r"binary is True, but start, .*run, was trained with binary False"),
        ({"units": 15}, r"units is 15, but start, .*run, was trained with units 12"),
        ({"units": None, "shape": (1, 3, 5)}, r"units is 15, but start, .*run, was trained with units 12"),
    ]:
        with pytest.raises(ValueError, match=message):
            otpe.train(replace(other, **change))
    assert not other.out.exists()
    compared = otpe.CompareConfig(
        dataset="folder", root=recorded.root, start=start, bins=7, hidden=(4,), out=tmp_path / "all"
    )
    with pytest.raises(ValueError, match=r"bins is 7, but start, .*run, was trained with bins 6"):
        otpe.compare(compared)


def test_time_steps_that_are_not_given_are_those_of_start(recorded, tmp_path):
    config = replace(recorded, start=recorded.root / "run", bins=None, pool=1, units=None, out=tmp_path / "next")
    result = otpe.train(config)
    about = json.loads((result.folder / "config.json").read_text())
    assert (about["bins"], about["pool"], about["units"], about["data_shape"]) == (6, 3, 12, [4])
    moved = (recorded.root / "run").rename(recorded.root / "moved")
    try:  # a run that has begun does not need the one it started from
        assert otpe.train(replace(config, resume=True)).test_accuracy == result.test_accuracy
    finally:
        moved.rename(recorded.root / "run")


def test_units_of_a_folder_are_read_from_its_files(recorded, tmp_path, capsys):
    config = replace(recorded, units=None, out=tmp_path / "run")
    found, given = otpe.train(config), otpe.train(replace(recorded, out=tmp_path / "given"))
    assert ": 12 units, as the largest one is 11. --units gives another number." in capsys.readouterr().err
    assert found.net == given.net
    assert found.test_accuracy == given.test_accuracy
    few = tmp_path / "few"  # its largest unit is 5, and the networks take 12
    few.mkdir()
    units = [u % 6 for u in tiny_events.rows(8)[1]]
    for split in ("train", "valid", "test"):
        tiny_events.make(few / f"{split}.h5", recordings=8, spikes__units=units)
    assert cli.main(["evaluate", str(config.out), "--data", str(few)]) == 0
    next_run = otpe.train(replace(config, start=config.out, root=few, out=tmp_path / "next"))
    assert next_run.net == found.net
    assert cli.main(["data", "folder", "--root", str(few), "--bins", "5", "--out", str(tmp_path / "report")]) == 0
    assert "6 units, as the largest one is 5. --units" in capsys.readouterr().err
    stream = otpe.StreamConfig(source=str(few / "test.h5"), classes=4, bins=5, hidden=(3,), out=tmp_path / "stream")
    session.run(stream)
    assert json.loads((tmp_path / "stream" / "config.json").read_text())["units"] == 6


def test_a_stream_takes_the_time_steps_of_start(recorded, tmp_path):
    start, source = recorded.root / "run", str(recorded.root / "test.h5")
    config = otpe.StreamConfig(source=source, classes=4, start=start, out=tmp_path / "stream")
    with pytest.raises(ValueError, match=r"bins is 50, but start, .*run, was trained with bins 6: .* Leave bins out"):
        session.run(replace(config, bins=50))
    with pytest.raises(ValueError, match=r"dt is 0.1, but start, .*run, was trained with bins 6"):
        session.run(replace(config, dt=0.1))
    session.run(config)
    about = json.loads((config.out / "config.json").read_text())
    assert (about["bins"], about["pool"], about["units"]) == (6, 3, 12)
