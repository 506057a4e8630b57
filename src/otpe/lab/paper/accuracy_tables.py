"""Sections with accuracies: curves, tables, searches, and the paper's numbers beside ours.

Each function returns parts of a Section of a report, as a dictionary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from otpe.lab.paper import published
from otpe.lab.paper.evidence import ABOVE_BPTT, TEST, VALIDATION, sample
from otpe.lab.paper.plan import DATASETS, FinishedRun, Hidden, layers_and_width
from otpe.lab.paper.published import comparison
from otpe.lab.report import sections, words
from otpe.lab.report.content import Against, Figure, Sample, Table
from otpe.lab.report.palette import shown
from otpe.lab.report.panels import Heat, Line, Lines
from otpe.lab.studies import study

Runs = Mapping[str, FinishedRun | None]  # by rule; None if it diverged
Trials = Mapping[str, Sequence[FinishedRun]]  # by rule, the finished runs of a search for the learning rate
ROUNDED = 1e-6  # accuracies are float32: they are equal if they differ by less


def curves(runs: Runs, caption: str) -> Figure:
    """Validation accuracy and training loss during training; mean ± σ over networks."""

    def panel(title: str, y: str, metric: str) -> Lines:
        lines = [curve(run, metric) for run in runs.values() if run]
        return Lines(title=title, x="mini-batches", y=y, lines=lines)

    panels = [
        panel("validation accuracy", "accuracy", "valid_accuracy"),
        panel("training loss", "cross-entropy", "loss"),
    ]
    return Figure(name="curves", caption=caption, panels=panels)


def curve(run: FinishedRun, metric: str) -> Line:
    return study.mean_line(run.rule, *words.thinned(run.steps, run.along(metric)))


def _networks(runs: Runs, draws: int = 1) -> str:
    """Return text such as "mean ± σ of 12 networks on 3 draws"."""
    return sections.networks(max((run.test.size for run in runs.values() if run), default=0), draws)


def accuracies(runs: Runs, last: int) -> Table:
    several = any(run and len(_draws(run, last)) > 1 for run in runs.values())
    columns = ["rule", "n", "validation", *["means of draws"] * several, "test", "loss", "learning rate"]
    rows = []
    for rule, run in runs.items():
        if not run:
            rows.append([rule, "", "no run", *[""] * (len(columns) - 3)])
            continue
        draws = _draws(run, last)
        between = f"{np.nanmin(draws):.3f} to {np.nanmax(draws):.3f}" if len(draws) > 1 else "one"
        valid, test, loss = map(words.mean_text, (run.last("valid_accuracy", last), run.test, run.last("loss", last)))
        rows.append([rule, counted(run), valid, *[between] * several, test, loss, f"{run.rate:g}"])
    return Table(
        name="accuracies",
        caption=f"Validation accuracy and training loss, mean of the last {last:,} mini-batches, and test accuracy with"
        " the weights of the best validation; mean ± standard deviation of n networks.",
        columns=columns,
        rows=rows,
    )


def counted(run: FinishedRun | None) -> str:
    """Return the number of networks of a run. A small one is called few."""
    if not run:
        return ""
    return f"{run.test.size}, few" if run.test.size < words.FEW else str(run.test.size)


def samples(runs: Runs, last: int) -> list[Sample]:
    """Return the accuracies of each network, for the claims of the paper."""
    found = [run for run in runs.values() if run]
    ends = [sample(VALIDATION, run.rule, run.last("valid_accuracy", last)) for run in found]
    return ends + [sample(TEST, run.rule, run.test) for run in found]


def _draws(run: FinishedRun, last: int) -> np.ndarray:
    """The mean validation accuracy at the end, for each draw of the manifolds."""
    return words.mean(run.last("valid_accuracy", last).reshape(run.about.get("draws", 1), -1), 1)


def beside(runs: Runs, paper: Mapping[str, float], what: str, metric: str, last: int) -> list[Against]:
    """The paper's means over the last mini-batches beside ours."""
    return [
        comparison(what, rule, number, run.last(metric, last), percent="accuracy" in metric)
        for rule, number in paper.items()
        if (run := runs.get(rule))
    ]


def from_bptt(runs: Runs, paper: Mapping[str, float], last: int) -> list[Against]:
    """Differences from BPTT, network by network: both had the same initial weights and the same mini-batches."""
    if not (bptt := runs.get("bptt")):
        return []
    what, ends = ABOVE_BPTT, bptt.last("valid_accuracy", last)
    return [
        comparison(what, rule, number, run.last("valid_accuracy", last) - ends, percent=True)
        for rule, number in paper.items()
        if (run := runs.get(rule))
    ]


