"""SHD, SSC, and any other folder of recordings in their layout.

A file is read and binned once. Its frames are cached beside it in `otpe-cache`, or in the user's cache if that folder
is read-only.
"""

import hashlib
import os
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np

from otpe import check
from otpe.datasets import cache, hdf5
from otpe.datasets.dataset import FrameSet
from otpe.datasets.download import SOURCES, command, fetch
from otpe.datasets.frames import Binning, frames, in_axes, pooled

Split = Literal["train", "valid", "test"]
SPLITS = ("train", "valid", "test")
UNPACKED = (".h5", ".hdf5")
ENDINGS = (*UNPACKED, ".h5.zip", ".hdf5.zip", ".zip")  # the first match counts, so ".h5.zip" is before ".zip"
Kind = Literal["first", "stratified", "speakers", "none"]
MOST_UNITS = 2**31
KINDS = ("first", "stratified", "speakers", "none")


@dataclass(frozen=True)
class Holdout:
    """Which recordings of the training file are for validation, if there is no file for it.

    "first": the first ones of the file, as in the paper. "stratified": the same share of every class, drawn by `seed`.
    "speakers": all recordings of some speakers, drawn by `seed`, about this share of all recordings. Only
    "speakers" measures the accuracy on speakers that were not in training.
    """

    kind: Kind = "first"
    fraction: float = 0.1
    seed: int = 0

    @classmethod
    def of(cls, given: "Kind | Holdout") -> "Holdout":
        return (given if isinstance(given, cls) else cls(given)).checked()  # pyright: ignore[reportArgumentType]

    def checked(self) -> "Holdout":
        check.one_of("validation", self.kind, KINDS)
        expected = "a share between 0 and 1, such as 0.1"
        fraction = check.number("fraction", self.fraction, expected, lambda f: 0 < f < 1)
        return Holdout(self.kind, fraction, check.whole("seed", self.seed, 2**32))

    def held(self, labels: np.ndarray, speakers: np.ndarray | None = None, where: str = "The data") -> np.ndarray:
        """Return an array that is true for each recording that is held out. `where` begins the messages."""
        held = np.zeros(labels.size, bool)
        if self.kind == "first":
            held[: int(self.fraction * labels.size)] = True
        if self.kind == "stratified":
            # RandomState is the generator whose stream numpy promises never to change.
            shuffled = np.random.RandomState(self.seed).permutation(labels.size)
            for label in np.unique(labels):
                members = shuffled[labels[shuffled] == label]
                held[members[: round(self.fraction * members.size)]] = True
        if self.kind == "speakers":
            held = self._by_speaker(speakers, where)
        return held

    def _by_speaker(self, speakers: np.ndarray | None, where: str) -> np.ndarray:
        """Return an array that is true for each recording of some speakers. Together they come close to the share."""
        if speakers is None:
            raise ValueError(
                f"{where} has no speaker numbers: validation='speakers' needs extra/speaker. Use 'stratified' or"
                " 'first'."
            )
        numbers, sizes = np.unique(speakers, return_counts=True)
        if numbers.size == 1:
            raise ValueError(
                f"{where} has one speaker only, so validation='speakers' leaves nobody to learn from. Use 'stratified'"
                " or 'first'."
            )
        wanted, total, chosen = self.fraction * sizes.sum(), 0, []
        candidates = np.random.RandomState(self.seed).permutation(numbers.size)[:-1]  # the last one is for training
        for i in candidates:
            if abs(total + sizes[i] - wanted) < abs(total - wanted):
                chosen.append(i)
                total += sizes[i]
        if not chosen:  # every candidate has more than twice the share: take the smallest
            chosen = [candidates[sizes[candidates].argmin()]]
        return np.isin(speakers, numbers[chosen])


