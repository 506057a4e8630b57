"""Arrays in a file that says what it is and whether it is whole: safetensors, with a sha256 of everything inside.

A safetensors file cannot run code when it is opened. But a flipped bit in its numbers goes unnoticed, so the header
carries a hash of the numbers, of their names, types and shapes, and of what else is said about them.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from otpe import contents, files

FORMAT = 1


class NewerFormatError(contents.ContentError):
    """A file that a later version wrote."""


KINDS = {"F": "float", "I": "int", "U": "uint", "C": "complex"}
OTHERS = {"BOOL": np.bool_, "BF16": ml_dtypes.bfloat16}  # safetensors.numpy writes the latter, but does not read it


def write(path: Path, kind: str, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write the arrays, and what is to be said about them (plain JSON), whole or not at all."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    said = json.dumps({"kind": kind, **about})
    header = {"format": str(FORMAT), "about": said, "sha256": _hash(said, arrays)}
    files.write_atomically(path, save(arrays, header))


def read(
    path: Path, kind: str, needs: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `write` wrote, if every bit of it is still there. `needs`: what must be said there, with its types."""
    content = path.read_bytes()
    header = _header(path, content)
    if not {"format", "about", "sha256"} <= header.keys():
        raise contents.ContentError(f"{path} is a safetensors file, but none of otpe's: it has no hash of its content.")
    if header["format"] != str(FORMAT):
        raise NewerFormatError(
            f"{path} has the format {header['format']}, which a newer otpe wrote; this one reads {FORMAT}. Update otpe:"
            " pip install --upgrade otpe."
        )
    try:
        arrays = {name: _array(**part) for name, part in deserialize(content)}
    except (SafetensorError, *contents.PARSING_ERRORS) as error:
        raise contents.ContentError(f"{path} is damaged: {error}.") from None
    if _hash(header["about"], arrays) != header["sha256"]:
        raise contents.ContentError(f"{path} is damaged: its content does not match the hash that was written with it.")
    with contents.reading(path):
        about = contents.typed(contents.parsed(header["about"]), {"kind": str})
        if about["kind"] != kind:
            raise contents.ContentError(f"{path} is a {about['kind']}, expected a {kind}.")
        return arrays, contents.typed(about, needs)


def _header(path: Path, content: bytes) -> dict[str, str]:
    size = int.from_bytes(content[:8], "little")
    try:
        header = contents.parsed(content[8 : 8 + size])
        said = header.get("__metadata__", {})
        if len(content) < 8 + size or not contents.fits(said, dict):
            raise ValueError
        contents.typed(said, dict.fromkeys(said, str))
    except (ValueError, AttributeError):
        raise contents.ContentError(
            f"{path} is damaged: {len(content):,} bytes without a whole header. Was it cut short?"
        ) from None
    return said


def _array(shape: list[int], dtype: str, data: bytes) -> np.ndarray:
    kind = OTHERS[dtype] if dtype in OTHERS else KINDS[dtype[0]] + dtype[1:]
    return np.frombuffer(data, kind).reshape(shape)


def _hash(said: str, arrays: Mapping[str, np.ndarray]) -> str:
    content = hashlib.sha256(said.encode())
    for name in sorted(arrays):
        array = arrays[name]
        content.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        content.update(array.tobytes())
    return content.hexdigest()
