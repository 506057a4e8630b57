"""What a report says of a stream: how the accuracy went, and what came out."""

import shlex
from typing import Any

from otpe.charts.kinds import Figure, Line, Lines, Mark, Section, Table
from otpe.charts.look import shown
from otpe.runs import section
from otpe.stream.command.config import StreamConfig
from otpe.stream.score import Prequential


def of_stream(name: str, about: dict[str, Any], result: dict[str, Any], score: Prequential) -> Section:
    """`about`: config.json. `result`: result.json."""
    curve, doing = score.curve, "frozen" if about["frozen"] else shown(about["rule"])
    lines = [
        Line(name=f"last {score.window:,}", x=curve.steps.tolist(), y=curve.window.tolist()),
        Line(name="all", x=curve.steps.tolist(), y=curve.accuracy.tolist()),
    ]
    changed = [text.partition(":")[0].partition("@") for text in about["changes"]]
    marks = [Mark(x=int(at), text=what) for what, _, at in changed if int(at) <= result["step"]]
    panel = Lines(title="accuracy", x="time steps", y="accuracy", lines=lines, y_range=(0.0, 1.0), marks=marks or None)
    rows = [
        [key.replace("_", " "), "none" if value is None else value]
        for key, value in result.items()
        if key not in ("format", "rule", "skipped", "seconds")
    ]
    return Section(
        name=name,
        title=f"{doing} on a stream: {about['source']}",
        lead=f"{result['step']:,} time steps of {about['source']}, each predicted first, then learned from ({doing}).",
        figures=[Figure(name="accuracy", caption="Along the stream. Silence counts as wrong.", panels=[panel])],
        tables=[Table(name="result", caption="At the end.", columns=["what", "value"], rows=rows)],
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
