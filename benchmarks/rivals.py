"""Compares otpe with other libraries: time of one mini-batch gradient (loss and gradient of every weight).

    python benchmarks/rivals.py                                        # both sizes, whatever is installed
    python benchmarks/rivals.py --sizes 50 128 128 10 --rivals snntorch slax
    python benchmarks/rivals.py --elsewhere braintrace=/path/to/python  # also a library of another environment

All get the same weights and spikes, which are on the device in their layout before the clock starts. Each is checked
first: the gradient of every kernel, on a network whose layers all spike, must equal that of our rule of the same
mathematics. A library with another result is listed with its error and gets no ratio. All take turns in random order.
A warm-up call precedes each timed call. After `--limit` seconds of calls, a library gets no more rounds. If its first
call alone takes longer, it has no warm-up calls. The results are medians. A library that is not installed is omitted,
and a line says how to install it.
"""

import argparse
import importlib.util
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave room for torch on a GPU

import jax
import jax.numpy as jnp
import numpy as np
from contestants import OURS, RIVALS, Contestant, Problem
from contestants.elsewhere import Elsewhere

import otpe
from otpe import testing

TOLERANCE = 1e-3  # for float32: one spike on the other side of the threshold changes about 1e-4


def main() -> None:
    args = arguments()
    results = []
    for sizes in args.sizes:
        results.append(measure(args, sizes))
        if args.json:  # after each size, so that an interrupted run leaves its results
            args.json.write_text(json.dumps({"machine": machine(), "runs": results}, indent=1) + "\n")


def measure(args: argparse.Namespace, sizes: list[int]) -> dict[str, Any]:
    problem, rates = live_problem(args, sizes)
    print(f"\n{'-'.join(map(str, sizes))}, T {args.steps}, batch {args.batch}, spike rate by layer", *rates)
    ours = OURS.contestants(problem)
    theirs, versions, absent, others = gather(args, problem)
    rows = {c.name: first_call(c) for c in (*ours, *theirs)}
    if broken := [rows[c.name]["error"] for c in ours if "error" in rows[c.name]]:
        raise SystemExit(f"ours did not run, so there is nothing to compare with: {broken[0]}")
    check(rows, ours)
    race([c for c in (*ours, *theirs) if "error" not in rows[c.name]], rows, args)
    compare(rows)
    report(rows, absent)
    for other in others:
        other.close()
    jax.clear_caches()
    return {
        "sizes": sizes, "steps": args.steps, "batch": args.batch, "rounds": args.rounds, "limit_seconds": args.limit,
        "spike_rate": rates, "versions": versions, "absent": absent,
        "contestants": {name: {k: v for k, v in row.items() if k != "kernels"} for name, row in rows.items()},
    }  # fmt: skip


def live_problem(args: argparse.Namespace, sizes: list[int]) -> tuple[Problem, list[float]]:
    net = otpe.dense(sizes)
    params = net.init(jax.random.key(0), jnp.float32)
    rng = np.random.default_rng(0)
    spikes = (rng.random((args.steps, args.batch, sizes[0])) < args.rate).astype(np.float32)
    rates = [round(float(s.mean()), 4) for s in net.record(params, spikes)]
    if not min(rates) > 0:
        raise SystemExit(f"a layer is silent, so a comparison would be meaningless: {rates}. Raise --rate or --batch.")
    kernels, biases = [np.asarray(p.kernel) for p in params], [np.asarray(p.bias) for p in params]
    labels = rng.integers(0, sizes[-1], args.batch)
    return Problem(kernels, biases, spikes, labels, net.neurons[0].leak), rates


def gather(args: argparse.Namespace, problem: Problem) -> tuple[list[Contestant], dict, dict, list[Elsewhere]]:
    """Return the contestants, versions of libraries that run, reasons for those that do not, and processes to end."""
    made, versions, absent, others = [], {"otpe": otpe.__version__, "jax": jax.__version__}, {}, []
    for name in args.rivals:
        library = RIVALS[name]
        if importlib.util.find_spec(library.package) is None:
            absent[name] = f"not installed: {library.install}"
            continue
        try:
            made += library.contestants(problem)
            versions[library.package] = library.version()
        except Exception as error:
            absent[name] = summary(error)
    for name, python in args.elsewhere:
        try:
            others.append(Elsewhere(name, python, problem))
            version, there = others[-1].contestants()
            made += there
            versions[f"{name}, elsewhere"] = version
        except Exception as error:
            absent[f"{name}, elsewhere"] = summary(error)
    return made, versions, absent, others


