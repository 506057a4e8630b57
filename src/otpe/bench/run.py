"""The verb: plan, heats, files."""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import jax

from otpe import files, memory
from otpe.bench import plan, points, report, results, section, timing
from otpe.bench.config import BenchConfig
from otpe.charts import kinds
from otpe.runs.progress import terminal

INTERRUPTED = 130  # the exit status of a program that Ctrl-C ended


def prepare(config: BenchConfig, options: Mapping[str, Any] | None = None) -> Callable[[], int]:
    """Check everything, and return the job. `options` are keyword arguments for every function that is measured."""
    config = plan.checked(config)
    heats = plan.heats(config, {"precision": config.precision, "backend": config.backend, **(options or {})})
    _check_size(config, heats)
    files.folder(config.out)
    return lambda: run(config, heats)


def _check_size(config: BenchConfig, heats: list[plan.Heat]) -> None:
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


def run(config: BenchConfig, heats: list[plan.Heat]) -> int:
    path = files.claim(config.out, "bench", ".json")
    measured = results.blank(config)
    results.save(path, measured)
    try:
        measure(path, measured, heats, config)
    except KeyboardInterrupt:
        print("\nStopped. What was measured until now is kept.", file=sys.stderr)
    results.save(path, measured)
    _report(path, measured)
    _section(path, measured, config, heats)
    return 0 if measured["finished"] else INTERRUPTED


def measure(
    path: Path, measured: dict[str, Any], heats: list[plan.Heat], config: BenchConfig, *, at_once: int = 1
) -> None:
    """Heat after heat, each on the disk before the next. `at_once` programs of a heat are compiled side by side."""
    for heat in _progress(heats):
        begun = time.perf_counter()
        race(heat, config, measured, at_once)
        measured["seconds"] += time.perf_counter() - begun
        results.save(path, measured)
    measured["finished"] = True
    results.save(path, measured)


def race(heat: plan.Heat, config: BenchConfig, measured: dict[str, Any], at_once: int = 1) -> None:
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
    times = timing.race({rule: call for rule, (call, _) in ready.items()}, config.seconds) if ready else {}
    for rule, (point, program, state) in kept.items():
        _, first = ready[rule]
        measured["points"].append(results.entry(point, heat.axes, program, first, times[rule], state))


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


def _progress(heats: list[plan.Heat]) -> Iterator[plan.Heat]:
    if heats and terminal() and importlib.util.find_spec("tqdm"):
        from tqdm import tqdm

        with tqdm(heats, unit="heat") as bar:
            for heat in bar:
                bar.set_postfix_str(_name(heat.points[0]))
                yield heat
        return
    for i, heat in enumerate(heats):
        print(f"{i + 1}/{len(heats)} {_name(heat.points[0])}", file=sys.stderr, flush=True)
        yield heat


def _name(point: points.Point) -> str:
    return f"{point.mode} {report.sizes(point.sizes)}, T {point.steps}, batch {point.batch}"


def _report(path: Path, measured: dict[str, Any]) -> None:
    text = report.text(measured)
    files.write_atomically(path.with_suffix(".txt"), text)
    print(text)
    print(f"Numbers: {path}\nTable:   {path.with_suffix('.txt')}")
    if not importlib.util.find_spec("matplotlib"):
        print("Plot:    needs matplotlib, which is not installed. Use: pip install 'otpe[plot]'")
        return
    from otpe.bench import plot

    for picture in plot.draw(path, measured):
        print(f"Plot:    {picture}")


def _section(path: Path, measured: dict[str, Any], config: BenchConfig, heats: list[plan.Heat]) -> None:
    """For a report, of the newest results in the folder."""
    bases, title = plan.bases(config, heats), "Time and memory of every rule"
    made = section.section(measured, bases, name="bench", title=title, command=config.command())
    files.write_atomically(path.with_name("section.json"), kinds.to_json(made))
    print(f"Section: {path.with_name('section.json')}")
