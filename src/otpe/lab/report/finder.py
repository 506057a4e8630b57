"""Which runs and studies there are in a folder, and in which state. Nothing that is there is left out."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from otpe.lab.records import SINGLE, STUDIES, OtherFormatError, checked_metrics, kind_of, read_config, read_json
from otpe.lab.report import content, sections, words
from otpe.lab.report.sections import of_unfinished

State = Literal["finished", "unfinished", "damaged", "other version", "missing", "left out"]
REMAINS = (
    "result.json",
    "metrics.jsonl",
    "compare.json",
    "sweep.json",
)  # of a run or a study that lost its config.json
AGAIN = "Remove it and run the study again: what is finished is kept."
SKIPPED = ("checkpoints",)
FOLDER = re.compile(r"(?!\.)[^/\\\x00-\x1f\ud800-\udfff]{1,255}")  # a name of one, in order.json


@dataclass(frozen=True)
class Found:
    """A run or a study."""

    path: Path
    state: State
    section: content.Section | None = None
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
    """What is in this folder; whatever is wrong with it, the others are shown."""
    try:
        return _inside(path, in_study)
    except OtherFormatError as error:
        return [Found(path, "other version", note=str(error))]
    except Exception as error:
        return [Found(path, "damaged", note=f"{words.error(error)}.")]


def _inside(path: Path, in_study: bool) -> list[Found]:
    if (path / "section.json").exists():
        return [_study(path)]
    if not (path / "config.json").exists():
        remains = [name for name in REMAINS if (path / name).exists()]
        lost = (
            f"{', '.join(remains)} without config.json: what was run here is not known. Put it back, or run it again."
        )
        return ([Found(path, "damaged", note=lost)] if remains else []) + _children(path, in_study)
    with _naming("config.json"):
        about = read_config(path)
    if kind_of(about) == "stream":
        return [] if in_study else [_half_stream(path, about)]
    if kind_of(about) in SINGLE:
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
    names, found, shown = [], list[Found](), set()
    try:
        names = _order(path)
    except Exception as error:
        note = f"{words.error(error)}. Sections are in the order of their names; which ones are missing is not known."
        found.append(Found(path / "order.json", "damaged", note=note))
    for folder in sorted(folders, key=lambda folder: names.index(folder.name) if folder.name in names else len(names)):
        here = _below(folder, in_study)
        found += here
        shown |= {folder.name} if here else set()
    missing = [name for name in names if name not in shown]  # a folder may be there already, with nothing to tell yet
    return found + [
        Found(path / name, "missing", note="order.json names it, but it is not finished yet.") for name in missing
    ]


def _order(path: Path) -> list[str]:
    """Names of folders."""
    if not (path / "order.json").exists():
        return []
    with _naming("order.json"):
        found = json.loads(_text(path / "order.json"))
        if not isinstance(found, list) or not all(isinstance(name, str) and FOLDER.fullmatch(name) for name in found):
            raise ValueError("expected a list of names of folders")
        return found


def _study(path: Path) -> Found:
    try:
        told = content.from_json(_text(path / "section.json"))
    except content.OtherVersionError as error:
        note = f"section.json is {error}. Use that version, or run the study again."
        return Found(path, "other version", note=note)
    except Exception as error:
        return Found(path, "damaged", note=f"section.json is damaged: {words.error(error)}. {AGAIN}")
    if told.left_out:
        return Found(path, "left out", told, str(told.left_out))
    return Found(path, "finished", told)


def _half_study(path: Path, about: dict[str, Any]) -> Found:
    runs = [folder for folder in sorted(path.iterdir()) if (folder / "config.json").exists()]
    done = sum((folder / "result.json").exists() for folder in runs)
    inside = f" Runs in it: {len(runs)}, finished: {done}." if runs else ""
    kind = kind_of(about)
    verb = f"otpe {kind}" if kind in (*STUDIES, "stream") else "its command"
    if (path / "compare.json").exists():
        inside += " Its table.txt is complete; an older otpe made it."
    note = f"There is no section.json: the study was stopped, or is still at work.{inside}"
    return Found(path, "unfinished", note=f"{note} Go on with: {verb} --resume --out {path}")


def _half_stream(path: Path, about: dict[str, Any]) -> Found:
    """A stream that was stopped, or is still at work: with its accuracy until now."""
    found = _half_study(path, about)
    with _naming("metrics.jsonl"):
        lines, damage = checked_metrics(path)
        made = of_unfinished(path.name, about, lines)
    return replace(found, section=made, note=f"{found.note}{f' {damage}' if damage and made else ''}")


def _run(path: Path, about: dict[str, Any]) -> Found:
    """Made from one file after the other: where it fails, that file is damaged."""
    measured, result = list[dict[str, Any]](), None

    def told() -> content.Section:
        return sections.of_run(path.name, about, result, _Run(about["rule"], about["mode"], measured))

    try:
        with _naming("config.json"):
            made, steps = told(), f"{about['steps']:,}"
        with _naming("metrics.jsonl"):
            measured, damage = checked_metrics(path)
            last, made = measured[-1]["step"] if measured else 0, told()
            early, reached = last < about["steps"], f"{last:,}"
        with _naming("result.json"):
            result = read_json(path / "result.json") if (path / "result.json").exists() else None
            made = told()
    except OtherFormatError as error:
        return Found(path, "other version", note=str(error))
    except Exception as error:
        return Found(path, "damaged", note=f"{words.error(error)}. Train it again in another folder.")
    if result is None:
        note = f"Stopped, or still training: {reached} of {steps} mini-batches are measured. Go on with:"
        return Found(path, "unfinished", made, f"{note} otpe train --resume --out {path}")
    if early:
        note = f"metrics.jsonl ends after mini-batch {reached} of {steps}, and so do the curves."
        return Found(path, "damaged", made, f"{note} The result is whole.")
    if damage:
        return Found(path, "damaged", made, f"{damage} The curves lack them. The result is whole.")
    return Found(path, "finished", made)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """What is wrong with this file, in a sentence that names it."""
    try:
        yield
    except OtherFormatError:
        raise
    except Exception as error:
        said = words.error(error)
        raise ValueError(said if name in said else f"{name} is damaged: {said}") from None


def _text(path: Path) -> str:
    if not path.is_file():  # a named pipe would be waited for
        raise ValueError("it is no plain file")
    return path.read_text(encoding="utf-8")
