"""What a run folder holds, read again. Imports no jax."""

from pathlib import Path
from typing import Any

from otpe import files

FORMAT = 1  # of config.json and result.json


class OtherFormatError(files.ContentError):
    """Another version of otpe wrote it."""


def read_json(path: Path) -> dict[str, Any]:
    with files.reading(path, "Name another folder."):
        found = files.typed(files.parsed(path.read_text()), {})
    if found.get("format", FORMAT) != FORMAT:
        raise OtherFormatError(
            f"{path} has the format {found['format']}, which a newer otpe wrote; this one reads {FORMAT}. Update otpe:"
            " pip install --upgrade otpe."
        )
    return found


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All whole lines; the last may have been cut short by a kill."""
    path, found = folder / "metrics.jsonl", []
    for text in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            line = files.parsed(text)
        except ValueError:
            break
        if not isinstance(line, dict) or not isinstance(line.get("step"), int):
            break
        found.append(line)
    return found


def read_training(folder: Path) -> list[dict[str, Any]]:
    """The lines that a training run has measured, of which others rely on these parts."""
    lines, of_each = read_metrics(folder), list[float | None]
    needs = {"loss": of_each, "valid_accuracy": of_each}
    with files.reading(folder / "metrics.jsonl", "Name another folder."):
        return [files.typed(line, needs) for line in lines]
