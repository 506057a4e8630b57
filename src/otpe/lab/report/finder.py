"""Finds the runs and studies in folders, and their states. None is omitted, whatever is wrong with its files."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from otpe.lab.records import SINGLE, STUDIES, OtherFormatError, checked_metrics, kind_of, read_config, read_json
from otpe.lab.report import content, sections, words

State = Literal["finished", "unfinished", "damaged", "other version", "missing", "left out"]
REMAINS = ("result.json", "metrics.jsonl", "compare.json", "sweep.json")  # of a folder that lost its config.json
STUDY_AGAIN = "Remove it and run the study again: what is finished is kept."
TRAIN_AGAIN = "Train it again in another folder."
UNORDERED = "Sections are sorted by name. Missing sections cannot be listed."
FOLDER = re.compile(r"(?!\.)[^/\\\x00-\x1f\ud800-\udfff]{1,255}")  # a name of a folder in order.json


@dataclass(frozen=True)
class Found:
    """A run or a study."""

    path: Path
    state: State
    section: content.Section | None = None
    note: str = ""  # what is wrong, and what to do


class DamagedError(Exception):
    """A file is damaged. The message is the note about it."""


def search(folders: Sequence[Path]) -> list[Found]:
    """Return the runs and studies in these folders, in order.

    Raises:
      FileNotFoundError: a folder does not exist, or contains nothing to show.
    """
    found: dict[Path, Found] = {}
    for folder in folders:
        if not folder.is_dir():
            what = "a file" if folder.exists() else "not there"
            raise FileNotFoundError(
                f"folder is {str(folder)!r}, which is {what}, expected a folder of runs, such as otpe train and otpe"
                " compare make in runs."
            )
        here = _in_folder(folder)
        if not here:
            raise FileNotFoundError(
                f"folder is {str(folder)!r}, which holds no runs: nothing in it or below has a config.json or a"
                " section.json. Make one, with: otpe compare"
            )
        for each in here:
            found.setdefault(each.path.resolve(), each)
    return list(found.values())


def _in_folder(path: Path, in_study: bool = False) -> list[Found]:
    """Return what is in this folder and below. The runs of a study belong to it, and are not shown by themselves."""
    try:
        if (path / "section.json").exists():
            return [_finished_study(path)]
        if not (path / "config.json").exists():
            return [*_remains(path), *_subfolders(path, in_study)]
        with _reading("config.json"):
            config = read_config(path)
        kind = kind_of(config)
        if kind == "stream" or kind in SINGLE:
            return [] if in_study else [(_unfinished_stream if kind == "stream" else _run)(path, config)]
        this = [] if (path / "order.json").exists() else [_unfinished_study(path, config)]
        return [*this, *_subfolders(path, in_study=True)]
    except OtherFormatError as error:
        return [Found(path, "other version", note=str(error))]
    except DamagedError as error:
        return [Found(path, "damaged", note=str(error))]
    except Exception as error:
        return [Found(path, "damaged", note=f"{words.error(error)}.")]


def _remains(path: Path) -> list[Found]:
    remains = [name for name in REMAINS if (path / name).exists()]
    note = f"{', '.join(remains)} without config.json: it is unknown what ran here. Put it back, or run it again."
    return [Found(path, "damaged", note=note)] if remains else []


def _subfolders(path: Path, in_study: bool) -> list[Found]:
    """Return what is below, in the order of order.json. Folders that it does not name follow, by name."""
    try:
        folders = [p for p in sorted(path.iterdir()) if p.is_dir() and not p.is_symlink() and p.name != "checkpoints"]
    except OSError as error:
        return [Found(path, "damaged", note=f"cannot be read: {error.strerror}.")]
    names, found = [], list[Found]()
    try:
        names = _order(path)
    except DamagedError as error:
        found.append(Found(path / "order.json", "damaged", note=str(error)))
    missing = dict.fromkeys(names)
    for folder in sorted(folders, key=lambda folder: names.index(folder.name) if folder.name in names else len(names)):
        here = [] if folder.name.startswith(".") else _in_folder(folder, in_study)
        found += here
        if here:  # a folder may exist already, without anything to show
            missing.pop(folder.name, None)
    note = "order.json names it, but it is not finished yet."
    return [*found, *(Found(path / name, "missing", note=note) for name in missing)]


def _order(path: Path) -> list[str]:
    """Return the names of folders in order.json."""
    if not (path / "order.json").exists():
        return []
    with _reading("order.json", UNORDERED):
        found = json.loads(_text(path / "order.json"))
        if not isinstance(found, list) or not all(isinstance(name, str) and FOLDER.fullmatch(name) for name in found):
            raise ValueError("expected a list of names of folders")
        return found


def _finished_study(path: Path) -> Found:
    with _reading("section.json", STUDY_AGAIN):
        try:
            section = content.from_json(_text(path / "section.json"))
        except content.OtherVersionError as error:
            note = f"section.json is {error}. Use that version, or run the study again."
            return Found(path, "other version", note=note)
    return Found(path, "left out" if section.left_out else "finished", section, section.left_out or "")


def _unfinished_study(path: Path, config: dict[str, Any]) -> Found:
    runs = [folder for folder in sorted(path.iterdir()) if (folder / "config.json").exists()]
    done = sum((folder / "result.json").exists() for folder in runs)
    note = "There is no section.json: the study was stopped, or is still at work."
    if runs:
        note += f" Runs in it: {len(runs)}, finished: {done}."
    if (path / "compare.json").exists():
        note += " Its table.txt is complete; an older otpe made it."
    kind = kind_of(config)
    verb = f"otpe {kind}" if kind in (*STUDIES, "stream") else "its command"
    return Found(path, "unfinished", note=f"{note} Go on with: {verb} --resume --out {path}")


def _unfinished_stream(path: Path, config: dict[str, Any]) -> Found:
    """Return a stream that was stopped, or is still running, with its accuracy until now."""
    found = _unfinished_study(path, config)
    with _reading("metrics.jsonl"):
        metrics, damage = checked_metrics(path)
        section = sections.of_unfinished(path.name, config, metrics)
    return replace(found, section=section, note=f"{found.note} {damage if section else ''}".rstrip())


def _run(path: Path, config: dict[str, Any]) -> Found:
    """Return a run. The section is made again after each file that is read: if this fails, that file is damaged."""
    metrics, result = list[dict[str, Any]](), None
    with _reading("config.json", TRAIN_AGAIN):
        sections.of_run(path.name, config, result, metrics)
        steps = f"{config['steps']:,}"
    with _reading("metrics.jsonl", TRAIN_AGAIN):
        metrics, damage = checked_metrics(path)
        sections.of_run(path.name, config, result, metrics)
        last = metrics[-1]["step"] if metrics else 0
        early = last < config["steps"]
    with _reading("result.json", TRAIN_AGAIN):
        result = read_json(path / "result.json") if (path / "result.json").exists() else None
        section = sections.of_run(path.name, config, result, metrics)
    if result is None:
        note = f"Stopped, or still training: {last:,} of {steps} mini-batches are measured. Go on with:"
        return Found(path, "unfinished", section, f"{note} otpe train --resume --out {path}")
    if early:
        damage = f"metrics.jsonl ends after mini-batch {last:,} of {steps}, and so do the curves."
    elif damage:
        damage = f"{damage} The curves lack them."
    note = f"{damage} The result is whole." if damage else ""
    return Found(path, "damaged" if damage else "finished", section, note)


@contextmanager
def _reading(name: str, advice: str = "") -> Iterator[None]:
    """Context for code that relies on a file: errors become a DamagedError that names the file."""
    try:
        yield
    except OtherFormatError:
        raise
    except Exception as error:
        text = words.error(error)
        text = text if name in text else f"{name} is damaged: {text}"
        raise DamagedError(f"{text}. {advice}".rstrip()) from None


def _text(path: Path) -> str:
    if not path.is_file():  # reading a named pipe would wait
        raise ValueError("it is no plain file")
    return path.read_text(encoding="utf-8")
