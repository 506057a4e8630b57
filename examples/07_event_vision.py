"""Event vision: a convolutional network learns, online, in which direction a shape moves.

    python examples/07_event_vision.py --figure event-vision.png
    python examples/07_event_vision.py --long              # larger, 3 networks for each rule: a quarter of an hour
    python examples/07_event_vision.py --long --leak 0.7   # one leak for all hidden neurons
    python examples/07_event_vision.py --long --search     # try learning rates, on other samples

OTPE, Approx OTPE and OTTT update the weights at every time step, in memory that does not grow with time. BPTT updates
them once per mini-batch, after the last step. All rules start from the same weights and see the same mini-batches.

A single frame does not show the direction: it depends on earlier events. Each channel has its own leak, so
that fast and slow neurons see the same events. Rules with a trace per input replace these leaks by their mean.
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from tqdm import tqdm

import otpe
from otpe.layers import conv, dense, flatten

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")  # safe for colour-blind readers
LOSS = "membrane"  # the output neurons do not spike
BATCH = 32
EVERY = 40  # mini-batches from one point of a curve to the next
UNSEEN = 10_000  # seed of the test samples
SEARCH = 1000  # seed of the samples that learning rates were tried on
RATES = {"bptt": 8e-3, "otpe": 1e-3, "approx-otpe": 1e-3, "ottt": 2e-3}  # the best learning rate found for each rule
TRIED = {"bptt": (4e-3, 8e-3, 16e-3), "online": (5e-4, 1e-3, 2e-3, 4e-3)}  # each falls to 0 along a cosine


class Size(NamedTuple):
    grid: int  # pixels, height and width
    time_steps: int
    channels: tuple[int, int]
    steps: int  # mini-batches
    test: int  # samples


class Curve(NamedTuple):
    accuracy: list[float]  # on the test samples, after every EVERY mini-batches
    loss: list[float]  # training loss: mean over the mini-batches since the previous point
    rates: list[float]  # share of the hidden neurons that spike at a time step, by layer, at the end
    seconds: float  # without compilation


LONG = Size(grid=16, time_steps=20, channels=(8, 16), steps=600, test=1024)
SHORT = Size(grid=12, time_steps=12, channels=(8, 16), steps=320, test=512)
TITLES = {"bptt": "BPTT", "otpe": "OTPE", "approx-otpe": "Approx OTPE", "ottt": "OTTT"}


def main() -> None:
    args = arguments()
    size = LONG if args.long else SHORT
    if args.search:
        return search(size, args.leak)
    net, data, curves = network(size, args.leak), shapes(size), {}
    print(net, end="\n\n")
    with tqdm(total=len(RATES) * args.networks * size.steps, desc="mini-batches", disable=None) as bar:
        for rule, rate in RATES.items():
            curves[rule] = [learn(net, data, rule, rate, seed, size, bar.update) for seed in range(args.networks)]
    print(table(numbers(net, curves), size))
    if args.json:
        args.json.write_text(json.dumps(record(args, size, net, curves), indent=1) + "\n")
    if args.figure:
        draw(curves, args.figure)


def shapes(size: Size) -> otpe.datasets.MovingShapes:
    return otpe.datasets.moving_shapes("direction", size=size.grid, time_steps=size.time_steps, speed=(0.5, 1.0))


def network(size: Size, leak: float | None = None) -> otpe.Network:
    """Two convolutions of LIF neurons, and eight output neurons that do not spike."""

    def neurons(channels: int) -> otpe.LIF:
        fast_to_slow = np.linspace(0.1, 0.95, channels)[:, None, None]
        return otpe.LIF(fast_to_slow if leak is None else leak, threshold=0.5, surrogate=otpe.fast_sigmoid(2.0))

    first, second = size.channels
    return otpe.network(shapes(size).shape, [
        (conv(first, 5, stride=2, padding=2), neurons(first)),
        (conv(second, 3, stride=2, padding=1), neurons(second)),
        (flatten() >> dense(8), otpe.LeakyIntegrator(0.9)),
    ])  # fmt: skip


def start(net: otpe.Network, seed: int) -> tuple:
    """Events are rare: larger kernels make the neurons spike. Outputs start small."""
    *hidden, output = net.init(jax.random.key(seed))
    return (*jax.tree.map(lambda w: 4 * w, hidden), jax.tree.map(lambda w: 0.1 * w, output))


def optimizer(rule: str, rate: float, size: Size) -> optax.GradientTransformation:
    updates = size.steps * (1 if rule == "bptt" else size.time_steps)
    return optax.adam(optax.cosine_decay_schedule(rate, updates))


def learn(net, data, rule: str, rate: float, seed: int, size: Size, progress=lambda steps: None) -> Curve:
    """Train one network. Measure it after every EVERY mini-batches."""
    params = start(net, seed)
    opt_state, unseen = optimizer(rule, rate, size).init(params), data.batch(UNSEEN, 0, size.test)
    accuracy, loss, seconds = [], [], 0.0
    block(net, data, rule, rate, size, params, opt_state, seed, 0)  # compiles
    for first in range(0, size.steps, EVERY):
        before = perf_counter()
        params, opt_state, losses = block(net, data, rule, rate, size, params, opt_state, seed, first)
        loss.append(float(losses.mean()))
        seconds += perf_counter() - before
        *hidden, outputs = net.record(params, unseen.spikes)
        accuracy.append(float(otpe.accuracy(outputs, unseen.labels)))
        progress(EVERY)
    return Curve(accuracy, loss, [float(spikes.mean()) for spikes in hidden], seconds)


@partial(jax.jit, static_argnums=(0, 2, 3, 4))
def block(net, data, rule: str, rate: float, size: Size, params, opt_state, seed, first):
    """Train on EVERY mini-batches in one call."""
    adam = optimizer(rule, rate, size)

    def offline(params, opt_state, spikes, labels):
        loss, grads = otpe.gradients(net, params, spikes, labels, rule=rule, loss=LOSS)
        updates, opt_state = adam.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    def online(params, opt_state, spikes, labels):
        how = {"rule": rule, "optimizer": adam, "loss": LOSS, "traces": "dense"}
        params, opt_state, losses = otpe.online_pass(net, params, opt_state, spikes, labels, **how)
        return params, opt_state, losses.mean()

    def step(carry, i):
        *carry, loss = (offline if rule == "bptt" else online)(*carry, *data.batch(seed, i, BATCH))
        return tuple(carry), loss

    (params, opt_state), losses = jax.lax.scan(step, (params, opt_state), first + jnp.arange(EVERY))
    return params, opt_state, losses


def search(size: Size, leak: float | None) -> None:
    """Train each rule with several learning rates, over fewer mini-batches, on separate samples."""
    net, data, fewer = network(size, leak), shapes(size), size._replace(steps=size.steps * 2 // 5)
    for rule in RATES:
        for rate in TRIED["bptt" if rule == "bptt" else "online"]:
            curve = learn(net, data, rule, rate, SEARCH, fewer)
            print(f"{rule:12} {rate:<6g}  accuracy {curve.accuracy[-1]:.3f}  loss {curve.loss[-1]:.3f}", flush=True)


def numbers(net: otpe.Network, curves_of: dict[str, list[Curve]]) -> dict[str, dict]:
    return {
        rule: {
            "accuracy": [curve.accuracy[-1] for curve in curves],
            "loss": [curve.loss[-1] for curve in curves],
            "rates": np.mean([curve.rates for curve in curves], 0).round(3).tolist(),
            "trace_bytes": None if rule == "bptt" else otpe.state_bytes(net, rule).traces,
            "seconds": round(float(np.mean([curve.seconds for curve in curves])), 1),
        }
        for rule, curves in curves_of.items()
    }


def table(numbers: dict[str, dict], size: Size) -> str:
    text = "| rule | updates | test accuracy, % | training loss | traces per sample, KiB |\n|---|---|---|---|---|\n"
    for rule, row in numbers.items():
        updates = size.steps * (1 if rule == "bptt" else size.time_steps)
        accuracy, loss = spread([100 * a for a in row["accuracy"]], 1), spread(row["loss"], 3)
        traces = "–" if row["trace_bytes"] is None else f"{row['trace_bytes'] / 1024:.1f}"
        text += f"| {TITLES[rule]} | {updates:,} | {accuracy} | {loss} | {traces} |\n"
    return text


def spread(values: list[float], digits: int) -> str:
    """Return the mean and, for several values, the sample standard deviation."""
    return f"{np.mean(values):.{digits}f}" + (f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else "")


def draw(curves_of: dict[str, list[Curve]], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    for axes, what in zip(figure.subplots(1, 2), ("accuracy", "loss"), strict=True):
        for i, (rule, curves) in enumerate(curves_of.items()):
            values = np.array([getattr(curve, what) for curve in curves])
            x, mean, sigma = (
                EVERY * (np.arange(values.shape[1]) + 1),
                values.mean(0),
                values.std(0, ddof=len(curves) > 1),
            )
            axes.plot(x, mean, color=COLORS[i], marker="osD^"[i % 4], markersize=4, label=TITLES[rule])
            if len(curves) > 1:
                axes.fill_between(x, mean - sigma, mean + sigma, color=COLORS[i], alpha=0.2, linewidth=0)
        axes.set_xlabel("mini-batches")
    figure.axes[0].set(ylabel="accuracy on unseen samples", ylim=(0, 1))
    figure.axes[1].set_ylabel("training loss")
    figure.axes[1].legend(fontsize="small")
    figure.savefig(file, dpi=110)


def record(args: argparse.Namespace, size: Size, net: otpe.Network, curves_of: dict[str, list[Curve]]) -> dict:
    about = {"command": " ".join(["python", *sys.argv]), "otpe": otpe.__version__, "jax": jax.__version__}
    settings = {**size._asdict(), "batch": BATCH, "networks": args.networks, "leak": args.leak, "learning_rates": RATES}
    curves = {rule: [curve.accuracy for curve in curves] for rule, curves in curves_of.items()}
    return about | {"settings": settings, "rules": numbers(net, curves_of), "accuracy": curves}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="larger images, networks and runs")
    parser.add_argument("--networks", type=int, help="networks for each rule: 1 by default, 3 with --long")
    parser.add_argument("--leak", type=float, help="one leak for all hidden neurons, instead of one per channel")
    parser.add_argument("--search", action="store_true", help="try learning rates")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--figure", type=Path, help="draw the curves into this file")
    args = parser.parse_args()
    args.networks = args.networks or (3 if args.long else 1)
    return args


if __name__ == "__main__":
    main()
