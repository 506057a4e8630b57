"""The files of a dataset: found in the folder, fetched if that is asked for, verified."""

import sys
from pathlib import Path
from typing import NamedTuple

from otpe.datasets import fetch, heidelberg
from otpe.explore import settings
from otpe.explore.config import DataConfig

ORDER = heidelberg.SPLITS


class Source(NamedTuple):
    split: str
    path: Path
    official: bool | None  # bit for bit the archive that its makers published; None where that cannot be told


def sources(config: DataConfig) -> list[Source]:
    """Every file of the dataset, in the order of the splits."""
    root = settings.root(config)
    if config.name == "folder":
        return [Source(split, path, None) for split, path in _of_folder(root).items()]
    found = {split: _find(config, root, split) for split in fetch.SOURCES[config.name].md5}
    missing = [split for split, path in found.items() if path is None]
    if missing:
        _may_fetch(config, root, missing)
    for split in missing:
        print(f"Fetching {fetch.archive(config.name, split)} …", file=sys.stderr)
        found[split] = fetch.fetch(config.name, split, root)
    return [_verified(config, split, path) for split, path in found.items() if path is not None]


def _find(config: DataConfig, root: Path, split: str) -> Path | None:
    """The archive alone where it is to be verified: only its md5 is known."""
    if config.verify:
        path = root / fetch.archive(config.name, split)
        return path if path.is_file() else None
    return heidelberg.find(root, f"{config.name}_{split}")


def _may_fetch(config: DataConfig, root: Path, missing: list[str]) -> None:
    paths = ", ".join(str(root / fetch.archive(config.name, split)) for split in missing)
    if config.download and config.offline:
        raise OSError(
            f"{paths}: not there, and --offline forbids what --download asks for. Leave out --offline, or put the"
            " archives there."
        )
    if config.download:
        return
    command = fetch.command(config.name, root) + " --verify" * config.verify
    advice = f"Fetch what is missing with `{command}`"
    unpacked = [heidelberg.find(root, f"{config.name}_{split}") for split in missing]
    if config.verify and any(unpacked):
        names = ", ".join(str(path) for path in unpacked if path)
        raise FileNotFoundError(
            f"{names} cannot be verified: an md5 is known of the archive only, which is not there. {advice}, or"
            " leave out --verify."
        )
    plain = "" if config.verify else ", packed or unpacked"
    no_folder = "" if root.is_dir() else " (there is no such folder)"
    raise FileNotFoundError(f"{paths}: not there{plain}{no_folder}. {advice}, or name another folder with --root.")


def _verified(config: DataConfig, split: str, path: Path) -> Source:
    if path.name != fetch.archive(config.name, split):
        return Source(split, path, None)
    found, expected = fetch.md5(path), fetch.SOURCES[config.name].md5[split]
    if config.verify and found != expected:
        raise ValueError(
            f"{path} is not the official archive: its md5 is {found}, expected {expected}. Move it away and fetch it"
            f" with `{fetch.command(config.name, path.parent)}`, or leave out --verify to look at it as it is."
        )
    return Source(split, path, found == expected)


def _of_folder(root: Path) -> dict[str, Path]:
    """Every file by the name of its split, or by its own where that is none."""
    paths = heidelberg.files_of(root)
    if not paths:
        no_folder = "" if root.is_dir() else " (there is no such folder)"
        raise FileNotFoundError(
            f"{root} holds no .h5 file, nor a .h5.zip{no_folder}. Name the folder of the recordings with --root."
        )
    named = {stem: heidelberg.split_of(stem) for stem in paths}
    once = {split for split in ORDER if list(named.values()).count(split) == 1}
    by_name = {split if (split := named[stem]) in once else stem: path for stem, path in paths.items()}
    return dict(sorted(by_name.items(), key=lambda item: (ORDER.index(item[0]) if item[0] in ORDER else 9, item[0])))
