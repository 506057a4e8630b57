"""What a report says of a run, and of several. Imports no jax: reports are made without it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from otpe.charts.kinds import Figure, Line, Lines, Section, Table
from otpe.charts.look import shown
from otpe.runs import spread
from otpe.runs.config import FREE, TrainConfig

MACHINE = ("device", "platform", "versions", "commit", "resumed")
KNOWN = ("t-randman", "r-randman", "moving-shapes", "shd", "ssc", "folder")  # datasets; others are a user's own
WORDS = {
    "rule": "a rule", "rules": "rules", "net": "a network", "loss": "a loss", "optimizer": "an optimizer",
    "start": "initial weights",
}  # fmt: skip
QUANTITIES = {"valid_accuracy": "validation accuracy", "loss": "training loss"}


class Trained(Protocol):
    """What is to be known of a run for its curves."""

    @property
    def rule(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def metrics(self) -> list[dict[str, Any]]: ...


def learning_curves(runs: Sequence[Trained], caption: str) -> Figure:
    """A panel for each mode and quantity, a line for each rule: the mean over seeds, with σ."""
    panels = []
    for mode in dict.fromkeys(run.mode for run in runs):
        for key, quantity in QUANTITIES.items():
            lines = [_curve(run, key) for run in runs if run.mode == mode]
            limits = (0.0, 1.0) if key == "valid_accuracy" else None
            panels.append(Lines(title=f"{mode}: {quantity}", x="mini-batches", y=quantity, lines=lines, y_range=limits))
    return Figure(name="curves", caption=caption, panels=panels)


def of_run(name: str, about: Mapping[str, Any], result: Mapping[str, Any] | None, run: Trained) -> Section:
    """A single run: its config.json, its result, if it has one yet, and its curves."""
    whose = networks(about["seeds"], about.get("draws", 1))
    asked = f"{about['steps']:,} mini-batches of {about['batch']}"
    done = asked if result else "not finished"
    lead = f"{shown(run.rule)} on {about['dataset']}, {run.mode}, {done}, {whose}."
    if result:
        lead += f" Test accuracy {spread.text(result['test_accuracy'])}."
    return Section(
        name=name,
        title=f"{shown(run.rule)}, {run.mode}, on {about['dataset']}",
        lead=lead,
        figures=[learning_curves([run], f"While training, {whose}.")],
        tables=[] if result is None else [_numbers(result)],
        remarks=by_hand(about),
        command=command("train", TrainConfig, about),
        settings=settings(TrainConfig, about),
        machine=machine(about),
        seconds=np.nan if result is None else result["seconds"],
    )


def by_hand(about: Mapping[str, Any]) -> list[str]:
    """A remark where something was handed over in Python."""
    own = _own(about)
    if not own:
        return []
    *first, last = [WORDS.get(name, name) for name in own]
    listed = f"{', '.join(first)} and {last}" if first else last
    return [f"Trained from Python, with {listed} of its own: no command does the same."]


def _own(about: Mapping[str, Any]) -> list[str]:
    return [key.removeprefix("own_") for key in about if key.startswith("own_") and key != "own_study"]


def command(verb: str, kind: type, about: Mapping[str, Any]) -> str:
    """The command that does it again: all settings that are not the default. "" where no command does.

    That is so for a user's own data, network, rule, loss or optimizer.
    """
    if _own(about) or about.get("dataset", KNOWN[0]) not in KNOWN:
        return ""
    words = ["otpe", verb]
    for field in fields(kind):
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        default = str(default) if isinstance(default, Path) else default
        value = about.get(field.name, default)
        if value != default and (field.name not in FREE or field.name == "root"):
            values = [] if value is True else value if isinstance(value, list) else [value]
            words += [f"--{field.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def settings(kind: type, about: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: about[field.name] for field in fields(kind) if field.name in about}


def machine(about: Mapping[str, Any]) -> dict[str, Any]:
    return {name: about[name] for name in MACHINE if name in about}


def networks(seeds: int, draws: int = 1) -> str:
    return "1 network" if seeds == 1 else f"mean ± σ of {seeds} networks" + f" on {draws} draws" * (draws > 1)


def _curve(run: Trained, key: str) -> Line:
    values = [np.array(line[key], float) for line in run.metrics]
    several = bool(values) and values[0].size > 1
    return Line(
        name=run.rule,
        x=[line["step"] for line in run.metrics],
        y=[float(of.mean()) for of in values],
        spread=[float(of.std()) for of in values] if several else None,
    )


def _numbers(result: Mapping[str, Any]) -> Table:
    seeds = range(result["seed"], result["seed"] + result["seeds"])
    columns = ("test_accuracy", "test_loss", "valid_accuracy", "best_step", "loss")
    return Table(
        name="result",
        caption=f"Each network, tested with the weights that validated best; {result['steps_per_second']:.3g}"
        " mini-batches per second.",
        columns=["seed", "test accuracy", "test loss", "validation accuracy", "at step", "training loss"],
        rows=[[str(seed), *(result[name][i] for name in columns)] for i, seed in enumerate(seeds)],
    )
