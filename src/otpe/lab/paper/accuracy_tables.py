"""Offline training on Randman and on spoken digits: curves, and accuracies beside the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from otpe.lab.paper import published
from otpe.lab.paper.finished import Finished, curve
from otpe.lab.paper.plan import layers
from otpe.lab.paper.published import Spread
from otpe.lab.report import words
from otpe.lab.report.content import Against, Figure, Heat, Line, Lines, Table
from otpe.lab.report.palette import shown

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
        rest = (words.mean_text(run.test), words.mean_text(run.last("loss", last)), f"{run.result['learning_rate']:g}")
        rows.append([rule, words.mean_text(ends), *[between] * several, *rest])
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
                    what=what, rule=rule, paper=number, ours=float(words.mean(ours)), spread=float(words.std(ours)),
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
                    what="validation accuracy above BPTT's", rule=rule, paper=number, ours=float(words.mean(apart)),
                    spread=float(words.std(apart)), percent=True,
                )
            )  # fmt: skip
    return found


def offline_randman(runs: Runs, last: int, dataset: str) -> dict[str, Any]:
    draws = max((run.about.get("draws", 1) for run in runs.values() if run), default=1)
    apart = _apart(runs, last)
    networks = f"{draws} draw{'s' * (draws > 1)} of the manifolds, several networks on each"
    named = NAMES[dataset]
    if dataset == "t-randman":
        against = from_bptt(runs, published.T_RANDMAN_FROM_BPTT, last)
        remarks = ["The paper gives accuracies on T-Randman as distances from BPTT only."]
    else:
        against = beside(runs, published.R_RANDMAN, "validation accuracy at the end", "valid_accuracy", last)
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
    draws, rules = max(np.nanmax(of) - np.nanmin(of) for of in means), [float(words.mean(of)) for of in means]
    return (
        f" Validation accuracy differs by up to {100 * draws:.1f} points between draws for one rule, and by"
        f" {100 * (max(rules) - min(rules)):.1f} between rules, means of all draws."
    )


def _draws(run: Finished, last: int) -> np.ndarray:
    """Mean validation accuracy at the end on each draw of the manifolds."""
    return words.mean(run.by_draw(run.last("valid_accuracy", last)), 1)


def offline_digits(runs: Runs, last: int, data: str) -> dict[str, Any]:
    against = beside(runs, published.DIGITS, "validation accuracy at the end", "valid_accuracy", last)
    against += beside(runs, published.DIGITS_LOSS, "training loss at the end", "loss", last)
    return {
        "lead": f"Offline training on {data}, two hidden layers.",
        "figures": [curves(runs, "curves", f"{data}, offline; mean ± σ over networks.")],
        "tables": [accuracies(runs, last)],
        "against": against,
    }


# --------------------
# Online training: an update at every time step, each rule with the learning rate that a search found for it.


def online_section(
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
    return float(words.mean(run.last("valid_accuracy", ending(run, last))))


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
                y=[float(words.mean(run.test)) for run in ordered],
                spread=[float(words.std(run.test)) for run in ordered] if networks > 1 else None,
            )
        )
    return Lines(title=title, x="learning rate", y="test accuracy", lines=lines, log_x=True)


# --------------------
# The table of test accuracies on spoken digits, and the searches behind it.


Found = Mapping[str, Finished | None]  # by rule

ROUNDED = 1e-6  # accuracies are of 32 bits: no more than this apart, they are the same


def digits_table(found: Mapping[tuple[int, ...], Found], mode: str, data: str) -> dict[str, Any]:
    """By size, as hidden layers."""
    rows, against, paper = [], [], published.OFFLINE if mode == "offline" else published.ONLINE
    for hidden, runs in found.items():
        depth, width = layers(hidden)
        for rule, run in runs.items():
            theirs = paper.get((depth, width), {}).get(rule)
            rate = f"{run.result['learning_rate']:g}" if run else ""
            rows.append([rule, str(depth), str(width), _percent(run), _paper(theirs), rate])
            if run and theirs:
                against.append(
                    Against(
                        what=f"test accuracy, {depth} layers of {width}", rule=rule, paper=theirs.mean,
                        paper_spread=theirs.std, ours=float(words.mean(run.test)), spread=float(words.std(run.test)),
                        percent=True,
                    )
                )  # fmt: skip
    columns = ["rule", "layers", "width", "ours", "paper", "learning rate"]
    caption = f"Test accuracy in percent on {data}, with the weights of the best validation; mean ± σ over networks."
    searched = "; the learning rate of each rule from a search" if mode == "online" else ""
    return {
        "lead": f"Test accuracy on {data}, {mode}, in every size{searched}.",
        "tables": [Table(name="accuracies", caption=caption, columns=columns, rows=rows)],
        "against": against,
        "remarks": _order({hidden: runs for hidden, runs in found.items() if layers(hidden) in paper}, mode),
    }


def digits_rates(
    search: Mapping[tuple[int, ...], Mapping[str, Sequence[Finished]]], last: int, data: str
) -> dict[str, Any]:
    titles = {hidden: "{} layers of {}".format(*layers(hidden)) for hidden in search}
    panels = [over_rates(runs, titles[hidden]) for hidden, runs in search.items()]
    tables = [_named(tried(runs, last), titles[hidden]) for hidden, runs in search.items()]
    networks = max((run.test.size for found in search.values() for runs in found.values() for run in runs), default=0)
    of = "one network each" if networks == 1 else "mean ± σ over networks"
    return {
        "lead": f"Test accuracy over the learning rate, online, on {data}.",
        "figures": [Figure(name="rates", caption=f"{data}, online; {of}.", panels=panels)],
        "tables": tables,
    }


def digits_slopes(runs: Mapping[str, Mapping[tuple[int, int, int], Finished]], data: str) -> dict[str, Any]:
    """By rule, then by (layers, width, slope)."""
    points = sorted({point for found in runs.values() for point in found})
    depths, widths, steep = [sorted({point[i] for point in points}) for i in range(3)]
    drawn = []
    for depth in depths:
        panels = []
        for rule, found in runs.items():
            tests = [
                [found[depth, w, s].test if (depth, w, s) in found else np.array([np.nan]) for w in widths]
                for s in steep
            ]
            panels.append(
                Heat(
                    title=f"{shown(rule)}, {depth} layers", x="width", y="slope", unit="test accuracy",
                    columns=[str(w) for w in widths], rows=[str(s) for s in steep],
                    values=[[float(words.mean(x)) for x in row] for row in tests],
                    spread=[[float(words.std(x)) for x in row] for row in tests],
                )
            )  # fmt: skip
        caption = f"{depth} layers. {data}, offline; mean ± σ over networks."
        drawn.append(Figure(name=f"slopes-{depth}", caption=caption, panels=panels))
    best = []
    for rule, found in runs.items():
        if found:
            point = max(found, key=lambda p, found=found: float(np.mean(found[p].result["valid_accuracy"])))
            best.append([rule, *map(str, point), words.mean_text(found[point].test)])
    caption = "The point of each rule that validated best; test accuracy, mean ± σ over networks."
    columns = ["rule", "layers", "width", "slope", "test"]
    return {
        "lead": f"Test accuracy over the surrogate's slope, the width and the number of layers, offline, on {data}.",
        "figures": drawn,
        "tables": [Table(name="best", caption=caption, columns=columns, rows=best)],
    }


def _order(sizes: Mapping[tuple[int, ...], Found], mode: str) -> list[str]:
    """Where OTPE does not lie above OSTL and OTTT, as the paper has it."""
    remarks = []
    for hidden, runs in sizes.items():
        mine = runs.get("otpe")
        for rule in ("ostl", "ottt"):
            other = runs.get(rule)
            if mine and other and words.mean(mine.test) - words.mean(other.test) < ROUNDED:
                remarks.append(
                    "{} layers of {}".format(*layers(hidden)) + f": OTPE ({_percent(mine)}) does not lie above"
                    f" {rule.upper()} ({_percent(other)}), {mode}, unlike in the paper."
                )
    return remarks


def _named(table: Table, title: str) -> Table:
    return replace(table, name=f"{table.name}-{title.replace(' ', '-')}", caption=f"{title}. {table.caption}")


def _percent(run: Finished | None) -> str:
    return words.mean_text(run.test * 100, 1) if run else ""


def _paper(theirs: Spread | None) -> str:
    return f"{theirs.mean * 100:.1f} ± {theirs.std * 100:.1f}" if theirs else ""
