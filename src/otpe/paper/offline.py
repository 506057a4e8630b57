"""Offline training on Randman and on spoken digits: curves, and accuracies beside the paper's."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from otpe.charts.kinds import Against, Figure, Lines, Table
from otpe.paper import numbers
from otpe.paper.finished import Finished, curve
from otpe.runs import spread

NAMES = {"r-randman": "R-Randman", "t-randman": "T-Randman"}
Runs = Mapping[str, Finished | None]  # of each rule


def curves(runs: Runs, name: str, caption: str) -> Figure:
    """Validation accuracy and training loss; mean ± σ over networks."""
    shown = [run for run in runs.values() if run]
    return Figure(
        name=name,
        caption=caption,
        panels=[
            Lines(
                title="validation accuracy", x="mini-batches", y="accuracy",
                lines=[curve(run, "valid_accuracy") for run in shown],
            ),
            Lines(
                title="training loss", x="mini-batches", y="cross-entropy",
                lines=[curve(run, "loss") for run in shown],
            ),
        ],
    )  # fmt: skip


def accuracies(runs: Runs, last: int) -> Table:
    several = any(run and len(_draws(run, last)) > 1 for run in runs.values())
    columns = ["rule", "validation", *["means of draws"] * several, "test", "loss", "learning rate"]
    rows = []
    for rule, run in runs.items():
        if not run:
            rows.append([rule, "no run", *[""] * (len(columns) - 2)])
            continue
        ends, draws = run.last("valid_accuracy", last), _draws(run, last)
        between = f"{np.nanmin(draws):.3f} to {np.nanmax(draws):.3f}" if len(draws) > 1 else "one"
        rest = (spread.text(run.test), spread.text(run.last("loss", last)), f"{run.result['learning_rate']:g}")
        rows.append([rule, spread.text(ends), *[between] * several, *rest])
    return Table(
        name="accuracies",
        caption=f"Validation accuracy and training loss, mean of the last {last:,} mini-batches, and test accuracy with"
        " the weights of the best validation; mean ± σ over all networks.",
        columns=columns,
        rows=rows,
    )


def beside(runs: Runs, paper: Mapping[str, float], what: str, metric: str, last: int) -> list[Against]:
    """The paper's means over the last mini-batches beside ours."""
    found = []
    for rule, number in paper.items():
        run = runs.get(rule)
        if run:
            ours = run.last(metric, last)
            found.append(
                Against(
                    what=what, rule=rule, paper=number, ours=float(spread.mean(ours)), spread=float(spread.std(ours)),
                    percent="accuracy" in metric,
                )
            )  # fmt: skip
    return found


def from_bptt(runs: Runs, paper: Mapping[str, float], last: int) -> list[Against]:
    """How far from BPTT, network by network: both began with the same weights and saw the same mini-batches."""
    found, bptt = [], runs.get("bptt")
    for rule, number in paper.items():
        run = runs.get(rule)
        if run and bptt:
            apart = run.last("valid_accuracy", last) - bptt.last("valid_accuracy", last)
            found.append(
                Against(
                    what="validation accuracy above BPTT's", rule=rule, paper=number, ours=float(spread.mean(apart)),
                    spread=float(spread.std(apart)), percent=True,
                )
            )  # fmt: skip
    return found


def randman(runs: Runs, last: int, dataset: str) -> dict[str, Any]:
    draws = max((run.about.get("draws", 1) for run in runs.values() if run), default=1)
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
    means = [_draws(run, last) for run in runs.values() if run]
    if not means or len(means[0]) < 2:
        return ""
    draws, rules = max(np.nanmax(of) - np.nanmin(of) for of in means), [float(spread.mean(of)) for of in means]
    return (
        f" Validation accuracy differs by up to {100 * draws:.1f} points between draws for one rule, and by"
        f" {100 * (max(rules) - min(rules)):.1f} between rules, means of all draws."
    )


def _draws(run: Finished, last: int) -> np.ndarray:
    """Mean validation accuracy at the end on each draw of the manifolds."""
    return spread.mean(run.by_draw(run.last("valid_accuracy", last)), 1)


def digits(runs: Runs, last: int, data: str) -> dict[str, Any]:
    against = beside(runs, numbers.DIGITS, "validation accuracy at the end", "valid_accuracy", last)
    against += beside(runs, numbers.DIGITS_LOSS, "training loss at the end", "loss", last)
    return {
        "lead": f"Offline training on {data}, two hidden layers.",
        "figures": [curves(runs, "curves", f"{data}, offline; mean ± σ over networks.")],
        "tables": [accuracies(runs, last)],
        "against": against,
    }
