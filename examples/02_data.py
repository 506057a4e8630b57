"""Learn T-Randman with OTPE in a training loop of your own, with batches that are drawn inside the compiled loop.

    python examples/02_data.py --figure learning.png

A dataset is a JAX value: a seed and a step number address each batch. So `jax.lax.scan` can draw a batch, compute the
gradient and update the weights in one compiled call, and nothing waits for the host.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

import otpe

BLOCK, BATCH = 100, 64

data = otpe.datasets.randman("time", classes=5, units=40, dims=2, alpha=2.0, standardize="fixed")
net = otpe.dense([data.units, 64, len(data.names)])
optimizer = optax.adamax(4e-3)


@jax.jit
def block(data, params, opt_state, first):
    """Run BLOCK training steps. The dataset is an argument, so its tables are not constants in the program."""

    def step(state, i):
        params, opt_state = state
        spikes, labels = data.batch(0, i, BATCH)
        loss, grads = otpe.gradients(net, params, spikes, labels, rule="otpe")
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), loss

    return jax.lax.scan(step, (params, opt_state), first + jnp.arange(BLOCK))


def main() -> None:
    args = arguments()
    params = net.init(jax.random.key(0))
    opt_state = optimizer.init(params)
    unseen = data.batch(seed=1, step=0, size=1000)  # another seed gives other points of the same manifolds
    curve = []
    print("steps   loss   accuracy on unseen points")
    for first in range(0, args.steps, BLOCK):
        (params, opt_state), losses = block(data, params, opt_state, first)
        accuracy = otpe.accuracy(net.run(params, unseen.spikes), unseen.labels)
        curve.append((first + BLOCK, float(losses.mean()), float(accuracy)))
        print(f"{first + BLOCK:5}  {losses.mean():.3f}   {accuracy:.3f}", flush=True)
    if args.figure:
        draw(curve, args.figure)


def draw(curve: list[tuple[int, float, float]], file: Path) -> None:
    from matplotlib.figure import Figure

    steps, loss, accuracy = zip(*curve, strict=True)
    figure = Figure(figsize=(7, 3), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(steps, loss, "o-", color="#0072B2")
    left.set(xlabel="mini-batches", ylabel="training loss")
    right.plot(steps, accuracy, "s-", color="#D55E00")
    right.set(xlabel="mini-batches", ylabel="accuracy on unseen points", ylim=(0, 1))
    right.axhline(1 / len(data.names), color="grey", linestyle=":")
    right.text(steps[-1], 1 / len(data.names), "guessing", color="grey", ha="right", va="bottom")
    figure.savefig(file, dpi=110)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="mini-batches")
    parser.add_argument("--figure", type=Path, help="draw loss and accuracy into this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