def first_call(contestant: Contestant) -> dict[str, Any]:
    row: dict[str, Any] = {"rule": contestant.rule, "note": contestant.note}
    print(f"first call of {contestant.name}", file=sys.stderr, flush=True)
    try:
        start = time.perf_counter()
        result = contestant.run()
        row["first_call_seconds"] = time.perf_counter() - start
        row["kernels"] = contestant.kernels(result)
    except Exception as error:
        row["error"] = summary(error)
    return row


def check(rows: dict[str, dict], ours: list[Contestant]) -> None:
    """Set the relative error of each kernel's gradient, compared with our same rule."""
    for name, row in rows.items():
        if "error" in row or name in [c.name for c in ours]:
            continue
        pairs = zip(row["kernels"], rows[f"otpe {row['rule']}"]["kernels"], strict=True)
        row["relative_errors"] = [testing.relative_error(given, expected) for given, expected in pairs]
        row["same"] = bool(max(row["relative_errors"]) < TOLERANCE)  # also False for NaN


def race(contestants: list[Contestant], rows: dict[str, dict], args: argparse.Namespace) -> None:
    shuffle = np.random.default_rng(0)
    times: dict[str, list[float]] = {c.name: [] for c in contestants}
    spent = dict.fromkeys(times, 0.0)
    for done in range(args.rounds):
        print(f"round {done + 1} of {args.rounds}", file=sys.stderr, flush=True)
        for i in shuffle.permutation(len(contestants)):
            c = contestants[i]
            if spent[c.name] < args.limit:
                very_slow = rows[c.name]["first_call_seconds"] > args.limit  # so long a call needs no warm-up
                warm_up = 0.0 if very_slow else seconds(c)
                timed = seconds(c)
                spent[c.name] += warm_up + timed
                times[c.name].append(timed)
    for name, t in times.items():
        rows[name] |= {"median_seconds": float(np.median(t)), "timed_calls": len(t), "seconds": t}


def seconds(contestant: Contestant) -> float:
    start = time.perf_counter()
    contestant.run()
    return time.perf_counter() - start


def compare(rows: dict[str, dict]) -> None:
    for row in rows.values():
        if row.get("same"):
            row["ratio"] = row["median_seconds"] / rows[f"otpe {row['rule']}"]["median_seconds"]


def report(rows: dict[str, dict], absent: dict[str, str]) -> None:
    print(f"\n{'':40}{'ms':>10}{'best':>10}{'calls':>7}{'first s':>9}  {'/ ours':<15}relative error")
    for name, row in rows.items():
        if "error" in row:
            print(f"{name:40}did not run: {row['error']}")
            continue
        median, best = 1e3 * row["median_seconds"], 1e3 * min(row["seconds"])
        line = f"{name:40}{median:10.2f}{best:10.2f}{row['timed_calls']:7}{row['first_call_seconds']:9.2f}  "
        if "same" in row:
            errors = " ".join(f"{e:.0e}" for e in row["relative_errors"])
            ratio = f"{row['ratio']:.2f} {row['rule']}" if row["same"] else "-"
            line += f"{ratio:<15}{errors}" + ("" if row["same"] else f"  computes something else than {row['rule']}")
        print(line)
    for name, why in absent.items():
        print(f"{name:40}{why}")


def summary(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}"[:300]


def machine() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    about = {"device": jax.devices()[0].device_kind, "machine": platform.machine(), "cores": cores}
    about |= {"python": platform.python_version(), "numpy": np.__version__}
    if importlib.util.find_spec("torch"):
        import torch

        about |= {"torch": torch.__version__, "torch_threads": cores}
    return about


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", action="append", help="units of all layers; can be repeated")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=0.2, help="share of input units that spike in a step")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds after which a contestant gets no more rounds"
    )
    default = [name for name in RIVALS if name != "slax-loop"]
    parser.add_argument("--rivals", nargs="*", choices=RIVALS, default=default, metavar="NAME", help=", ".join(RIVALS))
    parser.add_argument("--elsewhere", type=name_and_python, nargs="*", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    args = parser.parse_args()
    args.sizes = args.sizes or [[50, 128, 128, 10], [700, 512, 512, 20]]
    return args


def name_and_python(text: str) -> tuple[str, str]:
    name, _, python = text.partition("=")
    if name not in RIVALS or not python:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=PYTHON with NAME one of {', '.join(RIVALS)}")
    return name, python


if __name__ == "__main__":
    main()
