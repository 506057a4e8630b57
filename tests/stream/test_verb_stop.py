"""`otpe stream` is stopped, killed or fails, and resumes with the same result as without interruption."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest
import tiny_events
from tiny_streams import CLASSES, NET, SHAPE, UNITS, Pressed, config, events, known, learner, made_up_randman, steps

import otpe
from otpe import cli, files, tensors
from otpe.lab.report import content
from otpe.lab.runs import checkpoint, folder
from otpe.stream import sources, stream_state
from otpe.stream.prequential import Prequential, evaluate
from otpe.stream.session import prepared, run
from otpe.stream.sources import lines
from otpe.stream.time_steps import Binner


def result(out):
    return json.loads((out / "result.json").read_text())


def settings_of(which, path):
    """Return the settings for each kind of source that can be read again."""
    if which == "text":
        messy = path / "messy.csv"
        messy.write_text("".join(line if i % 7 else f"what\n{line}" for i, line in enumerate(events())))
        return config(messy, path / "run", every=3, window=20)
    if which == "recordings":
        recorded = tiny_events.make(path / "some_train.h5", recordings=6)
        return config(recorded, path / "run", epochs=3, shuffle=True, dt=0.05, window=20)
    changes = ("die@40:0.5", "appear@60:2", "swap@80:0,1")
    return config("t-randman", path / "run", time_steps=7, steps=151, changes=changes, window=20)


@pytest.mark.parametrize("which", ["text", "recordings", "randman"])
def test_a_stopped_and_resumed_stream_gives_the_same_bits(which, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sources, "randman", made_up_randman)
    settings, whole = settings_of(which, tmp_path), tmp_path / "whole"
    score = run(replace(settings, out=whole)).score
    for blocks in (9, 5):
        with pytest.raises(
            KeyboardInterrupt, match=r"stopped after step \d+, and saved. Go on with: otpe stream --res"
        ):
            run(replace(settings, resume=True, metrics_seconds=0), [Pressed(blocks)])
    at = int(checkpoint.newest(settings.out / "checkpoints").stem.removeprefix("step-"))
    assert not (settings.out / "result.json").exists()
    with (settings.out / "metrics.jsonl").open("a") as metrics:
        metrics.write('{"step": 1000000}\n')  # from a process that was killed before it could save
    capsys.readouterr()
    assert cli.main(["stream", "--resume", "--out", str(settings.out)]) == 0
    errors = capsys.readouterr().err
    assert f"Going on after step {at}: the source is read again up to there." in errors
    assert "Skipped" not in errors, "events skipped before are not reported again"
    assert known(settings.out) == known(whole)
    measured = [json.loads(line)["step"] for line in (settings.out / "metrics.jsonl").read_text().splitlines()]
    assert measured == sorted(set(measured))
    assert measured[-1] == result(settings.out)["step"] == score.steps
    assert result(settings.out)["accuracy"] == score.accuracy
    lasts = [json.loads((each / "metrics.jsonl").read_text().splitlines()[-1]) for each in (settings.out, whole)]
    assert lasts[0]["loss"] == lasts[1]["loss"]
    assert lasts[0]["rates"] == lasts[1]["rates"]


def test_a_stream_of_version_0_1_resumes(file, out):
    """That version wrote `own_study`, and the kind of the source as `kind`."""
    with pytest.raises(KeyboardInterrupt):
        run(config(file, out), [Pressed(9)])
    newest = checkpoint.newest(out / "checkpoints")
    stopped = stream_state.load(newest)
    for path, settings in (
        (out / "config.json", json.loads((out / "config.json").read_text())),
        (None, stopped.identity),
    ):
        assert settings.pop("kind", "stream") == "stream"
        settings |= {"own_study": "stream", "kind": settings.pop("source_kind")}
        if path:
            path.write_text(json.dumps(settings))
    stream_state.save(newest.parent, stopped)
    assert stream_state.load(newest).identity["own_study"] == "stream"
    run(config(file, out, resume=True))
    section = content.from_json((out / "section.json").read_text())
    assert section.command.startswith("otpe stream ")
    assert "own" not in "".join(section.remarks)


def test_a_finished_stream_is_shown_again(file, out, capsys):
    args = ["stream", str(file), *SHAPE, *NET, "--out", str(out)]
    assert cli.main(args) == 0
    before, written = capsys.readouterr().out, (out / "result.json").stat().st_mtime_ns
    assert cli.main(args) == 2
    assert "which already has this run, which is finished. Use resume" in capsys.readouterr().err
    file.write_text("")
    assert cli.main(["stream", "--resume", "--out", str(out)]) == 0
    assert capsys.readouterr().out == before
    assert (out / "result.json").stat().st_mtime_ns == written


def process(*args, **options):
    command = [sys.executable, "-m", "otpe.cli", "stream", *args, "--checkpoint-seconds", "0"]
    return subprocess.Popen(command, env=os.environ | {"JAX_ENABLE_X64": "1"}, stderr=subprocess.PIPE, **options)


def wait_for(condition, running):
    while not condition():
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.01)


def test_a_killed_and_resumed_stream_gives_the_same_bits(tmp_path, out):
    path, whole = tmp_path / "events.csv", tmp_path / "whole"
    path.write_text("".join(events(8000)))
    args = [str(path), *SHAPE, *NET]
    running = process(*args, "--out", str(out))
    wait_for(lambda: len(list(out.glob("checkpoints/step*"))) == 3, running)
    running.send_signal(signal.SIGKILL)
    running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL
    assert not (out / "result.json").exists()
    assert cli.main(["stream", "--resume", "--out", str(out), "--checkpoint-seconds", "30"]) == 0
    assert cli.main(["stream", *args, "--out", str(whole)]) == 0
    assert known(out) == known(whole)
    assert not list(out.rglob("*.partial"))


# Standard input


@pytest.fixture
def typed(monkeypatch):
    """Replace standard input by one with this content."""

    def type_in(content):
        reads, into = os.pipe()
        os.write(into, content.encode())
        os.close(into)
        monkeypatch.setattr(sys, "stdin", os.fdopen(reads))

    return type_in


def test_a_silent_standard_input_can_be_interrupted(out, typed, capsys):
    running = process("-", *SHAPE, *NET, "--block", "8", "--out", str(out), stdin=subprocess.PIPE)
    running.stdin.write("".join(events(50)).encode() + b"nonsense\n0.3,")
    running.stdin.flush()
    warning = next(line for line in running.stderr if b"warning" in line)
    assert b"Skipped: line 51 is 'nonsense'" in warning, "all lines that arrived are read"
    assert (out / "checkpoints" / checkpoint.name(16)).exists()
    running.send_signal(signal.SIGINT)
    errors = running.stderr.read().decode()
    assert running.wait(timeout=60) == 130
    running.stdin.close()
    dropped = "1 line that had been read was dropped, from '0.3,' on. The last one had not come whole."
    assert f"stopped after step 20, and saved. {dropped} Go on with: otpe stream --resume --out {out} " in errors
    assert "Traceback" not in errors
    assert "Fatal" not in errors
    for more in (1, 2):  # any number of times, also after the end
        typed("".join(events(50)) + "nonsense\n")
        assert cli.main(["stream", "--resume", "--out", str(out)]) == 0
        assert (result(out)["step"], result(out)["skipped"]) == (20 + 20 * more, {"line": 1 + more})
        going = f"Going on after step {20 * more}, with what comes on standard input from now on."
        assert going in capsys.readouterr().err


@pytest.mark.parametrize("grace", [60, -1])
def test_lines_read_from_standard_input_are_learned_or_counted(grace, out, typed, monkeypatch):
    monkeypatch.setattr("otpe.stream.text_input.GRACE", grace)
    rows = list(events())
    typed("".join(rows))
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(config("-", out), [Pressed(3)])
    dropped = re.search(r"([\d,]+) lines that had been read were dropped, from '(.*)' on\. Go on", str(stopped.value))
    count = int(dropped[1]) if dropped else 0
    assert (count == 0) == (grace > 0)
    if dropped:
        assert rows[-count].strip() == dropped[2]
    taken = Binner(UNITS, 0.01, classes=CLASSES).steps(lines(rows[: len(rows) - count]))
    score, resumed = (
        evaluate(learner(), taken, block=4),
        stream_state.load(checkpoint.newest(out / "checkpoints")).score,
    )
    score.reset()
    resumed.reset()
    assert resumed.state() == score.state()


def test_lines_after_one_that_breaks_standard_input_are_counted(out):
    running = process("-", *SHAPE, *NET, "--on-bad", "raise", "--out", str(out), stdin=subprocess.PIPE)
    running.stdin.write("".join(events(20)).encode() + b"who?\n0.3,1,1\n0.4,1,1\n")
    running.stdin.flush()  # and standard input stays open
    errors = running.stderr.read().decode()
    assert running.wait(timeout=60) == 1
    running.stdin.close()
    assert "Repair the source" in errors
    assert "2 lines that had been read were dropped, from '0.3,1,1' on. Go on with: otpe stream --resume" in errors


def test_standard_input_gives_the_same_as_a_file(out, typed, file):
    typed(file.read_text().rstrip("\n"))
    result = run(config("-", out, block=None))
    assert result.score.state() == evaluate(learner(), steps(file), block=1).state()


def test_lines_that_are_too_long_or_incomplete_are_counted(out, typed, monkeypatch):
    monkeypatch.setattr("otpe.stream.text_input.LONGEST", 64)
    monkeypatch.setattr("otpe.stream.text_input.PIECE", 32)
    typed("0.01,3,1\n" + "9" * 300 + "\n" + "x" * 64 + "0.05,1,2\n0.02,4,1\n0.0")
    result = run(config("-", out))
    assert result.place.skipped == {"line": 2, "cut": 1}
    assert (result.place.steps, result.score.labelled) == (2, 2)


def test_a_read_error_of_standard_input_ends_with_a_sentence(out, typed, monkeypatch, capsys):
    typed("".join(events(20)))
    read = os.read

    def broken(number, size):
        content = read(number, size)
        if not content and number == sys.stdin.fileno():
            raise OSError(errno.EIO, "Input/output error")
        return content

    monkeypatch.setattr("otpe.stream.text_input.os.read", broken)
    assert cli.main(["stream", "-", *SHAPE, *NET, "--out", str(out)]) == 1
    assert "Input/output error. Go on with: otpe stream --resume --out" in capsys.readouterr().err
    assert known(out)[1]["stream"]["place"]["steps"] == 7


def test_a_closed_standard_input_is_refused(out, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert cli.main(["stream", "-", *SHAPE, "--out", str(out)]) == 2
    assert "source is '-', but there is no standard input. Use: something | otpe stream -" in capsys.readouterr().err
    assert not out.exists()


# Errors


def test_a_stream_with_a_bad_event_is_saved_first(file, out, capsys):
    file.write_text("".join(events(60)) + "who?\n" + "".join(events(60, first=0.3)))
    assert cli.main(["stream", str(file), *SHAPE, *NET, "--on-bad", "raise", "--out", str(out)]) == 1
    errors = capsys.readouterr().err
    assert "otpe: after step 23: line 61 is 'who?': expected time,unit or time,unit,label. Repair the source" in errors
    assert f"Go on with: otpe stream --resume --out {out} (in Python: resume=True). What was written" in errors
    assert checkpoint.newest(out / "checkpoints").name == checkpoint.name(23)
    assert cli.main(["stream", "--resume", "--out", str(out), "--on-bad", "skip"]) == 0
    assert result(out)["skipped"] == {"line": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:30], "ends after step 12, but this run has taken 36 from it"),
        (lambda rows: ["0.000,11,0\n", *rows[1:]], "has other steps than those, but this run has taken 36 from it"),
        (
            lambda rows: [*rows[:3], "reset\n", *rows[3:]],
            "has other steps than those",
        ),  # a change between two time steps
    ],
)
def test_resuming_with_a_changed_file_is_refused(change, message, file, out, tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        run(config(file, out), [Pressed(9)])
    before, rows = known(out), file.read_text().splitlines(keepends=True)
    file.write_text("".join(change(rows)))
    assert cli.main(["stream", "--resume", "--out", str(out)]) == 1
    errors = capsys.readouterr().err
    assert message in errors
    assert "Put the file back as it was, or start anew in another folder. What was written" in errors
    assert known(out) == before
    moved = tmp_path / "moved.csv"
    moved.write_text("".join(rows))
    assert cli.main(["stream", str(moved), "--resume", "--out", str(out)]) == 0, (
        "the folder of the file does not matter"
    )


def test_a_full_disk_stops_with_a_sentence(file, out, capsys, monkeypatch):
    write = tensors.write

    def full(path, *rest):
        if int(path.stem.removeprefix("step-")) > 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, *rest)

    monkeypatch.setattr(tensors, "write", full)
    assert cli.main(["stream", str(file), *SHAPE, *NET, "--checkpoint-seconds", "0", "--out", str(out)]) == 1
    errors = capsys.readouterr().err
    assert "0012.safetensors cannot be written: No space left on device. Earlier checkpoints are untouched" in errors
    assert known(out)[1]["stream"]["place"]["steps"] == 8


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*/config.json'"):
        files.write_atomically(tmp_path / "config.json", "{}")
    assert not list(tmp_path.iterdir())
    message = r"metrics.jsonl cannot be written: No space left on device. Make room, and go on with resume"
    with pytest.raises(OSError, match=message):
        folder.Folder(tmp_path, folder.locked(tmp_path), ["{}\n"]).flush()


@pytest.mark.parametrize(
    ("sound", "last"), [(8, "the last good checkpoint is .*0008.safetensors"), (0, "no checkpoint was written before")]
)
def test_weights_that_are_not_finite_end_the_stream_at_their_block(sound, last, file, out):
    def poison(*_):
        if job.score.steps == sound:
            if sound:
                job._save()
            ill = jax.tree.map(lambda w: w.at[..., 0].set(np.nan), job.learner._memory.params)
            job.learner._cell.replace(job.learner._memory._replace(params=ill), job.learner._cell.host)

    job = prepared(config(file, out))
    job.watchers.append(poison)
    if not sound:
        poison()
    message = (
        rf"step {sound + 1}: weights or membranes are not finite any more; {last}.* Start again with a smaller lear"
    )
    with pytest.raises(FloatingPointError, match=message):
        job()
    newest = checkpoint.newest(out / "checkpoints")
    assert newest is None or otpe.StreamLearner.load(newest).steps == sound, "load refuses weights that are not finite"


def test_a_stream_of_many_classes_can_be_saved(tmp_path):
    many = otpe.StreamLearner(otpe.dense([UNITS, 6000]))
    score = Prequential(6000, window=50)
    score.add_many(np.arange(40), np.arange(40) + 1)
    path = stream_state.save(
        tmp_path,
        stream_state.StreamState(many, score, stream_state.Place(steps=40), stream_state.Meter(), {}),
    )
    assert path.stat().st_size < 3_000_000
    assert stream_state.load(path).score.state() == score.state()


def test_a_damaged_checkpoint_is_refused(file, out, capsys):
    assert cli.main(["stream", str(file), *SHAPE, *NET, "--checkpoint-seconds", "0", "--out", str(out)]) == 0
    (out / "result.json").unlink()
    *_, before, newest = checkpoint.everything(out / "checkpoints")
    whole = known(out)
    newest.write_bytes(newest.read_bytes()[:500])
    capsys.readouterr()
    assert cli.main(["stream", "--resume", "--out", str(out)]) == 2
    assert f"is damaged: 500 bytes without a whole header. Was it cut short? Move it away to go on from the one before it, {before.name}." in capsys.readouterr().err  # fmt: skip
    newest.unlink()
    assert cli.main(["stream", "--resume", "--out", str(out)]) == 0
    assert known(out) == whole


def test_a_learner_file_is_refused_as_checkpoint(file, out, capsys):
    assert cli.main(["stream", str(file), *SHAPE, *NET, "--out", str(out)]) == 0
    learner().save(out / "checkpoints" / checkpoint.name(10**6))
    assert cli.main(["stream", "--resume", "--out", str(out)]) == 2
    assert "is a saved learner, but no checkpoint of a stream." in capsys.readouterr().err
