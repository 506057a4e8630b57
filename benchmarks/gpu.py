"""Training on one GPU: milliseconds of a mini-batch, Adamax update included, T 50, batch 128.

    python benchmarks/gpu.py --json benchmarks/results/gpu-h200.json

offline      one gradient and one update, by every rule, in tf32 and float32; a deeper network; four seeds under vmap
online       one pass of 50 updates
rivals       in the same run: `jax.grad` through a scan over time, our plain backend, and OTPE step by step with a
             trace per weight, which is what the published implementations do
exactness    relative error of the three matrix products against float64, beside a native float32 product

Every contestant is a jitted step with donated buffers, called in a loop as in training, without waiting in between.
They take turns in every round. The results are medians over rounds. Each gradient is compared with the plain float32
gradient before anything is timed.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe
from otpe import testing
from otpe.engine import Engine
from otpe.layers import products
from otpe.testing import oracles

OPTIMIZER = optax.adamax(1e-3)
SMALL, DEEP = (700, 512, 512, 20), (700, 512, 512, 512, 512, 20)
AUTHORS = {"offline otpe": 25.3, "online otpe": 21.5}  # ms: their published code on an H200, measured separately


def main() -> None:
    args = arguments()
    contestants, first_calls, errors = {}, {}, {}
    times: dict[str, list[float]] = {}
    for name, build in everything(args):
        step, state, check = build(np.random.default_rng(0), args)
        began = time.perf_counter()
        state = jax.block_until_ready(step(*copy(state)))
        first_calls[name] = time.perf_counter() - began
        if check is not None:
            errors[name] = check()
        taken, state = milliseconds(step, state, 2)
        contestants[name], times[name] = (step, state, max(2, round(args.turn / taken))), []
        error = f", relative error {errors[name]:.0e}" if name in errors else ""
        print(f"{name:44} first call {first_calls[name]:5.1f} s{error}", flush=True)
    for number in range(args.rounds):
        for name, (step, state, calls) in contestants.items():
            taken, state = milliseconds(step, state, calls)
            contestants[name] = (step, state, calls)
            times[name].append(taken)
        medians = {name: float(np.median(t)) for name, t in times.items()}
        report(args, number + 1, medians, first_calls, errors)


def everything(args: argparse.Namespace) -> list[tuple[str, Callable[..., Any]]]:
    rules = [rule for rule in otpe.rules() if rule != "rtrl"]
    offline = [(f"offline {r} tf32", partial(offline_step, SMALL, r, "tf32")) for r in rules]
    offline += [(f"offline {r} float32", partial(offline_step, SMALL, r, "float32")) for r in ("bptt", "otpe")]
    offline += [("offline otpe bf16", partial(offline_step, SMALL, "otpe", "bf16"))]
    deep = [(f"offline deep network {r} {p}", partial(offline_step, DEEP, r, p))
            for r, p in (("bptt", "tf32"), ("otpe", "tf32"), ("otpe", "float32"))]  # fmt: skip
    online = [(f"online {r} {p}", partial(online_step, r, p)) for p in ("tf32", "float32") for r in ("otpe", "ottt")]
    rivals = [
        ("rival jax.grad through a scan", partial(rival_step, oracles.autodiff, "bptt")),
        ("rival our plain backend, otpe", partial(rival_step, partial(otpe.gradients, backend="plain"), "otpe")),
        ("rival otpe step by step, dense traces", partial(rival_step, partial(
            otpe.gradients, form="steps", traces="dense", backend="plain"), "otpe")),
    ]  # fmt: skip
    seeds = [("offline otpe tf32, 4 seeds", partial(offline_step, SMALL, "otpe", "tf32", seeds=4))]
    return offline + deep + seeds + online + ([] if args.skip_rivals else rivals)


def problem(sizes: tuple[int, ...], rng: Any, args: argparse.Namespace, seeds: int | None = None) -> Any:
    net = otpe.dense(sizes)
    keys = jax.random.key(0) if seeds is None else jax.random.split(jax.random.key(0), seeds)
    params = net.init(keys) if seeds is None else jax.vmap(net.init)(keys)
    # Inputs must make every layer spike: a silent network has nothing to compute.
    params = tuple(p._replace(kernel=args.gain * p.kernel) for p in params)
    spikes = jnp.asarray(rng.random((args.steps, args.batch, sizes[0])) < 0.2, jnp.uint8)
    labels = jnp.asarray(rng.integers(0, sizes[-1], args.batch))
    one = params if seeds is None else jax.tree.map(lambda p: p[0], params)
    rates = [float(s.mean()) for s in net.record(one, spikes)]
    if min(rates) < 1e-3:
        raise SystemExit(f"a layer is silent (spike rates {rates}); raise --gain.")
    return net, params, spikes, labels


def offline_step(sizes, rule, precision, rng, args, seeds=None):
    net, params, spikes, labels = problem(sizes, rng, args, seeds)
    one = partial(otpe.gradients, net, rule=rule, precision=precision)
    gradients = one if seeds is None else jax.vmap(one, in_axes=(0, None, None))

    def check() -> float:
        plain = partial(otpe.gradients, net, rule=rule, backend="plain")
        plain = plain if seeds is None else jax.vmap(plain, in_axes=(0, None, None))
        return total_error(jax.jit(gradients)(params, spikes, labels)[1], plain(params, spikes, labels)[1])

    if rule not in ("bptt", "otpe") or seeds or sizes != SMALL:
        check = None  # the tests check these rules; here each would be compiled twice
    return train_step(gradients, spikes, labels), (params, OPTIMIZER.init(params)), check


def rival_step(function, rule, rng, args):
    net, params, spikes, labels = problem(SMALL, rng, args)
    spikes = spikes.astype(jnp.float32)
    gradients = partial(function, net) if rule == "bptt" else partial(function, net, rule=rule)

    def check() -> float:
        ours = otpe.gradients(net, params, spikes, labels, rule=rule, backend="plain")[1]
        return total_error(jax.jit(gradients)(params, spikes, labels)[1], ours)

    return train_step(gradients, spikes, labels), (params, OPTIMIZER.init(params)), check


def online_step(rule, precision, rng, args):
    net, params, spikes, labels = problem(SMALL, rng, args)
    learn = partial(otpe.online_pass, net, rule=rule, optimizer=OPTIMIZER)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, opt_state: Any) -> Any:
        return learn(params, opt_state, spikes, labels, precision=precision)[:2]

    return step, (params, OPTIMIZER.init(params)), None


def train_step(gradients: Callable[..., Any], spikes: Any, labels: Any) -> Any:
    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, opt_state: Any) -> Any:
        _, grads = gradients(params, spikes, labels)
        updates, opt_state = OPTIMIZER.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    return step


def milliseconds(step: Any, state: Any, calls: int) -> tuple[float, Any]:
    state = jax.block_until_ready(step(*state))
    start = time.perf_counter()
    for _ in range(calls):
        state = step(*state)
    jax.block_until_ready(state)
    return 1e3 * (time.perf_counter() - start) / calls, state


def copy(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


def total_error(given: Any, expected: Any) -> float:
    """‖given − expected‖ / ‖expected‖ over all weights together."""
    a, b = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(t)]).astype(np.float64) for t in (given, expected)
    )
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def exactness(rng: Any) -> dict[str, dict[str, float]]:
    rows, n_in, n_out = 6400, 700, 512
    x = rng.random((rows, n_in)) < 0.2
    w, k = (rng.normal(size=shape).astype(np.float32) for shape in ((n_in, n_out), (rows, n_out)))
    x_64, w_64, k_64 = (a.astype(np.float64) for a in (x, w, k))
    expected = {"x W": x_64 @ w_64, "x against κ": x_64.T @ k_64, "m Wᵀ": k_64 @ w_64.T}
    x_narrow = jnp.asarray(x, products.EXACT)
    table = {}
    for precision in ("float32", "tf32", "bf16"):
        engine = Engine("pallas", precision)
        parts = otpe.scan.Stacked(jnp.stack(products.split(jnp.asarray(k), precision).arrays, 1))
        given = {
            "x W": jax.jit(lambda x, w, p=precision: products.spikes_times(x, w, p).array.sum(-2))(x_narrow, w),
            "x against κ": jax.jit(partial(products.spikes_against, n_in=n_in))(x_narrow, parts),
            "m Wᵀ": jax.jit(partial(products.signal_times, engine=engine))(k, w),
        }
        table[precision] = {name: testing.relative_error(given[name], expected[name]) for name in expected}
    x, w, k = (jnp.asarray(a, jnp.float32) for a in (x, w, k))
    with jax.default_matmul_precision("highest"):
        native = {"x W": x @ w, "x against κ": x.T @ k, "m Wᵀ": k @ w.T}
    table["native float32"] = {name: testing.relative_error(native[name], expected[name]) for name in expected}
    return table


def report(args: argparse.Namespace, rounds: int, medians: dict[str, float], first_calls: dict, errors: dict) -> None:
    device = jax.devices()[0].device_kind
    ratios = ratios_of(medians)
    if args.json:
        result = {"device": device, "jax": jax.__version__, "otpe": otpe.__version__, "steps": args.steps,
                  "batch": args.batch, "rounds": rounds, "milliseconds": medians, "ratios": ratios,
                  "first_call_seconds": first_calls, "relative_error": errors}  # fmt: skip
        if rounds == args.rounds and jax.default_backend() == "gpu":
            result["product_error"] = exactness(np.random.default_rng(1))
        args.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    if rounds < args.rounds:
        return
    print(f"\n{'-'.join(map(str, SMALL))}, T {args.steps}, batch {args.batch}, Adamax, {device}\n")
    print(f"{'':44}{'ms':>9}{'/ bptt':>8}{'first call s':>14}")
    for name, ms in medians.items():
        base = medians.get(f"offline bptt {name.split()[-1]}")
        ratio = f"{ms / base:8.2f}" if base and name.startswith("offline") and "deep network" not in name else " " * 8
        print(f"{name:44}{ms:9.3f}{ratio}{first_calls[name]:14.1f}")
    print()
    for name, ratio in ratios.items():
        print(f"{name:60}{ratio:8.2f}")


def ratios_of(medians: dict[str, float]) -> dict[str, float]:
    ratios = {"4 seeds / one": medians["offline otpe tf32, 4 seeds"] / medians["offline otpe tf32"]}
    for precision in ("tf32", "float32"):
        otpe_ms, ottt_ms = (medians[f"online {rule} {precision}"] for rule in ("otpe", "ottt"))
        ratios[f"online otpe / ottt, {precision}"] = otpe_ms / ottt_ms
    for what, ms in AUTHORS.items():
        ratios[f"authors' published {what} (elsewhere) / ours, tf32"] = ms / medians[f"{what} tf32"]
    return ratios


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--gain", type=float, default=1.5, help="the paper's initial weights times this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turn", type=float, default=100.0, help="milliseconds of a turn of at least two calls")
    parser.add_argument("--skip-rivals", action="store_true")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
