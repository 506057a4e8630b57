"""Time of one offline gradient by rule, compared with two rivals in the same run:

jax.grad     plain `jax.grad` through a `lax.scan` over time steps of the same network, as written by hand
per step     the sum over time of our per-step form, with a dense trace per weight

    python benchmarks/offline.py                          # 700-512-512-20, T 50, batch 32
    python benchmarks/offline.py --sizes 50 128 128 10 --batch 128

The gradient of every rival is checked before it is timed. All take turns in random order in every
round, so that a slow moment of the machine affects all of them. The results are medians and their ratio to our BPTT.
Prints a table. With `--json FILE`, writes the numbers.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import otpe
from otpe import testing
from otpe.testing import oracles


def main() -> None:
    args = arguments()
    net = otpe.dense(args.sizes)
    params = net.init(jax.random.key(0))
    spikes, labels = mini_batch(args)
    spikes, labels = jnp.asarray(spikes), jnp.asarray(labels)
    live = [float(s.mean()) for s in net.record(params, spikes)]

    runs = contestants(net, args.rules, args.skip_per_step)
    compile_seconds = {name: seconds(run, params, spikes, labels) for name, run in runs.items()}
    check_rivals(runs, params, spikes, labels)

    times: dict[str, list[float]] = {name: [] for name in runs}
    shuffle = np.random.default_rng(0)
    for _ in range(args.rounds):
        for name in shuffle.permutation(list(runs)):
            seconds(runs[name], params, spikes, labels)  # warm-up: another contestant used the caches
            times[name].append(seconds(runs[name], params, spikes, labels))
    report(args, live, compile_seconds, {name: float(np.median(t)) for name, t in times.items()})


def contestants(net: otpe.Network, rules: list[str], skip_per_step: bool) -> dict[str, Callable[..., Any]]:
    """Return functions of (params, spikes, labels). All are jitted alike, so none has extra cost for checks."""
    runs = {rule: jax.jit(partial(otpe.gradients, net, rule=rule)) for rule in rules}
    runs["jax.grad"] = jax.jit(partial(oracles.autodiff, net))
    if not skip_per_step:
        runs["otpe per step"] = jax.jit(partial(otpe.gradients, net, rule="otpe", form="steps", traces="dense"))
    return runs


def check_rivals(runs: dict[str, Callable[..., Any]], *args: Any) -> None:
    for rival, ours in (("jax.grad", "bptt"), ("otpe per step", "otpe")):
        if rival in runs:
            error = testing.relative_error(runs[rival](*args)[1], runs[ours](*args)[1])
            print(f"{rival} against our {ours}: relative error {error:.1e}")
            if not error < 1e-3:
                raise SystemExit(f"{rival} does not compute the gradient of our {ours}; nothing was timed.")


def seconds(run: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run(*args))
    return time.perf_counter() - start


def mini_batch(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    spikes = rng.random((args.steps, args.batch, args.sizes[0])) < args.rate
    return spikes.astype(np.float32), rng.integers(0, args.sizes[-1], args.batch)


def report(args: argparse.Namespace, live: list[float], compile_seconds: dict[str, float], medians: dict) -> None:
    print(f"\n{'-'.join(map(str, args.sizes))}, T {args.steps}, batch {args.batch}, {jax.devices()[0].device_kind}")
    print("spike rate by layer: " + " ".join(f"{rate:.3f}" for rate in live))
    print(f"\n{'':20}{'ms':>10}{'/ our bptt':>12}{'first call s':>14}")
    for name, median in medians.items():
        print(f"{name:20}{1e3 * median:10.2f}{median / medians['bptt']:12.2f}{compile_seconds[name]:14.2f}")
    if args.json:
        result = {
            "sizes": args.sizes, "steps": args.steps, "batch": args.batch, "rounds": args.rounds,
            "device": jax.devices()[0].device_kind, "machine": platform.machine(), "jax": jax.__version__,
            "otpe": otpe.__version__, "spike_rate": live, "median_seconds": medians,
            "first_call_seconds": compile_seconds,
        }  # fmt: skip
        args.json.write_text(json.dumps(result, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[700, 512, 512, 20])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.2, help="share of input units that spike in a step")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rules", nargs="+", default=[r for r in otpe.rules() if r != "rtrl"])
    parser.add_argument("--skip-per-step", action="store_true", help="omit the slow rival")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    args = parser.parse_args()
    args.rules = list(dict.fromkeys(["bptt", "otpe", *args.rules]))
    return args


if __name__ == "__main__":
    main()
