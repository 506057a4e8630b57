"""Settings in groups, in Python, in config.json and on the command line; and the registry of named datasets."""

import json
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_runs import TINY, arguments

import otpe
from otpe import cli
from otpe.datasets import from_arrays, registry
from otpe.datasets.registry import NamedDataset
from otpe.lab.nested_settings import field_names
from otpe.lab.runs import folder
from otpe.lab.settings import (
    ConvolutionSettings,
    DataSettings,
    LossSettings,
    NetworkSettings,
    OptimizerSettings,
    RunSettings,
    Settings,
)
from otpe.lab.synonyms import DEVICES, EPOCHS, SYNONYMS, advice

TRAIN, STREAM = otpe.TrainConfig, otpe.StreamConfig


def test_groups_and_flat_settings_give_the_same_config():
    nested = TRAIN(
        data=DataSettings(dataset="shd", bins=50),
        network=NetworkSettings(hidden=(64,)),
        loss=LossSettings(loss="leaky"),
        optimizer=OptimizerSettings(optimizer="adam", clip=1.0),
        run=RunSettings(steps=10),
        rule="ottt",
    )
    assert nested == TRAIN(
        dataset="shd", bins=50, hidden=(64,), loss="leaky", optimizer="adam", clip=1.0, steps=10, rule="ottt"
    )
    assert replace(nested, steps=5) == replace(TRAIN(), **{**vars(nested), "steps": 5})


def test_a_config_gives_its_groups_back():
    config = TRAIN(hidden=(64,), optimizer="adam")
    assert config.group(NetworkSettings) == NetworkSettings(hidden=(64,))
    assert config.group(OptimizerSettings).optimizer == "adam"
    assert TRAIN(network=config.group(NetworkSettings), optimizer="adam") == config


def test_only_settings_that_a_group_was_given_count():
    assert STREAM(network=NetworkSettings(hidden=(6,))) == STREAM(hidden=(6,))
    assert otpe.LandscapeConfig(run=RunSettings(steps=3)) == otpe.LandscapeConfig(steps=3)
    assert TRAIN(optimizer=OptimizerSettings(learning_rate=0.1)) == TRAIN(learning_rate=0.1)
    assert TRAIN(hidden=[64], network=NetworkSettings(hidden=(64,))).hidden == (64,)


def test_every_setting_is_in_one_group():
    names = [name for kind in Settings.GROUPS.values() for name in field_names(kind)]
    assert sorted(names) == sorted(field_names(Settings))


