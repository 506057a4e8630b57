"""Offline training on Randman and on spoken digits: curves, and accuracies beside the paper's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from otpe.charts.kinds import Against, Figure, Lines, Table
from otpe.paper import numbers
from otpe.paper.finished import Finished, curve
from otpe.runs import spread

NAMES = {"r-randman": "R-Randman", "t-randman": "T-Randman"}
Runs = Mapping[str, Sequence[Finished]]  # of each rule: a run per draw of the manifolds


def curves(runs: Runs, name: str, caption: str) -> Figure:
    """Validation accuracy and training loss; mean ± σ over networks."""
    shown = [run for run in runs.values() if run]
    return Figure(
        name=name,
        caption=caption,
        panels=[
            Lines(
                title="validation accuracy", x="mini-batches", y="accuracy",
                lines=[curve(each, "valid_accuracy") for each in shown],
            ),
            Lines(
                title="training loss", x="mini-batches", y="cross-entropy",
                lines=[curve(each, "loss") for each in shown],
            ),
        ],
    )  # fmt: skip


def accuracies(runs: Runs, last: int) -> Table:
    rows = []
    for rule, each in runs.items():
        if not each:
            rows.append([rule, "no run", "", "", "", ""])
            continue
        ends = [run.last("valid_accuracy", last) for run in each]
        draws = [float(spread.mean(end)) for end in ends]
        between = f"{min(draws):.3f} to {max(draws):.3f}" if len(draws) > 1 else "one"
        tests, losses = [np.concatenate(x) for x in ([r.test for r in each], [r.last("loss", last) for r in each])]
        rate = each[0].result["learning_rate"]
        rows.append(
            [rule, spread.text(np.concatenate(ends)), between, spread.text(tests), spread.text(losses), f"{rate:g}"]
        )
    return Table(
        name="accuracies",
        caption=f"Validation accuracy and training loss, mean of the last {last:,} mini-batches, and test accuracy with"
        " the weights of the best validation; mean ± σ over all networks.",
        columns=["rule", "validation", "means of draws", "test", "loss", "learning rate"],
        rows=rows,
    )


def beside(runs: Runs, paper: Mapping[str, float], what: str, metric: str, last: int) -> list[Against]:
    """The paper's means over the last mini-batches beside ours."""
    found = []
    for rule, number in paper.items():
        if runs.get(rule):
            ours = np.concatenate([run.last(metric, last) for run in runs[rule]])
            found.append(
                Against(
                    what=what, rule=rule, paper=number, ours=float(spread.mean(ours)), spread=float(spread.std(ours)),
                    percent="accuracy" in metric,
                )
            )  # fmt: skip
    return found


def from_bptt(runs: Runs, paper: Mapping[str, float], last: int) -> list[Against]:
    """How far from BPTT, network by network: both began with the same weights and saw the same mini-batches."""
    found, bptt = [], {run.about["manifolds"]: run for run in runs.get("bptt", ())}
    for rule, number in paper.items():
        draws = [(run, bptt.get(run.about["manifolds"])) for run in runs.get(rule, ())]
        pairs = [(a, b) for a, b in draws if b is not None]  # on one of the draws, either may have diverged
        if pairs:
            apart = np.concatenate([a.last("valid_accuracy", last) - b.last("valid_accuracy", last) for a, b in pairs])
            found.append(
                Against(
                    what="validation accuracy above BPTT's", rule=rule, paper=number, ours=float(spread.mean(apart)),
                    spread=float(spread.std(apart)), percent=True,
                )
            )  # fmt: skip
    return found


def randman(runs: Runs, last: int, dataset: str) -> dict[str, Any]:
    draws = max((len(each) for each in runs.values()), default=0)
    apart = _apart(runs, last)
    networks = f"{draws} draw{'s' * (draws > 1)} of the manifolds, several networks on each"
    named = NAMES[dataset]
    if dataset == "t-randman":
        against = from_bptt(runs, numbers.T_RANDMAN_FROM_BPTT, last)
        remarks = ["The paper gives accuracies on T-Randman as distances from BPTT only."]
    else:
        against = beside(runs, numbers.R_RANDMAN, "validation accuracy at the end", "valid_accuracy", last)
        remarks = []
    remarks.append(
        f"Manifolds are random draws, and the authors' is not known.{apart} σ here is over the networks on all draws;"
        " the table has the means of single draws."
    )
    return {
        "lead": f"Offline training on {named}: {networks}. Every rule starts from the same weights and sees the same"
        " mini-batches.",
        "figures": [curves(runs, "curves", f"{named}, offline; mean ± σ over networks and draws.")],
        "tables": [accuracies(runs, last)],
        "against": against,
        "remarks": remarks,
    }


def _apart(runs: Runs, last: int) -> str:
    """How much the draw matters, beside how much the rule does; "" of a single draw."""
    means = [[float(spread.mean(run.last("valid_accuracy", last))) for run in each] for each in runs.values() if each]
    if not means or len(means[0]) < 2:
        return ""
    draws, rules = max(max(of) - min(of) for of in means), [float(np.mean(of)) for of in means]
    return (
        f" Validation accuracy differs by up to {100 * draws:.1f} points between draws for one rule, and by"
        f" {100 * (max(rules) - min(rules)):.1f} between rules, means of all draws."
    )


def digits(runs: Runs, last: int, data: str) -> dict[str, Any]:
    against = beside(runs, numbers.DIGITS, "validation accuracy at the end", "valid_accuracy", last)
    against += beside(runs, numbers.DIGITS_LOSS, "training loss at the end", "loss", last)
    return {
        "lead": f"Offline training on {data}, two hidden layers.",
        "figures": [curves(runs, "curves", f"{data}, offline; mean ± σ over networks.")],
        "tables": [accuracies(runs, last)],
        "against": against,
    }
