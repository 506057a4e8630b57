"""Events to frames: which unit spiked how often in which time step.

By number: `bins` steps between each recording's own first and last spike, as the paper does with tonic's
`ToFrame(n_time_bins=50)`. The step is a whole number of microseconds, rounded down, as there. So `bins` steps end a
little before the last spike does, and tonic leaves out what comes after, one spike at least. We count those spikes in
the last frame, since none needs to be lost; `remainder="drop"` leaves them out, frame for frame as tonic does.

By time: steps of `dt` seconds from time 0 on. Recordings then differ in length, and the shorter ones are padded.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from otpe import check
from otpe.datasets.events import Events

AT_ONCE = 256  # recordings
LARGEST = {np.uint8: 255, np.uint16: 65_535}


@dataclass(frozen=True)
class Binning:
    """How events become frames."""

    bins: int | None = None  # time steps over each recording
    dt: float | None = None  # seconds of a time step
    steps: int | None = None  # with dt: how many; later spikes are left out. As many as the longest recording needs
    binary: bool = False  # 1 for any number of spikes, instead of the number
    pool: int = 1  # as many neighbouring units become one
    remainder: Literal["keep", "drop"] = "keep"

    @classmethod
    def of(cls, bins: "int | Binning") -> "Binning":
        return bins if isinstance(bins, cls) else cls(bins)  # pyright: ignore[reportArgumentType]

    def checked(self, units: int) -> "Binning":
        """These settings, if they go together and fit as many units."""
        if (self.bins is None) == (self.dt is None):
            given = "neither bins nor dt is given" if self.bins is None else f"bins is {self.bins} and dt is {self.dt}"
            raise ValueError(f"{given}, expected one of them: a number of time steps, or the seconds of each.")
        for what, value in {"bins": self.bins, "steps": self.steps}.items():
            if value is not None:
                check.count(what, value)
        if self.dt is not None and not (isinstance(self.dt, int | float) and self.dt >= 1e-6):
            raise ValueError(f"dt is {self.dt!r}, expected seconds, a millionth at least. Usual is 0.01 (10 ms).")
        if self.steps is not None and self.dt is None:
            raise ValueError(
                f"steps is {self.steps} without dt. Give dt as well, or bins={self.steps} instead of steps."
            )
        check.flag("binary", self.binary)
        check.count("pool", self.pool)
        if units % self.pool:
            near = [n for n in range(2, units) if units % n == 0][:8]
            raise ValueError(
                f"pool is {self.pool}, which does not divide {units} units. Possible are {near}, for example."
            )
        check.one_of("remainder", self.remainder, ("keep", "drop"))
        return self

    def __str__(self) -> str:
        time = f"bins{self.bins}" if self.bins else f"dt{self.dt:g}" + (f"x{self.steps}" if self.steps else "")
        extra = (
            ["binary"] * self.binary + [f"pool{self.pool}"] * (self.pool > 1) + ["drop"] * (self.remainder == "drop")
        )
        return "-".join([time, *extra])


class Frames(NamedTuple):
    counts: np.ndarray  # [recordings, steps, units], of one byte where they fit
    lengths: np.ndarray | None  # [recordings] int32, where they differ


def frames(events: Events, units: int, binning: Binning, where: str = "events") -> Frames:
    """Frames of every recording."""
    binning = binning.checked(units)
    if binning.bins is not None:
        lengths, steps = None, binning.bins
    else:
        lengths = _lengths(events, binning)
        steps = int(lengths.max())
    made = np.zeros((len(events), steps, units // binning.pool), np.uint8)
    for first in range(0, len(events), AT_ONCE):
        some = slice(first, min(first + AT_ONCE, len(events)))
        counted = _count(events, some, made.shape[1:], binning, where)
        if binning.binary:
            counted = np.minimum(counted, 1)
        made = _wide_enough(made, int(counted.max()))
        made[some] = counted
    return Frames(made, lengths)


def microseconds(times: np.ndarray) -> np.ndarray:
    """Whole ones. Doubles first: in float16, as SHD has it, a million is infinite."""
    return times.astype(np.int64) if times.dtype.kind in "iu" else (times.astype(np.float64) * 1e6).astype(np.int64)


def _count(events: Events, some: slice, shape: tuple[int, ...], binning: Binning, where: str) -> np.ndarray:
    """Counts [recordings, steps, units] of some recordings."""
    steps, units = shape
    counts = events.counts[some]
    span = slice(events.starts[some.start], events.starts[some.stop])
    times, of = microseconds(events.times[span]), np.repeat(np.arange(counts.size), counts)
    step = _by_number(times, of, counts, some.start, binning, where) if binning.bins else times // _width(binning)
    if binning.bins and binning.remainder == "keep":
        step = np.minimum(step, steps - 1)
    kept = step < steps
    place = (of * steps + step) * units + events.units[span] // binning.pool
    return np.bincount(place[kept], minlength=counts.size * steps * units).reshape(counts.size, *shape)


def _by_number(
    times: np.ndarray, of: np.ndarray, counts: np.ndarray, first: int, binning: Binning, where: str
) -> np.ndarray:
    bins = binning.bins or 0
    begin, end = _ends(times, of, counts.size)
    width = (end - begin) // bins
    short = (width == 0) & (counts > 0)
    if short.any():
        i = int(short.argmax())
        raise ValueError(
            f"{where}: bins is {bins}, more than the time steps of recording {first + i}, which lasts"
            f" {end[i] - begin[i]} microseconds. Use fewer bins, or steps of fixed length with dt."
        )
    return (times - begin[of]) // width[of]


def _lengths(events: Events, binning: Binning) -> np.ndarray:
    """Time steps up to the last spike of each recording, one at least."""
    of = np.repeat(np.arange(len(events)), events.counts)
    _, end = _ends(microseconds(events.times), of, len(events))
    lengths = np.maximum(end, 0) // _width(binning) + 1
    return np.minimum(lengths, binning.steps or lengths.max()).astype(np.int32)


def _ends(times: np.ndarray, of: np.ndarray, recordings: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last time of each recording, in whatever order they stand there."""
    begin, end = np.full(recordings, np.iinfo(np.int64).max), np.full(recordings, -1)
    np.minimum.at(begin, of, times)
    np.maximum.at(end, of, times)
    return begin, end


def _width(binning: Binning) -> int:
    return round((binning.dt or 0) * 1e6)


def _wide_enough(made: np.ndarray, largest: int) -> np.ndarray:
    fitting = next((kind for kind, limit in LARGEST.items() if largest <= limit), np.int32)
    return made if np.can_cast(fitting, made.dtype) else made.astype(fitting)
