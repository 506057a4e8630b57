"""Files of arrays in the safetensors format, with a description and a sha256 of the whole content.

A safetensors file cannot run code when it is opened. But the format does not detect a flipped bit. So the header
contains a hash of the numbers, of their names, types and shapes, and of the description.
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
    """A later version wrote the file."""


KINDS = {"F": "float", "I": "int", "U": "uint", "C": "complex"}
OTHERS = {"BOOL": np.bool_, "BF16": ml_dtypes.bfloat16}  # safetensors.numpy writes bfloat16, but cannot read it


def write(path: Path, kind: str, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """Write arrays and their description `about` (plain JSON) to a file, atomically."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    description = json.dumps({"kind": kind, **about})
    header = {"format": str(FORMAT), "about": description, "sha256": _hash(description, arrays)}
    files.write_atomically(path, save(arrays, header))


def read(
    path: Path, kind: str, needs: Mapping[str, Any] = MappingProxyType({})
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the description that `write` wrote. `needs` are the keys it must have, with their types.

    Raises ContentError if the file is damaged or of another kind, NewerFormatError if a later version wrote it.
    """
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
    """Return the metadata of a safetensors file. Raises ContentError if the header is damaged."""
    size = int.from_bytes(content[:8], "little")
    try:
        header = contents.parsed(content[8 : 8 + size])
        metadata = header.get("__metadata__", {})
        if len(content) < 8 + size or not contents.fits(metadata, dict):
            raise ValueError
        contents.typed(metadata, dict.fromkeys(metadata, str))
    except (ValueError, AttributeError):
        raise contents.ContentError(
            f"{path} is damaged: {len(content):,} bytes without a whole header. Was it cut short?"
        ) from None
    return metadata


def _array(shape: list[int], dtype: str, data: bytes) -> np.ndarray:
    kind = OTHERS[dtype] if dtype in OTHERS else KINDS[dtype[0]] + dtype[1:]
    return np.frombuffer(data, kind).reshape(shape)


def _hash(description: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(description.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
