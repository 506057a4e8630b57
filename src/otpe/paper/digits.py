"""The table of test accuracies on spoken digits, and the searches behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from otpe.charts.kinds import Against, Figure, Heat, Table
from otpe.charts.look import shown
from otpe.paper import numbers
from otpe.paper.finished import Finished
from otpe.paper.numbers import Spread
from otpe.paper.online import over_rates, tried
from otpe.paper.plan import layers
from otpe.runs import spread

Found = Mapping[str, Finished | None]  # by rule

ROUNDED = 1e-6  # accuracies are of 32 bits: no more than this apart, they are the same


def table(found: Mapping[tuple[int, ...], Found], mode: str, data: str) -> dict[str, Any]:
    """By size, as hidden layers."""
    rows, against, paper = [], [], numbers.OFFLINE if mode == "offline" else numbers.ONLINE
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
                        paper_spread=theirs.std, ours=float(spread.mean(run.test)), spread=float(spread.std(run.test)),
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


def rates(search: Mapping[tuple[int, ...], Mapping[str, Sequence[Finished]]], last: int, data: str) -> dict[str, Any]:
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


def slopes(runs: Mapping[str, Mapping[tuple[int, int, int], Finished]], data: str) -> dict[str, Any]:
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
                    values=[[float(spread.mean(x)) for x in row] for row in tests],
                    spread=[[float(spread.std(x)) for x in row] for row in tests],
                )
            )  # fmt: skip
        caption = f"{depth} layers. {data}, offline; mean ± σ over networks."
        drawn.append(Figure(name=f"slopes-{depth}", caption=caption, panels=panels))
    best = []
    for rule, found in runs.items():
        if found:
            point = max(found, key=lambda p, found=found: float(np.mean(found[p].result["valid_accuracy"])))
            best.append([rule, *map(str, point), spread.text(found[point].test)])
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
            if mine and other and spread.mean(mine.test) - spread.mean(other.test) < ROUNDED:
                remarks.append(
                    "{} layers of {}".format(*layers(hidden)) + f": OTPE ({_percent(mine)}) does not lie above"
                    f" {rule.upper()} ({_percent(other)}), {mode}, unlike in the paper."
                )
    return remarks


def _named(table: Table, title: str) -> Table:
    return replace(table, name=f"{table.name}-{title.replace(' ', '-')}", caption=f"{title}. {table.caption}")


def _percent(run: Finished | None) -> str:
    return spread.text(run.test * 100, 1) if run else ""


def _paper(theirs: Spread | None) -> str:
    return f"{theirs.mean * 100:.1f} ± {theirs.std * 100:.1f}" if theirs else ""
