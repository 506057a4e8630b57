"""Speed and latency of a streaming learner that learns at every step of one stream, compared with a lower bound.

    python benchmarks/stream.py                  # 2 cores: about three minutes
    python benchmarks/stream.py --json benchmarks/results/stream-cpu.json --docs docs/performance/streaming.md

`learn_one` is timed per call, `learn_many` in blocks of 128 steps. The lower bound ("floor"): the learner's state
(weights, optimizer, membranes, traces) is read once and written once at every step, at the rate at which this machine
reads, multiplies and writes numbers in place with all cores. The rate is measured in the same run: for as many bytes as
the state has, which may fit into the caches, and for far more bytes than fit.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import otpe

SMALL, LARGE = (50, 128, 128, 10), (700, 512, 512, 20)
BLOCK = 128
BEYOND = 256 << 20  # bytes: more than any cache of our machines
BEGIN, END = "<!-- benchmarks/stream.py: begin -->\n", "<!-- end -->\n"


class Case(NamedTuple):
    sizes: tuple[int, ...]
    rule: str
    how: str
    wanted: int | None = None  # steps per second


CASES = [
    Case(SMALL, "otpe", "learn_one", 2000), Case(SMALL, "otpe", "learn_many", 8000),
    *(Case(SMALL, rule, how) for rule in ("approx-otpe", "ostl", "ottt") for how in ("learn_one", "learn_many")),
    Case(LARGE, "otpe", "learn_one", 150), Case(LARGE, "otpe", "learn_many"),
    Case(LARGE, "approx-otpe", "learn_one", 300), Case(LARGE, "approx-otpe", "learn_many"),
    *(Case(LARGE, rule, how) for rule in ("ostl", "ottt") for how in ("learn_one", "learn_many")),
]  # fmt: skip


def main() -> None:
    args = arguments()
    numbers = {"command": " ".join(["python", *sys.argv]), "otpe": otpe.__version__, "jax": jax.__version__}
    numbers |= {
        "device": jax.devices()[0].device_kind,
        "cores": os.cpu_count(),
        "beyond": bandwidth(BEYOND),
        "rows": [],
    }
    print("\n".join(lines(numbers)), flush=True)
    for case in CASES:
        if args.only in ("", "-".join(map(str, case.sizes))):
            numbers["rows"].append(measure(case, args.seconds, numbers["beyond"]))
            print(lines(numbers)[-1], flush=True)
    if args.json:
        args.json.write_text(json.dumps(numbers, indent=1) + "\n")
    if args.docs:
        args.docs.write_text(refreshed(args.docs.read_text(), numbers))


def measure(case: Case, seconds: float, beyond: float) -> dict[str, Any]:
    learner = otpe.StreamLearner(otpe.dense(case.sizes), case.rule)
    rng = np.random.default_rng(0)
    xs = (rng.random((BLOCK, case.sizes[0])) < 0.1).astype(np.float32)
    labels = rng.integers(0, case.sizes[-1], BLOCK)
    steps_of = BLOCK if case.how == "learn_many" else 1
    taken = np.array(timed(learner, case.how, xs, labels, seconds))
    moved = 2 * learner.bytes
    own = bandwidth(learner.bytes)
    step = taken.sum() / (steps_of * len(taken))
    p50, p99, worst = (float(1e6 * q) for q in np.quantile(taken, (0.5, 0.99, 1.0)))
    return {
        "network": "-".join(map(str, case.sizes)), "rule": case.rule, "how": case.how, "wanted": case.wanted,
        "steps_per_second": float(1 / step), "p50_us": p50, "p99_us": p99, "worst_us": worst, "calls": len(taken),
        "parts": parts(learner), "bytes_moved": moved, "bandwidth": own,
        "floor_us": 1e6 * moved / own, "floor_beyond_us": 1e6 * moved / beyond, "over_floor": float(step * own / moved),
    }  # fmt: skip


def timed(learner: otpe.StreamLearner, how: str, xs: np.ndarray, labels: np.ndarray, seconds: float) -> list[float]:
    """Return the seconds of each call, without the first few."""

    def one(i: int) -> None:
        learner.learn_one(xs[i % BLOCK], labels[i % BLOCK])

    def many(i: int) -> None:
        learner.learn_many(xs, labels)

    call, taken = one if how == "learn_one" else many, []
    for i in range(3):
        call(i)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(taken) < 5:
        start = time.perf_counter()
        call(len(taken))
        taken.append(time.perf_counter() - start)
    return taken


def parts(learner: otpe.StreamLearner) -> dict[str, int]:
    """Return the bytes of each part of the state."""
    memory = learner._memory
    return {
        name: sum(leaf.nbytes for leaf in jax.tree.leaves(getattr(memory, name)))
        for name in ("params", "opt_state", "state")
    }


def bandwidth(size: int, seconds: float = 0.3) -> float:
    """Return bytes read and written per second when all cores at once multiply separate numbers in place."""
    cores = os.cpu_count() or 1
    arrays = [np.ones(max(1, size // cores // 4), np.float32) for _ in range(cores)]
    times = max(1, (32 << 20) // max(1, size))  # long enough to be timed

    def work(array: np.ndarray) -> None:
        for _ in range(times):
            np.multiply(array, np.float32(1), out=array)

    best, end = 0.0, time.perf_counter() + seconds
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(work, arrays))
        while time.perf_counter() < end:
            start = time.perf_counter()
            list(pool.map(work, arrays))
            moved = 2 * times * sum(array.nbytes for array in arrays)
            best = max(best, moved / (time.perf_counter() - start))
    return best


def lines(numbers: dict[str, Any]) -> list[str]:
    """Return the table for the docs."""
    top = [
        f"{numbers['cores']} cores, jax {numbers['jax']}, {numbers['beyond'] / 1e9:.0f} GB/s beyond the caches."
        f" `{numbers['command']}`",
        "",
        "| | call | steps/s (asked for) | p50, p99, worst µs a call | MB moved a step | floor µs (beyond caches) "
        "| × floor |",
        "|---|---|---|---|---|---|---|",
    ]
    return top + [line(row) for row in numbers["rows"]]


def refreshed(page: str, numbers: dict[str, Any]) -> str:
    """Return the page with its table replaced."""
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(
            f"the page has no place for the table, expected a line {BEGIN.strip()} and a line {END.strip()}."
        )
    return before + BEGIN + "\n".join(lines(numbers)) + "\n" + END + after


def line(row: dict[str, Any]) -> str:
    wanted = f" ({row['wanted']:,})" if row["wanted"] else ""
    late = f"{row['p50_us']:,.0f}, {row['p99_us']:,.0f}, {row['worst_us']:,.0f}"
    return (
        f"| {row['network']} `{row['rule']}` | `{row['how']}` | {row['steps_per_second']:,.0f}{wanted} | {late}"
        f" | {row['bytes_moved'] / 1e6:.2f} | {row['floor_us']:,.0f} ({row['floor_beyond_us']:,.0f})"
        f" | {row['over_floor']:.1f} |"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each case is measured")
    parser.add_argument("--only", default="", help="one network, such as 50-128-128-10")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--docs", type=Path, help="write the table into this page")
    return parser.parse_args()


if __name__ == "__main__":
    main()