def offline_randman(runs: Runs, last: int, dataset: str) -> dict[str, Any]:
    draws, name = max((run.about.get("draws", 1) for run in runs.values() if run), default=1), DATASETS[dataset]
    if dataset == "t-randman":
        against = from_bptt(runs, published.T_RANDMAN_FROM_BPTT, last)
        remarks = ["The paper gives accuracies on T-Randman only as differences from BPTT."]
    else:
        against, remarks = beside(runs, published.R_RANDMAN, VALIDATION, "valid_accuracy", last), []
    remarks.append(
        f"Manifolds are drawn at random, and the authors' draw is not known.{_effect_of_draws(runs, last)} σ is over"
        " the networks on all draws; the table has the means of single draws."
    )
    return {
        "lead": f"Offline training on {name}: {draws} draw{'s' * (draws > 1)} of the manifolds, several networks on"
        " each. Every rule starts from the same weights and sees the same mini-batches.",
        "figures": [curves(runs, f"{name}, offline; {_networks(runs, draws)}.")],
        "tables": [accuracies(runs, last)],
        "against": against,
        "remarks": remarks,
        "samples": samples(runs, last),
    }


def _effect_of_draws(runs: Runs, last: int) -> str:
    """A sentence on the difference between draws, and between rules. Empty for a single draw."""
    means = [_draws(run, last) for run in runs.values() if run]
    if not means or len(means[0]) < 2:
        return ""
    draws, rules = max(np.nanmax(of) - np.nanmin(of) for of in means), [float(words.mean(of)) for of in means]
    return (
        f" Validation accuracy differs by up to {100 * draws:.1f} points between draws for one rule, and by"
        f" {100 * (max(rules) - min(rules)):.1f} points between the means of rules over all draws."
    )


def offline_digits(runs: Runs, last: int, data: str) -> dict[str, Any]:
    return {
        "lead": f"Offline training on {data}, two hidden layers.",
        "figures": [curves(runs, f"{data}, offline; {_networks(runs)}.")],
        "tables": [accuracies(runs, last)],
        "against": beside(runs, published.DIGITS, VALIDATION, "valid_accuracy", last)
        + beside(runs, published.DIGITS_LOSS, "training loss at the end", "loss", last),
        "samples": samples(runs, last),
    }


# --------------------
# Online training: an update at every time step, each rule with the learning rate that a search found for it.


def online_section(runs: Runs, search: Trials, last: int, data: str) -> dict[str, Any]:
    end = min((ending(run, last) for run in runs.values() if run), default=last)
    return {
        "lead": f"Online training on {data}: an update at every time step, with the learning rate of each rule from a"
        " search.",
        "figures": [curves(runs, f"{data}, online; {_networks(runs)}.")],
        "tables": [accuracies(runs, end), rates_table(search, last)],
        "samples": samples(runs, end),
    }


def rates_table(search: Trials, last: int) -> Table:
    """The result of a search: rules × rates."""
    trials = [run for runs in search.values() for run in runs]
    rates = sorted({run.rate for run in trials}, reverse=True)
    scores = {(rule, run.rate): f"{score(run, last):.3f}" for rule, runs in search.items() for run in runs}
    over = ""
    if trials:
        over = f", mean of the last {ending(trials[0], last):,} of {trials[0].result['steps']:,} mini-batches"
    return Table(
        name="rates",
        caption=f"The search: validation accuracy{over}, by learning rate.",
        columns=["rule", *(f"{rate:g}" for rate in rates)],
        rows=[[rule, *(scores.get((rule, rate), "no run") for rate in rates)] for rule in search],
    )


