"""The verb: plan, heats, files."""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from otpe import contents, files, memory
from otpe.lab.bench import figures, measurements, points, schedule
from otpe.lab.bench.figures import section
from otpe.lab.bench.points import Point
from otpe.lab.progress import Bar, say
from otpe.lab.report import content
from otpe.lab.report.content import Section
from otpe.lab.runs import folder
from otpe.lab.settings import BenchConfig
from otpe.rulebook import rule

INTERRUPTED = 130  # the exit status of a program that Ctrl-C ended


def prepare(config: BenchConfig, options: Mapping[str, Any] | None = None) -> Callable[[], int]:
    """Check everything, and return the job. `options` are keyword arguments for every function that is measured."""
    config = schedule.checked(config)
    heats = schedule.heats(config, {"precision": config.precision, "backend": config.backend, **(options or {})})
    _check_size(config, heats)
    files.make_folder(config.out)
    return lambda: run(config, heats)


def _check_size(config: BenchConfig, heats: list[schedule.Heat]) -> None:
    """Is there a point that may be measured?"""
    smallest = min((point for heat in heats for point in heat.points), key=points.least)
    if points.least(smallest) > _most(config):
        there = f"--max-gb is {config.max_gb:g}, and the machine has {memory.device() / 1e9:,.1f} GB"
        raise ValueError(
            f"nothing can be measured: the smallest point, {_name(smallest)}, needs {points.least(smallest) / 1e9:,.1f}"
            f" GB of memory or more, but {there}. Make sizes, steps or batches smaller, or --max-gb larger."
        )


def _most(config: BenchConfig) -> float:
    return min(config.max_gb * 1e9, memory.device())


def run(config: BenchConfig, heats: list[schedule.Heat]) -> int:
    path = files.claim(config.out, "bench", ".json")
    measured = measurements.blank(config)
    measurements.save(path, measured)
    try:
        measure(path, measured, heats, config)
    except KeyboardInterrupt:
        print("\nStopped. What was measured until now is kept.", file=sys.stderr)
    measurements.save(path, measured)
    _report(path, measured)
    _section(path, measured, config, heats)
    return 0 if measured["finished"] else INTERRUPTED


def measure(
    path: Path, measured: dict[str, Any], heats: list[schedule.Heat], config: BenchConfig, *, at_once: int = 1
) -> None:
    """Heat after heat, each on the disk before the next. `at_once` programs of a heat are compiled side by side."""
    for heat in _progress(heats):
        begun = time.perf_counter()
        race(heat, config, measured, at_once)
        measured["seconds"] += time.perf_counter() - begun
        measurements.save(path, measured)
    measured["finished"] = True
    measurements.save(path, measured)


def race(heat: schedule.Heat, config: BenchConfig, measured: dict[str, Any], at_once: int = 1) -> None:
    """Time the rules of one heat against each other and add them to what was measured."""
    ready, kept = {}, {}
    builds = _builds(heat.points, config, at_once)
    for point, build in zip(heat.points, builds, strict=True):
        try:
            kept[point.rule] = (point, *build())
            _, program, _ = kept[point.rule]
            ready[point.rule] = points.ready(program)
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):
                raise
            kept.pop(point.rule, None)
            measured["left_out"].append(
                {"rule": point.rule, "mode": point.mode, "sizes": point.sizes, "steps": point.steps,
                 "batch": point.batch, "why": str(error).splitlines()[0]}
            )  # fmt: skip
    times = points.race({rule: call for rule, (call, _) in ready.items()}, config.seconds) if ready else {}
    for name, (point, program, state) in kept.items():
        _, first = ready[name]
        measured["points"].append(measurements.entry(point, heat.axes, program, first, times[name], state))


def _builds(
    to_build: list[points.Point], config: BenchConfig, at_once: int
) -> list[Callable[[], tuple[points.Program, int | None]]]:
    """What gives each program, or raises why there is none: compiled when asked for, or before, side by side."""
    if at_once == 1:
        return [partial(_build, point, config) for point in to_build]
    pool = ThreadPoolExecutor(at_once)
    try:
        begun = [pool.submit(_build, point, config) for point in to_build]
        wait(begun)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for those that have not begun
    return [build.result for build in begun]


def _build(point: points.Point, config: BenchConfig) -> tuple[points.Program, int | None]:
    """The compiled program and the bytes of its state. Both are known before anything is allocated."""
    _fits(points.least(point), config)
    state = points.state(point)
    _fits(state or 0, config)
    program = points.build(point)
    _fits(program.bytes.peak, config)
    return program, state


