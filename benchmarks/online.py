"""Time of one online step (advance, gradient, Adamax update): dense against factored traces, and the choice of "auto".

    python benchmarks/online.py                      # a grid of square layers, rule otpe
    python benchmarks/online.py --widths 512 --batches 128 --steps 50

Dense traces move 2 · width² numbers per sample at every step. Factored traces move 2 · steps · width
numbers and multiply (steps · batch) × width by width. The choice of `traces="auto"` is based on this grid. Both give
the same gradient, which is checked before anything is timed.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import jax
import numpy as np
import optax

import otpe
from otpe.testing import relative_error

OPTIMIZER = optax.adamax(1e-4)


def main() -> None:
    args = arguments()
    print(
        f"{args.rule}, one hidden layer as wide as the input, {jax.devices()[0].device_kind}; microseconds per step\n"
    )
    print(f"{'width':>6}{'batch':>6}{'steps':>6}{'dense':>10}{'factored':>10}{'factored/dense':>16}  auto takes")
    rows = []
    for width, batch, steps in itertools.product(args.widths, args.batches, args.steps):
        if 2 * 2 * 4 * width**2 * batch < args.max_gb * 1e9:
            rows.append(measure(args.rule, width, batch, steps, args.seconds))
    missed = [row["slower_by"] for row in rows if row["slower_by"] > 1]
    print(f"\nauto took the slower one {len(missed)} times of {len(rows)}, at worst {max(missed, default=1):.2f} ×.")
    if args.json:
        args.json.write_text(json.dumps({"device": jax.devices()[0].device_kind, "rows": rows}, indent=1) + "\n")


def measure(rule: str, width: int, batch: int, steps: int, budget: float) -> dict:
    net = otpe.dense([width, width, width])
    rng = np.random.default_rng(0)
    spikes = jax.numpy.asarray(rng.random((steps, batch, width)) < 0.2, "float32")
    labels = jax.numpy.asarray(rng.integers(0, width, batch))
    params = net.init(jax.random.key(0))
    opt_state = OPTIMIZER.init(params)

    times = {"dense": [], "factored": []}

    def learn(traces: str):
        return otpe.online_pass(net, params, opt_state, spikes, labels, rule=rule, optimizer=OPTIMIZER, traces=traces)

    # Compare at fixed weights: when weights change, rounding flips a spike sooner or later.
    summed = [otpe.gradients(net, params, spikes, labels, rule=rule, form="steps", traces=kind) for kind in times]
    error = relative_error(*summed)
    for traces in times:
        learn(traces)
    if not error < 1e-4:
        raise SystemExit(f"dense and factored traces disagree by {error:.1e}; nothing was timed.")
    end = time.perf_counter() + budget
    while len(times["dense"]) < 3 or time.perf_counter() < end:
        for traces, taken in times.items():
            start = time.perf_counter()
            jax.block_until_ready(learn(traces))
            taken.append(time.perf_counter() - start)
    micro = {traces: 1e6 * float(np.median(taken)) / steps for traces, taken in times.items()}
    kind = type(otpe.stepper(net, rule, batch=batch, steps=steps).traces[0]).__name__
    auto = {"WeightTraces": "dense", "FactoredTraces": "factored"}[kind]
    ratio = micro["factored"] / micro["dense"]
    print(
        f"{width:6}{batch:6}{steps:6}{micro['dense']:10.0f}{micro['factored']:10.0f}{ratio:16.2f}  {auto}", flush=True
    )
    return {"width": width, "batch": batch, "steps": steps, "microseconds": micro, "auto": auto,
            "slower_by": micro[auto] / min(micro.values())}  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", default="otpe", choices=["ostl", "otpe", "f-otpe", "deep-otpe", "f-deep-otpe"])
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 128, 256, 512])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--steps", type=int, nargs="+", default=[20, 50, 200])
    parser.add_argument("--seconds", type=float, default=1.0, help="how long to repeat each point")
    parser.add_argument("--max-gb", type=float, default=1.0, help="omit points whose dense traces are larger")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
