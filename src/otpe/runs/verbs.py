"""`otpe train` and `otpe compare`."""

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from otpe.runs import compare, folder, progress, spread, train
from otpe.runs.config import CompareConfig, TrainConfig


def prepare_train(config: TrainConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    run = train.prepared(config, may_grow=True)
    run.warn = warn
    return lambda: _train(run)


def prepare_compare(config: CompareConfig) -> Callable[[], int]:
    comparison = compare.prepared_comparison(config)
    comparison.warn = warn
    return lambda: _compare(comparison)


def stored_train(args: Sequence[str]) -> TrainConfig | None:
    """With --resume, the settings that are not given are those of the run in the folder."""
    return stored(TrainConfig, args)


def stored_compare(args: Sequence[str]) -> CompareConfig | None:
    return stored(CompareConfig, args)


def stored(kind: type[folder.Config], args: Sequence[str]) -> folder.Config | None:
    """The settings of the run in --out, where --resume is said too.

    A folder without a run is refused where nothing says what to begin there: its name may be mistyped.
    """
    out = value(args, "--out")
    if "--resume" not in args or out is None:
        return None
    if os.path.exists(Path(out) / "config.json"):
        return folder.stored(kind, Path(out))
    if not {*args} - {"--resume", "--out", out, f"--out={out}"}:
        raise FileNotFoundError(
            f"out is {out!r}, where there is no run to go on with. Name the folder of one; to begin one there, give its"
            " settings too."
        )
    return None


def value(args: Sequence[str], option: str) -> str | None:
    """What is said after this option."""
    for i, arg in enumerate(args):
        if arg == option and i + 1 < len(args):
            return args[i + 1]
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
    return None


def _train(run: train.Run) -> int:
    config, result = run.config, run()
    over = f", mean ± σ of {config.seeds} networks" if config.seeds > 1 else ""
    print(f"{config.dataset}, {result.rule}, {result.mode}, {result.steps:,} mini-batches of {config.batch}{over}")
    print(f"  test accuracy        {spread.text(result.test_accuracy)}  (weights of the best validation)")
    print(f"  validation accuracy  {spread.text(result.valid_accuracy)}")
    print(f"  training loss        {spread.text(result.loss)}")
    print(f"  {result.steps_per_second:.3g} mini-batches per second, {result.seconds:.3g} s in all")
    print(f"Run folder: {result.folder}")
    return 0


def _compare(comparison: compare.Comparison) -> int:
    results, path = comparison(), comparison.folder.path
    print(f"{compare.title(comparison.config)}\n")
    print(compare.table(results))
    for line in (*comparison.left_out, *comparison.diverged):
        print(f"  {line}")
    print(f"\nTable:   {path / 'table.txt'}\nNumbers: {path / 'compare.json'}")
    no_plot = "needs matplotlib, which is not installed. Use: pip install 'otpe[plot]'"
    print(f"Picture: {path / 'curves.png' if find_spec('matplotlib') else no_plot}")
    return 1 if comparison.diverged else 0


def warn(text: str) -> None:
    progress.say(f"otpe: warning: {text}")
