"""Runs that are extended with more steps, and runs that start with given weights."""

import json
import shutil
from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny_runs import TINY, arguments, fingerprints, state, steps_of

import otpe
from otpe import cli
from otpe.lab.runs import folder, saved_weights


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A finished run of 8 steps. The fixture `trained` has 12 steps of the same run."""
    return otpe.train(replace(TINY, steps=8, out=tmp_path_factory.mktemp("short") / "run")).folder


@pytest.fixture
def eight(short, tmp_path):
    return shutil.copytree(short, tmp_path / "eight")


def test_an_extended_run_equals_the_longer_run(eight, trained, capsys):
    assert cli.main(["train", "--resume", "--out", str(eight), "--steps", "12"]) == 0
    assert state(eight) == state(trained.folder)
    assert steps_of(eight) == [4, 8, 12]
    longer, expected = (json.loads((path / "result.json").read_text()) for path in (eight, trained.folder))
    timed = ("seconds", "steps_per_second")
    assert {k: v for k, v in longer.items() if k not in timed} == {k: v for k, v in expected.items() if k not in timed}
    about = json.loads((eight / "config.json").read_text())
    assert (about["steps"], about["made_longer"]) == (12, [{"from": 8, "to": 12}])
    before = fingerprints(eight)
    assert otpe.train(replace(TINY, out=eight, resume=True)).steps == 12
    assert fingerprints(eight) == before, "the run is finished"


def test_a_killed_extension_of_a_run_loses_nothing(eight, trained):
    about = json.loads((eight / "config.json").read_text())
    (eight / "config.json").write_text(json.dumps(about | {"steps": 12}))  # result.json is still that of 8 steps
    otpe.train(replace(TINY, out=eight, resume=True))
    assert state(eight) == state(trained.folder)


def test_a_run_with_a_schedule_of_its_length_is_not_extended(tmp_path):
    config = replace(TINY, schedule="linear", steps=8, out=tmp_path / "run")
    otpe.train(config)
    before = fingerprints(tmp_path)
    with pytest.raises(ValueError, match=r"steps was 8, now is 12, but the linear schedule reaches its final rate at"):
        otpe.train(replace(config, steps=12, resume=True))
    with pytest.raises(FileExistsError, match=r"steps was 8, now is 6"):
        otpe.train(replace(config, steps=6, resume=True))
    assert fingerprints(tmp_path) == before


def test_an_extra_evaluation_of_the_shorter_run_gives_a_warning(tmp_path, trained):
    config = replace(TINY, steps=6, out=tmp_path / "run")
    otpe.train(config)
    with pytest.warns(UserWarning, match=r"the run had 6 steps, and was evaluated at their end. A run of 12 steps"):
        otpe.train(replace(config, steps=12, resume=True))
    assert steps_of(tmp_path / "run") == [4, 6, 8, 12]
    for name, leaf in state(trained.folder).items():
        if name.startswith(("params", "opt_state")):
            assert state(tmp_path / "run")[name] == leaf


def test_a_config_of_an_earlier_version_is_read(finished, unfinished, trained):
    """Such a config lacks newer settings and the shape of the data."""
    new = "conv conv_kernel conv_stride conv_pool neuron leak_to current_leak adaptation_leak adaptation_strength learn_leak"
    new += " learn_current_leak learn_adaptation_leak readout start loss rate rate_weight data_shape data_classes"
    for path in (finished, unfinished):
        about = json.loads((path / "config.json").read_text())
        old = {name: value for name, value in about.items() if name not in new.split()}
        assert len(about) == len(old) + len(new.split())
        (path / "config.json").write_text(json.dumps(old))
        assert folder.stored(otpe.TrainConfig, path) == replace(TINY, out=path, checkpoint_seconds=0)
    jax.tree.map(np.testing.assert_array_equal, otpe.load(finished).params, trained.params)
    assert otpe.train(replace(TINY, out=finished, resume=True)).loss == trained.loss
    assert cli.main(["train", "--resume", "--out", str(unfinished)]) == 0
    assert state(unfinished) == state(trained.folder)


# Given weights


def test_start_weights_from_run_file_and_arrays_are_equal(tmp_path, trained):
    file = otpe.save(tmp_path / "net.safetensors", trained.net, trained.params[0])
    config = replace(TINY, steps=4, snapshots=4)
    given = {
        "run": replace(config, start=trained.folder), "file": replace(config, start=file),
        "result": trained, "one": trained.params[0], "each": trained.params, "path": str(file),
    }  # fmt: skip
    ends = []
    for name, start in given.items():
        out = tmp_path / name
        if isinstance(start, otpe.TrainConfig):
            otpe.train(replace(start, out=out))
        else:
            otpe.train(replace(config, out=out), start=start)
        arrays = state(out)
        ends.append({key: value for key, value in arrays.items() if key.startswith("params")})
    assert all(end == ends[0] for end in ends)
    _, along = saved_weights.read_snapshot(tmp_path / "run")
    jax.tree.map(lambda way, given: np.testing.assert_array_equal(way[0, 0], given), along, trained.params[0])


def test_a_run_with_start_weights_resumes_without_them(tmp_path, trained):
    source = shutil.copytree(trained.folder, tmp_path / "source")
    config = replace(TINY, steps=8, seeds=2, out=tmp_path / "run", start=source)
    otpe.train(config)
    shutil.rmtree(source)
    assert otpe.train(replace(config, resume=True)).steps == 8
    assert cli.main(["train", "--resume", "--out", str(tmp_path / "run")]) == 0
    with pytest.raises(FileExistsError, match=r"start was '.*, now is None"):
        otpe.train(replace(config, resume=True, start=None))


WRONG_START = {
    "other net": ({"threshold": 0.5}, r"start is '.*', where the network is another one: its layer 0 is .* Give the settings"),
    "other size": ({"hidden": (7,)}, r"the network is another one: its layer 0 is dense 6.*and here it is dense 7"),
    "more layers": ({"hidden": (6, 6)}, r"the network is another one: its layer 1 is"),
    "other seeds": ({"seeds": 3}, None),
    "no file": ({"start": "nowhere"}, r"start is 'nowhere', which is not there. Name the folder of a finished run"),
    "not finished": ({"start": "."}, r"holds no run"),
    "a number": ({"start": 3}, r"start is 3, expected the path of a folder or a file"),
}  # fmt: skip


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("kind", WRONG_START)
def test_start_weights_that_do_not_fit_are_refused(kind, tmp_path, trained, monkeypatch):
    change, message = WRONG_START[kind]
    monkeypatch.chdir(tmp_path)
    config = replace(TINY, **{"start": trained.folder, "out": tmp_path / "new", **change})
    if message is None:
        with pytest.raises(ValueError, match=r"start has the parameters of 2 networks, and seeds is 3"):
            otpe.train(replace(config, start=None), start=trained.params * 2)
    else:
        with pytest.raises((ValueError, TypeError, OSError), match=message):
            otpe.train(config)
    assert not (tmp_path / "new").exists()


def test_start_weights_from_the_command_line(tmp_path, trained):
    out = tmp_path / "run"
    assert cli.main(["train", *arguments(TINY, steps=4, start=trained.folder, out=out)]) == 0
    assert json.loads((out / "config.json").read_text())["start"] == str(trained.folder)
