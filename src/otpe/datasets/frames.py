"""From events to frames: how often each unit spiked in each time step.

With `bins`, each recording has this number of time steps between its first and its last spike. The paper does the same
with tonic's `ToFrame(n_time_bins=50)`. In both, a time step is a whole number of microseconds, rounded down. So the
last time step ends a little before the last spike. The differences are:

- Tonic drops the spikes after the last time step, at least one per recording. We count them in the last frame. With
  `remainder="drop"` we drop them too, and the frames equal those of tonic if events are in the order of time.
- If events are out of order, tonic uses the first and the last event in the list. We use the earliest and the latest.
- If a recording is too short for its bins, tonic returns silence. We raise an error.

With `dt`, time steps have `dt` seconds, from time 0 on. Recordings then differ in length. The shorter ones are padded.

Units have a shape: (700,), or (2, 34, 34) for the pixels of a camera. In events, and in the frames made here, units
are flattened in the order of `reshape`: unit (p·H + y)·W + x.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from otpe import check, memory
from otpe.datasets.events import LATEST, Events

AT_ONCE = 1 << 20  # entries of frames that are counted together: they should fit into the processor's cache
MOST = 1 << 27  # entries of the frames of one recording


@dataclass(frozen=True)
class Binning:
    """How events become frames."""

    bins: int | None = None  # time steps of each recording
    dt: float | None = None  # seconds of a time step
    steps: int | None = None  # with dt: time steps, later spikes are dropped; None: as the longest recording needs
    binary: bool = False  # 1 for any number of spikes
    pool: int = 1  # number of neighbouring units that are added up; on a grid, pool × pool pixels are added up
    remainder: Literal["keep", "drop"] = "keep"

    @classmethod
    def of(cls, bins: "int | Binning") -> "Binning":
        return bins if isinstance(bins, cls) else cls(bins)  # pyright: ignore[reportArgumentType]

    def checked(self, shape: int | Sequence[int]) -> "Binning":
        """Return these settings as Python numbers. Raises if they contradict each other or do not fit the units."""
        shape = in_axes(shape)
        if (self.bins is None) == (self.dt is None):
            given = "neither bins nor dt is given" if self.bins is None else f"bins is {self.bins} and dt is {self.dt}"
            raise ValueError(f"{given}, expected one of them: a number of time steps, or the seconds of each.")
        bins = None if self.bins is None else check.count("bins", self.bins)
        steps = None if self.steps is None else check.count("steps", self.steps)
        expected = f"seconds, in whole millionths and at most {LATEST:,}. A usual value is 0.01 (10 ms)"
        dt = None if self.dt is None else check.number("dt", self.dt, expected, _is_whole_microseconds)
        if steps is not None and dt is None:
            raise ValueError(f"steps is {steps} without dt. Give dt as well, or bins={steps} instead of steps.")
        check.flag("binary", self.binary)
        pool, common = check.count("pool", self.pool), math.gcd(*shape[-2:])
        if common % pool:
            possible = [n for n in range(2, min(common, 1000)) if common % n == 0][:8]
            what = f"{common} units" if len(shape) == 1 else f"the height and width of the shape {list(shape)}"
            advice = f"Use one of {possible}, for example." if possible else "Leave pool out."
            raise ValueError(f"pool is {pool}, which does not divide {what}. {advice}")
        check.one_of("remainder", self.remainder, ("keep", "drop"))
        if (bins or steps or 1) * prod(shape) > MOST:
            raise ValueError(
                f"{bins or steps} time steps of {prod(shape)} units are more than {MOST:,} numbers for each recording."
                " Use fewer."
            )
        return Binning(bins, dt, steps, bool(self.binary), pool, self.remainder)

    def __str__(self) -> str:
        """Return a text for the names of caches."""
        time = f"bins{self.bins}" if self.bins else f"dt{self.dt:g}" + (f"x{self.steps}" if self.steps else "")
        pool, dropped = f"-pool{self.pool}" * (self.pool > 1), "-drop" * (self.remainder == "drop")
        return time + "-binary" * self.binary + pool + dropped


def _is_whole_microseconds(seconds: float) -> bool:
    return 1e-6 <= seconds <= LATEST and math.isclose(seconds * 1e6, round(seconds * 1e6), rel_tol=1e-6)


def in_axes(shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a tuple. A number of units is a shape with one axis."""
    return tuple(shape) if isinstance(shape, Sequence) else (shape,)


