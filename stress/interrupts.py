"""Ctrl-C, SIGTERM and SIGHUP at random moments of `otpe train`, one to three times. Exits with 1 when a promise fails.

    python stress/interrupts.py               # 30 processes, about five minutes on two cores
    python stress/interrupts.py -n 500 --seed 7

The promises, from the first line of `otpe.cli.main` on:

- the exit status is 128 + the number of the signal (0 where the run was finished before);
- there is no traceback, no abort, and at most one more line besides the message;
- with --resume the run continues, and ends with the same result as one that was never interrupted.
"""

import argparse
import hashlib
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from otpe import tensors
from otpe.lab.runs import checkpoint

RUN = shlex.split(
    "train --classes 3 --units 8 --dims 1 --alpha 2 --time-steps 6 --standardize fixed --hidden 6 --threshold 0.3"
    " --batch 4 --steps 40000 --eval-every 2000 --valid-samples 16 --test-samples 12 --checkpoint-seconds 0.2"
)
PROGRAM = "from otpe import cli; print('ready', flush=True); raise SystemExit(cli.main())"
FORBIDDEN = ("Traceback", "terminate called", "Fatal", "Exception ignored", "Aborted", "core dumped", "Error in")
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LONGEST = 60.0  # seconds until a process has to end after the last signal


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=30, help="how many processes")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job and its children may ignore it
    chance, failures = random.Random(given.seed), []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["OTPE_CACHE"] = folder
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-m", "otpe.cli", *RUN, "--out", f"{folder}/whole"], check=True, capture_output=True
        )
        whole, longest = state(Path(folder) / "whole"), time.monotonic() - began
        print(f"one run takes {longest:.1f} s")
        for i in range(given.n):
            failures += one(i, Path(folder), whole, longest, chance)
    print(f"{given.n} processes, {len(failures)} failures")
    return 1 if failures else 0


def one(i: int, folder: Path, whole: str, longest: float, chance: random.Random) -> list[str]:
    """Interrupt a process and resume it in another one. Return the broken promises."""
    out, number, times = folder / f"run-{i}", chance.choice((*ENDS, signal.SIGINT)), chance.choice((1, 1, 2, 3))
    first = number
    if number != signal.SIGINT:
        times = 1
    process = start("--out", str(out))
    moment = chance.uniform(0, chance.choice((2.0, longest)))  # imports take about two seconds
    time.sleep(moment)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(chance.choice((0, 0.001, 0.05, 0.5)))
    errors = wait_for_end(process)
    lines = [line for line in errors.splitlines() if line and not line.startswith(("Stopping: ", "otpe: warning: "))]
    allowed = {0, 128 + first}
    if number != signal.SIGINT:
        allowed.add(-first)  # outside of training, signals end a process as usual
    wrong = []
    if process.returncode not in allowed:
        wrong.append(f"status {process.returncode}")
    wrong += [f"it said {word!r}" for word in FORBIDDEN if word in errors]
    if len(lines) > 1:
        wrong.append(f"it said {len(lines)} lines")
    again = start("--out", str(out), "--resume")
    rest = wait_for_end(again)
    if again.returncode != 0:
        wrong.append(f"it could not go on: {rest}")
    elif state(out) != whole:
        wrong.append("it ended with another result")
    name = f"{i}: {times} × {signal.Signals(number).name} after {moment:.3f} s"
    print(f"{name}, status {process.returncode}: {'; '.join(wrong) or 'as promised'}", flush=True)
    if wrong:
        print(errors)
    return wrong


def start(*args: str) -> "subprocess.Popen[str]":
    """Start a process and wait until it reaches the first line of the command."""
    command = [sys.executable, "-c", PROGRAM, *RUN, *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def wait_for_end(process: "subprocess.Popen[str]") -> str:
    """Return what the process wrote to standard error."""
    try:
        return process.communicate(timeout=LONGEST)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1] + "\nFatal: it did not end"


def state(out: Path) -> str:
    """Return a hash of the newest checkpoint, without anything that depends on time."""
    newest = checkpoint.newest(out / "checkpoints")
    if newest is None:
        return "none"
    arrays, _ = tensors.read(newest, checkpoint.KIND)
    return hashlib.sha256(b"".join(arrays[name].tobytes() for name in sorted(arrays))).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
