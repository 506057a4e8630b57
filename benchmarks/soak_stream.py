"""A long life of a streaming learner that learns at every step. Does its memory grow? Do its numbers stay finite?

    python benchmarks/soak_stream.py --json benchmarks/results/soak-cpu.json     # 2 cores: about a quarter of an hour
    python benchmarks/soak_stream.py --lives 50-128-128-10:100000 700-512-512-20:10000

Leak 0.999, sequences of 1,056 steps. Most steps come in blocks, some come singly. After a tenth of its life, when all
programs are compiled and have run often, resident memory is measured 40 times. It has grown if the median of the last
quarter is more than 2 MiB above that of the first. Allocators take and return some hundred KiB, and a leak of one
small object (100 bytes) per step would give 90 MB in a million steps. A layer that has not spiked
since then proves nothing and counts as an error too. The exit status is 1 if there is any error.
"""

import argparse
import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

import otpe
from otpe.stream.page.live_state import resident

LEAK = 0.999
BLOCK, ONES = 128, 4  # steps of a round: in one block, and single ones
ROUNDS = 8  # rounds of a sequence
RATE = 1e-5  # learning rate. With a larger rate, or without resets, the outputs slowly become silent
WARM = 0.1  # share of a life before memory is measured: at least four sequences
POINTS = 40
LIMIT = 2048  # KiB of growth


def main() -> None:
    args = arguments()
    numbers = {"command": " ".join(["python", *sys.argv]), "otpe": otpe.__version__, "jax": jax.__version__}
    numbers |= {
        "device": jax.devices()[0].device_kind,
        "rule": args.rule,
        "leak": LEAK,
        "limit_kib": LIMIT,
        "lives": [],
    }
    print(f"{'network':>18}{'steps':>10}{'steps/s':>9}{'learner MB':>12}{'resident MB':>13}{'grown KiB':>11}")
    for text in args.lives:
        sizes, steps = network_and_steps(text)
        row = life(sizes, steps, args.rule)
        numbers["lives"].append(row)
        print(
            f"{row['network']:>18}{steps:10,}{row['steps_per_second']:9.0f}{row['learner_bytes'] / 1e6:12.1f}"
            f"{row['resident_kib'][-1] / 1e3:13.0f}{row['grown_kib']:11.0f}",
            *row["wrong"],
            flush=True,
        )
        if args.json:
            args.json.write_text(json.dumps(numbers, indent=1) + "\n")
    if any(row["wrong"] for row in numbers["lives"]):
        sys.exit(1)


def life(sizes: list[int], steps: int, rule: str) -> dict[str, Any]:
    """Run one life and return the measurements."""
    learner = otpe.StreamLearner(otpe.dense(sizes, leak=LEAK), rule, optax.adamax(RATE))
    begin, rng, wrong = learner.bytes, np.random.default_rng(0), set[str]()
    sequence = ROUNDS * (BLOCK + ONES)
    warm = min(max(int(WARM * steps), 4 * sequence), steps // 2)
    marks = np.linspace(warm, steps, POINTS, endpoint=False).astype(int).tolist()
    course, spiked, began, started = [], np.zeros(len(sizes) - 1), 0, time.perf_counter()
    while learner.steps < steps:
        if marks and learner.steps >= marks[0]:
            began, started = (learner.steps, time.perf_counter()) if not course else (began, started)
            wrong |= finite(learner)
            course.append(resident_kib())
            marks.pop(0)
        if learner.steps % sequence == 0:
            learner.reset()
        losses, of_layers = one_round(learner, rng)
        spiked += of_layers * (learner.steps > warm)
        wrong |= set() if np.isfinite(losses).all() else {"a loss is not finite"}
    taken = time.perf_counter() - started
    wrong |= finite(learner)
    course.append(resident_kib())
    quarter = max(1, len(course) // 4)
    grown = float(np.median(course[-quarter:]) - np.median(course[:quarter]))
    if learner.bytes != begin:
        wrong.add("the learner's own arrays have changed in size")
    if grown > LIMIT:
        wrong.add(f"resident memory has grown by {grown:.0f} KiB, expected at most {LIMIT}")
    rates = spiked * (BLOCK + ONES) / (steps - warm)
    if not rates.all():
        wrong.add("a layer is silent")
    return {
        "network": "-".join(map(str, sizes)), "steps": steps, "steps_per_second": (steps - began) / taken,
        "learner_bytes": begin, "resident_kib": course, "grown_kib": grown, "rates": rates.round(4).tolist(),
        "wrong": sorted(wrong),
    }  # fmt: skip


def one_round(learner: otpe.StreamLearner, rng: np.random.Generator) -> tuple[list[float], np.ndarray]:
    """Learn one round of a single class, whose inputs spike more. Return losses and spike rates of the layers."""
    units, classes = learner.net.layers[0].in_shape[0], learner.net.classes
    label = int(rng.integers(classes))
    xs = rng.random((BLOCK + ONES, units)) < np.where(np.arange(units) % classes == label, 0.4, 0.08)
    result = learner.learn_many(xs[:BLOCK], label)
    return [*result.losses.tolist(), *(learner.learn_one(x, label) for x in xs[BLOCK:])], result.rates.mean(0)


def finite(learner: otpe.StreamLearner) -> set[str]:
    memory = learner._memory  # the complete state, including traces
    return {
        f"{name} are not finite"
        for name in ("params", "opt_state", "state", "scores")
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(getattr(memory, name)))
    }


def resident_kib() -> int:
    gc.collect()
    return (resident() or 0) // 1024


def network_and_steps(text: str) -> tuple[list[int], int]:
    sizes, _, steps = text.partition(":")
    try:
        return [int(n) for n in sizes.split("-")], int(steps)
    except ValueError:
        sys.exit(f"--lives is {text!r}, expected a network and its steps, such as 50-128-128-10:1000000.")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    lives = ["50-128-128-10:1000000", "700-512-512-20:100000"]
    parser.add_argument("--lives", nargs="+", default=lives, help="networks, and how many steps they live")
    parser.add_argument("--rule", default="otpe")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