def pooled(shape: int | Sequence[int], pool: int) -> tuple[int, ...]:
    """Return the shape after pooling, which divides height and width, or the length of a row."""
    shape = in_axes(shape)
    return (*shape[:-2], *(length // pool for length in shape[-2:]))


class Frames(NamedTuple):
    counts: np.ndarray  # [recordings, steps, units], of one byte if all counts fit
    lengths: np.ndarray | None  # [recordings] int32, if they differ


class Grid(NamedTuple):
    """The time steps of all recordings."""

    steps: int
    shape: tuple[int, ...]  # of the units, before pooling
    units: int  # after pooling
    lengths: np.ndarray | None  # [recordings] int32, if they differ
    begin: np.ndarray  # [recordings] microseconds at which the first step begins
    width: np.ndarray  # [recordings] microseconds of a step


def frames(events: Events, shape: int | Sequence[int], binning: Binning, where: str = "events") -> Frames:
    """Return the frames of all recordings, for units of this shape. `where` names the recordings in messages."""
    layout = grid(events, shape, binning, where)
    size = (len(events), layout.steps, layout.units)
    if prod(size) > memory.host():
        raise ValueError(
            f"{where}: frames {list(size)} take {prod(size) / 1e9:.0f} GB, more than this machine has. Use fewer time"
            " steps, or pool units."
        )
    result = np.zeros(size, np.uint8)
    for some, counts in blocks(events, layout, binning):
        largest = counts.max()
        needed = np.uint8 if largest < 2**8 else np.uint16 if largest < 2**16 else np.int32
        result = result.astype(np.promote_types(result.dtype, needed), copy=False)
        result[some] = counts
    return Frames(result, layout.lengths)


def grid(events: Events, shape: int | Sequence[int], binning: Binning, where: str) -> Grid:
    """Return the time steps of all recordings. Raises if the recordings do not allow this binning."""
    binning, shape = binning.checked(shape), in_axes(shape)
    begin, end = (microseconds(times, nearest=binning.dt is not None) for times in events.ends())
    lengths = None
    if binning.bins is not None:
        steps, width = binning.bins, (end - begin) // binning.bins
        short = (width == 0) & (events.counts > 0)
        if short.any():
            i = int(short.argmax())
            raise ValueError(
                f"{where}: bins is {steps}, more than the time steps of recording {i}, which lasts {end[i] - begin[i]}"
                " microseconds. Use fewer bins, or steps of fixed length with dt."
            )
    else:
        width, begin = np.full(len(events), round((binning.dt or 0) * 1e6)), np.zeros_like(begin)
        lengths = end // width + 1
        steps = binning.steps or int(lengths.max())
        lengths = np.minimum(lengths, steps).astype(np.int32)
        if steps * prod(shape) > MOST:
            raise ValueError(
                f"{where}: {steps} time steps of {binning.dt:g} s, as the longest recording needs, times {prod(shape)}"
                f" units are more than {MOST:,} numbers for each recording. Use a larger dt, or give steps."
            )
    return Grid(steps, shape, prod(pooled(shape, binning.pool)), lengths, begin, np.maximum(width, 1))


def blocks(events: Events, layout: Grid, binning: Binning) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield counts [some recordings, steps, units], for as many recordings at a time as fit into little memory."""
    at_once = max(1, AT_ONCE // (layout.steps * layout.units))
    for first in range(0, len(events), at_once):
        some = slice(first, min(first + at_once, len(events)))
        yield some, count(events, some, layout, binning)


def count(events: Events, some: slice, layout: Grid, binning: Binning) -> np.ndarray:
    """Return counts [some recordings, steps, units]."""
    counts = events.counts[some]
    span = slice(events.starts[some.start], events.starts[some.stop])
    recording = np.repeat(np.arange(counts.size), counts)  # of each spike
    times = microseconds(events.times[span], nearest=binning.dt is not None)
    step = (times - layout.begin[some][recording]) // layout.width[some][recording]
    if binning.bins is not None and binning.remainder == "keep":
        step = np.minimum(step, layout.steps - 1)
    counted = step < layout.steps
    unit = _pooled_units(events.units[span], layout.shape, binning.pool)
    place = ((recording * layout.steps + step) * layout.units + unit)[counted]
    shape = (counts.size, layout.steps, layout.units)
    result = np.bincount(place, minlength=prod(shape)).reshape(shape)
    return np.minimum(result, 1) if binning.binary else result


def _pooled_units(units: np.ndarray, shape: tuple[int, ...], pool: int) -> np.ndarray:
    """Return the numbers of the units after pooling. Since `pool` divides the height, channels need no extra axis."""
    if len(shape) == 1:
        return units // pool
    row, column = units // shape[-1], units % shape[-1]
    return row // pool * (shape[-1] // pool) + column // pool


def microseconds(times: np.ndarray, *, nearest: bool) -> np.ndarray:
    """Return whole microseconds, the nearest ones or, as in tonic, rounded down (1.001 · 10⁶ is below 1,001,000)."""
    if times.dtype.kind in "iu":
        return times.astype(np.int64)
    exact = times.astype(np.float64) * 1e6  # first to float64: in SHD's float16, a million is infinite
    return (np.rint(exact) if nearest else exact).astype(np.int64)
