"""Events to frames: which unit spiked how often in which time step.

By number: `bins` steps between each recording's own first and last spike, as the paper does with tonic's
`ToFrame(n_time_bins=50)`. The step is a whole number of microseconds, rounded down, as there. So `bins` steps end a
little before the last spike does, and tonic leaves out what comes after, one spike at least. We count those spikes in
the last frame, since none needs to be lost; `remainder="drop"` leaves them out, and makes frame for frame what tonic
makes of events in the order of time. (Out of order, tonic takes the first and the last as they stand, we the earliest
and the latest. Recordings too short for so many bins are silence to tonic, and an error here.)

By time: steps of `dt` seconds from time 0 on. Recordings then differ in length, and the shorter ones are padded.

Units have a shape: (700,), or (2, 34, 34) for the pixels of a camera. In events and in what is made here they stand in
one row, in the order of `reshape`: unit (p·H + y)·W + x.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import check, memory
from otpe.datasets.dataset import SpikeBatch, random_key, shuffled, step_number
from otpe.datasets.events import LATEST, Events

AT_ONCE = 1 << 20  # entries of frames that are counted together: they should stay in the cache
MOST = 1 << 27  # entries of one recording's frames
LARGEST = {np.uint8: 255, np.uint16: 65_535}


@dataclass(frozen=True)
class Binning:
    """How events become frames."""

    bins: int | None = None  # time steps over each recording
    dt: float | None = None  # seconds of a time step
    steps: int | None = None  # with dt: how many, later spikes are left out; else as the longest recording needs
    binary: bool = False  # 1 for any number of spikes, instead of the number
    pool: int = 1  # as many neighbouring units become one; on a grid of pixels, squares of as many by as many
    remainder: Literal["keep", "drop"] = "keep"

    @classmethod
    def of(cls, bins: "int | Binning") -> "Binning":
        return bins if isinstance(bins, cls) else cls(bins)  # pyright: ignore[reportArgumentType]

    def checked(self, shape: int | Sequence[int]) -> "Binning":
        """These settings in plain numbers, if they go together and fit units of this shape, or so many in a row."""
        shape = in_axes(shape)
        if (self.bins is None) == (self.dt is None):
            given = "neither bins nor dt is given" if self.bins is None else f"bins is {self.bins} and dt is {self.dt}"
            raise ValueError(f"{given}, expected one of them: a number of time steps, or the seconds of each.")
        bins, steps = (
            None if value is None else check.count(what, value)
            for what, value in {"bins": self.bins, "steps": self.steps}.items()
        )
        expected = f"seconds, in whole millionths and at most {LATEST:,}. Usual is 0.01 (10 ms)"
        dt = None if self.dt is None else check.number("dt", self.dt, expected, _is_whole_microseconds)
        if self.steps is not None and self.dt is None:
            raise ValueError(
                f"steps is {self.steps} without dt. Give dt as well, or bins={self.steps} instead of steps."
            )
        check.flag("binary", self.binary)
        pool = check.count("pool", self.pool)
        _check_pool(pool, shape)
        check.one_of("remainder", self.remainder, ("keep", "drop"))
        if (bins or steps or 1) * (units := math.prod(shape)) > MOST:
            raise ValueError(
                f"{bins or steps} time steps of {units} units are more than {MOST:,} numbers for each recording. Use"
                " fewer."
            )
        return Binning(bins, dt, steps, bool(self.binary), pool, self.remainder)

    def __str__(self) -> str:
        time = f"bins{self.bins}" if self.bins else f"dt{self.dt:g}" + (f"x{self.steps}" if self.steps else "")
        extra = (
            ["binary"] * self.binary + [f"pool{self.pool}"] * (self.pool > 1) + ["drop"] * (self.remainder == "drop")
        )
        return "-".join([time, *extra])


def in_axes(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A number of units is a shape with one axis."""
    return tuple(shape) if isinstance(shape, Sequence) else (shape,)


