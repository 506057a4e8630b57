"""Online training: an update at every time step, each rule with the learning rate that a search found for it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from otpe.charts.kinds import Line, Lines, Table
from otpe.paper.finished import Finished
from otpe.paper.offline import accuracies, curves
from otpe.runs import spread


def section(
    runs: Mapping[str, Finished | None], search: Mapping[str, Sequence[Finished]], last: int, data: str
) -> dict[str, Any]:
    end = min((ending(run, last) for run in runs.values() if run), default=last)
    return {
        "lead": f"Online training on {data}: an update at every time step, with the learning rate of each rule from a"
        " search.",
        "figures": [curves(runs, "curves", f"{data}, online; mean ± σ over networks.")],
        "tables": [accuracies(runs, end), tried(search, last)],
    }


def tried(search: Mapping[str, Sequence[Finished]], last: int) -> Table:
    """What the search found: rules × rates."""
    rates = sorted({run.result["learning_rate"] for runs in search.values() for run in runs}, reverse=True)
    rows = []
    for rule, runs in search.items():
        by_rate = {run.result["learning_rate"]: score(run, last) for run in runs}
        rows.append([rule, *(f"{by_rate[rate]:.3f}" if rate in by_rate else "no run" for rate in rates)])
    first = next((run for runs in search.values() for run in runs), None)
    over = f", mean of the last {ending(first, last):,} of {first.result['steps']:,} mini-batches" if first else ""
    return Table(
        name="rates",
        caption=f"The search: validation accuracy{over}, by learning rate.",
        columns=["rule", *(f"{rate:g}" for rate in rates)],
        rows=rows,
    )


def ending(run: Finished, last: int) -> int:
    """Mini-batches that are the end of a run: a quarter of it at most."""
    return min(last, max(run.result["steps"] // 4, 1))


def score(run: Finished, last: int) -> float:
    """What a search compares: mean validation accuracy at the end."""
    return float(spread.mean(run.last("valid_accuracy", ending(run, last))))


def best(tried: Sequence[Finished], last: int) -> Finished:
    """The one that validated best; the first of equals, and one without a score only where none has any."""
    return max(tried, key=lambda run: np.nan_to_num(score(run, last), nan=-1.0))


def over_rates(search: Mapping[str, Sequence[Finished]], title: str) -> Lines:
    """Test accuracy over the learning rate, a line per rule."""
    lines = []
    for rule, runs in search.items():
        ordered = sorted(runs, key=lambda run: run.result["learning_rate"])
        networks = max((run.test.size for run in runs), default=0)
        lines.append(
            Line(
                name=rule,
                x=[run.result["learning_rate"] for run in ordered],
                y=[float(spread.mean(run.test)) for run in ordered],
                spread=[float(spread.std(run.test)) for run in ordered] if networks > 1 else None,
            )
        )
    return Lines(title=title, x="learning rate", y="test accuracy", lines=lines, log_x=True)
