"""Interrupts loops of `StreamLearner` at random moments, saves in `finally`, and checks every file.

    python stress/interrupted_learner.py                    # 400 interrupts, about two minutes on 2 cores
    python stress/interrupted_learner.py --interrupts 50

Loops of learn_one, learn_many and learn_one with late labels take turns. SIGINT interrupts each one after a
random time of up to 30 ms, also during compilation: every eighth learner has a new network. Exits with 1
if any file is missing, cannot be loaded, or differs by a bit from the result of the same steps without an interrupt.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

import jax
import numpy as np
import optax

import otpe

SIZES = (20, 24, 24, 5)
rng = np.random.default_rng(0)
XS, LABELS = (rng.random((4096, SIZES[0])) < 0.2).astype(np.float32), rng.integers(0, SIZES[-1], 4096)
KINDS = ("learn_one", "learn_many", "late")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--interrupts", type=int, default=400)
    count = parser.parse_args().interrupts
    lost, compiling = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            kind, new = KINDS[i % len(KINDS)], i % 8 == 0
            leak = 0.9 + (1e-4 * i if new else 0.0)  # another network needs its own programs
            path = Path(folder) / f"{i}.safetensors"
            try:
                steps = interrupted(kind, leak, path)
                wrong = differs(kind, leak, path, steps)
            except Exception as error:
                wrong = f"{type(error).__name__}: {str(error).splitlines()[0]}"
            compiling += new
            if wrong:
                lost.append(f"{i} ({kind}): {wrong}")
                print(f"lost: {lost[-1]}", flush=True)
            path.unlink(missing_ok=True)
    print(f"{count} interrupts ({compiling} of new networks), {len(lost)} lost")
    return 1 if lost else 0


def learner(kind: str, leak: float) -> otpe.StreamLearner:
    net = otpe.dense(SIZES, leak=leak, threshold=0.5)
    return otpe.StreamLearner(net, "otpe", optax.adam(1e-3), delay=5 if kind == "late" else 0)


def take(one: otpe.StreamLearner, kind: str, until: int | None = None) -> None:
    """Continue the stream at the learner's position."""
    while until is None or one.steps < until:
        at = one.steps % (len(XS) - 16)
        if kind == "learn_many":
            one.learn_many(XS[at : at + 16], LABELS[at : at + 16])
        else:
            one.learn_one(XS[at], int(LABELS[at]))


def interrupted(kind: str, leak: float, path: Path) -> int:
    one, over = learner(kind, leak), threading.Event()

    def press() -> None:
        wait = rng.uniform(0, 0.03)
        while not over.wait(wait):
            os.kill(os.getpid(), signal.SIGINT)
            wait = 1.0  # Python drops an interrupt during garbage collection

    presser = threading.Thread(target=press)
    try:
        presser.start()
        take(one, kind)
    except KeyboardInterrupt:
        over.set()
    finally:
        one.save(path)
        presser.join()
    return one.steps


def differs(kind: str, leak: float, path: Path, steps: int) -> str:
    """Return what is wrong with the file, or nothing."""
    loaded, expected = otpe.StreamLearner.load(path), learner(kind, leak)
    if loaded.steps != steps:
        return f"the file is at step {loaded.steps}, the learner is at {steps}"
    take(expected, kind, until=steps)
    for when in ("at", "after"):
        pairs = zip(jax.tree.leaves(loaded.params), jax.tree.leaves(expected.params), strict=True)
        if not all(np.array_equal(a, b) for a, b in pairs):
            return f"weights differ {when} step {steps}"
        for one in (loaded, expected):
            one.learn_one(XS[0], 1)  # this depends on membranes, traces and optimizer
    return ""


if __name__ == "__main__":
    sys.exit(main())
