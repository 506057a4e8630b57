"""Ctrl-C and SIGTERM: the state is saved, and the resumed run gives the same result as one without interruption."""

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from tiny_runs import TINY, arguments, state, steps_of

import otpe
from otpe import cli
from otpe.lab.runs import checkpoint, loop

LONG = replace(TINY, eval_every=4 * 499, steps=16 * 4 * 499)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the final state of a run without interruption."""
    return state(otpe.train(replace(LONG, out=tmp_path_factory.mktemp("whole") / "run")).folder)


# Runs in a process: the signal comes while the first block runs. On a fast machine, a second block could be all the rest.
SIGNALLED = """
import os, sys
from otpe import cli
from otpe.lab.runs import loop

number, advance, calls = int(sys.argv[1]), loop.advance, []

def watched(*given):
    calls.append(number)
    if len(calls) == 3:  # the first one compiles only
        os.kill(os.getpid(), number)
    return advance(*given)

loop.advance = watched
sys.argv = ["otpe", *sys.argv[2:]]
raise SystemExit(cli.main())
"""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signalled_process_saves_and_exits(number, status, tmp_path, whole):
    out = tmp_path / "run"
    line = ["train", *arguments(LONG, out=out), "--checkpoint-seconds", "0"]
    process = subprocess.run(
        [sys.executable, "-c", SIGNALLED, str(int(number)), *line],
        env=os.environ | {"JAX_ENABLE_X64": "1"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    errors = process.stderr
    assert process.returncode == status, errors
    stopped = re.search(r"otpe: stopped at step (\d+) of 31936, and saved", errors)
    assert stopped, errors
    step = int(stopped[1])
    assert f"Go on with: otpe train --resume --out {out} (in Python: resume=True)" in errors
    assert "Traceback" not in errors
    assert checkpoint.newest(out / "checkpoints").stem == f"step-{step:010}"
    assert 0 < step < LONG.steps
    assert cli.main(["train", "--resume", "--out", str(out)]) == 0
    assert steps_of(out) == list(range(LONG.eval_every, LONG.steps + 1, LONG.eval_every))
    assert state(out) == whole


@pytest.fixture
def pressed(monkeypatch):
    """Press Ctrl-C after step 4, while the next block runs. Record how often programs were called, by step."""
    calls, advance = [], loop.advance

    def watched(recipe, train, valid, networks, before, strides, when):
        calls.append(int(before.step))
        if before.step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(recipe, train, valid, networks, before, strides, when)

    monkeypatch.setattr(loop, "advance", watched)
    return calls


def test_ctrl_c_waits_for_the_running_block(pressed, tmp_path, trained, capsys):
    out = tmp_path / "run"
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"stopped at step 8 of 12, and saved"):
        otpe.train(replace(TINY, out=out, checkpoint_seconds=0))
    assert signal.getsignal(signal.SIGINT) is before
    assert "Stopping: this block of steps ends, then the state is saved." in capsys.readouterr().err
    assert pressed == [0, 0, 1, 4], "one of the calls only compiles"
    assert steps_of(out) == [4, 8]
    assert checkpoint.newest(out / "checkpoints").stem == "step-0000000008"
    otpe.train(replace(TINY, out=out, resume=True))
    assert state(out) == state(trained.folder)


def test_a_comparison_names_its_own_folder(pressed, tmp_path, capsys):
    out = tmp_path / "compared"
    assert cli.main(["compare", *arguments(TINY, out=out), "--checkpoint-seconds", "0", "--rules", "otpe"]) == 130
    assert f"Go on with: otpe compare --resume --out {out} " in capsys.readouterr().err
    assert cli.main(["compare", "--resume", "--out", str(out)]) == 0
    assert (out / "table.txt").read_text().count("\n") == 2
