"""What a run folder holds, read again. Imports no jax."""

import json
from pathlib import Path
from typing import Any

FORMAT = 1  # of config.json and result.json


class OtherFormatError(ValueError):
    """Another version of otpe wrote it."""


def read_json(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise ValueError("no plain file")
        found = json.loads(path.read_text())
        if not isinstance(found, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}. Name another folder.") from None
    if found.get("format", FORMAT) != FORMAT:
        raise OtherFormatError(
            f"{path} has the format {found['format']}, which a newer otpe wrote; this one reads {FORMAT}. Update otpe:"
            " pip install --upgrade otpe."
        )
    return found


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All whole lines; the last may have been cut short by a kill."""
    path, found = folder / "metrics.jsonl", []
    for text in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if not isinstance(line, dict) or "step" not in line:
            break
        found.append(line)
    return found
