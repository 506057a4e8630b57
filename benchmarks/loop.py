"""Cost of the training loop compared with bare gradients and updates, without evaluation.

    python benchmarks/loop.py                       # 2 cores: about three minutes
    python benchmarks/loop.py --json benchmarks/results/loop-cpu.json

Three ways to learn from the same mini-batches take turns in every round:
  bare     the shortest loop: a jitted lax.scan over mini-batches, gradients, updates, losses
  given    the same without making or gathering mini-batches: it learns from one given mini-batch at every step
  otpe     otpe.train: blocks of steps, guards, metrics, progress. Not counted: the time of evaluations (measured
           separately) and the work done once per run: last checkpoint, test, result ("finish")
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe
from otpe.lab.bench.points import call_seconds
from otpe.lab.runs import loop
from otpe.lab.runs.train import prepared

RATE = 1e-3


class Case(NamedTuple):
    name: str
    data: str
    mode: str
    seeds: int
    steps: dict[str, int]  # mini-batches of a turn: about a second on either machine


CASES = [
    Case("T-Randman 50-128-128-10, offline", "randman", "offline", 1, {"cpu": 300, "gpu": 6000}),
    Case("T-Randman 50-128-128-10, offline, 4 networks", "randman", "offline", 4, {"cpu": 100, "gpu": 4000}),
    Case("T-Randman 50-128-128-10, online", "randman", "online", 1, {"cpu": 40, "gpu": 800}),
    Case("recordings 700-512-512-20, offline", "recordings", "offline", 1, {"cpu": 20, "gpu": 4000}),
]


def main() -> None:
    args = arguments()
    numbers = {"command": " ".join(["python", *sys.argv]), "otpe": otpe.__version__, "jax": jax.__version__}
    numbers |= {"device": jax.devices()[0].device_kind, "rule": args.rule, "precision": args.precision, "cases": []}
    print(f"{'milliseconds a mini-batch':46}{'given':>9}{'bare':>9}{'otpe':>9}{'otpe/bare':>11}{'finish':>9}")
    for case in CASES:
        steps = case.steps["cpu" if jax.default_backend() == "cpu" else "gpu"]
        row = measure(case, steps, args)
        numbers["cases"].append({"case": case.name, "steps": steps, **row})
        print(
            f"{case.name:46}{row['given']:9.4g}{row['bare']:9.4g}{row['otpe']:9.4g}{row['over bare']:11.3f}"
            f"{row['finish']:9.4g}",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(numbers, indent=1) + "\n")


def measure(case: Case, steps: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return medians over rounds in milliseconds, and the median of the ratios within a round."""
    splits, net = material(case.data)
    config = otpe.TrainConfig(
        rule=args.rule, mode=case.mode, steps=steps, seeds=case.seeds, eval_every=min(100, steps),
        precision=args.precision, test_samples=128, learning_rate=RATE,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as out:
        ways = {
            "given": hand_written(case, net, splits.train, steps, args, fresh=False),
            "bare": hand_written(case, net, splits.train, steps, args),
            "otpe": ours(config, net, splits, Path(out)),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        finish = []
        for way in ways.values():
            way()  # compiles
        for _ in range(args.rounds):
            for name in np.random.default_rng().permutation(list(ways)):
                taken, once = ways[name]()
                times[name].append(taken / steps * 1e3)
                finish += [once] if name == "otpe" else []
    ratios = np.array(times["otpe"]) / np.array(times["bare"])
    medians = {name: float(np.median(taken)) for name, taken in times.items()}
    ratio = float(np.median(ratios))
    return {**medians, "over bare": ratio, "ratios": ratios.round(3).tolist(), "finish": float(np.median(finish) * 1e3)}


def hand_written(
    case: Case, net: otpe.Network, data: Any, steps: int, args: argparse.Namespace, fresh: bool = True
) -> Callable[[], tuple[float, float]]:
    optimizer = optax.adamax(RATE)

    def one(data: Any, seed: Any, state: Any, i: Any) -> Any:
        params, opt_state = state
        spikes, labels = data.batch(seed, i, 128) if fresh else data
        if case.mode == "online":
            params, opt_state, losses = otpe.online_pass(
                net, params, opt_state, spikes, labels, rule=args.rule, optimizer=optimizer, precision=args.precision
            )
            return (params, opt_state), losses.mean()
        loss, grads = otpe.gradients(net, params, spikes, labels, rule=args.rule, precision=args.precision)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), loss

    @jax.jit
    def block(data: Any, state: Any) -> Any:
        if case.seeds == 1:
            return jax.lax.scan(lambda state, i: one(data, 0, state, i), state, jnp.arange(steps))
        each = jax.vmap(partial(one, data), in_axes=(0, 0, None))
        seeds = jnp.arange(case.seeds)
        return jax.lax.scan(lambda state, i: each(seeds, state, i), state, jnp.arange(steps))

    recipe_seeds = jnp.arange(case.seeds, dtype=jnp.uint32)
    keys = [jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), loop.FOR_WEIGHTS) for seed in recipe_seeds]
    params = [net.init(key, jnp.float32) for key in keys]
    params = params[0] if case.seeds == 1 else jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    init = optimizer.init if case.seeds == 1 else jax.vmap(optimizer.init)
    state, given = (params, init(params)), data if fresh else data.batch(0, 0, 128)

    return lambda: (call_seconds(partial(block, given, state)), 0.0)


def ours(
    config: otpe.TrainConfig, net: otpe.Network, splits: otpe.Splits, out: Path
) -> Callable[[], tuple[float, float]]:
    def run() -> tuple[float, float]:
        run = prepared(replace(config, out=out / str(time.perf_counter_ns())), data=splits, net=net)
        run.compile()
        finishing: list[float] = []

        def finish(plain: Callable, *args: Any) -> Any:
            began = time.perf_counter()
            found = plain(*args)
            finishing.append(time.perf_counter() - began)
            return found

        run.compile = lambda: None  # it is compiled already
        run._finish = partial(finish, run._finish)
        run._save = partial(finish, run._save)
        began = time.perf_counter()
        run()
        taken = time.perf_counter() - began - sum(finishing)
        validate = partial(loop.score, run.recipe.setup, run.recipe.validation_set, splits.valid, run.state.params)
        evaluations = config.steps // config.eval_every
        return taken - evaluations * min(call_seconds(validate) for _ in range(5)), sum(finishing)

    return run


def material(name: str) -> tuple[otpe.Splits, otpe.Network]:
    if name == "randman":
        data = otpe.datasets.randman("time")
        return otpe.Splits(data, data, data), otpe.dense([50, 128, 128, 10])
    random = np.random.default_rng(0)
    spikes, labels = random.random((50, 1000, 700)) < 0.12, np.arange(1000) % 20
    data = otpe.datasets.from_arrays(spikes, labels)
    few = data.subset(np.arange(128))
    return otpe.Splits(data, few, few), otpe.dense([700, 512, 512, 20])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", default="otpe")
    parser.add_argument("--precision", default="float32", choices=["float32", "tf32", "bf16"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