def shd(
    root: str | Path,
    split: Split = "train",
    bins: int | Binning = 50,
    *,
    validation: Kind | Holdout = "first",
    keep_empty: bool = False,
    download: bool = False,
) -> FrameSet:
    """Return Spiking Heidelberg Digits: 20 spoken digits on 700 units.

    Args:
      root: the folder of `shd_train.h5` and `shd_test.h5`, or of their zips.
      bins: the number of time steps, each a count of spikes (in the paper: 50), over the duration of each recording; or
        a `Binning`, for time steps of fixed duration, zeros and ones, or pooled units.
      validation: SHD has no file for it. "first" holds out the first tenth of the training file, as in the paper,
        "stratified" a tenth of every class, "speakers" all recordings of some speakers, about a tenth, "none" nothing.
        A `Holdout` has the other settings.
      keep_empty: keep recordings without spikes as silence. Without it they raise an error.
      download: fetch the official archive if it is missing. Another file with its name raises an error.
    """
    return _official("shd", Path(root), split, bins, Holdout.of(validation), keep_empty=keep_empty, download=download)


def ssc(
    root: str | Path,
    split: Split = "train",
    bins: int | Binning = 50,
    *,
    keep_empty: bool = False,
    download: bool = False,
) -> FrameSet:
    """Return Spiking Speech Commands: 35 spoken words on 700 units, with a file for each split. Else as `shd`."""
    return _official("ssc", Path(root), split, bins, None, keep_empty=keep_empty, download=download)


def folder(
    root: str | Path,
    split: Split = "train",
    bins: int | Binning = 50,
    *,
    units: int | None = None,
    shape: Sequence[int] | None = None,
    validation: Kind | Holdout = "first",
    keep_empty: bool = False,
) -> FrameSet:
    """Return the recordings of any folder with files in SHD's layout, named `train.h5`, `anything_test.h5` and so on.

    `units` is their number, by default the largest unit of the files + 1. `shape` is their shape, such as (2, 34, 34)
    for a camera whose unit (p·H + y)·W + x is the pixel x, y of polarity p. `validation` is used if there is no file
    for "valid". Other arguments as in `shd`.
    """
    check.one_of("split", split, SPLITS)
    axes = axes_in_files(Path(root), units, shape)
    root, held_out, binning = Path(root), Holdout.of(validation), Binning.of(bins)
    has_valid = _only(root, "valid") is not None
    in_file = "train" if split == "valid" and not has_valid else split
    path = file_of(root, in_file)
    data = load(path, axes, binning, keep_empty=keep_empty)
    if in_file == "train" and not has_valid:
        data = _part(data, split, held_out, path)
    return data.reshape(pooled(axes, binning.pool)).on_device()


