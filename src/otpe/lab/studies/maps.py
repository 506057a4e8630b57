"""Pictures and tables of a sweep: curves over one setting, maps over two and more."""

from itertools import product
from typing import Any

import numpy as np

from otpe.lab.report import words
from otpe.lab.report.content import Bar, Bars, Figure, Heat, Line, Lines, Panel, Section, Table
from otpe.lab.report.palette import shown
from otpe.lab.studies import grid
from otpe.lab.studies.grid import SweepResult


def section(result: SweepResult, *, name: str = "sweep", title: str = "") -> Section:
    """What a report says about it."""
    over = " × ".join(result.axes)
    seeds = result.accuracy.shape[-1]
    of = f"mean ± σ of {seeds} networks" if seeds > 1 else "one network each"
    points = [point for point in result.points if point["state"] == "finished"]
    return Section(
        name=name,
        title=title or f"{over}, {result.dataset}",
        lead=f"Test accuracy over {over}: {len(points)} of {len(result.points)} runs, {of}. {_told(result)}".strip(),
        figures=[_figure(result, mode, of) for mode in result.modes],
        tables=[table(result)],
        remarks=[f"{line}." for line in (*result.left_out, *result.diverged)],
    )


def table(result: SweepResult) -> Table:
    """The best point of each rule in each mode."""
    rows = []
    for mode, rule in product(result.modes, result.rules):
        best = result.best(rule, mode)
        if best is not None:
            accuracies = [
                float(f(best[what])) for what in ("test_accuracy", "valid_accuracy") for f in (np.mean, np.std)
            ]
            rows.append([rule, mode, *map(grid.text, best["at"].values()), *accuracies])
    columns = ["rule", "mode", *result.axes, "test accuracy", "σ", "validation", "σ"]
    caption = "The point of each rule that validated best, and its accuracy in the test."
    return Table(name="best", caption=caption, columns=columns, rows=rows)


def _told(result: SweepResult) -> str:
    """The best of all."""
    found = [best for mode, rule in product(result.modes, result.rules) if (best := result.best(rule, mode))]
    if not found:
        return ""
    best = max(found, key=lambda point: np.mean(point["valid_accuracy"]))
    at = ", ".join(f"{name} {grid.text(value)}" for name, value in best["at"].items())
    who = f"{shown(best['rule'])} {best['mode']}"
    return f"Best in validation: {who} at {at}, {words.mean_text(best['test_accuracy'])} in the test."


def _figure(result: SweepResult, mode: str, of: str) -> Figure:
    accuracy = result.accuracy[:, result.modes.index(mode)]  # [rules, *axes, seeds]
    shown = [i for i in range(len(result.rules)) if not np.isnan(accuracy[i]).all()]
    rules, accuracy = [result.rules[i] for i in shown], accuracy[shown]
    panels = _curves(result, mode, rules, accuracy) if len(result.axes) == 1 else _maps(result, rules, accuracy)
    over = " × ".join(result.axes)
    return Figure(name=mode, caption=f"Test accuracy over {over}, {mode}; {of}.", panels=panels)


def _curves(result: SweepResult, mode: str, rules: list[str], accuracy: np.ndarray) -> list[Panel]:
    """A line per rule; bars, where the setting is no number. `accuracy` [rules, values, seeds]."""
    ((name, values),) = result.axes.items()
    mean, sigma = accuracy.mean(-1), accuracy.std(-1)
    spreads = [None if accuracy.shape[-1] == 1 else s.tolist() for s in sigma]
    each: Any = list(zip(rules, mean, spreads, strict=True))
    if not grid.is_number(values):
        bars = [Bar(name=rule, values=y.tolist(), spread=s) for rule, y, s in each]
        groups = [grid.text(value) for value in values]
        return [Bars(title=mode, y="test accuracy", groups=groups, bars=bars, y_range=(0, 1))]
    order = np.argsort(values)
    x = [float(values[i]) for i in order]
    lines = []
    for rule, y, s in each:
        lines.append(Line(name=rule, x=x, y=y[order].tolist(), spread=None if s is None else [s[i] for i in order]))
    log = grid.spans_a_decade(values)
    return [Lines(title=mode, x=name, y="test accuracy", lines=lines, log_x=log, y_range=(0, 1))]


def _maps(result: SweepResult, rules: list[str], accuracy: np.ndarray) -> list[Panel]:
    """A map per rule, and per combination of the settings beyond the second. `accuracy` [rules, *axes, seeds]."""
    (rows, columns), rest = list(result.axes)[:2], list(result.axes)[2:]
    panels: list[Panel] = []
    for i, rule in enumerate(rules):
        for where in product(*(range(len(result.axes[name])) for name in rest)):
            there = accuracy[i][:, :, *where]  # [rows, columns, seeds]
            at = [f"{name} {grid.text(result.axes[name][k])}" for name, k in zip(rest, where, strict=True)]
            panels.append(
                Heat(
                    title=", ".join([shown(rule), *at]),
                    x=columns,
                    y=rows,
                    columns=[grid.text(value) for value in result.axes[columns]],
                    rows=[grid.text(value) for value in result.axes[rows]],
                    values=there.mean(-1).tolist(),
                    spread=None if there.shape[-1] == 1 else there.std(-1).tolist(),
                    unit="test accuracy",
                )
            )
    return panels
