"""Speed of data: Randman against direct evaluation, its share of a training step, recordings from disk and cache.

    python benchmarks/data.py --json benchmarks/results/data-cpu.json
    python benchmarks/data.py --root data/shd --json benchmarks/results/data-cpu.json

randman      a mini-batch of 128 in the authors' protocol, drawn by look-up and by evaluating the formula, both jitted
training     steps of 50-128-128-10, T 50, batch 128, inside one jitted scan: on the same batch at every step, and on
             a new batch at every step. The difference is the cost of the data
shapes       a mini-batch of 32 moving shapes, T 50, on 34 × 34 pixels
recordings   with --root: all files in it, read and binned; the same from the cache; and through tonic, if installed
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe
from otpe.datasets import heidelberg, manifolds
from otpe.datasets.dataset import shuffled
from otpe.lab.bench.points import race

OPTIMIZER = optax.adamax(1e-3)
POINTS, BATCH = 1000, 128


def main() -> None:
    args = arguments()
    result: dict[str, Any] = {"device": jax.devices()[0].device_kind, "cores": os.cpu_count(), "jax": jax.__version__}
    parts: dict[str, Callable[[argparse.Namespace], Any]] = {"shapes": shapes, "randman": randman, "training": training}
    if args.only:
        parts = {name: parts[name] for name in args.only}
    if args.root:
        parts["recordings"] = recordings
    for name, part in parts.items():
        print(f"\n{name}", flush=True)
        result[name] = part(args)
        for what, value in result[name].items():
            print(f"  {what:58}{value:12.4g}")
        if args.json:
            args.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def randman(args: argparse.Namespace) -> dict[str, float]:
    began = time.perf_counter()
    sets = {encoding: otpe.datasets.randman(encoding) for encoding in ("time", "rate")}
    seconds = {"tables, made or read from the disk, s": time.perf_counter() - began}
    key = jax.random.key(0)
    calls = {f"{name}, ms": partial(data.sample, key, BATCH) for name, data in sets.items()}
    calls["fixed extremes, time, ms"] = partial(otpe.datasets.randman(standardize="fixed").sample, key, BATCH)
    for call in calls.values():
        jax.block_until_ready(call())
    seconds |= {name: 1e3 * times.median for name, times in race(calls, args.seconds).items()}
    if args.skip_direct:
        return seconds
    classes = [manifolds.coefficients(0, label, 50, 3, 1.0) for label in range(10)]
    coefficients = [jnp.asarray(np.stack([k[i] for k in classes]), jnp.float32) for i in range(3)]
    direct = partial(jax.jit(direct_evaluation), *coefficients, key)
    jax.block_until_ready(direct())
    seconds["direct evaluation, ms"] = 1e3 * min(timed(direct) for _ in range(2))
    seconds["direct / time"] = seconds["direct evaluation, ms"] / seconds["time, ms"]
    seconds["direct / rate"] = seconds["direct evaluation, ms"] / seconds["rate, ms"]
    return seconds


def shapes(args: argparse.Namespace) -> dict[str, float]:
    key, sets = jax.random.key(0), {label: otpe.datasets.moving_shapes(label) for label in ("direction", "shape")}
    calls = {f"{label}, ms": partial(data.sample, key, 32) for label, data in sets.items()}
    for call in calls.values():
        jax.block_until_ready(call())
    return {name: 1e3 * times.median for name, times in race(calls, args.seconds).items()}


def direct_evaluation(a: Any, b: Any, c: Any, key: Any) -> Any:
    """Evaluate the formula of T-Randman: 10 classes × 1,000 points × 50 units × 3 dimensions × 1,000 sines."""
    for_x, for_choice = jax.random.split(key)
    x = jax.random.uniform(for_x, (10, POINTS, 3))
    f = jnp.arange(a.shape[-1])

    def of_point(k: Any, x: Any) -> Any:
        a, b, c = k
        return (a / (f + 2) * jnp.sin(2 * jnp.pi * (f * x[:, None] * b + c))).sum(-1).prod(-1)

    def of_class(job: Any) -> Any:
        k, points = job
        return jax.lax.map(partial(of_point, k), points, batch_size=100)

    drawn = jax.lax.map(of_class, ((a, b, c), x))
    low, high = drawn.min(1), drawn.max(1)
    chosen = shuffled(for_choice, 10 * POINTS, jnp.arange(BATCH))
    label = chosen // POINTS
    return (drawn.reshape(-1, 50)[chosen] - low[label]) / (high - low)[label], label


def training(args: argparse.Namespace) -> dict[str, float]:
    net = otpe.dense([50, 128, 128, 10])
    params = net.init(jax.random.key(0))
    start = (params, OPTIMIZER.init(params))
    numbers: dict[str, float] = {}
    for encoding in ("time", "rate"):
        data = otpe.datasets.randman(encoding)
        one = data.batch(0, 0, BATCH)
        draw = {
            "on one batch": lambda data, step, one=one: one,
            "on fresh batches": lambda data, step: data.batch(0, step, BATCH),
        }
        calls = {name: partial(jax.jit(partial(block, net, batch, args)), data, start) for name, batch in draw.items()}
        for call in calls.values():
            jax.block_until_ready(call())
        times = {name: 1e3 * t.median / args.block for name, t in race(calls, args.seconds).items()}
        numbers |= {f"{encoding}: a step {name}, ms": ms for name, ms in times.items()}
        numbers[f"{encoding}: share of the data"] = 1 - times["on one batch"] / times["on fresh batches"]
    return numbers


def block(net: Any, batch: Any, args: argparse.Namespace, data: Any, start: Any) -> Any:
    """Run training steps inside one scan, as a training loop does."""

    def body(state: Any, step: Any) -> Any:
        params, opt_state = state
        spikes, labels = batch(data, step)
        loss, grads = otpe.gradients(net, params, spikes, labels, rule=args.rule, precision=args.precision)
        updates, opt_state = OPTIMIZER.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), loss

    return jax.lax.scan(body, start, jnp.arange(args.block))


def recordings(args: argparse.Namespace) -> dict[str, float]:
    """Measure reading through links in a temporary folder, so that the user's cache is not used."""
    numbers: dict[str, float] = {}
    paths = [path for split in ("train", "test") if (path := heidelberg.find(args.root, f"shd_{split}"))]
    if len(paths) < 2:
        raise SystemExit(f"{args.root} needs shd_train.h5 and shd_test.h5, or their zips; there is {paths}.")
    with tempfile.TemporaryDirectory() as own:
        links = [Path(own) / path.name for path in paths]
        for link, path in zip(links, paths, strict=True):
            link.symlink_to(path.resolve())
        binning = otpe.datasets.Binning(50)
        load = partial(heidelberg.load, units=700, binning=binning)
        for name in ("read, binned and kept, s", "from the cache, s"):
            began = time.perf_counter()
            read = [load(link) for link in links]
            numbers[name] = time.perf_counter() - began
        numbers["recordings"] = sum(len(part.labels) for part in read)
        numbers["cache, MB"] = sum(path.stat().st_size for path in Path(own, "otpe-cache").iterdir()) / 1e6
    if find_spec("tonic") and paths[1].suffix == ".h5":
        numbers |= through_tonic(paths[1])
    return numbers


