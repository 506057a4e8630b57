"""What a run folder holds, read again. Imports no jax."""

from pathlib import Path
from typing import Any, NamedTuple

from otpe import contents

FORMAT = 1  # of config.json and result.json


class OtherFormatError(contents.ContentError):
    """Another version of otpe wrote it."""


def read_json(path: Path) -> dict[str, Any]:
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


class Metrics(NamedTuple):
    """What metrics.jsonl holds."""

    lines: list[dict[str, Any]]  # all that are whole
    damage: str  # a sentence about the others; empty where there are none


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    return checked_metrics(folder).lines


def checked_metrics(folder: Path) -> Metrics:
    """A last line without an end is no damage: a kill cuts it short, and its step is measured again."""
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
    """The lines that a training run has measured, of which others rely on these parts."""
    lines, of_each = read_metrics(folder), list[float | None]
    needs = {"loss": of_each, "valid_accuracy": of_each}
    with contents.reading(folder / "metrics.jsonl", "Name another folder."):
        return [contents.typed(line, needs) for line in lines]
