"""What makes Randman hard: the same manifolds, standardised in every mini-batch (as the authors do) or once.

    python examples/03_protocols.py --figure protocols.png
    python examples/03_protocols.py --long              # 8,000 steps, 4 networks, 5 rules: hours on a CPU
    python examples/03_protocols.py --long --steps 500 --rules otpe ostl

If every mini-batch is standardised by its own extremes, the same point of a manifold gives other spikes in every
mini-batch. If the extremes are fixed, it always gives the same spikes, and all rules learn much more.

Accuracy is measured on mini-batches before the network learns from them, so on new points. The table has the mean of
the last eighth of the run.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe

BLOCKS = 8  # points of a curve
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")  # safe for colour-blind readers
SHORT = {
    "steps": 280,
    "networks": 1,
    "manifolds": [0],
    "rules": ["otpe", "ottt"],
    "batch": 64,
    "hidden": 64,
    "rate": 4e-3,
}
LONG = {
    "steps": 8000,
    "networks": 4,
    "manifolds": [0, 1],
    "rules": ["bptt", "otpe", "approx-otpe", "ostl", "ottt"],
    "batch": 128,
    "hidden": 128,
    "rate": 1e-3,
}


def main() -> None:
    args = arguments()
    net = otpe.dense([50, args.hidden, args.hidden, 10])
    numbers = {"device": jax.devices()[0].device_kind, "steps": args.steps, "networks": args.networks, "accuracy": {}}
    curves = {}
    print(f"{'':30}" + "".join(f"{rule:>14}" for rule in args.rules))
    for encoding in ("time", "rate"):
        for standardize, seeds in (("batch", args.manifolds), ("fixed", args.manifolds[:1])):
            for seed in seeds:
                data = otpe.datasets.randman(encoding, standardize=standardize, seed=seed)
                of_rule = {rule: accuracy(net, data, rule, args) for rule in args.rules}
                curves |= {(encoding, standardize, seed, rule): curve.mean(1) for rule, curve in of_rule.items()}
                row = {rule: [round(float(a), 4) for a in curve[-1]] for rule, curve in of_rule.items()}
                name = f"{encoding[0].upper()}-Randman, {standardize}, manifolds {seed}"
                numbers["accuracy"][name] = row
                print(f"{name:30}" + "".join(f"{np.mean(a):14.3f}" for a in row.values()), flush=True)
                if args.json:
                    args.json.write_text(json.dumps(numbers, indent=1) + "\n")
    if args.figure:
        draw(curves, args)


def accuracy(net: otpe.Network, data: otpe.datasets.Dataset, rule: str, args: argparse.Namespace) -> np.ndarray:
    """Return the accuracy [BLOCKS, networks]: the mean over each block of steps."""
    block, optimizer = args.steps // BLOCKS, optax.adamax(args.rate)

    @jax.jit
    def train(data, states, first):
        return jax.vmap(lambda seed, state: one(data, seed, state, first))(jnp.arange(args.networks), states)

    def one(data, seed, state, first):
        def step(state, i):
            params, opt_state = state
            spikes, labels = data.batch(seed, i, args.batch)
            before = otpe.accuracy(net.run(params, spikes), labels)
            _, grads = otpe.gradients(net, params, spikes, labels, rule=rule, precision="tf32")
            updates, opt_state = optimizer.update(grads, opt_state, params)
            return (optax.apply_updates(params, updates), opt_state), before

        return jax.lax.scan(step, state, first + jnp.arange(block))

    params = jax.vmap(net.init)(jax.random.split(jax.random.key(0), args.networks))
    states, curve = (params, jax.vmap(optimizer.init)(params)), []
    for i in range(BLOCKS):
        states, correct = train(data, states, i * block)
        curve.append(np.asarray(correct.mean(1)))
    return np.stack(curve)


def draw(curves: dict, args: argparse.Namespace) -> None:
    from matplotlib.figure import Figure

    steps = args.steps // BLOCKS * (np.arange(BLOCKS) + 1)
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    for axes, encoding in zip(figure.subplots(1, 2, sharey=True), ("time", "rate"), strict=True):
        for i, rule in enumerate(args.rules):
            for standardize, style in (("fixed", "-"), ("batch", "--")):
                curve = curves[encoding, standardize, args.manifolds[0], rule]
                axes.plot(
                    steps, curve, style, marker="osD^v"[i % 5], color=COLORS[i % 6], label=f"{rule}, {standardize}"
                )
        axes.set(xlabel="mini-batches", ylim=(0, 1))
        axes.set_title(f"{encoding[0].upper()}-Randman", loc="left")
    axes = figure.axes[0]
    axes.set_ylabel("accuracy on new points")
    axes.legend(title="rule, extremes", fontsize="small")
    figure.savefig(args.figure, dpi=110)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="the paper's sizes; other options can change them")
    parser.add_argument("--steps", type=int, help="mini-batches")
    parser.add_argument("--networks", type=int, help="initial weights and batches, trained side by side")
    parser.add_argument("--manifolds", type=int, nargs="+", help="seeds of the manifolds")
    parser.add_argument("--rules", nargs="+")
    parser.add_argument("--batch", type=int, help="samples of a mini-batch")
    parser.add_argument("--hidden", type=int, help="neurons of each of the two hidden layers")
    parser.add_argument("--rate", type=float, help="learning rate")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--figure", type=Path, help="draw the curves into this file")
    parser.set_defaults(**(LONG if parser.parse_args().long else SHORT))
    return parser.parse_args()


if __name__ == "__main__":
    main()
