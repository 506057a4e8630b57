"""`kill -9` at random moments, repeatedly: every resumed run ends with the same bits as one without interruption."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import every_run
from tiny_runs import state, steps_of

from otpe.lab.runs import checkpoint

SCRIPT = Path(every_run.__file__)


def start_process(folder, first=0):
    """Start a process that trains. It shares a compilation cache with the next one; test_stop.py uses none."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(folder), str(first)]
    environment = {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    env = os.environ | {"JAX_ENABLE_X64": "1", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"} | environment
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process):
    while not condition() and process.poll() is None:
        time.sleep(0.002)


def kill_at_random(folder, number, out, moment):
    """Train until a random moment, then kill the process. Return whether there were checkpoints to resume from."""
    process = start_process(folder, number)
    if moment.random() < 0.7:  # otherwise the process may have no checkpoint yet
        step = moment.randrange(40, 480, 40)
        wait_for(lambda: newest_step(out) >= step, process)
        time.sleep(moment.uniform(0, 0.02))  # the next checkpoint may follow after 5 ms, or be half written
    else:
        wait_for(out.exists, process)
        time.sleep(moment.uniform(0, 2.0))
    process.send_signal(signal.SIGKILL)
    errors = process.communicate(timeout=60)[1]
    # The last run may have ended before the signal came: after it, the process has nothing more to do.
    assert process.returncode in (-signal.SIGKILL, 0), errors
    return checkpoint.newest(out / "checkpoints") is not None and not (out / "result.json").exists()


def newest_step(out):
    path = checkpoint.newest(out / "checkpoints")
    return 0 if path is None else int(path.stem.removeprefix("step-"))


def train_to_end(folder):
    process = start_process(folder)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 0, errors


def numbers(out):
    """Return all measurements except run times."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    timeless = [{name: value for name, value in line.items() if "second" not in name} for line in lines]
    result = json.loads((out / "result.json").read_text())
    return timeless, {name: value for name, value in result.items() if "second" not in name}


def test_a_killed_and_resumed_run_gives_the_same_bits(tmp_path):
    moment = random.Random(os.urandom(8).hex())  # different moments in every test run
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    alone = start_process(whole)
    kills = [kill_at_random(broken, i, config.out, moment) for i, config in enumerate(every_run.configs(broken))]
    assert len(kills) >= 20
    assert sum(kills) >= 5, "some runs were killed in the middle, with a checkpoint to resume from"
    train_to_end(broken)
    assert alone.communicate(timeout=600)[1] is not None
    assert alone.returncode == 0
    for config in every_run.configs(broken):
        other = whole / config.out.name
        assert state(config.out) == state(other), config.out.name
        assert numbers(config.out) == numbers(other), config.out.name
        assert steps_of(config.out) == list(range(40, 601, 40))
        assert not list(config.out.rglob("*.partial"))
