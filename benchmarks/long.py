"""An offline gradient over a long sequence, at once and in chunks: memory as planned by XLA, time, and agreement.

    python benchmarks/long.py                                  # T 20,000, 128-256-256-10, batch 4
    python benchmarks/long.py --steps 1000 5000 20000 --json benchmarks/results/long-cpu.json

The chunked gradient needs memory for one chunk, and for one state per chunk. The per-step form needs neither: its
state has the same size after any number of steps.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np

import otpe
from otpe.testing import relative_error


def main() -> None:
    args = arguments()
    net = otpe.dense(args.sizes)
    params = net.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    rows = []
    state = otpe.state_bytes(net, args.rule, batch=args.batch).total
    print(f"{args.rule}, {'-'.join(map(str, args.sizes))}, batch {args.batch}, chunks of {args.chunk}")
    print(f"state of the per-step form, at any T: {state / 1e6:.1f} MB\n")
    print(f"{'T':>7}{'':>9}{'working MB':>12}{'seconds':>9}{'relative error':>16}")
    for steps in args.steps:
        spikes = jax.numpy.asarray(rng.random((steps, args.batch, args.sizes[0])) < 0.2)
        labels = jax.numpy.asarray(rng.integers(0, args.sizes[-1], args.batch))
        expected = None
        for name, chunk in (("at once", steps), ("chunks", args.chunk)):
            gradients = jax.jit(partial(otpe.gradients, net, rule=args.rule, chunk=chunk))
            compiled = gradients.lower(params, spikes, labels).compile()
            working = compiled.memory_analysis().temp_size_in_bytes
            start = time.perf_counter()
            given = jax.block_until_ready(compiled(params, spikes, labels))
            taken = time.perf_counter() - start
            error = relative_error(given, expected) if expected else 0.0
            expected = given
            print(f"{steps:7}{name:>9}{working / 1e6:12.1f}{taken:9.2f}{error:16.1e}", flush=True)
            rows.append({"steps": steps, "how": name, "working_bytes": working, "seconds": taken, "error": error})
    if args.json:
        about = {"rule": args.rule, "sizes": args.sizes, "batch": args.batch, "chunk": args.chunk,
                 "device": jax.devices()[0].device_kind, "state_bytes": state}  # fmt: skip
        args.json.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", default="otpe")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 256, 256, 10])
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--chunk", type=int, default=200)
    parser.add_argument("--steps", type=int, nargs="+", default=[20_000])
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
