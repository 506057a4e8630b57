"""The run folder: which process may use it, and what survives damage."""

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import optax
import pytest
from tiny_runs import TINY, arguments, fingerprints, state, steps_of

import otpe
from otpe import cli, files
from otpe.lab import records
from otpe.lab.runs import folder, loop


def main(*args):
    return cli.main(["train", *map(str, args)])


@pytest.mark.parametrize("resume", [False, True])
def test_other_settings_are_named_and_nothing_changes(finished, resume, capsys):
    before = fingerprints(finished)
    other = arguments(TINY, steps=24, learning_rate=0.5, rule="ottt", out=finished)
    assert main(*other, *["--resume"] * resume) == 2
    errors = capsys.readouterr().err
    assert "belongs to a run with other settings" in errors
    for line in ("steps was 12, now is 24", "learning_rate was 0.03, now is 0.5", "rule was 'otpe', now is 'ottt'"):
        assert line in errors
    assert "batch was" not in errors
    assert fingerprints(finished) == before


def test_many_other_settings_are_counted(finished):
    with pytest.raises(FileExistsError, match=r"steps was 12, now is 24; .*; and 2 more. Use the same ones"):
        otpe.train(replace(TINY, steps=24, seed=5, hidden=(7,), leak=0.5, clip=1.0, out=finished))


def test_repeating_a_run_needs_resume(finished, unfinished, capsys):
    before = fingerprints(finished), fingerprints(unfinished)
    assert main(*arguments(TINY, out=finished)) == 2
    assert "already has this run, which is finished. Use resume to see its result" in capsys.readouterr().err
    assert main(*arguments(TINY, out=unfinished)) == 2
    assert (
        "already has this run, saved at step-0000000008. Use resume to continue it, or name" in capsys.readouterr().err
    )
    assert (fingerprints(finished), fingerprints(unfinished)) == before


def test_resume_without_a_run_starts_one(tmp_path, trained):
    (tmp_path / "new").mkdir()
    result = otpe.train(replace(TINY, out=tmp_path / "new", resume=True))
    assert result.steps == 12
    assert state(tmp_path / "new") == state(trained.folder)


def test_a_finished_run_is_not_trained_again(finished, trained, monkeypatch, capsys):
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained again"))
    before = fingerprints(finished)
    result = otpe.train(replace(TINY, out=finished, resume=True))
    assert (result.test_accuracy, result.loss, result.metrics) == (trained.test_accuracy, trained.loss, trained.metrics)
    assert main("--resume", "--out", finished) == 0
    assert f"Run folder: {finished}" in capsys.readouterr().out
    assert fingerprints(finished) == before


def test_settings_that_are_not_given_are_taken_from_the_run(unfinished, trained):
    assert main("--resume", "--out", unfinished) == 0
    assert state(unfinished) == state(trained.folder)
    assert steps_of(unfinished) == [4, 8, 12]


@pytest.mark.parametrize("verb", ["train", "compare", "align", "landscape", "sweep"])
def test_resuming_in_a_folder_without_a_run_is_refused(verb, tmp_path, monkeypatch, no_training, capsys):
    monkeypatch.chdir(tmp_path)
    for out in (["--out", "tpyo"], ["--out=tpyo"]):
        assert cli.main([verb, "--resume", *out]) == 2
        assert "out is 'tpyo', where there is no run to go on with. Name the folder of one; to begin" in capsys.readouterr().err  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_given_settings_must_equal_those_of_the_run(unfinished, capsys):
    before = fingerprints(unfinished)
    assert main("--resume", f"--out={unfinished}", "--batch", "5") == 2
    assert "other settings: batch was 4, now is 5; data was" in capsys.readouterr().err
    assert fingerprints(unfinished) == before


def test_settings_that_do_not_affect_results_may_change(unfinished, trained):
    assert main("--resume", "--out", unfinished, "--keep", "1", "--checkpoint-seconds", "7") == 0
    assert state(unfinished) == state(trained.folder)
    assert [path.name for path in (unfinished / "checkpoints").iterdir()] == ["step-0000000012.safetensors"]


