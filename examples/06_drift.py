"""A world that changes: OTPE, OSTL and OTTT continue to learn in it, a frozen network does not.

    python examples/06_drift.py --figure drift.png
    python examples/06_drift.py --long --seeds 1 2 3      # a larger network, a longer stream, three worlds: ten minutes
    python examples/06_drift.py --long --search           # try learning rates, in another world

The stream is T-Randman, sample after sample. Four things happen in it: classes swap their meaning, sensors die, a
class appears, and all sensors shift. Every learner predicts, then learns, on the same stream. Accuracy is that of whole
sequences, decided at their last step, over the last 200 sequences. The frozen network is a copy of OTPE's network at
the first change.
"""

import argparse
import json
import sys
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import optax
from tqdm import tqdm

import otpe
from otpe.stream import Prequential, blocks, worlds

TIME = 50  # steps of a sequence
WINDOW, EVERY = 200, 20  # sequences: window of the accuracy, and distance of points of a curve
RECOVERED = 0.95  # recovered means this share of the accuracy before the change
RATES = {"otpe": 1e-3, "ostl": 1e-3, "ottt": 1e-3}  # the best learning rate found for each rule
TRIED = (5e-4, 1e-3, 2e-3, 4e-3)
SEARCH = 100  # seed of the world for the search
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#000000")  # safe for colour-blind readers

Curve = dict[int, float]  # accuracy by time step


class Size(NamedTuple):
    hidden: int
    first: int  # sequences until the first change
    each: int  # sequences between changes
    classes: int = 10
    slope: float = 2.0  # of the surrogate
    faster: float = 1.0  # learning rates are multiplied by it


LONG = Size(hidden=128, first=3000, each=2000)
SHORT = Size(hidden=64, first=1100, each=500, classes=5, slope=3.0, faster=3.0)


def main() -> None:
    args = arguments()
    size = LONG if args.long else SHORT
    if args.search:
        return search(size)
    curves_of = {name: [] for name in (*RATES, "frozen")}
    with tqdm(total=len(args.seeds) * len(curves_of), desc="learners", disable=None) as bar:
        for seed in args.seeds:
            for rule, rate in RATES.items():
                curve, frozen = live(rule, seed, size, rate, freeze=rule == "otpe")
                curves_of[rule].append(curve)
                curves_of["frozen"] += [frozen] if frozen else []
                bar.update(1 + bool(frozen))
    changes = world(0, size)[1]
    numbers = {name: [summary(curve, changes, size) for curve in curves] for name, curves in curves_of.items()}
    print(f"Accuracy of the last {WINDOW} sequences in %. Mean ± σ over worlds, n = {len(args.seeds)}.\n")
    print(tables(numbers))
    if args.json:
        args.json.write_text(json.dumps(record(args, size, numbers), indent=1) + "\n")
    if args.figure:
        draw(curves_of, changes, args.figure)