WRONG = {
    "contradiction": (lambda: TRAIN(hidden=(32,), network=NetworkSettings(hidden=(64,))), ValueError, r"hidden is \(32,\) and network\.hidden is \(64,\): these contradict each other\. Give only one of them"),
    "with a default": (lambda: TRAIN(hidden=(128, 128), network=NetworkSettings(hidden=(64,))), ValueError, r"hidden is \(128, 128\) and network\.hidden is \(64,\)"),
    "of a default": (lambda: TRAIN(steps=10, run=RunSettings(steps=2000)), ValueError, r"steps is 10 and run\.steps is 2000"),
    "replaced": (lambda: replace(TRAIN(hidden=(32,)), network=NetworkSettings(hidden=(64,))), ValueError, r"hidden is \(32,\) and network\.hidden is \(64,\)"),
    "unknown": (lambda: TRAIN(hiden=(64,)), TypeError, r"TrainConfig has no setting 'hiden'\. Did you mean 'hidden'\?"),
    "of another library": (lambda: TRAIN(lr=1e-3), TypeError, r"TrainConfig has no setting 'lr'\. lr is learning_rate here\."),
    "epochs": (lambda: TRAIN(epochs=3), TypeError, r"epochs is steps here, counted in mini-batches: an epoch has as many as training recordings / batch"),
    "of another library, in a group": (lambda: NetworkSettings(beta=0.9), TypeError, r"NetworkSettings has no setting 'beta'\. beta is leak here"),
    "unknown in a group": (lambda: NetworkSettings(leek=0.9), TypeError, r"NetworkSettings has no setting 'leek'\. Did you mean 'leak'\?"),
    "unknown in a stream": (lambda: STREAM(network=NetworkSettings(conv=(8,))), TypeError, r"network of StreamConfig has no setting 'conv'\. Did you mean"),
    "another group": (lambda: TRAIN(network=DataSettings(bins=3)), TypeError, r"network is DataSettings\(.*\), expected NetworkSettings\(\.\.\.\) of otpe\.lab\.settings"),
    "no group": (lambda: TRAIN(run=3), TypeError, r"run is 3, expected RunSettings\(\.\.\.\)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_contradictions_and_unknown_settings_are_refused(kind):
    make, error, message = WRONG[kind]
    with pytest.raises(error, match=message):
        make()


def test_synonyms_are_of_settings_and_are_no_settings():
    settings = {*field_names(Settings)}
    assert {*SYNONYMS.values()} <= settings
    assert settings.isdisjoint({*SYNONYMS, *EPOCHS, *DEVICES})


def test_a_setting_that_a_config_has_is_no_synonym():
    assert advice("epochs", field_names(STREAM)) is None
    assert advice("epochs", field_names(TRAIN)) is not None


def test_a_part_of_a_group_is_accepted():
    assert TRAIN(network=ConvolutionSettings(conv=(8,))) == TRAIN(conv=(8,))


# config.json


def nest(path, **changes):
    """Put the settings of config.json into groups, with these changes."""
    found = json.loads((path / "config.json").read_text())
    nested = {name: {} for name in ("network", "optimizer", "run")}
    for group, settings in nested.items():
        for name in Settings.GROUPS[group].__dataclass_fields__:
            if name in found:
                settings[name] = found.pop(name)
    (path / "config.json").write_text(json.dumps({**found, **nested, **changes}))


def test_a_config_with_nested_groups_is_read(finished, capsys):
    before = folder.stored(TRAIN, finished)
    nest(finished)
    assert folder.stored(TRAIN, finished) == before
    assert otpe.load(finished).steps == TINY.steps
    assert cli.main(["train", "--resume", "--out", str(finished)]) == 0
    assert "test accuracy" in capsys.readouterr().out


BAD_FILES = {
    "contradiction": ({"hidden": [7]}, r"hidden is (7,) and network.hidden is (6,): these contradict each other"),
    "unknown": ({"loss": {"lost": 1}}, "the group loss has no setting 'lost'. Did you mean 'loss'?"),
    "newer": ({"format": 2}, "has the format 2, which a newer otpe wrote; this one reads 1. Update otpe"),
}


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_wrong_config_file_is_refused(kind, finished, capsys):
    changes, message = BAD_FILES[kind]
    nest(finished, **changes)
    assert cli.main(["train", "--resume", "--out", str(finished)]) == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"otpe: {finished / 'config.json'}")
    assert message in errors
    with pytest.raises(ValueError, match=r"config\.json"):
        otpe.load(finished)


# The command line


@pytest.fixture
def parsed(monkeypatch):
    """Return a function: arguments -> the settings that the verb gets."""
    found = []
    monkeypatch.setattr("otpe.lab.verbs.prepare_train", lambda config: lambda: found.append(config) or 0)

    def parse(*args):
        assert cli.main(["train", *args]) == 0
        return found.pop()

    return parse


def test_nested_options_mean_the_same_as_flat_ones(parsed):
    nested = ["--network.hidden", "64", "32", "--data.dataset=shd", "--data.bins", "50", "--data.binary"]
    nested += [
        "--optimizer.optimizer",
        "adam",
        "--optimizer.learning-rate",
        "1e-2",
        "--run.steps",
        "10",
        "--rule",
        "ottt",
    ]
    expected = TRAIN(
        hidden=(64, 32),
        dataset="shd",
        bins=50,
        binary=True,
        optimizer="adam",
        learning_rate=0.01,
        steps=10,
        rule="ottt",
    )
    assert parsed(*nested) == expected
    assert parsed(*nested, "--hidden", "64", "32", "--learning-rate", "0.01", "--binary") == expected


def test_nested_options_say_which_run_is_resumed(finished, parsed):
    assert parsed("--run.resume", f"--run.out={finished}") == replace(
        TINY, out=finished, resume=True, checkpoint_seconds=0.0
    )


BAD_OPTIONS = [
    (
        ["--hidden", "32", "--network.hidden", "64"],
        "hidden is 32 and network.hidden is 64: these contradict each other",
    ),
    (["--data.bins=5", "--bins", "6"], "bins is 6 and data.bins is 5: these contradict each other"),
    (["--network.hiden", "64"], "the group network has no setting 'hiden'. Did you mean 'hidden'?"),
    (["--netwrk.hidden", "64"], "there is no group 'netwrk'. Did you mean 'network'?"),
]


@pytest.mark.parametrize(("args", "message"), BAD_OPTIONS, ids=[" ".join(args) for args, _ in BAD_OPTIONS])
def test_wrong_nested_options_are_refused(args, message, capsys):
    assert cli.main(["train", *args]) == 2
    assert capsys.readouterr().err.startswith(f"otpe: {message}")


# The registry of datasets


@pytest.fixture
def blobs(monkeypatch):
    """Add a dataset to the registry, as a module of its own and one entry."""
    spikes = np.random.default_rng(0).integers(0, 2, (6, 20, 8))
    data = from_arrays(spikes, np.arange(20) % 3)
    monkeypatch.setitem(sys.modules, "blobs", SimpleNamespace(from_settings=lambda settings: data))
    monkeypatch.setitem(registry.DATASETS, "blobs", NamedDataset("blobs", "blobs", uses=("noise",), drawn=False))


def test_a_new_dataset_is_trained_on(blobs, tmp_path):
    config = TRAIN(dataset="blobs", noise=0.2, hidden=(6,), batch=4, steps=4, eval_every=4, out=tmp_path / "run")
    assert otpe.train(config).dataset == "blobs"
    assert otpe.load(tmp_path / "run").net.layers[0].in_shape == (8,)


@pytest.mark.usefixtures("blobs", "no_training")
def test_a_new_dataset_is_in_choices_errors_and_help(capsys):
    assert cli.main(["train", "--dataset", "blos"]) == 2
    assert "Did you mean 'blobs'? Expected one of: 't-randman', 'r-randman'" in capsys.readouterr().err
    assert cli.main(["train", "--dataset", "blobs", "--bins", "5"]) == 2
    assert "bins is 5, but blobs has no use for it: it is for shd, ssc and folder." in capsys.readouterr().err
    assert cli.main(["train", *arguments(TINY), "--noise", "0.2"]) == 2
    assert "has no use for it: it is for moving-shapes and blobs." in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    output = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "blobs" in output
    assert "(moving-shapes, blobs)" in output


@pytest.mark.parametrize("name", registry.DATASETS)
def test_the_registry_names_settings_that_exist(name):
    entry = registry.DATASETS[name]
    assert {*entry.uses} <= {*DataSettings.__dataclass_fields__}
    assert hasattr(__import__(entry.module, fromlist=["from_settings"]), "from_settings")