def axes_of(units: int | None, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return the shape of the units from their number or shape, of which at least one is given."""
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


def axes_in_files(root: Path, units: int | None, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Return the shape of the units of a folder. If none is given, the number of units is read from the files."""
    return (units_of(root),) if units is None and shape is None else axes_of(units, shape)


def units_of(root: Path) -> int:
    """Return the number of units of a folder: the largest unit + 1 of the files for training and validation.

    Raises ValueError if the file for the test has a larger one, because the number is not clear then.
    """
    files = {split: path for split in SPLITS if (path := _only(root, split)) is not None}
    if not files:
        file_of(root, "train")  # raises
    largest = {split: largest_unit(path) for split, path in files.items()}
    learned = [unit for split, unit in largest.items() if split != "test"] or [*largest.values()]
    if largest.get("test", 0) > max(learned):
        raise ValueError(
            f"{files['test']} has spikes of units up to {largest['test']}, but the files to learn from only up to"
            f" {max(learned)}, so the number of units is not clear. Give units, such as {largest['test'] + 1}."
        )
    return max(learned) + 1


def largest_unit(path: Path) -> int:
    """Return the largest unit of a file, from the cache if it was read before."""
    stamp, places = {"largest": 1, "source": _stamp(path)}, _cache_places(path, f"{path.name}-units")
    for place in places:
        arrays = cache.read(*place, stamp, lambda arrays: arrays["largest"].shape == (1,))
        if arrays is not None:
            return int(arrays["largest"][0])
    units = hdf5.read(path, MOST_UNITS, keep_empty=True).units
    largest = int(units.max(initial=0))
    any(cache.write(*place, stamp, {"largest": np.array([largest])}) for place in places)
    return largest


def _stamp(path: Path) -> dict[str, int]:
    """Return what changes when a file changes."""
    about = path.stat()
    return {"size": about.st_size, "modified": about.st_mtime_ns, "changed": about.st_ctime_ns}


def from_settings(settings: Any) -> tuple[FrameSet, ...]:
    """Return the datasets for training, validation and test of `DataSettings`, for the registry."""
    root, binning = settings.root or Path("data") / settings.dataset, binning_of(settings)
    if settings.dataset == "ssc":
        return tuple(ssc(root, split, binning) for split in SPLITS)
    if settings.dataset == "shd":
        return tuple(shd(root, split, binning, validation=settings.validation) for split in SPLITS)
    shape = axes_in_files(Path(root), settings.units, settings.shape or None)
    return tuple(folder(root, split, binning, shape=shape, validation=settings.validation) for split in SPLITS)


def expected_shape(settings: Any) -> tuple[int, tuple[int, ...], int]:
    """Return time steps, shape of the units and number of classes, for the registry. They are lower bounds."""
    if settings.max_steps is not None and settings.dt is None:
        raise ValueError(f"max_steps is {settings.max_steps} without dt. Give dt as well, or bins instead.")
    if settings.max_steps is not None:
        check.count("max_steps", settings.max_steps)
    if settings.dataset in SOURCES:
        shape: tuple[int, ...] = (SOURCES[settings.dataset].units,)
    else:
        root = settings.root or Path("data") / settings.dataset
        shape = axes_in_files(Path(root), settings.units, settings.shape or None)
    binning_of(settings).checked(shape)
    return settings.bins or 1, pooled(shape, settings.pool), 1


def shape_in_files(name: str, units: int | None, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the units in the files of a named dataset, before pooling. A folder needs one of the two."""
    return (SOURCES[name].units,) if name in SOURCES else axes_of(units, shape or None)


def binning_of(settings: Any) -> Binning:
    """Return how spikes are counted in time steps."""
    bins = 50 if settings.bins is None and settings.dt is None else settings.bins
    return Binning(bins, settings.dt, settings.max_steps, settings.binary, settings.pool)


def load(path: Path, units: int | Sequence[int], binning: Binning, *, keep_empty: bool = False) -> FrameSet:
    """Return all recordings of a file with flat units, as numpy arrays. `units` is their number or their shape.

    They are read from the cache if the file was binned like this before.
    """
    binning, axes = binning.checked(units), in_axes(units)
    # The shape matters only for pooling. Without pooling, all shapes share one cache entry.
    axes = (prod(axes),) if binning.pool == 1 else axes
    stamp = {
        "frames": 1,
        "source": _stamp(path),
        "binning": asdict(binning),
        "units": prod(axes),
        "keep_empty": keep_empty,
    }
    if len(axes) > 1:
        stamp["shape"] = axes
    places = _cache_places(path, f"{path.name}-{'x'.join(map(str, axes))}-{binning}{'-empty' * keep_empty}")
    for place in places:
        arrays = cache.read(*place, stamp, partial(_fits, binning=binning, shape=axes))
        if arrays is not None:
            return _recordings(arrays)
    arrays = binned(path, axes, binning, keep_empty=keep_empty)
    any(cache.write(*place, stamp, arrays) for place in places)  # into the first place where that is possible
    return _recordings(arrays)


def find(root: Path, stem: str) -> Path | None:
    """Return the path of a file of recordings by its name without the ending. Raises if there are several archives."""
    return _chosen(root, stem, [path for end in ENDINGS if _is_recordings(path := root / (stem + end))])


def file_of(root: Path, split: str) -> Path:
    """Return the path of the file of a split in a folder."""
    path = _only(root, split)
    if path is None:
        raise FileNotFoundError(
            f"{root} holds no {split}.h5, nor anything_{split}.h5{no_folder(root)}. Name the folder that does."
        )
    return path


def files_of(root: Path) -> dict[str, Path]:
    """Return all files of recordings by their names without the ending. An unpacked file comes before its archive."""
    found: dict[str, list[Path]] = {}
    for path in sorted(root.glob("*")):
        end = next((end for end in ENDINGS if path.name.endswith(end)), None)
        if end is not None and _is_recordings(path):
            found.setdefault(path.name.removesuffix(end), []).append(path)
    chosen = {stem: _chosen(root, stem, paths) for stem, paths in found.items()}
    return {stem: path for stem, path in chosen.items() if path is not None}


def _chosen(root: Path, stem: str, paths: list[Path]) -> Path | None:
    """Return the one file of this name: the unpacked one if there is one, or else the archive."""
    unpacked = [path for end in UNPACKED for path in paths if path.name == stem + end]
    if unpacked or len(paths) < 2:
        return next(iter([*unpacked, *paths]), None)
    raise ValueError(
        f"{root} holds {len(paths)} archives of {stem}: {', '.join(path.name for path in paths)}. Expected one: move"
        " the others to a folder of their own."
    )


def _is_recordings(path: Path) -> bool:
    """Return whether this is a file of recordings: judged by its name, or for other zips by the names inside."""
    if not path.is_file():
        return False
    if path.suffix != ".zip" or path.stem.endswith(UNPACKED):
        return True
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(UNPACKED) for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def split_of(stem: str) -> str | None:
    """Return the split that is part of a file's name, or None."""
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
            f"{root / f'{name}_{in_file}.h5'} is not there, nor its .zip{no_folder(root)}. Fetch it with"
            f" `{command(name, root)}`, or with download=True."
        )
    data = load(path, source.units, binning, keep_empty=keep_empty)
    return (data if held_out is None or in_file == "test" else _part(data, split, held_out, path)).on_device()


def _part(data: FrameSet, split: str, held_out: Holdout, path: Path) -> FrameSet:
    """Return the recordings of the training file, which has this path, that belong to this split."""
    held = held_out.held(data.labels, data.speakers, str(path))
    chosen = held if split == "valid" else ~held
    if not chosen.any():
        raise ValueError(
            f"split is {split!r}, for which validation={held_out.kind!r} and fraction={held_out.fraction} leave none of"
            f" {held.size} recordings. Use another validation or fraction."
        )
    return data.subset(chosen)


def binned(path: Path, shape: int | Sequence[int], binning: Binning, *, keep_empty: bool) -> dict[str, np.ndarray]:
    """Return the arrays of a file as they are cached: its frames, and what belongs to them."""
    events = hdf5.read(path, prod(in_axes(shape)), keep_empty=keep_empty)
    counts, lengths = frames(events, shape, binning, str(path))
    arrays = {"frames": counts, "labels": events.labels, "names": np.array(events.names, np.str_)}
    optional = {"lengths": lengths, "speakers": events.speakers}
    return arrays | {name: x for name, x in optional.items() if x is not None}


def _recordings(arrays: dict[str, np.ndarray]) -> FrameSet:
    names = tuple(map(str, arrays["names"]))
    return FrameSet(arrays["frames"], arrays["labels"], names, arrays.get("lengths"), arrays.get("speakers"))


def _fits(arrays: dict[str, np.ndarray], binning: Binning, shape: tuple[int, ...]) -> bool:
    """Return whether `binned` can have made these arrays with these settings."""
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


def _cache_places(path: Path, name: str) -> list[tuple[Path | None, str]]:
    """Return folders and names for the cache: first beside the data, if it is writable, then in the user's cache."""
    path_hash = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    writable = path.parent.stat().st_mode & 0o222  # root can write to read-only folders too, but should not
    beside = [(path.parent / "otpe-cache", name)] if writable and os.access(path.parent, os.W_OK) else []
    return [*beside, (cache.home(), f"{name}-{path_hash}")]


def _only(root: Path, split: str) -> Path | None:
    """Return the file of this split, or None. Raises if there are several."""
    fitting = [path for stem, path in files_of(root).items() if split_of(stem) == split]
    if len(fitting) > 1:
        raise ValueError(
            f"{root} holds {len(fitting)} files for {split}: {', '.join(sorted(path.name for path in fitting))}."
            " Expected one: move the others to a folder of their own."
        )
    return fitting[0] if fitting else None


def no_folder(root: Path) -> str:
    return "" if root.is_dir() else " (there is no such folder)"
