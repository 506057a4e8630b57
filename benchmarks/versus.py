"""Two versions of the source do the same work in turns. Prints the speed of the new one relative to the old one.

    git worktree add ../old some-commit
    python benchmarks/versus.py ../old/src src                                # all cases: about ten minutes
    python benchmarks/versus.py ../old/src src --cases learn_one --rounds 30
    python benchmarks/versus.py ../old/src src --cases offline --batch 128    # gradients of mini-batches, by rule
    python benchmarks/versus.py ../old/src src --cases online --seconds 1     # an optimizer update per time step
    python benchmarks/versus.py ../old/src src --cases o --batch 128 --loop 50    # on a GPU

Each version has its own process, and only one of them works at a time. A round is a fraction of a second, and
the order changes from round to round, so that disturbances affect both alike. The result is the median over the
rounds of new / old, in steps per second, with its quartiles. A step is a time step of a stream or a mini-batch.
With `--loop`, so many mini-batches with their Adamax updates are one program, and spikes have 8 bits. Otherwise Python
calls each mini-batch, which on a GPU takes longer than the mini-batch itself.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL, LARGE = (50, 128, 128, 10), (700, 512, 512, 20)
CASES = {f"{how}-{name}": (how, sizes) for how in ("learn_one", "learn_many") for name, sizes in
         (("small", SMALL), ("large", LARGE))}  # fmt: skip
CASES["stream"] = ("stream", SMALL)
CASES |= {
    f"{mode}-{rule}-{name}": (mode, sizes, rule)
    for mode, rules in (
        ("offline", ("bptt", "otpe", "approx-otpe", "ottt")),
        ("online", ("ostl", "otpe", "approx-otpe")),
    )
    for rule in rules
    for name, sizes in (("small", SMALL), ("large", LARGE))
}
BLOCK = 128
STEPS = 50  # time steps of a mini-batch


def main() -> None:
    args = arguments()
    workers = {name: start(src, args) for name, src in (("old", args.old), ("new", args.new))}
    numbers = {"command": " ".join(["python", *sys.argv]), "rounds": args.rounds, "cases": {}}
    for case in CASES:
        if not case.startswith(args.cases):
            continue
        for worker in workers.values():
            ask(worker, case, 0.2)  # compiles
        ratios, speeds = [], {"old": [], "new": []}
        for i in range(args.rounds):
            one = {
                name: ask(workers[name], case, args.seconds) for name in (("old", "new") if i % 2 else ("new", "old"))
            }
            ratios.append(one["new"] / one["old"])
            for name, speed in one.items():
                speeds[name].append(speed)
        low, ratio, high = quartiles(ratios)
        old, new = (quartiles(speeds[name])[1] for name in ("old", "new"))
        numbers["cases"][case] = {"ratio": ratio, "quartiles": [low, high], "old": old, "new": new}
        print(f"{case:18} new/old {ratio:.3f}  ({low:.3f} to {high:.3f})  {old:,.0f} -> {new:,.0f} steps/s", flush=True)
    if args.json:
        args.json.write_text(json.dumps(numbers, indent=1) + "\n")
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, help="the src folder of the old version")
    parser.add_argument("new", type=Path, help="the src folder of the new version")
    parser.add_argument("--cases", default="", help=f"cases that start with these names: {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.5, help="seconds of a round")
    parser.add_argument("--batch", type=int, default=32, help="samples of a mini-batch, offline and online")
    parser.add_argument("--loop", type=int, default=0, help="mini-batches in one program; 0: one call for each")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def start(src: Path, args: argparse.Namespace) -> Any:
    if not (src / "otpe").is_dir():
        raise SystemExit(f"{src} contains no otpe, expected the src folder of a version.")
    share = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # two processes share a GPU
    environment = {**share, **os.environ, "PYTHONPATH": str(src.resolve())}
    command = [sys.executable, __file__, "--worker", str(args.batch), str(args.loop)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(worker: Any, case: str, seconds: float) -> float:
    worker.stdin.write(f"{case} {seconds}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def quartiles(values: list[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 4], ordered[len(ordered) // 2], ordered[3 * len(ordered) // 4]


def work(batch: int, loop: int) -> None:
    """Run one of the two processes. Each input line requests a round; the answer is its steps per second."""
    rounds: dict[str, Callable[[float], float]] = {}
    for line in sys.stdin:
        case, seconds = line.split()
        if case not in rounds:
            rounds[case] = measure(batch, loop, *CASES[case])
        print(rounds[case](float(seconds)), flush=True)


def measure(batch: int, loop: int, how: str, sizes: tuple[int, ...], *more: str) -> Callable[[float], float]:
    if how == "stream":
        return stream()
    return mini_batches(batch, loop, how, sizes, *more) if more else learner(how, sizes)


def mini_batches(batch: int, loop: int, mode: str, sizes: tuple[int, ...], rule: str) -> Callable[[float], float]:
    import jax
    import numpy as np
    import optax

    import otpe

    net, optimizer = otpe.dense(sizes), optax.adamax(1e-3)
    params = net.init(jax.random.key(0))
    rng = np.random.default_rng(0)
    spikes = jax.numpy.asarray(rng.random((STEPS, batch, sizes[0])) < 0.1, params[0].kernel.dtype)
    labels = jax.numpy.asarray(rng.integers(0, sizes[-1], batch))
    state = optimizer.init(params)

    def one() -> None:
        if loop:
            done = many(params, state, spikes.astype("uint8"))
        elif mode == "offline":
            done = otpe.gradients(net, params, spikes, labels, rule=rule)
        else:
            done = otpe.online_pass(net, params, state, spikes, labels, rule=rule, optimizer=optimizer)
        jax.block_until_ready(done)

    @jax.jit
    def many(params: Any, state: Any, spikes: Any) -> Any:
        def mini_batch(carry: Any, _: None) -> Any:
            params, state = carry
            if mode == "online":
                params, state, _ = otpe.online_pass(
                    net, params, state, spikes, labels, rule=rule, optimizer=optimizer, precision="tf32"
                )
                return (params, state), None
            _, grads = otpe.gradients(net, params, spikes, labels, rule=rule, precision="tf32")
            updates, state = optimizer.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(mini_batch, (params, state), length=loop)[0]

    def measured(seconds: float) -> float:
        one()
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            one()
            steps += loop or 1
        return steps / (time.perf_counter() - began)

    return measured


def learner(how: str, sizes: tuple[int, ...]) -> Callable[[float], float]:
    import numpy as np

    import otpe

    one = otpe.StreamLearner(otpe.dense(sizes), "otpe")
    rng = np.random.default_rng(0)
    xs = (rng.random((BLOCK, sizes[0])) < 0.1).astype(np.float32)
    labels = rng.integers(0, sizes[-1], BLOCK)

    def measured(seconds: float) -> float:
        began, steps = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            if how == "learn_many":
                one.learn_many(xs, labels)
                steps += BLOCK
            else:
                for x, label in zip(xs[:32], labels.tolist()[:32], strict=True):
                    one.learn_one(x, label)
                steps += 32
        return steps / (time.perf_counter() - began)

    return measured


def stream() -> Callable[[float], float]:
    """Run `otpe stream t-randman`. Its reported time excludes compilation."""
    try:
        from otpe.lab.settings import StreamConfig
        from otpe.stream.session import run
    except ModuleNotFoundError:  # versions before otpe.lab
        settings, command = map(importlib.import_module, ("otpe.stream.command.config", "otpe.stream.command.run"))
        StreamConfig, run = settings.StreamConfig, command.run

    def measured(seconds: float) -> float:
        with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
            terminal, sys.stderr = sys.stderr, nowhere
            try:
                config = StreamConfig(source="t-randman", steps=int(20_000 * seconds), out=Path(folder) / "run")
                done = run(config)
            finally:
                sys.stderr = terminal
            return done.place.steps / done.place.seconds

    return measured


if __name__ == "__main__":
    work(int(sys.argv[2]), int(sys.argv[3])) if sys.argv[1:2] == ["--worker"] else main()