def world(seed: int, size: Size) -> tuple[islice, dict[str, worlds.Change]]:
    """Make a world. Another seed gives other manifolds, another order, and other sensors that die."""
    task = {"classes": size.classes, "dims": 1, "alpha": 2.0, "standardize": "fixed", "steps": TIME}
    data = otpe.datasets.randman("time", **task, seed=seed)
    swapped = range(2 * size.classes // 5)
    at = [TIME * (size.first + i * size.each) for i in range(4)]
    changes = {
        f"{len(swapped)} classes swap": worlds.Swap(at=at[0], classes=tuple(swapped)),
        "30 % of sensors die": worlds.Die(at=at[1], share=0.3, seed=seed),
        "a class appears": worlds.Appear(at=at[2], label=size.classes - 1),
        "sensors shift": worlds.Shift(at=at[3], by=5),
    }
    steps = worlds.changing(worlds.samples(data, seed), *changes.values())
    return islice(steps, at[3] + TIME * size.each), changes


def live(rule: str, seed: int, size: Size, rate: float, freeze: bool = False) -> tuple[Curve, Curve | None]:
    """Return the accuracy along the stream, also of a learner that stopped at the first change."""
    sizes = [50, size.hidden, size.hidden, size.classes]
    net = otpe.dense(sizes, leak=0.9, threshold=0.5, surrogate=otpe.fast_sigmoid(size.slope))
    learner = otpe.StreamLearner(net, rule, optax.adam(rate * size.faster), seed, every=TIME, score_leak=1.0)
    score, until = Prequential(size.classes, WINDOW), TIME * size.first
    steps, _ = world(seed, size)
    begin = along(learner, islice(steps, until), score)
    frozen = None
    if freeze:
        rest = islice(world(seed, size)[0], until, None)
        frozen = begin | along(learner.clone(), rest, Prequential.from_state(score.state()), learn=False)
    return begin | along(learner, steps, score), frozen


def along(learner: otpe.StreamLearner, steps: islice, score: Prequential, learn: bool = True) -> Curve:
    curve = {}
    for _ in blocks(learner, steps, score, size=TIME, learn=learn):
        curve |= point(score)
    return curve | point(score)


def point(score: Prequential) -> Curve:
    """Return a point of the curve after every EVERY sequences, else nothing."""
    due = score.sequences and score.sequences % EVERY == 0
    return {TIME * score.sequences: score.window_sequence_accuracy} if due else {}


def summary(curve: Curve, changes: dict[str, worlds.Change], size: Size) -> dict[str, dict]:
    """Return for each change the accuracy before it, the worst and the last one after it, and the steps to recover."""
    steps, accuracy = np.array(list(curve.items())).T
    summaries = {}
    for name, change in changes.items():
        before = accuracy[steps <= change.at][-1]
        after = (steps > change.at) & (steps <= change.at + TIME * size.each)
        then, when = accuracy[after], steps[after] - change.at
        worst = int(np.argmin(then))
        back = worst + np.flatnonzero(then[worst:] >= RECOVERED * before)
        wait = None if not len(back) else 0 if back[0] == worst else int(when[back[0]])  # 0: it never fell that low
        summaries[name] = {"before": float(before), "worst": float(then[worst]), "end": float(then[-1]), "steps": wait}
    return summaries


def tables(numbers: dict[str, list[dict]]) -> str:
    """Return one table for each change."""
    text = ""
    for change in numbers["frozen"][0]:
        text += f"| {change} | before | worst | end | steps until recovered |\n|---|---|---|---|---|\n"
        for name, of_worlds in numbers.items():
            rows = [row[change] for row in of_worlds]
            cells = [spread([100 * row[what] for row in rows], 1) for what in ("before", "worst", "end")]
            wait = "–" if name == "frozen" else recovery([row["steps"] for row in rows])  # it does not learn
            text += f"| {title(name)} | {' | '.join(cells)} | {wait} |\n"
        text += "\n"
    return text


def title(name: str) -> str:
    return name if name == "frozen" else name.upper()


def spread(values: list[float], digits: int) -> str:
    """Return the mean and, for several values, the sample standard deviation."""
    return f"{np.mean(values):,.{digits}f}" + (f" ± {np.std(values, ddof=1):,.{digits}f}" if len(values) > 1 else "")


def recovery(steps: list[int | None]) -> str:
    known = [value for value in steps if value is not None]
    if not known:
        return "not recovered"
    return spread(known, 0) + (f" (in {len(known)} of {len(steps)})" if len(known) < len(steps) else "")


def draw(curves_of: dict[str, list[Curve]], changes: dict[str, worlds.Change], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for i, (name, curves) in enumerate(curves_of.items()):
        accuracy, steps = np.array([list(curve.values()) for curve in curves]), [at / 1000 for at in curves[0]]
        mean, sigma = accuracy.mean(0), accuracy.std(0, ddof=len(curves) > 1)
        axes.plot(steps, mean, color=COLORS[i], marker="osDX"[i % 4], markevery=10, markersize=4, label=title(name))
        if len(curves) > 1:
            axes.fill_between(steps, mean - sigma, mean + sigma, color=COLORS[i], alpha=0.2, linewidth=0)
    for i, (name, change) in enumerate(changes.items()):
        axes.axvline(change.at / 1000, color="grey", linestyle=":")
        axes.text(change.at / 1000, 1.13 - 0.07 * (i % 2), f" {name}", fontsize="small")
    axes.set(xlabel="thousand time steps", ylabel=f"accuracy, last {WINDOW} sequences", ylim=(0, 1.2))
    axes.legend(loc="upper left", fontsize="small")
    figure.savefig(file, dpi=110)


def record(args: argparse.Namespace, size: Size, numbers: dict) -> dict:
    about = {"command": " ".join(["python", *sys.argv]), "otpe": otpe.__version__, "jax": jax.__version__}
    settings = {**size._asdict(), "seeds": args.seeds, "learning_rates": RATES, "window": WINDOW}
    return about | {"settings": settings, "learners": numbers}


def search(size: Size) -> None:
    """Print the mean accuracy along the stream, by rule and learning rate."""
    for rule in RATES:
        for rate in TRIED:
            curve, _ = live(rule, SEARCH, size, rate)
            print(f"{rule:6}{rate:8.0e}{np.mean(list(curve.values())):8.3f}", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds of worlds and networks")
    parser.add_argument("--long", action="store_true", help="a larger network and a longer stream")
    parser.add_argument("--search", action="store_true", help="try learning rates instead")
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    parser.add_argument("--figure", type=Path, help="draw the accuracy along the stream into this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