def through_tonic(path: Path) -> dict[str, float]:
    """Read the test file recording by recording, as tonic's datasets do."""
    import h5py
    from tonic.io import make_structured_array
    from tonic.transforms import ToFrame

    to_frame, kind = ToFrame(sensor_size=(700, 1, 1), n_time_bins=50), np.dtype([("t", int), ("x", int), ("p", int)])
    began = time.perf_counter()
    with h5py.File(path) as file:
        times, units = file["spikes/times"][:], file["spikes/units"][:]
    for t, u in zip(times, units, strict=True):
        to_frame(make_structured_array(t.astype(np.float64) * 1e6, u, 1, dtype=kind))
    tonic = time.perf_counter() - began
    began = time.perf_counter()
    heidelberg.binned(path, 700, otpe.datasets.Binning(50), keep_empty=False)
    ours = time.perf_counter() - began
    return {"test file through tonic, s": tonic, "test file, ours, s": ours, "tonic / ours": tonic / ours}


def timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - began


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="a folder with shd_train.h5 and shd_test.h5, or their zips")
    parser.add_argument("--rule", default="otpe")
    parser.add_argument("--precision", default="tf32", help="precision of matrix products on a GPU")
    parser.add_argument("--block", type=int, default=50, help="training steps in one scan")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each contestant runs")
    parser.add_argument("--skip-direct", action="store_true", help="omit direct evaluation")
    parser.add_argument("--only", nargs="+", choices=["shapes", "randman", "training"], help="measure only these parts")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
