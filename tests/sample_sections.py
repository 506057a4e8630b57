"""Small sections of a report, with every kind of panel."""

import math

from otpe.lab.report.content import Against, Figure, Section, Table
from otpe.lab.report.panels import Bar, Bars, Contours, Heat, Line, Lines, Path

NAN = math.nan
LINES = Lines(
    title="Accuracy", x="mini-batches", y="accuracy", y_range=(0.0, 1.0),
    lines=[
        Line(name="bptt", x=[0, 10, 20], y=[0.1, 0.6, 0.9], spread=[0.02, 0.02, 0.01]),
        Line(name="f-otpe", x=[0, 10, 20], y=[0.1, NAN, 0.8]),
    ],
)  # fmt: skip
LOG = Lines(
    title="Time", x="n", y="seconds", log_x=True, log_y=True, lines=[Line(name="mine", x=[1, 10, 0], y=[0.1, 30, 2])]
)
BARS = Bars(
    title="Cosine", y="cosine", groups=["layer 1", "layer 2"],
    bars=[Bar(name="otpe", values=[0.9, 0.8], spread=[0.1, NAN]), Bar(name="f-deep-otpe", values=[NAN, 0.7])],
)  # fmt: skip
HEAT = Heat(
    title="Grid", x="slope", y="width", columns=["5", "25"], rows=["64", "128"], values=[[0.5, NAN], [0.7, 0.9]],
    spread=[[0.1, NAN], [0.1, 0.1]], unit="accuracy",
)  # fmt: skip
CONTOURS = Contours(
    title="Plane", x="along", y="across", at_x=[0, 1, 2], at_y=[0, 1], heights=[[1, 2, 3], [2, NAN, 90]], unit="loss",
    paths=[Path(name="bptt", x=[0, 1, 2], y=[0, 0.5, 1]), Path(name="otpe", x=[NAN, NAN], y=[0, 1])],
)  # fmt: skip
PANELS = {"lines": LINES, "log": LOG, "bars": BARS, "heat": HEAT, "contours": CONTOURS}
NOTHING = {
    "no lines": Lines(title="Empty", x="x", y="y", lines=[]),
    "no points": Lines(title="Empty", x="x", y="y", lines=[Line(name="otpe", x=[], y=[], spread=[])], log_y=True),
    "only NaN": Lines(title="Empty", x="x", y="y", lines=[Line(name="otpe", x=[1], y=[NAN])]),
    "no bars": Bars(title="Empty", y="y", groups=[], bars=[]),
    "no cells": Heat(title="Empty", x="x", y="y", columns=[], rows=[], values=[]),
    "only NaN cells": Heat(title="Empty", x="x", y="y", columns=["1"], rows=["1"], values=[[NAN]]),
    "no plane": Contours(title="Empty", x="x", y="y", at_x=[], at_y=[], heights=[], unit="loss"),
}


def figure(*panels, name="curves"):
    return Figure(name=name, caption="While training.", panels=panels)


def section(name="study", **change):
    given = {
        "name": name, "title": f"The {name}", "lead": "What comes out.", "where": "Figure 2 b", "figures": [figure(*PANELS.values())],
        "tables": [Table(name="test", caption="The test.", columns=["rule", "accuracy"], rows=[["deep-otpe", 0.5], ["ostl", NAN]])],
        "against": [
            Against(what="accuracy", rule="otpe", paper=0.9, ours=0.84, paper_spread=0.03, spread=0.04, percent=True, n=4, paper_n=4),
            Against(what="accuracy", rule="deep-otpe", paper=NAN, ours=0.95, percent=True),
            Against(what="cosine", rule="ostl", paper=0.7, ours=0.75),
        ],
        "remarks": ["The manifolds are others."], "command": "otpe compare --steps 10", "settings": {"leak": 0.9525741268224334, "root": None},
        "machine": {"device": "cpu: cpu", "versions": {"otpe": "0.1.0"}}, "seconds": 83.4,
    }  # fmt: skip
    return Section(**(given | change))
