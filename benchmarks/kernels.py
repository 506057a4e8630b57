"""The GPU kernels of one online step: how many there are, and the microseconds of each.

    python benchmarks/kernels.py --json benchmarks/results/kernels-h200.json

Profiles two mini-batches of 700-512-512-20, T 50, batch 128, with an Adamax update per time step. The names of the
kernels are XLA's. Times under the profiler are a little longer than without it, so the time of a step is measured
first. Needs a GPU.
"""

import argparse
import glob
import gzip
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe

RULES = ("ottt", "approx-otpe", "otpe")
PASSES = 2  # mini-batches under the profiler


def main() -> None:
    args = arguments()
    if jax.default_backend() != "gpu":
        raise SystemExit("This needs a GPU: the profile lists the kernels of a GPU.")
    found = {}
    for rule in args.rules:
        learn, state = online(args, rule)
        micro, state = microseconds(learn, state, args)
        kernels = profile(learn, state, args)
        count, total = sum(n for n, _ in kernels.values()), sum(us for _, us in kernels.values())
        print(f"{rule}: {micro:.1f} µs a step; {count:.1f} kernels, {total:.1f} µs under the profiler")
        for name, (n, us) in kernels.items():
            print(f"  {n:6.2f} × {us / n:6.2f} µs  {name[:100]}")
        found[rule] = {"microseconds": micro, "kernels": kernels}
    if args.json:
        about = {"device": jax.devices()[0].device_kind, "jax": jax.__version__, "sizes": args.sizes}
        args.json.write_text(json.dumps({**about, "rules": found}, indent=1) + "\n")


def online(args: argparse.Namespace, rule: str) -> tuple[Callable[..., Any], Any]:
    """A jitted online pass over one mini-batch, and the parameters and optimizer state that it takes and returns."""
    rng, optimizer = np.random.default_rng(0), optax.adamax(1e-3)
    net = otpe.dense(args.sizes)
    params = tuple(p._replace(kernel=3 * p.kernel) for p in net.init(jax.random.key(0)))  # every layer spikes
    spikes = jnp.asarray(rng.random((args.steps, args.batch, args.sizes[0])) < 0.2, jnp.uint8)
    labels = jnp.asarray(rng.integers(0, args.sizes[-1], args.batch))
    one_pass = partial(otpe.online_pass, net, rule=rule, optimizer=optimizer, precision="tf32")

    @partial(jax.jit, donate_argnums=(0, 1))
    def learn(params: Any, opt_state: Any) -> Any:
        return one_pass(params, opt_state, spikes, labels)[:2]

    return learn, (params, optimizer.init(params))


def microseconds(learn: Callable[..., Any], state: Any, args: argparse.Namespace) -> tuple[float, Any]:
    """The median time of one time step, and the state after the measurement."""
    state, times = jax.block_until_ready(learn(*state)), []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(10):
            state = learn(*state)
        jax.block_until_ready(state)
        times.append((time.perf_counter() - start) / 10)
    return 1e6 * float(np.median(times)) / args.steps, state


def profile(learn: Callable[..., Any], state: Any, args: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """For each kernel, how often it runs in a time step and the microseconds it takes there. The longest is first."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(PASSES):
                state = jax.block_until_ready(learn(*state))
        events = [e for path in glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True) for e in read(path)]
    counts, durations = Counter(), Counter()
    for name, duration in events:
        counts[name] += 1
        durations[name] += duration
    steps = PASSES * args.steps
    return {name: (counts[name] / steps, total / steps) for name, total in durations.most_common()}


def read(path: str) -> list[tuple[str, float]]:
    """Name and microseconds of every kernel in a trace file."""
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    named = [e for e in events if e.get("ph") == "M"]
    processes = {e["pid"]: e["args"]["name"] for e in named if e["name"] == "process_name"}
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in named if e["name"] == "thread_name"}

    def is_kernel(e: Any) -> bool:
        on_gpu = "GPU" in processes.get(e["pid"], "")
        return e.get("ph") == "X" and on_gpu and "Stream" in threads.get((e["pid"], e.get("tid")), "")

    return [(e["name"], e["dur"]) for e in events if is_kernel(e)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rules", nargs="+", default=list(RULES), choices=otpe.rules())
    parser.add_argument("--sizes", type=int, nargs="+", default=[700, 512, 512, 20])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
