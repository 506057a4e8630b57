"""`otpe align`, `otpe landscape` and `otpe sweep`."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from otpe import tables
from otpe.charts.kinds import Table
from otpe.runs import progress, spread
from otpe.runs.config import TrainConfig
from otpe.runs.run import Run
from otpe.runs.verbs import stored, warn
from otpe.studies import align, landscape, maps, sweep
from otpe.studies.config import AlignConfig, LandscapeConfig, SweepConfig
from otpe.studies.planes import NoPlaneError


def prepare_align(config: AlignConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    run = align.prepared_align(config)
    run.warn = warn
    return lambda: _align(config, run)


def prepare_landscape(config: LandscapeConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    study = landscape.prepared_landscape(config)
    study.comparison.warn = warn
    return lambda: _landscape(study)


def prepare_sweep(config: SweepConfig) -> Callable[[], int]:
    prepared = sweep.prepared_sweep(config)
    prepared.warn = warn
    return lambda: _sweep(prepared)


def stored_align(args: Sequence[str]) -> AlignConfig | None:
    """With --resume, the settings that are not given are those of the run in the folder."""
    known, run = stored(AlignConfig, args), stored(TrainConfig, args)
    return None if known is None or run is None else replace(known, rules=run.align)


def stored_landscape(args: Sequence[str]) -> LandscapeConfig | None:
    """With --resume, the settings that are not given are those of the study in the folder."""
    return stored(LandscapeConfig, args)


def stored_sweep(args: Sequence[str]) -> SweepConfig | None:
    return stored(SweepConfig, args)


def _align(config: AlignConfig, run: Run) -> int:
    section = align.written(config, run())
    print(f"{section.title}\n\n{_text(section.tables[0])}\n")
    _say_where(run.folder.path, "metrics.jsonl", [])
    return 0


def _landscape(study: landscape.Study) -> int:
    try:
        _, section = study()
    except NoPlaneError as error:
        print(f"otpe: {error}", file=sys.stderr)
        return 1
    print(f"{section.title}\n\n{_text(section.tables[0])}\n")
    diverged, path = study.comparison.diverged, study.comparison.folder.path
    _say_where(path, "landscape.npz", diverged)
    return 1 if diverged else 0


def _sweep(prepared: sweep.Sweep) -> int:
    total = len(prepared.records)
    done = sum(record["state"] != "waiting" for record in prepared.records)

    def told(record: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        what = spread.text(record["test_accuracy"]) if record["state"] == "finished" else record["state"]
        progress.say(f"{done}/{total}  {record['name']}: {what}")

    prepared.told = told
    result = prepared()
    print(f"{result}\n\n{_text(maps.table(result))}\n")
    _say_where(result.folder, "sweep.json", [*result.left_out, *result.diverged])
    return 1 if result.diverged else 0


def _text(table: Table) -> str:
    rows = [[f"{x:.3f}" if isinstance(x, float) else str(x) for x in row] for row in table.rows]
    return tables.columns([[*table.columns], *rows], left=(0,))


def _say_where(path: Path, numbers: str, remarks: Sequence[str]) -> None:
    for line in remarks:
        print(f"  {line}")
    print(f"Numbers: {path / numbers}\nSection: {path / 'section.json'}")
