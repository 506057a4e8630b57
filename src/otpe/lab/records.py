"""Reading the files of a run folder: config.json, metrics.jsonl. Imports no jax."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from otpe import contents
from otpe.lab.settings import flat_config

FORMAT = 1  # of config.json and result.json
SINGLE = ("train", "align")  # kinds of folders with one training run
STUDIES = {"compare": "a comparison", "landscape": "a landscape", "sweep": "a sweep"}  # with a folder for each run
KINDS = {**dict.fromkeys(SINGLE, "a single run"), **STUDIES, "stream": "a stream", "reproduce": "a reproduction"}
KIND_BY_KEY = {"reproduce": "reproduce", "rules": "compare", "rule": "train"}  # for folders of earlier versions


class OtherFormatError(contents.ContentError):
    """The file has the format of a newer version of otpe."""


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a JSON file. Raises ContentError if it is damaged, OtherFormatError for a newer format."""
    with contents.reading(path, "Name another folder."):
        if path.exists() and not path.is_file():
            raise ValueError("no plain file")
        found = contents.typed(contents.parsed(path.read_text()), {})
    if found.get("format", FORMAT) != FORMAT:
        raise OtherFormatError(
            f"{path} has the format {found['format']}, which a newer otpe wrote; this one reads {FORMAT}. Update otpe:"
            " pip install --upgrade otpe."
        )
    return found


def read_config(folder: Path) -> dict[str, Any]:
    """Return config.json of a folder, with the keys that this version of otpe would write."""
    path = folder / "config.json"
    with contents.reading(path, "Name another folder."):
        return upgraded(flat_config(read_json(path)))


def upgraded(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a folder with the keys of today: `kind` is the verb, `source_kind` the source of a stream.

    Earlier versions wrote the kind of a study as `own_study`, and the kind of a stream's source as `kind`.
    """
    kind, found = kind_of(config), dict(config)
    if kind == "stream" and found.pop("own_study", None):
        found["source_kind"] = found.get("kind")
    found.pop("own_study", None)
    return found if kind is None else {**found, "kind": kind}


def kind_of(config: Mapping[str, Any]) -> str | None:
    """Return the verb that made a folder, from its config.json. None if it is unknown."""
    kind = config.get("own_study", config.get("kind"))
    if kind is None:  # an earlier version wrote it
        kind = next((kind for key, kind in KIND_BY_KEY.items() if key in config), None)
    return next((known for known in KINDS if known == kind), None)


class Metrics(NamedTuple):
    """The content of metrics.jsonl."""

    lines: list[dict[str, Any]]  # all complete lines
    damage: str  # a sentence about the other lines, or empty


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    return checked_metrics(folder).lines


def checked_metrics(folder: Path) -> Metrics:
    """Read metrics.jsonl. An incomplete last line does not count as damage: the process was killed while it wrote the
    line, and a resumed run measures that step again.
    """
    path, found, damaged = folder / "metrics.jsonl", [], []
    if not path.is_file():
        return Metrics([], f"{path} is missing.")
    *rows, last = path.read_text(errors="replace").split("\n")
    for number, text in enumerate([*rows, last] if last else rows, 1):
        try:
            line = contents.parsed(text)
            if not isinstance(line, dict) or type(line.get("step")) is not int:
                raise ValueError("no metrics")
        except ValueError:
            damaged += [number] if number <= len(rows) else []
        else:
            found.append(line)
    where = ", ".join(map(str, damaged[:5])) + ", …" * (len(damaged) > 5)
    several = f"lines {where} ({len(damaged):,}) are" if len(damaged) > 1 else f"line {where} is"
    return Metrics(found, f"{path} is damaged: {several} left out." if damaged else "")


def read_training(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a training run. Raises ContentError if a line has no loss or accuracy."""
    lines, of_each = read_metrics(folder), list[float | None]
    needs = {"loss": of_each, "valid_accuracy": of_each}
    with contents.reading(folder / "metrics.jsonl", "Name another folder."):
        return [contents.typed(line, needs) for line in lines]
