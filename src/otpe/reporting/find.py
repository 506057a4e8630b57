"""Which runs and studies there are in a folder, and in which state. Nothing that is there is left out."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from otpe.charts import kinds
from otpe.runs import section
from otpe.runs.read import OtherFormatError, read_json, read_metrics

State = Literal["finished", "unfinished", "damaged", "other version", "missing", "left out"]
REMAINS = (
    "result.json",
    "metrics.jsonl",
    "compare.json",
    "sweep.json",
)  # of a run or a study that lost its config.json
SKIPPED = ("checkpoints",)
WRONG = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OSError,
    RecursionError,
)  # what reading strange files raises


@dataclass(frozen=True)
class Found:
    """A run or a study."""

    path: Path
    state: State
    section: kinds.Section | None = None
    note: str = ""  # what was found, and what to do


class _Run(NamedTuple):
    rule: str
    mode: str
    metrics: list[dict[str, Any]]


def search(folders: Sequence[Path]) -> list[Found]:
    """All that is in these folders, in order. OSError for one that is not there, or holds nothing to show."""
    found: list[Found] = []
    for folder in folders:
        if not folder.is_dir():
            what = "a file" if folder.exists() else "not there"
            raise FileNotFoundError(
                f"folder is {str(folder)!r}, which is {what}, expected a folder of runs, such as otpe train and otpe"
                " compare make in runs."
            )
        here = _below(folder)
        if not here:
            raise FileNotFoundError(
                f"folder is {str(folder)!r}, which holds no runs: nothing in it or below has a config.json or a"
                " section.json. Make one, with: otpe compare"
            )
        known = {each.path.resolve() for each in found}
        found += [each for each in here if each.path.resolve() not in known]
    return found


def _below(path: Path, in_study: bool = False) -> list[Found]:
    if (path / "section.json").exists():
        return [_study(path)]
    if not (path / "config.json").exists():
        remains = [name for name in REMAINS if (path / name).exists()]
        lost = (
            f"{', '.join(remains)} without config.json: what was run here is not known. Put it back, or run it again."
        )
        return ([Found(path, "damaged", note=lost)] if remains else []) + _children(path, in_study)
    try:
        about = read_json(path / "config.json")
    except OtherFormatError as error:
        return [Found(path, "other version", note=str(error))]
    except WRONG as error:
        return [Found(path, "damaged", note=_said(error))]
    if about.get("own_study") == "stream":
        return [] if in_study else [_half_study(path, about)]
    if "rule" in about:
        return [] if in_study else [_run(path, about)]
    own = [] if (path / "order.json").exists() else [_half_study(path, about)]
    return own + _children(path, in_study=True)


def _children(path: Path, in_study: bool) -> list[Found]:
    """In the order that order.json gives, the others by name behind them."""
    try:
        folders = [p for p in sorted(path.iterdir()) if p.is_dir() and not p.is_symlink() and p.name not in SKIPPED]
    except OSError as error:
        return [Found(path, "damaged", note=f"cannot be read: {error.strerror}.")]
    folders = [folder for folder in folders if not folder.name.startswith(".")]
    names, found = _order(path), []
    shown = set()
    for folder in sorted(folders, key=lambda folder: names.index(folder.name) if folder.name in names else len(names)):
        here = _below(folder, in_study)
        found += here
        shown |= {folder.name} if here else set()
    missing = [name for name in names if name not in shown]  # a folder may be there already, with nothing to tell yet
    return found + [
        Found(path / name, "missing", note="order.json names it, but it is not finished yet.") for name in missing
    ]


def _order(path: Path) -> list[str]:
    try:
        found = json.loads((path / "order.json").read_text())
    except (OSError, ValueError):
        return []
    return [str(name) for name in found] if isinstance(found, list) else []


def _study(path: Path) -> Found:
    try:
        told = kinds.from_json((path / "section.json").read_text())
    except kinds.OtherVersionError as error:
        note = f"section.json is {error}. Use that version, or run the study again."
        return Found(path, "other version", note=note)
    except WRONG as error:
        note = f"section.json is damaged: {_said(error)} Remove it and run the study again: what is finished is kept."
        return Found(path, "damaged", note=note)
    if told.left_out:
        return Found(path, "left out", told, str(told.left_out))
    return Found(path, "finished", told)


def _half_study(path: Path, about: dict[str, Any]) -> Found:
    runs = [folder for folder in sorted(path.iterdir()) if (folder / "config.json").exists()]
    done = sum((folder / "result.json").exists() for folder in runs)
    inside = f" Runs in it: {len(runs)}, finished: {done}." if runs else ""
    known = "own_study" in about or ("rules" in about and "modes" in about)
    verb = f"otpe {about.get('own_study', 'compare')}" if known else "its command"
    if (path / "compare.json").exists():
        inside += " Its table.txt is complete; an older otpe made it."
    note = f"There is no section.json: the study was stopped, or is still at work.{inside}"
    return Found(path, "unfinished", note=f"{note} Go on with: {verb} --resume --out {path}")


def _run(path: Path, about: dict[str, Any]) -> Found:
    try:
        result = read_json(path / "result.json") if (path / "result.json").exists() else None
        run = _Run(about["rule"], about["mode"], read_metrics(path))
        made = section.of_run(path.name, about, result, run)
    except OtherFormatError as error:
        return Found(path, "other version", note=str(error))
    except WRONG as error:
        return Found(path, "damaged", note=f"{_said(error)} Train it again in another folder.")
    last = run.metrics[-1]["step"] if run.metrics else 0
    if result is None:
        note = f"Stopped, or still training: {last:,} of {about['steps']:,} mini-batches are measured. Go on with:"
        return Found(path, "unfinished", made, f"{note} otpe train --resume --out {path}")
    if last < about["steps"]:
        note = f"metrics.jsonl ends after mini-batch {last:,} of {about['steps']:,}, and so do the curves."
        return Found(path, "damaged", made, f"{note} The result is whole.")
    return Found(path, "finished", made)


def _said(error: Exception) -> str:
    text = str(error) if isinstance(error, ValueError | OSError) else f"{type(error).__name__}: {error}"
    return f"{text.rstrip('.')}."
