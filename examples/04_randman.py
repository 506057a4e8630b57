"""The paper's Randman experiments, offline and online: every rule on several draws of the manifolds, 4 networks each.

    python examples/04_randman.py offline t-randman --steps 8000      # minutes on a GPU, many hours on a CPU
    python examples/04_randman.py offline r-randman --steps 20000
    python examples/04_randman.py online t-randman --steps 5000       # with a search for the learning rate of each rule
    python examples/04_randman.py online t-randman --steps 60 --search-steps 20 --manifolds 0 --networks 2 --hidden 16

Every run has its folder below --out. Repeat the same command to resume runs that were stopped.
`last` is the mean validation accuracy over the last eighth of the run. `test` is the test accuracy of the parameters
with the best validation accuracy.
"""

import argparse
import json
import sys
from pathlib import Path

import jax
import numpy as np

import otpe

OFFLINE = ["bptt", "otpe", "approx-otpe", "ostl", "ottt"]
ONLINE = ["otpe", "f-otpe", "approx-otpe", "f-approx-otpe", "ostl", "ottt"]


def main() -> None:
    args = arguments()
    rules = args.rules or (OFFLINE if args.mode == "offline" else ONLINE)
    numbers = {"command": " ".join(["python", *sys.argv]), "otpe": otpe.__version__, "jax": jax.__version__}
    numbers |= {"device": jax.devices()[0].device_kind, "steps": args.steps, "networks": args.networks}
    rates = dict.fromkeys(rules, 1e-3)
    if args.mode == "online":
        numbers["search"] = {rule: search(rule, args) for rule in rules}
        rates = {rule: max(numbers["search"][rule].items(), key=lambda item: item[1])[0] for rule in rules}
    numbers |= {"learning_rates": rates, "manifolds": {}}
    for seed in args.manifolds:
        row = numbers["manifolds"][seed] = {}
        for rule in rules:
            result = train(rule, args, steps=args.steps, learning_rate=float(rates[rule]), manifolds=seed)
            row[rule] = {"last": last(result), "test": rounded(result.test_accuracy), "loss": rounded(result.loss)}
            print(f"manifolds {seed}  {rule:14} last {mean(row[rule]['last'])}  {result}", flush=True)
            if args.json:
                args.json.write_text(json.dumps(numbers, indent=1) + "\n")
    report(numbers, rules)


def search(rule: str, args: argparse.Namespace) -> dict[str, float]:
    """Return the mean validation accuracy at the end of a short run, by learning rate."""
    accuracies = {}
    for rate in args.rates:
        result = train(rule, args, steps=args.search_steps, learning_rate=rate, manifolds=args.manifolds[0])
        accuracies[f"{rate:g}"] = round(float(np.mean(last(result))), 4)
    print(f"{rule:14} learning rates {accuracies}", flush=True)
    return accuracies


def train(rule: str, args: argparse.Namespace, **settings) -> otpe.Result:
    name = "-".join([args.dataset, args.mode, rule, *(f"{value:g}" for value in settings.values())])
    shared = {"dataset": args.dataset, "mode": args.mode, "rule": rule, "seeds": args.networks, "hidden": args.hidden}
    return otpe.train(otpe.TrainConfig(**shared, **settings, out=args.out / name, resume=True))


def last(result: otpe.Result) -> list[float]:
    """Return the validation accuracy of every network: the mean over the last eighth of the run."""
    lines = [line["valid_accuracy"] for line in result.metrics if line["step"] > result.steps * 7 / 8]
    return rounded(np.mean(lines, 0))


def report(numbers: dict, rules: list[str]) -> None:
    """Return the mean over all networks, and the lowest and highest mean of one manifold draw."""
    print(f"\n{'':16}{'last':>8}{'over manifolds':>20}{'test':>10}")
    for rule in rules:
        means = [[np.mean(row[rule][what]) for row in numbers["manifolds"].values()] for what in ("last", "test")]
        spread = f"{min(means[0]):.3f} to {max(means[0]):.3f}"
        print(f"  {rule:14}{np.mean(means[0]):8.3f}{spread:>20}{np.mean(means[1]):10.3f}")


def rounded(values) -> list[float]:
    return [round(float(value), 4) for value in values]


def mean(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["offline", "online"])
    parser.add_argument("dataset", choices=["t-randman", "r-randman"])
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--rules", nargs="+")
    parser.add_argument("--manifolds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the manifolds")
    parser.add_argument("--networks", type=int, default=4, help="initial weights and batches, side by side")
    parser.add_argument("--hidden", type=int, nargs="+", default=(128, 128))
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-3, 4e-4, 1.5e-4], help="online: rates to try")
    parser.add_argument("--search-steps", type=int, default=600, help="online: mini-batches for each of them")
    parser.add_argument("--out", type=Path, default=Path("runs/randman"))
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    args = parser.parse_args()
    args.hidden = tuple(args.hidden)
    return args


if __name__ == "__main__":
    main()