def _fits(needed: int, config: BenchConfig) -> None:
    if needed > _most(config):
        there = f"--max-gb {config.max_gb:g}" if needed > config.max_gb * 1e9 else "there is"
        raise MemoryError(f"needs {needed / 1e9:.2g} GB, more than {there}")


def _progress(heats: list[schedule.Heat]) -> Iterator[schedule.Heat]:
    bar = Bar("", 0, len(heats), unit="heat")
    for i, heat in enumerate(heats):
        name = _name(heat.points[0])
        bar.label(name)
        if bar.bar is None:
            say(f"{i + 1}/{len(heats)} {name}")
        yield heat
        bar.advance(i + 1)
    bar.close()


def _name(point: points.Point) -> str:
    return f"{point.mode} {measurements.sizes(point.sizes)}, T {point.steps}, batch {point.batch}"


def _report(path: Path, measured: dict[str, Any]) -> None:
    text = measurements.text_table(measured)
    files.write_atomically(path.with_suffix(".txt"), text)
    print(text)
    print(f"Numbers: {path}\nTable:   {path.with_suffix('.txt')}")
    if not importlib.util.find_spec("matplotlib"):
        print("Plot:    needs matplotlib, which is not installed. Use: pip install 'otpe[plot]'")
        return
    from otpe.lab.bench import figures

    for picture in figures.plot(path, measured):
        print(f"Plot:    {picture}")


def _section(path: Path, measured: dict[str, Any], config: BenchConfig, heats: list[schedule.Heat]) -> None:
    """For a report, of the newest results in the folder."""
    bases, title = schedule.bases(config, heats), "Time and memory of every rule"
    made = figures.section(measured, bases, name="bench", title=title, command=config.command())
    files.write_atomically(path.with_name("section.json"), content.to_json(made))
    print(f"Section: {path.with_name('section.json')}")


# --------------------
# The paper's table 1, measured: what each rule keeps and how long it takes, over n and T.
#
# All rules give the gradient of one sample: BPTT back through the whole sequence, the others step by step, with dense
# traces. They race against each other at every size.


STEP_BY_STEP = {"form": "steps", "traces": "dense"}
FULL = BenchConfig(
    modes=("offline",), sizes=(1024,) * 4, base_steps=50, base_batch=1, widths=(512, 1024, 2048, 4096),
    steps=(25, 50, 100), batches=(), depths=(), seconds=0.3, max_gb=8.0,
)  # fmt: skip
QUICK = replace(FULL, rules=("bptt", "ottt", "otpe"), sizes=(128,) * 4, widths=(64, 128, 256), seconds=0.1)
MACHINE = ("device", "backend", "cores", "jax", "otpe")  # times of another are no times of this one


def study(*, quick: bool, out: Path) -> Section:
    """Measure what is not in the folder yet, and describe all of it. `quick`: small sizes, and fewer rules timed."""
    config = schedule.checked(replace(QUICK if quick else FULL, out=out))
    files.make_folder(out)
    path = out / "points.json"
    measured = _measured(path, config)
    done = {_place(point) for point in (*measured["points"], *measured["left_out"])}
    rest = [heat for heat in _heats(config) if _place(vars(heat.points[0])) not in done]
    try:
        measure(path, measured, rest, config, at_once=os.cpu_count() or 1)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped. What was measured until now is kept; the same command goes on.") from None
    everyone = _heats(replace(config, rules=FULL.rules))
    return section(
        measured,
        schedule.bases(config, everyone),
        name="complexity",
        title="Time and space complexity",
        command="otpe reproduce complexity" + " --quick" * quick,
    )


def _heats(config: BenchConfig) -> list[schedule.Heat]:
    return [heat._replace(points=[_in_its_form(point) for point in heat.points]) for heat in schedule.heats(config)]


def _in_its_form(point: Point) -> Point:
    return replace(point, options=STEP_BY_STEP) if rule(point.rule).has_steps else point


def _measured(path: Path, config: BenchConfig) -> dict[str, Any]:
    """What is in the file, if it is of these settings and this machine."""
    blank = json.loads(json.dumps(measurements.blank(config)))
    if not path.exists():
        return blank
    found = folder.read_json(path)
    with contents.reading(path, "Name another folder."):
        theirs = _identity(found)
    folder.check_same(str(path), theirs, _identity(blank))
    return measurements.checked(path, found)


def _identity(measured: dict[str, Any]) -> dict[str, Any]:
    settings = {name: value for name, value in measured.get("config", {}).items() if name != "out"}
    return {**settings, **{name: measured.get(name) for name in MACHINE}}


def _place(point: dict[str, Any]) -> tuple[Any, ...]:
    """All rules at one place are measured together."""
    return tuple(point["sizes"]), point["steps"], point["batch"]
