"""What makes Randman hard: the same manifolds, standardised in every mini-batch (as the authors do) or once.

    python examples/03_protocols.py                     # 8,000 steps, 4 networks: minutes on a GPU, hours on a CPU
    python examples/03_protocols.py --steps 500 --rules otpe ostl

Accuracy is measured on mini-batches before the network learns from them, so on new points: mean of the last eighth.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import otpe

OPTIMIZER = optax.adamax(1e-3)


def main() -> None:
    args = arguments()
    net = otpe.dense([50, 128, 128, 10])
    numbers = {"device": jax.devices()[0].device_kind, "steps": args.steps, "networks": args.networks, "accuracy": {}}
    print(f"{'':30}" + "".join(f"{rule:>14}" for rule in args.rules))
    for encoding in ("time", "rate"):
        for standardize, seeds in (("batch", args.manifolds), ("fixed", args.manifolds[:1])):
            for seed in seeds:
                data = otpe.datasets.randman(encoding, standardize=standardize, seed=seed)
                row = {rule: accuracy(net, data, rule, args) for rule in args.rules}
                name = f"{encoding[0].upper()}-Randman, {standardize}, manifolds {seed}"
                numbers["accuracy"][name] = row
                print(f"{name:30}" + "".join(f"{np.mean(a):14.3f}" for a in row.values()), flush=True)
                if args.json:
                    args.json.write_text(json.dumps(numbers, indent=1) + "\n")


def accuracy(net: otpe.Network, data: otpe.datasets.Dataset, rule: str, args: argparse.Namespace) -> list[float]:
    """Return the accuracy of every network: the mean over the last block of steps."""
    block = args.steps // 8

    @jax.jit
    def train(data, states, first):
        return jax.vmap(lambda seed, state: one(data, seed, state, first))(jnp.arange(args.networks), states)

    def one(data, seed, state, first):
        def step(state, i):
            params, opt_state = state
            spikes, labels = data.batch(seed, i, 128)
            before = otpe.accuracy(net.run(params, spikes), labels)
            _, grads = otpe.gradients(net, params, spikes, labels, rule=rule, precision="tf32")
            updates, opt_state = OPTIMIZER.update(grads, opt_state, params)
            return (optax.apply_updates(params, updates), opt_state), before

        return jax.lax.scan(step, state, first + jnp.arange(block))

    params = jax.vmap(net.init)(jax.random.split(jax.random.key(0), args.networks))
    states, correct = (params, jax.vmap(OPTIMIZER.init)(params)), jnp.zeros(0)
    for first in range(0, 8 * block, block):
        states, correct = train(data, states, first)
    return [round(float(a), 4) for a in correct.mean(1)]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--networks", type=int, default=4, help="initial weights and batches, side by side")
    parser.add_argument("--manifolds", type=int, nargs="+", default=[0, 1], help="seeds of the manifolds")
    parser.add_argument("--rules", nargs="+", default=["bptt", "otpe", "approx-otpe", "ostl", "ottt"])
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
