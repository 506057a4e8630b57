"""Train with several rules and compare them: `otpe.train` for each rule, offline or online, from one loop.

    python examples/04_randman.py --figure randman.png                # offline, T-Randman made small
    python examples/04_randman.py online t-randman                    # one update per time step
    python examples/04_randman.py offline t-randman --long            # the paper's sizes: minutes on a GPU
    python examples/04_randman.py offline r-randman --long --steps 20000
    python examples/04_randman.py online t-randman --long --steps 3000    # tries three learning rates for each rule

Every run has its folder below --out. Repeat the same command to resume runs that were stopped.
`last` is the mean validation accuracy over the last eighth of the run. `test` is the test accuracy of the parameters
with the best validation accuracy. By default there is one small network for each rule, so the order of the rules says
little: networks differ by more.
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
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")  # safe for colour-blind readers
LONG = {
    "steps": 8000,
    "manifolds": [0, 1, 2],
    "networks": 4,
    "hidden": [128, 128],
    "rates": [1e-3, 4e-4, 1.5e-4],
    "out": Path("runs/randman"),
}
SHORT = {"steps": 400, "manifolds": [0], "networks": 1, "hidden": [64], "rates": [1e-3], "out": Path("runs/example-04")}
SMALL_TASK = {"classes": 5, "units": 40, "dims": 2, "alpha": 2.0, "batch": 32, "test_samples": 2048, "eval_every": 25}


def main() -> None:
    args = arguments()
    rules = args.rules or (OFFLINE if args.mode == "offline" else ONLINE)
    numbers = {"command": " ".join(["python", *sys.argv]), "otpe": otpe.__version__, "jax": jax.__version__}
    numbers |= {"device": jax.devices()[0].device_kind, "steps": args.steps, "networks": args.networks}
    rates = dict.fromkeys(rules, 1e-3 if args.long or args.mode == "online" else 5e-3)
    if args.mode == "online" and len(args.rates) > 1:
        numbers["search"] = {rule: search(rule, args) for rule in rules}
        rates = {rule: max(numbers["search"][rule].items(), key=lambda item: item[1])[0] for rule in rules}
    numbers |= {"learning_rates": rates, "manifolds": {}}
    curves = {}
    for seed in args.manifolds:
        row = numbers["manifolds"][seed] = {}
        for rule in rules:
            result = train(rule, args, steps=args.steps, learning_rate=float(rates[rule]), manifolds=seed)
            curves.setdefault(rule, curve(result))
            row[rule] = {"last": last(result), "test": rounded(result.test_accuracy), "loss": rounded(result.loss)}
            print(f"manifolds {seed}  {rule:14} last {mean(row[rule]['last'])}  {result}", flush=True)
            if args.json:
                args.json.write_text(json.dumps(numbers, indent=1) + "\n")
    report(numbers, rules)
    if args.figure:
        draw(curves, args)


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
    task = {} if args.long else SMALL_TASK
    return otpe.train(otpe.TrainConfig(**shared, **task, **settings, out=args.out / name, resume=True))


def last(result: otpe.Result) -> list[float]:
    """Return the validation accuracy of every network: the mean over the last eighth of the run."""
    lines = [line["valid_accuracy"] for line in result.metrics if line["step"] > result.steps * 7 / 8]
    return rounded(np.mean(lines, 0))


def curve(result: otpe.Result) -> tuple[list[int], np.ndarray]:
    """Return the steps [K] of the evaluations, and the validation accuracy [K, networks]."""
    return [line["step"] for line in result.metrics], np.array([line["valid_accuracy"] for line in result.metrics])


def report(numbers: dict, rules: list[str]) -> None:
    """Print the mean over all networks, and the lowest and highest mean of one manifold draw."""
    print(f"\n{'':16}{'last':>8}{'over manifolds':>20}{'test':>10}")
    for rule in rules:
        means = [[np.mean(row[rule][what]) for row in numbers["manifolds"].values()] for what in ("last", "test")]
        spread = f"{min(means[0]):.3f} to {max(means[0]):.3f}"
        print(f"  {rule:14}{np.mean(means[0]):8.3f}{spread:>20}{np.mean(means[1]):10.3f}")


def draw(curves: dict[str, tuple[list[int], np.ndarray]], args: argparse.Namespace) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.4), layout="constrained")
    axes = figure.subplots()
    for i, (rule, (steps, accuracy)) in enumerate(curves.items()):
        axes.plot(
            steps, accuracy.mean(1), color=COLORS[i % 6], marker="osD^vP"[i % 6], markevery=2, markersize=4, label=rule
        )
    axes.set(xlabel="mini-batches", ylabel="validation accuracy", ylim=(0, 1))
    axes.set_title(f"{args.dataset}, {args.mode}", loc="left")
    axes.legend(fontsize="small")
    figure.savefig(args.figure, dpi=110)


def rounded(values) -> list[float]:
    return [round(float(value), 4) for value in values]


def mean(values: list[float]) -> str:
    """Return the mean and, for several values, the sample standard deviation."""
    return f"{np.mean(values):.3f}" + (f" ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["offline", "online"], nargs="?", default="offline")
    parser.add_argument("dataset", choices=["t-randman", "r-randman"], nargs="?", default="t-randman")
    parser.add_argument("--long", action="store_true", help="the paper's sizes; other options can change them")
    parser.add_argument("--steps", type=int, help="mini-batches")
    parser.add_argument("--rules", nargs="+")
    parser.add_argument("--manifolds", type=int, nargs="+", help="seeds of the manifolds")
    parser.add_argument("--networks", type=int, help="initial weights and batches, trained side by side")
    parser.add_argument("--hidden", type=int, nargs="+", help="neurons of each hidden layer")
    parser.add_argument("--rates", type=float, nargs="+", help="online: learning rates to try")
    parser.add_argument("--search-steps", type=int, default=600, help="online: mini-batches for each learning rate")
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--figure", type=Path, help="draw the accuracy during training into this file")
    parser.set_defaults(**(LONG if parser.parse_args().long else SHORT))
    args = parser.parse_args()
    args.hidden = tuple(args.hidden)
    return args


if __name__ == "__main__":
    main()
