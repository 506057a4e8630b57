"""The sections of a run and of a stream, and what all sections need: commands, settings, machines. Imports no jax."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from otpe.datasets import registry
from otpe.lab.report import words
from otpe.lab.report.content import Figure, Section, Table
from otpe.lab.report.palette import shown
from otpe.lab.report.panels import Line, Lines, Mark
from otpe.lab.settings import FREE, StreamConfig, TrainConfig, data_name

if TYPE_CHECKING:
    from otpe.stream.prequential import Prequential  # needs jax

MACHINE = ("device", "platform", "versions", "commit", "resumed")
OWN_PARTS = {
    "rule": "a rule", "rules": "rules", "net": "a network", "loss": "a loss", "optimizer": "an optimizer",
    "start": "initial weights",
}  # fmt: skip
QUANTITIES = {"valid_accuracy": "validation accuracy", "loss": "training loss"}
POINTS = 1000  # of the curve of an unfinished stream, about
NOT_IN_TABLE = ("format", "rule", "skipped", "seconds")  # of a stream: shown elsewhere in the section


class Training(NamedTuple):
    """What learning curves need of a run."""

    rule: str
    mode: str
    metrics: Sequence[Mapping[str, Any]]


def learning_curves(runs: Sequence[Any], caption: str) -> Figure:
    """Return a panel for each mode and quantity, with a line for each rule: mean and σ over seeds.

    `runs`: each has `rule`, `mode` and `metrics`, as a Training has.
    """
    panels = []
    for mode in dict.fromkeys(run.mode for run in runs):
        for key, quantity in QUANTITIES.items():
            lines = [_curve(run, key) for run in runs if run.mode == mode]
            limits = (0.0, 1.0) if key == "valid_accuracy" else None
            panels.append(Lines(title=f"{mode}: {quantity}", x="mini-batches", y=quantity, lines=lines, y_range=limits))
    return Figure(name="curves", caption=caption, panels=panels)


def _curve(run: Training, key: str) -> Line:
    values = [np.array(line[key], float) for line in run.metrics]
    several = bool(values) and values[0].size > 1
    return Line(
        name=run.rule,
        x=[line["step"] for line in run.metrics],
        y=[float(of.mean()) for of in values],
        spread=[float(words.std(of)) for of in values] if several else None,
    )


def of_run(
    name: str, config: Mapping[str, Any], result: Mapping[str, Any] | None, metrics: Sequence[Mapping[str, Any]]
) -> Section:
    """Return the section of a single run from its config.json, its result.json if it exists, and its metrics."""
    rule, mode, dataset = config["rule"], config["mode"], data_name(config["dataset"], config.get("root"))
    whose = networks(config["seeds"], config.get("draws", 1))
    length = f"{config['steps']:,} mini-batches of {config['batch']}"
    lead = f"{shown(rule)} on {dataset}, {mode}, {length if result else 'not finished'}, {whose}."
    tables = []
    if result:
        lead += f" Test accuracy {words.mean_text(result['test_accuracy'])}."
        tables = [_result_table(result)]
    return Section(
        name=name,
        title=f"{shown(rule)}, {mode}, on {dataset}",
        lead=lead,
        figures=[learning_curves([Training(rule, mode, metrics)], f"While training, {whose}.")],
        tables=tables,
        remarks=by_hand(config),
        command=command("train", TrainConfig, config),
        settings=settings(TrainConfig, config),
        machine=machine(config),
        seconds=np.nan if result is None else result["seconds"],
    )


def _result_table(result: Mapping[str, Any]) -> Table:
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
# For all sections.


def networks(seeds: int, draws: int = 1) -> str:
    """Return text such as "mean ± σ of 3 networks"."""
    few = " (few)" * (seeds < words.FEW)
    return "1 network" if seeds == 1 else f"mean ± σ of {seeds} networks{few}" + f" on {draws} draws" * (draws > 1)


def settings(kind: type, config: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: config[field.name] for field in fields(kind) if field.name in config}


def machine(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in MACHINE if name in config}


def by_hand(config: Mapping[str, Any]) -> list[str]:
    """Return a remark if a part of the run was given in Python."""
    own = [OWN_PARTS.get(name, name) for name in _own(config)]
    if not own:
        return []
    listed = " and ".join([", ".join(own[:-1]), own[-1]] if own[1:] else own)
    return [f"Trained with {listed} from Python code: no command can repeat it."]


def _own(config: Mapping[str, Any]) -> list[str]:
    return [key.removeprefix("own_") for key in config if key.startswith("own_")]


def command(verb: str, kind: type, config: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, with all settings that differ from the default.

    Returns "" if no command can: the data, network, rule, loss or optimizer is a user's own.
    """
    if _own(config) or config.get("dataset", "t-randman") not in registry.DATASETS:
        return ""
    parts = ["otpe", verb]
    for field in fields(kind):
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        default = str(default) if isinstance(default, Path) else default
        value = config.get(field.name, default)
        if value != default and (field.name not in FREE or field.name == "root"):
            values = [] if value is True else value if isinstance(value, list) else [value]
            parts += [f"--{field.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(parts)


# --------------------
# Streams.


def of_stream(name: str, config: dict[str, Any], result: dict[str, Any], score: "Prequential") -> Section:
    """Return the section of a stream that has ended, from its config.json and result.json."""
    steps, curve = score.curve.steps.tolist(), score.curve
    return _stream(name, config, result, steps, curve.window.tolist(), curve.accuracy.tolist(), so_far=False)


def of_unfinished(name: str, config: dict[str, Any], metrics: list[dict[str, Any]]) -> Section | None:
    """Return the section of a stream that was stopped, or is still running. None without metrics."""
    if not metrics:
        return None
    known = [line for line in metrics if line["accuracy"] is not None]
    every = len(known) // POINTS + 1
    known = known[(len(known) - 1) % every :: every]  # includes the last
    steps, window, accuracy = ([line[key] for line in known] for key in ("step", "window_accuracy", "accuracy"))
    last = {key: value for key, value in metrics[-1].items() if isinstance(value, int | float | dict | None)}
    return _stream(name, config, last, steps, window, accuracy, so_far=True)


def _stream(
    name: str, config: dict[str, Any], result: dict[str, Any], steps: list[int], window: list[float],
    accuracy: list[float], *, so_far: bool,
) -> Section:  # fmt: skip
    rule, source = "frozen" if config["frozen"] else shown(config["rule"]), config["source"]
    lines = [Line(name=f"last {config['window']:,}", x=steps, y=window), Line(name="all", x=steps, y=accuracy)]
    changes = [text.partition(":")[0].partition("@") for text in config["changes"]]
    marks = [Mark(x=int(at), text=what) for what, _, at in changes if int(at) <= result["step"]]
    panel = Lines(title="accuracy", x="time steps", y="accuracy", lines=lines, y_range=(0.0, 1.0), marks=marks or None)
    shown_results = {key.replace("_", " "): value for key, value in result.items() if key not in NOT_IN_TABLE}
    rows = [[key, "none" if value is None else value] for key, value in shown_results.items()]
    caption = "So far." if so_far else "At the end."
    taken = f"{result['step']:,} time steps of {source}{' so far' if so_far else ''}"
    return Section(
        name=name,
        title=f"{rule} on a stream: {source}",
        lead=f"{taken}, each predicted first, then learned from ({rule}).",
        figures=[Figure(name="accuracy", caption="Along the stream. Silence counts as wrong.", panels=[panel])],
        tables=[Table(name="result", caption=caption, columns=["what", "value"], rows=rows)],
        remarks=[f"Skipped: {count:,} for their {kind}." for kind, count in result["skipped"].items()],
        command=_stream_command(config),
        settings=settings(StreamConfig, config),
        machine=machine(config),
        seconds=result["seconds"],
    )


def _stream_command(config: dict[str, Any]) -> str:
    """Return the command that repeats a stream. "" for standard input, which none can repeat."""
    if config["source_kind"] == "standard input":
        return ""
    rest = command("stream", StreamConfig, {**config, "source": StreamConfig.source})
    return f"otpe stream {shlex.quote(config['source'])}{rest.removeprefix('otpe stream')}"
