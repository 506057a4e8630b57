"""The official archives of SHD and SSC: their addresses, their hashes, and their download."""

import hashlib
import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from otpe.datasets.cache import reason

ADDRESS = "https://zenkelab.org/datasets/"
NO_SERVER = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "SSLError", "ProxyError")  # names of errors


class Source(NamedTuple):
    title: str
    units: int
    md5: dict[str, str]  # of the archive of each split


SOURCES = {
    "shd": Source(
        "Spiking Heidelberg Digits",
        700,
        {"train": "f3252aeb598ac776c1b526422d90eecb", "test": "1503a5064faa34311c398fb0a1ed0a6f"},
    ),
    "ssc": Source(
        "Spiking Speech Commands",
        700,
        {
            "train": "d102be95e7144fcc0553d1f45ba94170",
            "valid": "b4eee3516a4a90dd0c71a6ac23a8ae43",
            "test": "a35ff1e9cffdd02a20eb850c17c37748",
        },
    ),
}


def archive(name: str, split: str) -> str:
    """Return the file name of an official archive."""
    return f"{name}_{split}.h5.zip"


def md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def is_official(name: str, split: str, path: Path) -> bool | None:
    """Return whether this is the published archive, bit for bit. None for other files, whose md5 is not known."""
    return md5(path) == SOURCES[name].md5[split] if path.name == archive(name, split) else None


def command(name: str, root: Path) -> str:
    """Return the command that downloads a dataset."""
    return f"otpe data {name} --root {root} --download"


def fetch(name: str, split: str, root: Path) -> Path:
    """Download the archive of a split into a folder, compare its hash, and return its path. Replaces no file."""
    target, expected = root / archive(name, split), SOURCES[name].md5[split]
    if target.exists():
        if not target.is_file():
            raise OSError(f"{target} is there, but is no file. Move it away, or name another folder.")
        if is_official(name, split, target):
            return target
        raise ValueError(
            f"{target} is there, but is not the official archive: its md5 is {md5(target)}, expected {expected}. Leave"
            " out the download to use it as it is, or move it away, or name another folder."
        )
    if os.environ.get("OTPE_OFFLINE", "") not in ("", "0"):
        raise OSError(
            f"{SOURCES[name].title} is not in {root}, and OTPE_OFFLINE forbids downloads. Unset it and use:"
            f" {command(name, root)}"
        )
    if not find_spec("pooch"):
        raise OSError("downloading needs pooch, which is not installed. Use: pip install 'otpe[data]'")
    is_new = not root.exists()
    try:
        _retrieve(ADDRESS + target.name, target, expected)
    finally:
        if is_new and not target.exists() and root.is_dir() and not any(root.iterdir()):
            root.rmdir()
    return target


def _retrieve(address: str, target: Path, expected: str) -> None:
    import pooch

    logging.getLogger("pooch").setLevel(logging.WARNING)
    pooch.get_logger().setLevel("WARNING")
    show_bar = find_spec("tqdm") is not None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(
            address, known_hash=f"md5:{expected}", fname=target.name, path=target.parent, progressbar=show_bar
        )
    except (ValueError, OSError) as error:
        if isinstance(error, ValueError) and "hash" in str(error):
            raise ValueError(
                f"{address} has another md5 than expected ({expected}): it arrived damaged, or has changed. Nothing was"
                " kept. Try again."
            ) from None
        why = "the server cannot be reached" if type(error).__name__ in NO_SERVER else reason(error)
        raise OSError(
            f"{address} could not be fetched into {target.parent}: {why}. Nothing was kept. Try again, or download it"
            " in a browser and put it there."
        ) from None
