"""The paper's table 1, measured: what each rule keeps and how long it takes, over n and T.

All rules give the gradient of one sample: BPTT back through the whole sequence, the others step by step, with dense
traces. They race against each other at every size.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from otpe import contents, files
from otpe.bench import plan, results, run
from otpe.bench.config import BenchConfig
from otpe.bench.points import Point
from otpe.bench.section import section
from otpe.charts.kinds import Section
from otpe.rulebook import rule
from otpe.runs import folder

STEP_BY_STEP = {"form": "steps", "traces": "dense"}
FULL = BenchConfig(
    modes=("offline",), sizes=(1024,) * 4, base_steps=50, base_batch=1, widths=(512, 1024, 2048, 4096),
    steps=(25, 50, 100), batches=(), depths=(), seconds=0.3, max_gb=8.0,
)  # fmt: skip
QUICK = replace(FULL, rules=("bptt", "ottt", "otpe"), sizes=(128,) * 4, widths=(64, 128, 256), seconds=0.1)
MACHINE = ("device", "backend", "cores", "jax", "otpe")  # times of another are no times of this one


def study(*, quick: bool, out: Path) -> Section:
    """Measure what is not in the folder yet, and describe all of it. `quick`: small sizes, and fewer rules timed."""
    config = plan.checked(replace(QUICK if quick else FULL, out=out))
    files.folder(out)
    path = out / "points.json"
    measured = _measured(path, config)
    done = {_place(point) for point in (*measured["points"], *measured["left_out"])}
    rest = [heat for heat in _heats(config) if _place(vars(heat.points[0])) not in done]
    try:
        run.measure(path, measured, rest, config, at_once=os.cpu_count() or 1)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped. What was measured until now is kept; the same command goes on.") from None
    everyone = _heats(replace(config, rules=FULL.rules))
    return section(
        measured,
        plan.bases(config, everyone),
        name="complexity",
        title="Time and space complexity",
        command="otpe reproduce complexity" + " --quick" * quick,
    )


def _heats(config: BenchConfig) -> list[plan.Heat]:
    return [heat._replace(points=[_in_its_form(point) for point in heat.points]) for heat in plan.heats(config)]


def _in_its_form(point: Point) -> Point:
    return replace(point, options=STEP_BY_STEP) if rule(point.rule).has_steps else point


def _measured(path: Path, config: BenchConfig) -> dict[str, Any]:
    """What is in the file, if it is of these settings and this machine."""
    blank = json.loads(json.dumps(results.blank(config)))
    if not path.exists():
        return blank
    found = folder.read_json(path)
    with contents.reading(path, "Name another folder."):
        theirs = _identity(found)
    folder.check_same(str(path), theirs, _identity(blank))
    return results.checked(path, found)


def _identity(measured: dict[str, Any]) -> dict[str, Any]:
    settings = {name: value for name, value in measured.get("config", {}).items() if name != "out"}
    return {**settings, **{name: measured.get(name) for name in MACHINE}}


def _place(point: dict[str, Any]) -> tuple[Any, ...]:
    """All rules at one place are measured together."""
    return tuple(point["sizes"]), point["steps"], point["batch"]
