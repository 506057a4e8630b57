"""What a report says of a run, and of several. Imports no jax: reports are made without it."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from otpe.lab.report import words
from otpe.lab.report.content import Figure, Line, Lines, Mark, Section, Table
from otpe.lab.report.palette import shown
from otpe.lab.settings import FREE, StreamConfig, TrainConfig

if TYPE_CHECKING:
    from otpe.stream.prequential import Prequential  # needs jax, which a report does without


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
        lead += f" Test accuracy {words.mean_text(result['test_accuracy'])}."
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
    return [key.removeprefix("own_") for key in about if key.startswith("own_")]


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


# --------------------
# What a report says of a stream: how the accuracy went, and what came out.


POINTS = 1000  # of a curve, about
HIDDEN = ("format", "rule", "skipped", "seconds")  # not in the table: they are told elsewhere


def of_stream(name: str, about: dict[str, Any], result: dict[str, Any], score: "Prequential") -> Section:
    """A stream that has ended. `about`: config.json. `result`: result.json."""
    curve = score.curve
    lines = [
        Line(name=f"last {score.window:,}", x=curve.steps.tolist(), y=curve.window.tolist()),
        Line(name="all", x=curve.steps.tolist(), y=curve.accuracy.tolist()),
    ]
    return _section(name, about, result, lines, so_far=False)


def of_unfinished(name: str, about: dict[str, Any], metrics: list[dict[str, Any]]) -> Section | None:
    """A stream that was stopped, or is still at work. None before the first line of metrics."""
    if not metrics:
        return None
    known = [line for line in metrics if line["accuracy"] is not None]
    apart = len(known) // POINTS + 1
    known = known[(len(known) - 1) % apart :: apart]  # with the last
    steps = [line["step"] for line in known]
    lines = [
        Line(name=f"last {about['window']:,}", x=steps, y=[line["window_accuracy"] for line in known]),
        Line(name="all", x=list(steps), y=[line["accuracy"] for line in known]),
    ]
    last = {key: value for key, value in metrics[-1].items() if isinstance(value, int | float | dict | None)}
    return _section(name, about, last, lines, so_far=True)


def _section(name: str, about: dict[str, Any], result: dict[str, Any], lines: list[Line], *, so_far: bool) -> Section:
    doing, source = "frozen" if about["frozen"] else shown(about["rule"]), about["source"]
    changed = [text.partition(":")[0].partition("@") for text in about["changes"]]
    marks = [Mark(x=int(at), text=what) for what, _, at in changed if int(at) <= result["step"]]
    panel = Lines(title="accuracy", x="time steps", y="accuracy", lines=lines, y_range=(0.0, 1.0), marks=marks or None)
    rows = [
        [key.replace("_", " "), "none" if value is None else value]
        for key, value in result.items()
        if key not in HIDDEN
    ]
    taken = f"{result['step']:,} time steps of {source}{' so far' if so_far else ''}"
    return Section(
        name=name,
        title=f"{doing} on a stream: {source}",
        lead=f"{taken}, each predicted first, then learned from ({doing}).",
        figures=[Figure(name="accuracy", caption="Along the stream. Silence counts as wrong.", panels=[panel])],
        tables=[
            Table(name="result", caption="So far." if so_far else "At the end.", columns=["what", "value"], rows=rows)
        ],
        remarks=[f"Skipped: {count:,} for their {kind}." for kind, count in result["skipped"].items()],
        command=_command(about),
        settings=settings(StreamConfig, about),
        machine=machine(about),
        seconds=result["seconds"],
    )


def _command(about: dict[str, Any]) -> str:
    """That does it again; none can for standard input."""
    if about["source_kind"] == "standard input":
        return ""
    rest = command("stream", StreamConfig, {**about, "source": StreamConfig.source})
    return f"otpe stream {shlex.quote(about['source'])}{rest.removeprefix('otpe stream')}"
