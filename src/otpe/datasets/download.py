"""The official archives of SHD and SSC: where they are, how to know them, and how to get them."""

import hashlib
import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

ADDRESS = "https://zenkelab.org/datasets/"


class Source(NamedTuple):
    title: str
    units: int
    md5: dict[str, str]  # of each split's archive


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
    return f"{name}_{split}.h5.zip"


def md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()


def is_official(name: str, split: str, path: Path) -> bool | None:
    """Whether this is, bit for bit, the archive that its makers published. None for other files: no md5 is known."""
    return md5(path) == SOURCES[name].md5[split] if path.name == archive(name, split) else None


def command(name: str, root: Path) -> str:
    return f"otpe data {name} --root {root} --download"


def fetch(name: str, split: str, root: Path) -> Path:
    """Download the archive of this split into the folder and compare its hash. What is there already is kept."""
    target = root / archive(name, split)
    if target.exists():
        if not target.is_file():
            raise OSError(f"{target} is there, but is no file. Move it away, or name another folder.")
        if is_official(name, split, target):
            return target
        raise ValueError(
            f"{target} is there, but is not the official archive: its md5 is {md5(target)}, expected"
            f" {SOURCES[name].md5[split]}. Leave out the download to use it as it is, or move it away, or name"
            " another folder."
        )
    _may_go_online(name, root)
    import pooch

    logging.getLogger("pooch").setLevel(logging.WARNING)
    pooch.get_logger().setLevel("WARNING")
    new = not root.exists()
    try:
        root.mkdir(parents=True, exist_ok=True)
        pooch.retrieve(
            ADDRESS + target.name,
            known_hash=f"md5:{SOURCES[name].md5[split]}",
            fname=target.name,
            path=root,
            progressbar=find_spec("tqdm") is not None,
        )
    except (ValueError, OSError) as error:
        raise _failed(error, ADDRESS + target.name, root, SOURCES[name].md5[split]) from None
    finally:
        if new and not target.exists() and root.is_dir() and not any(root.iterdir()):
            root.rmdir()
    return target


def _failed(error: Exception, address: str, root: Path, expected: str) -> Exception:
    if isinstance(error, ValueError) and "hash" in str(error):
        return ValueError(
            f"{address} has another md5 than expected ({expected}): it arrived damaged, or has changed. Nothing was"
            " kept. Try again."
        )
    return OSError(
        f"{address} could not be fetched into {root}: {_reason(error)}. Nothing was kept. Try again, or download it"
        " in a browser and put it there."
    )


def _may_go_online(name: str, root: Path) -> None:
    if os.environ.get("OTPE_OFFLINE", "") not in ("", "0"):
        raise OSError(
            f"{SOURCES[name].title} is not in {root}, and OTPE_OFFLINE forbids to fetch it. Unset it and use:"
            f" {command(name, root)}"
        )
    if not find_spec("pooch"):
        raise OSError("downloading needs pooch, which is not installed. Use: pip install 'otpe[data]'")


def _reason(error: Exception) -> str:
    if type(error).__name__ in ("ConnectionError", "ConnectTimeout", "ReadTimeout", "SSLError", "ProxyError"):
        return "the server cannot be reached"
    return " ".join(str(error).split()) or type(error).__name__
