"""`otpe bench` and the complexity study: race all rules at every place, and write results, tables and figures."""

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax

from otpe import contents, files, memory
from otpe.lab.bench import figures, measurements, points
from otpe.lab.bench.measurements import place, where
from otpe.lab.bench.points import Heat, Point, Program
from otpe.lab.progress import Bar, say
from otpe.lab.report import words
from otpe.lab.report.content import Section, to_json
from otpe.lab.runs import folder
from otpe.lab.settings import BenchConfig
from otpe.lab.signals import INTERRUPTED
from otpe.rulebook import rule


def prepare(config: BenchConfig, options: Mapping[str, Any] = MappingProxyType({})) -> Callable[[], int]:
    """Check everything, and return the job. `options` are keyword arguments for every function that is measured."""
    config = points.checked(config)
    heats = points.heats(config, {"precision": config.precision, "backend": config.backend, **options})
    smallest = min((point for heat in heats for point in heat.points), key=points.least)
    if points.least(smallest) > _available(config):
        there = f"--max-gb is {config.max_gb:g}, and the machine has {memory.device() / 1e9:,.1f} GB"
        raise ValueError(
            f"nothing can be measured: the smallest point, {_name(smallest)}, needs {points.least(smallest) / 1e9:,.1f}"
            f" GB of memory or more, but {there}. Make sizes, steps or batches smaller, or --max-gb larger."
        )
    files.make_folder(config.out)
    return lambda: run(config, heats)


def run(config: BenchConfig, heats: list[Heat]) -> int:
    """Measure all heats and write all files. Returns the exit status."""
    path = files.claim(config.out, "bench", ".json")
    measured = measurements.blank(config)
    measurements.save(path, measured)
    try:
        measure(path, measured, heats, config)
    except KeyboardInterrupt:
        print("\nStopped. What was measured until now is kept.", file=sys.stderr)
    measurements.save(path, measured)
    text, table, section = measurements.text_table(measured), path.with_suffix(".txt"), path.with_name("section.json")
    files.write_atomically(table, text)
    print(f"{text}\nNumbers: {path}\nTable:   {table}")
    if importlib.util.find_spec("matplotlib"):
        for picture in figures.plot(path, measured):
            print(f"Plot:    {picture}")
    else:
        print(f"Plot:    {words.NO_MATPLOTLIB}")
    title, bases = "Time and memory of every rule", points.bases(config, heats)
    made = figures.section(measured, bases, name="bench", title=title, command=config.command())
    files.write_atomically(section, to_json(made))
    print(f"Section: {section}")
    return 0 if measured["finished"] else INTERRUPTED


def measure(path: Path, measured: dict[str, Any], heats: list[Heat], config: BenchConfig, *, at_once: int = 1) -> None:
    """Measure the heats, and save after each. `at_once` programs of a heat are compiled at the same time."""
    with closing(Bar("", 0, len(heats), unit="heat")) as bar:
        for i, heat in enumerate(heats):
            name, begun = _name(heat.points[0]), time.perf_counter()
            bar.label(name)
            if bar.bar is None:
                say(f"{i + 1}/{len(heats)} {name}")
            race(heat, config, measured, at_once)
            measured["seconds"] += time.perf_counter() - begun
            measurements.save(path, measured)
            bar.advance(i + 1)
    measured["finished"] = True
    measurements.save(path, measured)


def race(heat: Heat, config: BenchConfig, measured: dict[str, Any], at_once: int = 1) -> None:
    """Time the rules of a heat against each other, and add them to the results. Leave out what is too large."""
    built, calls, first = {}, {}, {}
    for point, build in zip(heat.points, _builds(heat.points, config, at_once), strict=True):
        try:
            program, state = build()
            calls[point.rule], first[point.rule] = points.ready(program)
            built[point.rule] = point, program, state
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in str(error):
                raise
            parts = ("rule", "mode", "sizes", "steps", "batch")
            why = {"why": str(error).splitlines()[0]}
            measured["left_out"].append({name: getattr(point, name) for name in parts} | why)
    times = points.race(calls, config.seconds) if calls else {}
    for name, (point, program, state) in built.items():
        measured["points"].append(measurements.entry(point, heat.axes, program, first[name], times[name], state))