def ending(run: FinishedRun, last: int) -> int:
    """The number of mini-batches that count as the end of a run: at most a quarter of it."""
    return min(last, max(run.result["steps"] // 4, 1))


def score(run: FinishedRun, last: int) -> float:
    """The number that a search compares: the mean validation accuracy at the end."""
    return float(words.mean(run.last("valid_accuracy", ending(run, last))))


def best(trials: Sequence[FinishedRun], last: int) -> FinishedRun:
    """The trial with the highest score, or the first of equal ones. NaN is the lowest score."""
    return max(trials, key=lambda run: np.nan_to_num(score(run, last), nan=-1.0))


# --------------------
# Spoken digits: test accuracies in networks of every size, and the searches behind them.


def _title(hidden: Hidden) -> str:
    return "{} layers of {}".format(*layers_and_width(hidden))


def digits_table(runs_of_sizes: Mapping[Hidden, Runs], mode: str, data: str) -> dict[str, Any]:
    paper = published.OFFLINE if mode == "offline" else published.ONLINE
    rows, against, remarks, tested = [], [], [], []
    for hidden, runs in runs_of_sizes.items():
        depth, width = layers_and_width(hidden)
        theirs = paper.get((depth, width), {})
        for rule, run in runs.items():
            number = theirs.get(rule)
            given = f"{number.mean * 100:.1f} ± {number.std * 100:.1f}" if number else ""
            rate = f"{run.rate:g}" if run else ""
            rows.append([rule, str(depth), str(width), counted(run), _percent(run), given, rate])
            if run and number:
                against.append(comparison(f"{TEST}, {_title(hidden)}", rule, number, run.test, percent=True))
            tested += [sample(f"{TEST}, {_title(hidden)}", rule, run.test)] if run else []
        if theirs:
            remarks += [f"{_title(hidden)}: {text}, {mode}, unlike in the paper." for text in _not_above(runs)]
    searched = "; the learning rate of each rule from a search" if mode == "online" else ""
    table = Table(
        name="accuracies",
        caption=f"Test accuracy in percent on {data}, with the weights of the best validation;"
        f" mean ± standard deviation of n networks, in the paper of {published.NETWORKS}.",
        columns=["rule", "layers", "width", "n", "ours", "paper", "learning rate"],
        rows=rows,
    )
    return {
        "lead": f"Test accuracy on {data}, {mode}, in every size{searched}.",
        "tables": [table],
        "against": against,
        "remarks": remarks,
        "samples": tested,
    }


def _not_above(runs: Runs) -> list[str]:
    """Return a text for each rule that OTPE beats in the paper, but not here."""
    otpe = runs.get("otpe")
    return [
        f"OTPE ({_counted_percent(otpe)}) is not above {rule.upper()} ({_counted_percent(other)})"
        for rule in ("ostl", "ottt")
        if otpe and (other := runs.get(rule)) and words.mean(otpe.test) - words.mean(other.test) < ROUNDED
    ]


def _percent(run: FinishedRun | None) -> str:
    return words.mean_text(run.test * 100, 1) if run else ""


def _counted_percent(run: FinishedRun) -> str:
    return f"{_percent(run)}, {words.networks_text(run.test.size)}"


def digits_rates(search_of_sizes: Mapping[Hidden, Trials], last: int, data: str) -> dict[str, Any]:
    tables = []
    for hidden, search in search_of_sizes.items():
        table, title = rates_table(search, last), _title(hidden)
        name = f"{table.name}-{title.replace(' ', '-')}"
        tables.append(replace(table, name=name, caption=f"{title}. {table.caption}"))
    sizes = [run.test.size for search in search_of_sizes.values() for runs in search.values() for run in runs]
    n = max(sizes, default=0)
    networks = "one network each" if n == 1 else sections.networks(n)
    panels = [_over_rates(search, _title(hidden)) for hidden, search in search_of_sizes.items()]
    return {
        "lead": f"Test accuracy over the learning rate, online, on {data}.",
        "figures": [Figure(name="rates", caption=f"{data}, online; {networks}.", panels=panels)],
        "tables": tables,
        "samples": [
            sample(f"{TEST}, {_title(hidden)}, rate {run.rate:g}", rule, run.test)
            for hidden, search in search_of_sizes.items()
            for rule, runs in search.items()
            for run in runs
        ],
    }


def _over_rates(search: Trials, title: str) -> Lines:
    """Test accuracy over the learning rate, a line per rule."""
    lines = []
    for rule, runs in search.items():
        ordered = sorted(runs, key=lambda run: run.rate)
        tests = np.array([run.test for run in ordered] or np.empty((0, 1)))
        lines.append(study.mean_line(rule, [run.rate for run in ordered], tests))
    return Lines(title=title, x="learning rate", y="test accuracy", lines=lines, log_x=True)


def digits_slopes(runs: Mapping[str, Mapping[tuple[int, int, int], FinishedRun]], data: str) -> dict[str, Any]:
    """`runs` are by rule, then by (layers, width, slope)."""
    points = {point for found in runs.values() for point in found}
    depths, widths, slopes = (sorted({point[i] for point in points}) for i in range(3))
    networks = max((run.test.size for found in runs.values() for run in found.values()), default=1)

    def panel(rule: str, depth: int) -> Heat:
        tests = np.full((len(slopes), len(widths), networks), np.nan)
        for (layers, width, slope), run in runs[rule].items():
            if layers == depth:
                tests[slopes.index(slope), widths.index(width)] = run.test
        title, rows, columns = f"{shown(rule)}, {depth} layers", [*map(str, slopes)], [*map(str, widths)]
        return study.accuracy_map(title, "slope", rows, "width", columns, tests)

    rows = []
    for rule, found in runs.items():
        if found:
            point = max(found, key=lambda p, found=found: float(np.mean(found[p].result["valid_accuracy"])))
            rows.append([rule, *map(str, point), counted(found[point]), words.mean_text(found[point].test)])
    caption = "The point of each rule with the highest validation accuracy; test accuracy, mean ± σ of n networks."
    tested = [
        sample(f"{TEST}, {depth} layers of {width}, slope {slope}", rule, run.test)
        for rule, found in runs.items()
        for (depth, width, slope), run in found.items()
    ]
    return {
        "samples": tested,
        "lead": f"Test accuracy over the surrogate's slope, the width and the number of layers, offline, on {data}.",
        "figures": [
            Figure(
                name=f"slopes-{depth}",
                caption=f"{depth} layers. {data}, offline; {sections.networks(networks)}.",
                panels=[panel(rule, depth) for rule in runs],
            )
            for depth in depths
        ],
        "tables": [
            Table(name="best", caption=caption, columns=["rule", "layers", "width", "slope", "n", "test"], rows=rows)
        ],
    }
