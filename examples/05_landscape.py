"""The loss landscape around training: where do OTPE and OSTL go, if they start where BPTT starts?

    python examples/05_landscape.py --figure landscape.png

Each rule trains its own network, from the same weights and on the same mini-batches. `otpe.landscape` computes the loss
on the plane through BPTT's first and last model, and projects the path of every rule into that plane.
"""

import argparse
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe

RULES = ("bptt", "otpe", "ostl")
BATCH, EVERY = 32, 25  # samples of a mini-batch; mini-batches between two snapshots of the weights

data = otpe.datasets.randman("time", classes=4, units=20, dims=1, alpha=2.0, standardize="fixed")
net = otpe.dense([data.units, 32, 32, len(data.names)])
optimizer = optax.adamax(0.01)


def main() -> None:
    args = arguments()
    start, batch = net.init(jax.random.key(0)), data.batch(seed=1, step=0, size=256)
    paths = {rule: path(data, start, rule, args.steps // EVERY) for rule in RULES}
    end = {rule: jax.tree.map(lambda weights: weights[-1], path) for rule, path in paths.items()}
    around = otpe.landscape(net, start, end["bptt"], paths, batch.spikes, batch.labels, grid=args.grid)

    print(f"After {args.steps} mini-batches, distances between the weights of two models:\n")
    print(f"{'':6}{'accuracy':>10}{'from start':>12}{'from BPTT':>12}{'in the plane':>14}")
    for rule in RULES:
        accuracy = otpe.accuracy(net.run(end[rule], batch.spikes), batch.labels)
        away, apart = distance(end[rule], start), distance(end[rule], end["bptt"])
        print(f"{rule:6}{accuracy:10.3f}{away:12.2f}{apart:12.2f}{float(around.explained[rule][-1]):14.2f}")
    print("\n`in the plane` is the share of the squared distance from the start that lies in the plane.")
    if args.figure:
        draw(around, args.figure)


@partial(jax.jit, static_argnums=(2, 3))
def path(data, params, rule: str, snapshots: int):
    """Train by one rule, and return the weights before training and after every EVERY mini-batches, on a first axis."""

    def step(state, i):
        params, opt_state = state
        _, grads = otpe.gradients(net, params, *data.batch(0, i, BATCH), rule=rule)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return (optax.apply_updates(params, updates), opt_state), None

    def snapshot(state, i):
        state, _ = jax.lax.scan(step, state, EVERY * i + jnp.arange(EVERY))
        return state, state[0]

    _, models = jax.lax.scan(snapshot, (params, optimizer.init(params)), jnp.arange(snapshots))
    return jax.tree.map(lambda first, later: jnp.concatenate([first[None], later]), params, models)


def distance(a, b) -> float:
    return float(optax.global_norm(jax.tree.map(jnp.subtract, a, b)))


def draw(around: otpe.Landscape, file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    shades = axes.contourf(around.at_x, around.at_y, around.loss, levels=20, cmap="Greys")
    figure.colorbar(shades, label="loss")
    colors = ("#0072B2", "#D55E00", "#009E73")
    for (rule, models), color, marker in zip(around.coordinates.items(), colors, "osD", strict=True):
        axes.plot(*np.asarray(models).T, color=color, marker=marker, label=rule)
    axes.set(xlabel="towards BPTT's last model", ylabel="along the first model")
    axes.legend()
    figure.savefig(file, dpi=110)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400, help="mini-batches")
    parser.add_argument("--grid", type=int, default=21, help="points of the landscape in each direction")
    parser.add_argument("--figure", type=Path, help="draw the landscape and the paths into this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
