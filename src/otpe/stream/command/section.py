"""What a report says of a stream: how the accuracy went, and what came out."""

import shlex
from typing import TYPE_CHECKING, Any

from otpe.charts.kinds import Figure, Line, Lines, Mark, Section, Table
from otpe.charts.look import shown
from otpe.runs import section
from otpe.stream.command.config import StreamConfig

if TYPE_CHECKING:
    from otpe.stream.score import Prequential  # needs jax, which a report does without

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
        settings=section.settings(StreamConfig, about),
        machine=section.machine(about),
        seconds=result["seconds"],
    )


def _command(about: dict[str, Any]) -> str:
    """That does it again; none can for standard input."""
    if about["kind"] == "standard input":
        return ""
    rest = section.command("stream", StreamConfig, {**about, "source": StreamConfig.source})
    return f"otpe stream {shlex.quote(about['source'])}{rest.removeprefix('otpe stream')}"
