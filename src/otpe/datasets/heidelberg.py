"""Which recordings of a training file are held out for validation, where there is no file for it."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from otpe import check
from otpe.datasets import cache, hdf5
from otpe.datasets.download import SOURCES, command, fetch
from otpe.datasets.frames import Binning, FrameSet, frames, frameset, in_axes, pooled

KINDS = ("first", "stratified", "none")


@dataclass(frozen=True)
class Holdout:
    """ "first": the first ones of the file, as the paper does. "stratified": the same share of every class, by seed."""

    kind: Literal["first", "stratified", "none"] = "first"
    fraction: float = 0.1
    seed: int = 0

    def checked(self) -> "Holdout":
        check.one_of("validation", self.kind, KINDS)
        share = "a share between 0 and 1, such as 0.1"
        fraction = check.number("fraction", self.fraction, share, lambda f: 0 < f < 1)
        return Holdout(self.kind, fraction, check.whole("seed", self.seed, 2**32))

    def held(self, labels: np.ndarray) -> np.ndarray:
        """True for each recording that is held out."""
        held = np.zeros(labels.size, bool)
        if self.kind == "first":
            held[: int(self.fraction * labels.size)] = True
        if self.kind == "stratified":
            # RandomState is the generator whose stream numpy promises never to change.
            shuffled = np.random.RandomState(self.seed).permutation(labels.size)
            for label in np.unique(labels):
                members = shuffled[labels[shuffled] == label]
                held[members[: round(self.fraction * members.size)]] = True
        return held


def holdout(given: str | Holdout) -> Holdout:
    return (given if isinstance(given, Holdout) else Holdout(given)).checked()  # pyright: ignore[reportArgumentType]


# --------------------
# SHD, SSC, and any other folder of recordings in their layout.
#
# A file is read and binned once; its frames are kept beside it, in `otpe-cache`, or in the user's cache where that
# folder may not be written.


Split = Literal["train", "valid", "test"]
SPLITS = ("train", "valid", "test")
ENDINGS = (".h5", ".hdf5", ".h5.zip", ".hdf5.zip")


class Recordings(NamedTuple):
    """A whole file, binned."""

    frames: np.ndarray  # [R, T, N], whatever shape the units have: files and caches know rows of units alone
    lengths: np.ndarray | None  # [R]
    labels: np.ndarray  # [R]
    speakers: np.ndarray | None  # [R]
    names: tuple[str, ...]


def shd(
    root: str | Path,
    split: Split = "train",
    bins: int | Binning = 50,
    *,
    validation: Literal["first", "stratified", "none"] | Holdout = "first",
    keep_empty: bool = False,
    download: bool = False,
) -> FrameSet:
    """Spiking Heidelberg Digits: 20 spoken digits on 700 units, from `shd_train.h5` and `shd_test.h5` (or their zips).

    `bins`: time steps over each recording's own duration, each a count of spikes (the paper: 50); or a `Binning`, for
    steps of fixed time, zeros and ones, pooled units. `validation`: SHD has no file for it; "first" holds out the first
    tenth of the training file, as the paper does, "stratified" a tenth of every class, "none" nothing; or a `Holdout`.
    `download=True` fetches the official archive if it is missing, and refuses any other under its name.
    """
    return _official("shd", Path(root), split, bins, holdout(validation), keep_empty=keep_empty, download=download)


def ssc(
    root: str | Path,
    split: Split = "train",
    bins: int | Binning = 50,
    *,
    keep_empty: bool = False,
    download: bool = False,
) -> FrameSet:
    """Spiking Speech Commands: 35 spoken words on 700 units, with a file for every split. Else as `shd`."""
    return _official("ssc", Path(root), split, bins, None, keep_empty=keep_empty, download=download)


def folder(
    root: str | Path,
    split: Split = "train",
    bins: int | Binning = 50,
    *,
    units: int | None = None,
    shape: Sequence[int] | None = None,
    validation: Literal["first", "stratified", "none"] | Holdout = "first",
    keep_empty: bool = False,
) -> FrameSet:
    """Any folder with files in SHD's layout, named `train.h5`, `anything_test.h5` and so on, with this many units.

    `shape`: of the units, such as (2, 34, 34) for a camera whose unit (p·H + y)·W + x is the pixel x, y of polarity p.
    Where there is no file for "valid", it is held out of the training file. Else as `shd`.
    """
    axes = axes_of(units, shape)
    check.one_of("split", split, SPLITS)
    root, held_out = Path(root), holdout(validation)
    in_file = "train" if split == "valid" and _only(root, "valid") is None else split
    path = file_of(root, in_file)
    whole = in_file == "test" or _only(root, "valid") is not None
    binning = Binning.of(bins)
    rows = _part(load(path, axes, binning, keep_empty=keep_empty), split, None if whole else held_out)
    return replace(rows, frames=rows.frames.reshape(*rows.frames.shape[:2], *pooled(axes, binning.pool)))


def axes_of(units: int | None, shape: Sequence[int] | None) -> tuple[int, ...]:
    """The shape of the units of a folder, of which one setting or the other tells."""
    if units is None and shape is None:
        raise ValueError(
            "neither units nor shape is given, and a folder does not tell. Give units, such as 700, or shape, such as"
            " 2 34 34."
        )
    if shape is None:
        return (check.count("units", units),)
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not shape:
        raise ValueError(f"shape is {shape!r}, expected the shape of the units, such as (2, 34, 34).")
    axes = tuple(check.count("shape", length) for length in shape)
    if units is not None and check.count("units", units) != prod(axes):
        raise ValueError(
            f"units is {units} and shape is {axes}, which has {prod(axes)} units. Give one of them, or the same number."
        )
    return axes


def load(path: Path, units: int | Sequence[int], binning: Binning, *, keep_empty: bool = False) -> Recordings:
    """All recordings of one file, from the cache if it was binned like this before. `units`: how many, or a shape."""
    binning, axes = binning.checked(units), in_axes(units)
    axes = (prod(axes),) if binning.pool == 1 else axes  # only pooling asks for a shape: both share a cache
    units = prod(axes)
    grid = {"shape": axes} if len(axes) > 1 else {}
    about = path.stat()
    stamp = {
        "frames": 1,
        "source": {"size": about.st_size, "modified": about.st_mtime_ns, "changed": about.st_ctime_ns},
        "binning": asdict(binning),
        "units": units,
        "keep_empty": keep_empty,
        **grid,
    }
    places = _places(path, f"{path.name}-{'x'.join(map(str, axes))}-{binning}{'-empty' * keep_empty}")
    for place in places:
        kept = cache.read(*place, stamp, partial(_fit, binning=binning, shape=axes))
        if kept is not None:
            return _recordings(kept)
    arrays = binned(path, axes, binning, keep_empty=keep_empty)
    any(cache.write(*place, stamp, arrays) for place in places)  # the first that can be written
    return _recordings(arrays)


def find(root: Path, stem: str) -> Path | None:
    return next((path for end in ENDINGS if (path := root / (stem + end)).is_file()), None)


def file_of(root: Path, split: str) -> Path:
    """The file of this split in a folder."""
    path = _only(root, split)
    if path is None:
        raise FileNotFoundError(
            f"{root} holds no {split}.h5, nor anything_{split}.h5{_there(root)}. Name the folder that does."
        )
    return path


def files_of(root: Path) -> dict[str, Path]:
    """Every file of recordings by its name without the ending; where it is there twice, unpacked."""
    found: dict[str, Path] = {}
    for end in reversed(ENDINGS):
        found |= {path.name.removesuffix(end): path for path in sorted(root.glob(f"*{end}")) if path.is_file()}
    return found


def split_of(stem: str) -> str | None:
    """What the name of a file says."""
    return next((split for split in SPLITS if stem == split or stem.endswith((f"_{split}", f"-{split}"))), None)


def _official(
    name: str, root: Path, split: str, bins: Any, held_out: Holdout | None, *, keep_empty: bool, download: bool
) -> FrameSet:
    check.one_of("split", split, SPLITS)
    source, binning = SOURCES[name], Binning.of(bins)
    binning.checked(source.units)
    in_file = split if split in source.md5 else "train"
    path = find(root, f"{name}_{in_file}")
    if download and (path is None or path.suffix == ".zip"):
        path = fetch(name, in_file, root)
    if path is None:
        raise FileNotFoundError(
            f"{root / f'{name}_{in_file}.h5'} is not there, nor its .zip{_there(root)}. Fetch it with"
            f" `{command(name, root)}`, or with download=True."
        )
    recordings = load(path, source.units, binning, keep_empty=keep_empty)
    return _part(recordings, split, held_out if in_file == "train" else None)


def _part(all_of: Recordings, split: str, held_out: Holdout | None) -> FrameSet:
    """The recordings of this split."""
    if held_out is None:
        return frameset(all_of.frames, all_of.labels, all_of.names, all_of.lengths, all_of.speakers)
    held = held_out.held(all_of.labels)
    chosen = held if split == "valid" else ~held
    if not chosen.any():
        raise ValueError(
            f"split is {split!r}, for which validation={held_out.kind!r} and fraction={held_out.fraction} leave none of"
            f" {held.size} recordings. Use another validation or fraction."
        )
    lengths, speakers = (None if x is None else x[chosen] for x in (all_of.lengths, all_of.speakers))
    return frameset(all_of.frames[chosen], all_of.labels[chosen], all_of.names, lengths, speakers)


def binned(path: Path, shape: int | Sequence[int], binning: Binning, *, keep_empty: bool) -> dict[str, np.ndarray]:
    events = hdf5.read(path, prod(in_axes(shape)), keep_empty=keep_empty)
    made = frames(events, shape, binning, str(path))
    arrays = {"frames": made.counts, "labels": events.labels, "names": np.array(events.names, np.str_)}
    optional = {"lengths": made.lengths, "speakers": events.speakers}
    return arrays | {name: x for name, x in optional.items() if x is not None}


def _fit(arrays: dict[str, np.ndarray], binning: Binning, shape: tuple[int, ...]) -> bool:
    """Are these arrays what `binned` makes with these settings?"""
    frames, names = arrays["frames"], arrays["names"]
    rows = {name: arrays[name] for name in ("labels", "lengths", "speakers") if name in arrays}
    limits = {"labels": names.size - 1, "lengths": frames.shape[1]}
    return (
        (frames.ndim, frames.dtype.kind in "iu", names.ndim, names.dtype.kind) == (3, True, 1, "U")
        and frames.shape[1:] == (binning.bins or binning.steps or frames.shape[1], prod(pooled(shape, binning.pool)))
        and rows.keys() >= ({"labels", "lengths"} if binning.dt else {"labels"})
        and all(row.shape == frames.shape[:1] and row.dtype == np.int32 and row.min() >= 0 for row in rows.values())
        and all(rows[name].max() <= most for name, most in limits.items() if name in rows)
    )


def _recordings(arrays: dict[str, np.ndarray]) -> Recordings:
    names = tuple(map(str, arrays["names"]))
    return Recordings(arrays["frames"], arrays.get("lengths"), arrays["labels"], arrays.get("speakers"), names)


def _places(path: Path, name: str) -> list[tuple[Path | None, str]]:
    """Where frames may be kept: beside the data if that may be written, else with the user."""
    whose = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    marked = path.parent.stat().st_mode & 0o222  # root may write anywhere, but leaves a read-only folder alone
    beside = [(path.parent / "otpe-cache", name)] if marked and os.access(path.parent, os.W_OK) else []
    return [*beside, (cache.home(), f"{name}-{whose}")]


def _only(root: Path, split: str) -> Path | None:
    """The file of this split, if there is just one."""
    fitting = [path for stem, path in files_of(root).items() if split_of(stem) == split]
    if len(fitting) > 1:
        raise ValueError(
            f"{root} holds {len(fitting)} files for {split}: {', '.join(sorted(path.name for path in fitting))}."
            " Expected one: move the others to a folder of their own."
        )
    return fitting[0] if fitting else None


def _there(root: Path) -> str:
    return "" if root.is_dir() else " (there is no such folder)"