def pooled(shape: int | Sequence[int], pool: int) -> tuple[int, ...]:
    """What becomes of a shape: the height and width of its channels are divided, or the length of a row."""
    shape = in_axes(shape)
    return (*shape[:-2], *(length // pool for length in shape[-2:]))


def _check_pool(pool: int, shape: tuple[int, ...]) -> None:
    common = math.gcd(*shape[-2:])
    if common % pool:
        near = [n for n in range(2, min(common, 1000)) if common % n == 0][:8]
        what = f"{common} units" if len(shape) == 1 else f"the height and width of the shape {list(shape)}"
        example = f"Possible are {near}, for example." if near else "Leave pool out."
        raise ValueError(f"pool is {pool}, which does not divide {what}. {example}")


class Frames(NamedTuple):
    counts: np.ndarray  # [recordings, steps, units], of one byte where they fit
    lengths: np.ndarray | None  # [recordings] int32, where they differ


class Grid(NamedTuple):
    """Where the time steps of each recording lie."""

    steps: int
    shape: tuple[int, ...]  # of the units, before pooling
    units: int  # after pooling
    lengths: np.ndarray | None  # [recordings] int32, where they differ
    begin: np.ndarray  # [recordings] microseconds at which the first step begins
    width: np.ndarray  # [recordings] microseconds of a step


def frames(events: Events, shape: int | Sequence[int], binning: Binning, where: str = "events") -> Frames:
    """Frames of every recording, of units of this shape, which stand in one row."""
    lie = grid(events, shape, binning, where)
    size = (len(events), lie.steps, lie.units)
    if math.prod(size) > memory.host():
        raise ValueError(
            f"{where}: frames {list(size)} take {math.prod(size) / 1e9:.0f} GB, more than this machine has. Use fewer"
            " time steps, or pool units."
        )
    made = np.zeros(size, np.uint8)
    for some, counted in blocks(events, lie, binning):
        made = _wide_enough(made, int(counted.max()))
        made[some] = counted
    return Frames(made, lie.lengths)


def grid(events: Events, shape: int | Sequence[int], binning: Binning, where: str) -> Grid:
    """All that is to be known before anything is counted; what cannot be binned is refused here."""
    binning, shape = binning.checked(shape), in_axes(shape)
    units = math.prod(shape)
    begin, end = (microseconds(times, nearest=binning.dt is not None) for times in events.ends())
    if binning.bins is not None:
        lengths, steps = None, binning.bins
        width = (end - begin) // steps
        _refuse_short(width, begin, end, events, steps, where)
    else:
        width = np.full(len(events), round((binning.dt or 0) * 1e6))
        begin = np.zeros_like(begin)
        lengths = end // width + 1
        steps = binning.steps or int(lengths.max())
        lengths = np.minimum(lengths, steps).astype(np.int32)
        if steps * units > MOST:
            raise ValueError(
                f"{where}: {steps} time steps of {binning.dt:g} s, as the longest recording needs, times {units} units"
                f" are more than {MOST:,} numbers for each recording. Use a larger dt, or give steps."
            )
    return Grid(steps, shape, math.prod(pooled(shape, binning.pool)), lengths, begin, np.maximum(width, 1))


def blocks(events: Events, lie: Grid, binning: Binning) -> Iterator[tuple[slice, np.ndarray]]:
    """Counts [some recordings, steps, units], as many recordings at a time as fit in little memory."""
    at_once = max(1, AT_ONCE // (lie.steps * lie.units))
    for first in range(0, len(events), at_once):
        some = slice(first, min(first + at_once, len(events)))
        yield some, count(events, some, lie, binning)


def count(events: Events, some: slice, lie: Grid, binning: Binning) -> np.ndarray:
    """Counts [some recordings, steps, units] of these recordings."""
    counts = events.counts[some]
    span = slice(events.starts[some.start], events.starts[some.stop])
    of = np.repeat(np.arange(counts.size), counts)
    times = microseconds(events.times[span], nearest=binning.dt is not None)
    step = (times - lie.begin[some][of]) // lie.width[some][of]
    if binning.bins is not None and binning.remainder == "keep":
        step = np.minimum(step, lie.steps - 1)
    kept = step < lie.steps
    place = (of * lie.steps + step) * lie.units + _place(events.units[span], lie.shape, binning.pool)
    shape = (counts.size, lie.steps, lie.units)
    counted = np.bincount(place[kept], minlength=math.prod(shape)).reshape(shape)
    return np.minimum(counted, 1) if binning.binary else counted


def _place(units: np.ndarray, shape: tuple[int, ...], pool: int) -> np.ndarray:
    """Where units lie after pooling. `pool` divides the height, so that rows may be counted through all channels."""
    if len(shape) == 1:
        return units // pool
    row, column = units // shape[-1], units % shape[-1]
    return row // pool * (shape[-1] // pool) + column // pool


def microseconds(times: np.ndarray, *, nearest: bool) -> np.ndarray:
    """Whole ones: the nearest, or rounded down as tonic does. 1.001 s, times a million, is a hair below 1,001,000."""
    if times.dtype.kind in "iu":
        return times.astype(np.int64)
    exact = times.astype(np.float64) * 1e6  # doubles first: in float16, as SHD has it, a million is infinite
    return (np.rint(exact) if nearest else exact).astype(np.int64)


def _refuse_short(width: np.ndarray, begin: np.ndarray, end: np.ndarray, events: Events, bins: int, where: str) -> None:
    short = (width == 0) & (events.counts > 0)
    if short.any():
        i = int(short.argmax())
        raise ValueError(
            f"{where}: bins is {bins}, more than the time steps of recording {i}, which lasts {end[i] - begin[i]}"
            " microseconds. Use fewer bins, or steps of fixed length with dt."
        )


def _wide_enough(made: np.ndarray, largest: int) -> np.ndarray:
    fitting = next((kind for kind, limit in LARGEST.items() if largest <= limit), np.int32)
    return made if np.can_cast(fitting, made.dtype) else made.astype(fitting)


def _is_whole_microseconds(seconds: float) -> bool:
    if not 1e-6 <= seconds <= LATEST:
        return False
    return math.isclose(seconds * 1e6, round(seconds * 1e6), rel_tol=1e-6)


# --------------------
# Recordings as frames, in memory: batches by shuffled epochs, or all of them in order.


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["frames", "labels", "lengths", "speakers"],
    meta_fields=["names"],
)
@dataclass(frozen=True)
class FrameSet:
    """A dataset of recordings that are at hand; `shd`, `ssc`, `folder` and the `from_…` functions make it."""

    frames: Array  # [R, T, *shape]
    labels: Array  # [R] int32
    names: tuple[str, ...]  # of the classes, label 0 first
    lengths: Array | None = None  # [R] time steps of each recording, where they differ
    speakers: Array | None = None  # [R]

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def steps(self) -> int:
        return self.frames.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.frames.shape[2:]

    @property
    def units(self) -> int:
        return prod(self.shape)

    def flat(self) -> "FrameSet":
        """The same with one row of units in each time step, as `otpe.dense` takes them: `reshape` says which."""
        return replace(self, frames=self.frames.reshape(*self.frames.shape[:2], self.units))

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """The mini-batch of this step, in a run with this seed.

        Every epoch has an order of its own, in which no recording comes twice; what is left at its end, less than a
        batch, is left out.
        """
        self._check(size)
        return _batch(self, random_key(seed), step_number(step), size)

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Recordings at random, none twice."""
        check.key(key)
        self._check(batch)
        return self.take(shuffled(key, len(self), jnp.arange(batch)))

    def take(self, which: Any) -> SpikeBatch:
        """These recordings, by number, as a batch."""
        return _take(self, self._numbers(which))

    def in_order(self, size: int) -> Iterator[SpikeBatch]:
        """All recordings, each once, `size` at a time; the last batch may be smaller."""
        check.count("size", size)
        for start in range(0, len(self), size):
            yield self.take(np.arange(start, min(start + size, len(self))))

    def subset(self, which: Any) -> "FrameSet":
        """A dataset of these recordings only, by number."""
        which = self._numbers(which)
        lengths = None if self.lengths is None else self.lengths[which]
        speakers = None if self.speakers is None else self.speakers[which]
        return replace(self, frames=self.frames[which], labels=self.labels[which], lengths=lengths, speakers=speakers)

    def _numbers(self, which: Any) -> Any:
        if isinstance(which, Tracer):
            return which
        given = np.asarray(which)
        if given.dtype == bool and given.shape == (len(self),):
            given = np.flatnonzero(given)
        if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu":
            raise ValueError(f"which is {given.dtype} {list(given.shape)}, expected a row of recordings, by number.")
        if given.min() < 0 or given.max() >= len(self):
            raise ValueError(
                f"which runs from {given.min()} to {given.max()}, expected 0 to {len(self) - 1}: there are {len(self)}"
                " recordings."
            )
        return given

    def _check(self, size: int) -> None:
        check.count("batch", size)
        if size > len(self):
            raise ValueError(f"batch is {size}, more than the {len(self)} recordings there are. Use a smaller batch.")


def frameset(
    frames: Any, labels: Any, names: Sequence[str] | None = None, lengths: Any = None, speakers: Any = None
) -> FrameSet:
    """Checked arrays [R, T, *shape] on the device."""
    labels = np.asarray(labels)
    names = tuple(names) if names is not None else tuple(map(str, range(int(labels.max()) + 1)))
    as_ints = partial(jnp.asarray, dtype=jnp.int32)
    return FrameSet(
        jnp.asarray(frames),
        as_ints(labels),
        names,
        None if lengths is None else as_ints(lengths),
        None if speakers is None else as_ints(speakers),
    )


@partial(jax.jit, static_argnames="size")
def _batch(data: FrameSet, key: Array, step: Array, size: int) -> SpikeBatch:
    per_epoch = len(data) // size
    epoch, within = step // per_epoch, step % per_epoch
    places = within * size + jnp.arange(size)
    return _take(data, shuffled(jax.random.fold_in(key, epoch), len(data), places))


@jax.jit
def _take(data: FrameSet, which: Array) -> SpikeBatch:
    spikes = jnp.moveaxis(data.frames[which], 0, 1)
    return SpikeBatch(spikes, data.labels[which], None if data.lengths is None else data.lengths[which])
