"""The training verbs and `otpe reproduce`: from settings to a job that prints its result. Reads stored settings too."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from otpe import tables
from otpe.lab import progress
from otpe.lab.paper.items import ITEMS
from otpe.lab.paper.reproduce import Reproduction, prepared_reproduction
from otpe.lab.report import sections, words
from otpe.lab.runs import build_network, compare, folder, task, train
from otpe.lab.runs.train import Run
from otpe.lab.settings import AlignConfig, CompareConfig, LandscapeConfig, ReproduceConfig, SweepConfig, TrainConfig
from otpe.lab.studies import align, landscapes, sweep
from otpe.lab.studies.landscapes import NoPlaneError


def prepare_train(config: TrainConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    run = train.prepared(config, may_grow=True)
    run.warn = warn
    return lambda: _train(run)


def prepare_compare(config: CompareConfig) -> Callable[[], int]:
    comparison = compare.prepared_comparison(config)
    comparison.warn = warn
    return lambda: _compare(comparison)


def stored(kind: type[folder.Config], args: Sequence[str]) -> folder.Config | None:
    """Return the settings of the run to resume. They replace the defaults of the options. None if there is no run.

    An --out without a run is refused if no other setting is given: the name of the folder may be mistyped.
    """
    out = value(args, "--out")
    if "--resume" not in args or out is None:
        return None
    if os.path.exists(Path(out) / "config.json"):
        known = folder.stored(kind, Path(out))
        # The folder of `otpe align` is that of a training run, whose `align` are the rules.
        return replace(known, rules=folder.stored(TrainConfig, Path(out)).align) if kind is AlignConfig else known
    if not {*args} - {"--resume", "--out", out, f"--out={out}"}:
        raise FileNotFoundError(
            f"out is {out!r}, where there is no run to go on with. Name the folder of one; to begin one there, give its"
            " settings too."
        )
    return None


def value(args: Sequence[str], option: str) -> str | None:
    """Return the word after this option, or None without the option."""
    for i, arg in enumerate(args):
        if arg == option and i + 1 < len(args):
            return args[i + 1]
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
    return None


def _train(run: train.Run) -> int:
    config, result = run.config, run()
    print(
        f"{config.data_name}, {result.rule}, {result.mode}, {result.steps:,} mini-batches of {config.batch},"
        f" {sections.networks(config.seeds)}"
    )
    print(f"  {task.facts(config, run.splits)}")
    print(f"  test accuracy        {words.mean_text(result.test_accuracy)}  (weights of the best validation)")
    print(f"  validation accuracy  {words.mean_text(result.valid_accuracy)}")
    print(f"  training loss        {words.mean_text(result.loss)}")
    print(f"  learning rate {config.learning_rate:g}{_surrogate(run)}")
    print(f"  {result.steps_per_second:.3g} mini-batches per second, {result.seconds:.3g} s of training")
    print(f"Run folder: {result.folder}")
    return 0


def _surrogate(run: train.Run) -> str:
    """Return the surrogate as text, "" for a network of the user's own."""
    if "own_net" in run.identity:
        return ""
    used = build_network.surrogate(run.config)
    numbers = (f"{name} {value:g}" for name, value in vars(used).items() if not isinstance(value, bool))
    return f", surrogate {run.config.surrogate} of {', '.join(numbers)}"


def _compare(comparison: compare.Comparison) -> int:
    results, path = comparison(), comparison.folder.path
    print(f"{compare.title(comparison.config)}")
    print(f"  {task.facts(comparison.runs[0], comparison.splits)}\n")
    print(compare.table(results))
    for line in (*comparison.left_out, *comparison.diverged):
        print(f"  {line}")
    print(f"\nTable:   {path / 'table.txt'}\nNumbers: {path / 'compare.json'}")
    print(f"Picture: {path / 'curves.png' if find_spec('matplotlib') else words.NO_MATPLOTLIB}")
    return 1 if comparison.diverged else 0


def warn(text: str) -> None:
    progress.say(f"otpe: warning: {text}")


# --------------------
# `otpe align`, `otpe landscape` and `otpe sweep`.


def prepare_align(config: AlignConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    run = align.prepared_align(config)
    run.warn = warn
    return lambda: _align(config, run)


def prepare_landscape(config: LandscapeConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    study = landscapes.prepared_landscape(config)
    study.comparison.warn = warn
    return lambda: _landscape(study)


def prepare_sweep(config: SweepConfig) -> Callable[[], int]:
    prepared = sweep.prepared_sweep(config)
    prepared.warn = warn
    return lambda: _sweep(prepared)


def _align(config: AlignConfig, run: Run) -> int:
    section = align.write_section(config, run())
    print(f"{section.title}\n\n{tables.as_text(section.tables[0])}\n")
    _say_where(run.folder.path, "metrics.jsonl", [])
    return 0


def _landscape(study: landscapes.Study) -> int:
    try:
        _, section = study()
    except NoPlaneError as error:
        print(f"otpe: {error}", file=sys.stderr)
        return 1
    print(f"{section.title}\n\n{tables.as_text(section.tables[0])}\n")
    diverged, path = study.comparison.diverged, study.comparison.folder.path
    _say_where(path, "landscape.npz", diverged)
    return 1 if diverged else 0


def _sweep(prepared: sweep.Sweep) -> int:
    total = len(prepared.records)
    done = sum(record["state"] != "waiting" for record in prepared.records)

    def show_record(record: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        what = words.mean_text(record["test_accuracy"]) if record["state"] == "finished" else record["state"]
        progress.say(f"{done}/{total}  {record['name']}: {what}")

    prepared.on_record = show_record
    result = prepared()
    print(f"{result}\n\n{tables.as_text(sweep.table(result))}\n")
    _say_where(result.folder, "sweep.json", [*result.left_out, *result.diverged])
    return 1 if result.diverged else 0


def _say_where(path: Path, numbers: str, remarks: Sequence[str]) -> None:
    for line in remarks:
        print(f"  {line}")
    print(f"Numbers: {path / numbers}\nSection: {path / 'section.json'}")


# --------------------
# `otpe reproduce`.


def prepare_reproduce(config: ReproduceConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    if config.list:
        return _list_items
    reproduction = prepared_reproduction(config)
    reproduction.say = progress.say
    return lambda: _reproduce(reproduction)


def _reproduce(reproduction: Reproduction) -> int:
    page = reproduction()
    if reproduction.left_out:
        print(f"  {reproduction.about_left_out()}")
    for name, why in reproduction.diverged.items():
        print(f"  {name}: {why}")
    print(f"Folder: {reproduction.out}\nReport: {page}")
    return 1 if reproduction.diverged else 0


def _list_items() -> int:
    rows = [[name, item.where, item.title] for name, item in ITEMS.items()]
    print(tables.as_text(tables.Table(columns=["item", "in the paper", "what"], rows=rows), left=(0, 1, 2)))
    return 0
