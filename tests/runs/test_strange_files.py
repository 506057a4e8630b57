"""Altered files of a run: each is read, or refused with a sentence that names it."""

import json
from dataclasses import replace

import pytest
import strange
from tiny_runs import TINY, arguments

import otpe
from otpe import cli, contents, files, tensors
from otpe.lab.bench import measurements
from otpe.lab.records import read_training
from otpe.lab.runs import checkpoint, folder, results, train
from otpe.lab.runs.saved_weights import load
from otpe.lab.settings import TrainConfig
from otpe.lab.studies import sweep


def test_altered_json_is_parsed_or_refused():
    assert contents.parsed(b'{"a": [1, null, "x"]}') == {"a": [1, None, "x"]}
    deep = "[" * contents.MAX_DEPTH + "]" * contents.MAX_DEPTH
    assert json.dumps(contents.parsed(deep)) == deep
    for text in (f"[{deep}]", '{"a": ' * 101 + "1" + "}" * 101, "[" * 100_000, "[" * 100_000 + "]" * 100_000):
        with pytest.raises(ValueError, match=r"^its values are nested more than 100 levels deep$|^Expecting value"):
            contents.parsed(text)


@pytest.mark.parametrize("name", ["config.json", "result.json", "metrics.jsonl"])
def test_altered_json_files_of_a_run_are_refused(name, finished):
    path = finished / name
    whole = path.read_text()
    reads = {
        "config.json": lambda: folder.stored(TrainConfig, finished),
        "result.json": lambda: results.read(path),
        "metrics.jsonl": lambda: read_training(finished),
    }
    original = json.loads(whole.splitlines()[0] if name == "metrics.jsonl" else whole)

    def read(text, front_door=False):
        path.write_text(text)
        load(finished) if front_door else reads[name]()

    refused = strange.refusals(read, [*strange.texts(original), *strange.TEXTS], name)
    assert refused >= {"config.json": 150, "result.json": 60, "metrics.jsonl": 5}[name]
    strange.refusals(lambda text: read(text, front_door=True), strange.texts(original, 20), finished)
    if name != "metrics.jsonl":  # metrics that cannot be read are measured again
        strange.refusals(lambda text: read(text, front_door=True), strange.TEXTS[-4:], name)


def test_the_command_reports_altered_files(finished, capsys):
    for name in ("config.json", "result.json"):
        whole = (finished / name).read_text()
        for text in ("[" * 100_000, whole.replace('"seeds": 1', '"seeds": null')):
            (finished / name).write_text(text)
            assert cli.main(["train", "--resume", "--out", str(finished)]) == 2
            errors = capsys.readouterr().err
            assert errors.startswith(f"otpe: {finished / name} is damaged: ")
            assert errors.endswith("Name another folder.\n")
        (finished / name).write_text(whole)


def test_altered_metadata_of_a_checkpoint_is_refused(unfinished):
    path = checkpoint.newest(unfinished / "checkpoints")
    arrays, about = tensors.read(path, checkpoint.KIND)

    def read(text):
        written(path, arrays, text)
        train.prepared(replace(TINY, out=unfinished, resume=True))

    changes = [strange.text(strange.changed(about, (name,), None)) for name in about]
    assert strange.refusals(read, [*changes, *strange.TEXTS], path.name) == len(changes) + len(strange.TEXTS)
    read_only = lambda text: (written(path, arrays, text), tensors.read(path, checkpoint.KIND, {"step": int}))  # noqa: E731
    assert strange.refusals(read_only, strange.texts(about), path.name) > 20


def test_missing_weights_are_reported(finished):
    path = checkpoint.newest(finished / "checkpoints")
    arrays, about = tensors.read(path, checkpoint.KIND)
    for remaining in ({}, {name: a for name, a in arrays.items() if "best.params.0" not in name}):
        tensors.write(path, checkpoint.KIND, remaining, about)
        with pytest.raises(ValueError, match=path.name):
            load(finished)


def written(path, arrays, about):
    """Write a file with a correct hash and any metadata."""
    tensors.write(path, "", arrays, {})
    metadata = tensors._header(path, path.read_bytes()) | {"about": about, "sha256": tensors._hash(about, arrays)}
    size = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + size]) | {"__metadata__": metadata}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + path.read_bytes()[8 + size :])


def test_altered_files_of_a_resumed_sweep_are_refused(tmp_path):
    path, point = tmp_path / "sweep.json", {"name": "a", "state": "diverged", "why": "because"}

    def read(text):
        path.write_text(text)
        sweep._known(tmp_path)

    original = {"format": 1, "axes": {}, "points": [point]}
    assert strange.refusals(read, [*strange.texts(original), *strange.TEXTS], path.name) > 30


def test_altered_results_of_a_benchmark_are_refused(tmp_path):
    path = tmp_path / "points.json"
    at = {"rule": "otpe", "mode": "offline", "sizes": [4, 3], "steps": 5, "batch": 1}
    measured = {"axes": {"width": 4}, "seconds": {"median": 0.1, "min": 0.1}, "bytes": {"working": 8}}
    point = {**at, **measured, "peak_bytes": 8, "state_bytes": None, "options": {}}
    original = {
        "format": 1,
        "config": {},
        "seconds": 1.0,
        "finished": False,
        "points": [point],
        "left_out": [{**at, "why": "large"}],
    }

    def read(text):
        path.write_text(text)
        measurements.checked(path, folder.read_json(path))

    assert strange.refusals(read, [*strange.texts(original), *strange.TEXTS], path) > 100
    read(json.dumps(original))


# Names


@pytest.mark.parametrize("name", ["x" * 250, "あ" * 83], ids=["letters", "signs"])
def test_files_fit_into_folders_with_long_names(name, tmp_path, monkeypatch):
    opened = folder.opened(replace(TINY, out=tmp_path / name), [], {})
    opened.write_result({"a": 1})
    opened.close()
    assert sorted(path.name for path in (tmp_path / name).iterdir()) == [".lock", "config.json", "result.json"]
    monkeypatch.chdir(tmp_path)
    mine = folder.opened(replace(TINY, dataset=name), [name, "otpe"], {})
    mine.close()
    assert mine.path.name.endswith("-001")
    tensors.write(tmp_path / f"{'y' * 238}.safetensors", "thing", {}, {})
    files.write_atomically(tmp_path / ("z" * 255), "whole")
    assert not list(tmp_path.glob(".*"))


def test_names_that_are_too_long_are_refused(tmp_path, capsys):
    name = str(tmp_path / ("x" * 300))
    for args in (
        ["train", *arguments(TINY), "--out", name],
        ["train", *arguments(TINY), "--resume", "--out", name],
        ["stream", name],
        ["stream", f"{name}.csv"],
    ):
        shape = ["--units", "8", "--classes", "3"] if args[0] == "stream" else []
        assert cli.main([*args, *shape]) == 2
        errors = capsys.readouterr().err
        assert "x" * 300 in errors
        assert "Errno" not in errors
    for call in (load, otpe.StreamLearner.load):
        with pytest.raises(OSError, match="x" * 300):
            call(name)
