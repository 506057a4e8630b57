"""The verb: plan, heats, files."""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax

from otpe import files
from otpe.bench import plan, points, report, results, timing
from otpe.bench.config import BenchConfig

INTERRUPTED = 130  # the exit status of a program that Ctrl-C ended


def prepare(config: BenchConfig, options: Mapping[str, Any] | None = None) -> Callable[[], int]:
    """Check everything, and return the job. `options` are keyword arguments for every function that is measured."""
    config = plan.checked(config)
    heats = plan.heats(config, {"precision": config.precision, "backend": config.backend, **(options or {})})
    files.folder(config.out)
    return lambda: run(config, heats)


def run(config: BenchConfig, heats: list[plan.Heat]) -> int:
    path = files.claim(config.out, "bench", ".json")
    measured = results.blank(config)
    results.save(path, measured)
    try:
        for heat in _progress(heats):
            race(heat, config, measured)
            results.save(path, measured)
        measured["finished"] = True
    except KeyboardInterrupt:
        print("\nStopped. What was measured until now is kept.", file=sys.stderr)
    results.save(path, measured)
    _report(path, measured)
    return 0 if measured["finished"] else INTERRUPTED


def race(heat: plan.Heat, config: BenchConfig, measured: dict[str, Any]) -> None:
    """Time the rules of one heat against each other and add them to what was measured."""
    ready, kept = {}, {}
    for point in heat.points:
        try:
            kept[point.rule] = (point, *_build(point, config.max_gb))
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


def _build(point: points.Point, max_gb: float) -> tuple[points.Program, int | None]:
    """The compiled program and the bytes of its state. Both are known before anything is allocated."""
    state = points.state(point)
    _fits(state or 0, max_gb)
    program = points.build(point)
    _fits(program.bytes.peak, max_gb)
    return program, state


def _fits(needed: int, max_gb: float) -> None:
    if needed > max_gb * 1e9:
        raise MemoryError(f"needs {needed / 1e9:.2g} GB, more than --max-gb {max_gb:g}")


def _progress(heats: list[plan.Heat]) -> Iterator[plan.Heat]:
    if importlib.util.find_spec("tqdm"):
        from tqdm import tqdm

        with tqdm(heats, unit="heat") as bar:
            for heat in bar:
                bar.set_postfix_str(_name(heat))
                yield heat
        return
    for i, heat in enumerate(heats):
        print(f"{i + 1}/{len(heats)} {_name(heat)}", file=sys.stderr, flush=True)
        yield heat


def _name(heat: plan.Heat) -> str:
    point = heat.points[0]
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