def test_a_second_process_in_the_same_folder_is_refused(finished, no_training, capsys):
    before = fingerprints(finished)
    with (finished / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main("--resume", "--out", finished) == 2
    assert "where another process is at work. Wait for it, or stop it." in capsys.readouterr().err
    assert fingerprints(finished) == before


def test_the_folder_is_free_again_after_a_refusal_and_after_a_run(finished):
    for _ in range(2):
        with pytest.raises(FileExistsError, match="steps was 12"):
            otpe.train(replace(TINY, steps=8, out=finished, resume=True))
        otpe.train(replace(TINY, out=finished, resume=True))
    with (finished / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not lock.closed


KINDS = {
    "a symbolic link": lambda path, target: path.symlink_to(target),
    "a folder": lambda path, target: path.mkdir(),
    "a named pipe": lambda path, target: os.mkfifo(path),
}


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("name", [".lock", "metrics.jsonl"])
def test_a_link_or_pipe_instead_of_a_file_is_refused(tmp_path, what, name):
    """It is refused at once: the target of a link is unchanged, and a pipe is not waited for."""
    target = tmp_path / "precious"
    target.write_text("mine")
    KINDS[what](tmp_path / name, target)
    held = (
        os.open(tmp_path / name, os.O_RDWR) if what == "a named pipe" else None
    )  # otherwise code that opens the pipe would hang
    message = rf"{tmp_path / name} is {what}, expected a plain file. Move it away."
    with pytest.raises(files.NotPlainError, match=message):
        folder.Folder(tmp_path, folder.locked(tmp_path), ["{}\n"]).flush()
    assert target.read_text() == "mine"
    if held is not None:
        os.close(held)


def test_a_lock_file_with_content_or_a_second_name_is_left_unchanged(tmp_path):
    for name, prepare, message in (
        (
            "content",
            lambda lock: lock.write_text("mine"),
            "is not empty, but a lock file of otpe is always empty. Move it away.",
        ),
        ("link", lambda lock: os.link(tmp_path / "precious", lock), "is a hard link: the same file has another name"),
    ):
        (tmp_path / "precious").write_text("mine")
        (tmp_path / name).mkdir()
        prepare(tmp_path / name / ".lock")
        with pytest.raises(files.NotPlainError, match=message):
            folder.locked(tmp_path / name)
        assert (tmp_path / name / ".lock").read_text() == "mine"


LOCKED = "import sys, pathlib; from otpe.lab.runs import folder; lock = folder.locked(pathlib.Path(sys.argv[1])); "


def test_a_killed_process_leaves_the_folder_free(tmp_path):
    command = [sys.executable, "-c", f"{LOCKED} print('locked', flush=True); sys.stdin.read()", str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(FileExistsError, match="where another process is at work"):
            folder.locked(tmp_path)
        process.kill()
    assert folder.locked(tmp_path).is_locked, "with the .lock file that the killed process left"


def test_a_forked_process_does_not_get_the_lock_of_its_parent(tmp_path):
    code = """
import os
pid = os.fork()
if not pid:
    try:
        folder.locked(lock_folder)
    except FileExistsError:
        os._exit(7)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
try:
    folder.locked(lock_folder)
except FileExistsError:
    print("still locked")
lock.release()
folder.locked(lock_folder)
"""
    code = f"{LOCKED} lock_folder = pathlib.Path(sys.argv[1])\n{code}"
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "still locked\n"), result.stderr


def test_a_pipe_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    os.mkfifo(tmp_path / "config.json")
    assert records.read_metrics(tmp_path) == []
    with pytest.raises(ValueError, match=r"config.json is damaged: no plain file. Name another folder."):
        records.read_json(tmp_path / "config.json")


def test_a_link_in_a_run_folder_gets_a_sentence(finished, no_training, tmp_path, capsys):
    (tmp_path / "precious").write_text("mine")
    (finished / ".lock").unlink()
    (finished / ".lock").symlink_to(tmp_path / "precious")
    assert main("--resume", "--out", finished) == 2
    assert f"{finished / '.lock'} is a symbolic link, expected a plain file. Move it away." in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "mine"


def test_metrics_after_the_checkpoint_are_measured_again(unfinished, trained):
    metrics = unfinished / "metrics.jsonl"
    whole = metrics.read_text().replace("1", "2")  # the lines up to the checkpoint stay
    metrics.write_text(
        metrics.read_text()[: metrics.read_text().rindex('{"step": 12')] + whole[whole.rindex('{"step"') :]
    )
    otpe.train(replace(TINY, out=unfinished, resume=True))
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    for line, expected in zip(lines, trained.metrics, strict=True):
        assert {**line, "seconds": 0} == {**expected, "seconds": 0}


def test_a_torn_line_is_survived(unfinished):
    metrics = unfinished / "metrics.jsonl"
    metrics.write_text(metrics.read_text()[:-30])
    otpe.train(replace(TINY, out=unfinished, resume=True))
    assert steps_of(unfinished) == [4, 8, 12]


def test_half_written_files_are_removed(unfinished):
    partial = [unfinished / ".metrics.jsonl.0abc.partial", unfinished / "checkpoints" / ".step-12.1def.partial"]
    for path in partial:
        path.write_bytes(b"half")
    otpe.train(replace(TINY, out=unfinished, resume=True))
    assert not [path for path in partial if path.exists()]


@pytest.mark.parametrize("name", ["config.json", "result.json"])
@pytest.mark.parametrize("content", ['{"steps": 1', "[]"])
def test_a_damaged_file_is_refused_with_a_sentence(finished, name, content, capsys):
    (finished / name).write_text(content)
    assert main("--resume", "--out", finished) == 2
    assert f"{finished / name} is damaged: " in capsys.readouterr().err


def test_new_runs_are_numbered(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in ("001", "002"):
        assert otpe.train(TINY).folder.name == f"t-randman-otpe-offline-{number}"
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


OWN = {
    "net": otpe.dense([8, 6, 3], leak=0.5, threshold=0.3),
    "rule": otpe.rule("otpe", readout="leaky"),
    "optimizer": optax.adamax(0.5),
}


@pytest.mark.parametrize("name", OWN)
def test_a_run_with_a_user_part_does_not_resume_without_it(name, finished):
    config = json.loads((finished / "config.json").read_text())
    (finished / "config.json").write_text(json.dumps(config | {f"own_{name}": "something"}))
    with pytest.raises(FileExistsError, match=rf"own_{name} was 'something', now is None"):
        otpe.train(replace(TINY, out=finished, resume=True))


@pytest.mark.parametrize("name", OWN)
def test_a_run_does_not_resume_with_an_added_user_part(name, finished):
    with pytest.raises(FileExistsError, match=rf"own_{name} was None, now is ."):
        otpe.train(replace(TINY, out=finished, resume=True), **{name: OWN[name]})


def test_numpy_numbers_are_accepted_as_settings(tmp_path, trained):
    given = replace(TINY, steps=np.int64(12), learning_rate=np.float64(0.03), out=tmp_path / "new")
    otpe.train(given)
    assert json.loads((tmp_path / "new" / "config.json").read_text())["steps"] == 12
    again = otpe.train(replace(TINY, out=tmp_path / "new", resume=True))
    assert again.test_accuracy == otpe.load(tmp_path / "new").test_accuracy == trained.test_accuracy


def test_config_json_has_settings_versions_and_data(trained):
    config = json.loads((trained.folder / "config.json").read_text())
    assert config["versions"].keys() == {"otpe", "python", "jax", "jaxlib", "optax", "numpy", "safetensors"}
    assert config["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert config["hidden"] == [6]
    assert config.keys() >= {"commit", "device", "platform", "data"}


# Kinds of folders

OLDER = {
    "train": {"rule": "otpe", "mode": "offline"},
    "compare": {"rules": ["otpe"], "modes": ["offline"]},
    "landscape": {"rules": ["otpe"], "modes": ["offline"], "own_study": "landscape"},
    "sweep": {"rules": ["otpe"], "modes": ["offline"], "own_study": "sweep"},
    "stream": {"rule": "otpe", "kind": "text", "own_study": "stream"},
    "reproduce": {"reproduce": True, "scale": "full"},
    None: {"items": ["a", "b"]},
}


@pytest.mark.parametrize("kind", OLDER)
def test_the_kind_of_a_folder_of_an_earlier_version_is_found(kind, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(OLDER[kind]))
    config = records.read_config(tmp_path)
    assert config.get("kind") == records.kind_of(config) == records.kind_of(OLDER[kind]) == kind
    assert config.get("source_kind") == ("text" if kind == "stream" else None)
    assert "own_study" not in config


def test_every_folder_says_its_kind(trained):
    config = json.loads((trained.folder / "config.json").read_text())
    assert (config["format"], config["kind"]) == (1, "train")
    for odd in (["train"], {"train": 1}, 7, "trains"):
        assert records.kind_of({**config, "kind": odd}) is None


def test_a_folder_without_a_kind_resumes(unfinished, trained):
    path = unfinished / "config.json"
    config = json.loads(path.read_text())
    del config["kind"]
    path.write_text(json.dumps(config))
    assert otpe.train(replace(TINY, out=unfinished, resume=True)).test_accuracy == trained.test_accuracy
    assert otpe.load(unfinished).loss == trained.loss
    assert "kind" not in json.loads(path.read_text()), "the file is not rewritten"


def test_a_folder_of_another_kind_is_refused(finished, no_training):
    path = finished / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kind": "stream"}))
    with pytest.raises(FileExistsError, match=r"which holds a stream, not a single run. Name another folder."):
        otpe.train(replace(TINY, out=finished, resume=True))


@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_a_file_of_a_newer_format_is_refused(name, finished, no_training, capsys):
    path = finished / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    message = (
        f"{path} has the format 2, which a newer otpe wrote; this one reads 1. Update otpe: pip install --upgrade otpe."
    )
    assert main("--resume", "--out", finished) == 2
    assert message in capsys.readouterr().err
    with pytest.raises(records.OtherFormatError, match="which a newer otpe wrote"):
        otpe.load(finished)


# Damage


def lines_of(folder):
    return (folder / "metrics.jsonl").read_text().splitlines()


def test_a_damaged_line_does_not_lose_others(unfinished, trained):
    first, *rest = lines_of(unfinished)
    torn = [first[:40], "null", '{"step": true}', "[" * 100_000, "", '{"step": 5', "\x00" * 9]
    (unfinished / "metrics.jsonl").write_text("\n".join([*torn, first, *rest]) + "\n")
    message = (
        r"metrics.jsonl is damaged: lines 1, 2, 3, 4, 5, … \(7\) are left out. The run continues after step 8 neverthe"
    )
    with pytest.warns(UserWarning, match=message):
        otpe.train(replace(TINY, out=unfinished, resume=True))
    assert steps_of(unfinished) == [4, 8, 12]
    assert lines_of(unfinished)[0] == first
    assert [line["step"] for line in otpe.load(unfinished).metrics] == [4, 8, 12]


def test_a_damaged_line_of_a_finished_run_leaves_the_others(finished):
    first, second, third = lines_of(finished)
    (finished / "metrics.jsonl").write_text(f"{first}\n{second[:-3]}\n{third}\n")
    assert [line["step"] for line in otpe.load(finished).metrics] == [4, 12]


def test_missing_metrics_give_a_warning(unfinished):
    (unfinished / "metrics.jsonl").unlink()
    with pytest.warns(UserWarning, match=r"metrics.jsonl is missing. The run continues after step 8 nevertheless."):
        otpe.train(replace(TINY, out=unfinished, resume=True))
    assert steps_of(unfinished) == [12]


def test_another_version_gives_a_warning_and_is_recorded(unfinished, monkeypatch):
    path = unfinished / "config.json"
    began = json.loads(path.read_text())
    version = began["versions"]["jax"]
    before = began | {"device": "cpu: abacus", "versions": began["versions"] | {"jax": "0.1", "otpe": "0.0"}}
    path.write_text(json.dumps(before))
    message = f"other versions from step 8 on: otpe is {otpe.__version__}, was 0.0; jax is {version}, was 0.1; device is cpu: "
    with pytest.warns(UserWarning, match=message):
        otpe.train(replace(TINY, out=unfinished, resume=True))
    after = json.loads(path.read_text())
    (resumed,) = after.pop("resumed")
    assert after == before
    assert resumed == {name: began[name] for name in ("versions", "commit", "platform", "device")} | {"step": 8}
    (unfinished / "result.json").unlink()
    otpe.train(replace(TINY, out=unfinished, resume=True))  # with the same versions again there is no warning
    assert json.loads(path.read_text())["resumed"] == [resumed]