def _builds(to_build: list[Point], config: BenchConfig, at_once: int) -> list[Callable[[], tuple[Program, int | None]]]:
    """Return a function for each point that returns its program or raises an error.

    With `at_once` above 1, the programs are compiled now, in parallel. Otherwise each is compiled by its function.
    """
    if at_once == 1:
        return [partial(_build, point, config) for point in to_build]
    pool = ThreadPoolExecutor(at_once)
    try:
        begun = [pool.submit(_build, point, config) for point in to_build]
        wait(begun)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for those that have not begun
    return [build.result for build in begun]


def _build(point: Point, config: BenchConfig) -> tuple[Program, int | None]:
    """Return the compiled program and the bytes of its state. Raises MemoryError before anything is allocated."""
    _fits(points.least(point), config)
    state = points.state(point)
    _fits(state or 0, config)
    program = points.build(point)
    _fits(program.bytes.peak, config)
    return program, state


def _available(config: BenchConfig) -> float:
    return min(config.max_gb * 1e9, memory.device())


def _fits(needed: int, config: BenchConfig) -> None:
    if needed > _available(config):
        there = f"--max-gb {config.max_gb:g}" if needed > config.max_gb * 1e9 else "there is"
        raise MemoryError(f"needs {needed / 1e9:.2g} GB, more than {there}")


def _name(point: Point) -> str:
    return f"{point.mode} {where(vars(point))}"


# --------------------
# The complexity study: the paper's table 1, measured over n and T.
#
# All rules give the gradient of one sample: BPTT on the whole sequence, the others step by step, with dense traces.

STEP_BY_STEP = {"form": "steps", "traces": "dense"}
FULL = BenchConfig(
    modes=("offline",), sizes=(1024,) * 4, base_steps=50, base_batch=1, widths=(512, 1024, 2048, 4096),
    steps=(25, 50, 100), batches=(), depths=(), seconds=0.3, max_gb=8.0,
)  # fmt: skip
QUICK = replace(FULL, rules=("bptt", "ottt", "otpe"), sizes=(128,) * 4, widths=(64, 128, 256), seconds=0.1)
MACHINE = ("device", "backend", "cores", "jax", "otpe")  # times of another machine or version are not comparable


def study(*, quick: bool, out: Path) -> Section:
    """Measure what is not in the folder yet, and return the section. `quick`: small sizes, and fewer rules timed."""
    config = points.checked(replace(QUICK if quick else FULL, out=out))
    files.make_folder(out)
    path = out / "points.json"
    measured = _measured(path, config)
    done = {place(entry) for entry in (*measured["points"], *measured["left_out"])}
    rest = [heat for heat in _heats(config) if place(vars(heat.points[0])) not in done]
    try:
        measure(path, measured, rest, config, at_once=os.cpu_count() or 1)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("stopped. What was measured until now is kept; the same command goes on.") from None
    bases = points.bases(config, _heats(replace(config, rules=FULL.rules)))
    command = "otpe reproduce complexity" + " --quick" * quick
    return figures.section(measured, bases, name="complexity", title="Time and space complexity", command=command)


def _heats(config: BenchConfig) -> list[Heat]:
    """The heats of the study: rules that have a per-step form use it."""
    return [
        heat._replace(points=[replace(p, options=STEP_BY_STEP) if rule(p.rule).has_steps else p for p in heat.points])
        for heat in points.heats(config)
    ]


def _measured(path: Path, config: BenchConfig) -> dict[str, Any]:
    """The results in the file, or results without points. Raises if they are of other settings or another machine."""
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
