"""Randman: classes are random smooth manifolds, which differ in spike times (T-Randman) or rates (R-Randman).

A manifold has a function of x in [0, 1]^d for each unit:

    v(x) = Π_d g_d(x_d),   g_d(x) = Σ_f a_f / (f + 2)^α · sin(2π (f·x·b_f + c_f)),   f = 0 … F−1

with a, b, c uniform in [0, 1] for each class, unit and dimension, and a_0 = 0. The sum ends where the spectrum has
fallen to a thousandth, at F = 1,000 at most (the paper: α = 1, so 1,000).

For one mini-batch of the authors' protocol, these sums have 1.5·10⁹ sines. But every g_d is a function of one number.
So it is tabulated once, at GRID + 1 points, and interpolated linearly, with an error of about 10⁻⁴ of its range.

Spikes are drawn from a key, in pure JAX. The protocol decides how hard the task is:

- `standardize="batch"`, the authors': every mini-batch draws 1,000 fresh points per class, maps the values of each unit
  to [0, 1] by the minimum and maximum of this draw, and keeps `batch` of the points. Minimum and maximum change from
  batch to batch, and all values with them: rules reach 65 to 82 % (docs/how-to/load-data.md).
- `standardize="fixed"`: minimum and maximum are those of 1,000 points per class that the seed of the manifolds decides.
  Values beyond them are clipped. This is easier: every rule reaches 99 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import check, memory
from otpe.datasets import cache
from otpe.datasets.dataset import SpikeBatch, check_draw, once, random_key, shuffled, step_key

GRID = 8192  # a power of two, so that x · GRID is exact in float32
COARSE = 64  # the grid has 64 parts of 128 points
FINE = GRID // COARSE
WORD = 32  # bits
MOST = 2**31 - 1  # largest value of a setting that counts something


class Coefficients(NamedTuple):
    """The coefficients of one class, each [units, dims, F]."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


def cutoff(alpha: float) -> int:
    """Return F, the number of terms."""
    if alpha <= 1:
        return 1000
    return math.ceil(1000 ** (1 / alpha) - 1e-9)  # slightly less, so that rounding adds no term on some machine


def coefficients(seed: int, label: int, units: int, dims: int, alpha: float) -> Coefficients:
    """Return coefficients that are equal on every machine.

    They are made of the raw bits of PCG64, whose stream numpy promises not to change.
    """
    shape = (3, units, dims, cutoff(alpha))
    bits = np.random.PCG64([seed, label]).random_raw(math.prod(shape))
    a, b, c = ((bits >> np.uint64(11)) * 2.0**-53).reshape(shape)
    a[..., 0] = 0
    return Coefficients(a, b, c)


def tables(seed: int, classes: int, units: int, dims: int, alpha: float) -> np.ndarray:
    """Return every g at 0, 1/GRID, …, 1: [classes, dims, GRID + 1, units] float32. They are cached on the disk.

    The units come last: a point has one x_d for all units, whose values are then next to each other.
    """
    name = f"randman-{seed}-{classes}x{units}x{dims}-alpha-{alpha:g}"
    stamp = {"tables": 1, "seed": seed, "classes": classes, "units": units, "dims": dims, "alpha": alpha, "grid": GRID}
    home, result = cache.home(), np.empty((classes, dims, GRID + 1, units), np.float32)

    def fits(arrays: cache.Arrays) -> bool:
        return (arrays["tables"].shape, arrays["tables"].dtype) == (result.shape, result.dtype)

    cached = cache.read(home, name, stamp, fits)
    if cached is not None:
        return cached["tables"]
    rows = np.empty((units, GRID + 1), np.float32)
    for label in range(classes):
        k = coefficients(seed, label, units, dims, alpha)
        for dim in range(dims):
            tabulate(Coefficients(*(part[:, dim] for part in k)), alpha, rows)
            result[label, dim] = rows.T
    cache.write(home, name, stamp, {"tables": result})
    return result


def tabulate(k: Coefficients, alpha: float, out: np.ndarray) -> None:
    """Write every g of one dimension to `out` [units, GRID + 1], for coefficients [units, F].

    A point is x = h/COARSE + l/GRID, so e^(2πi f·x·b) = e^(2πi f·b·h/COARSE) · e^(2πi f·b·l/GRID). This takes a few
    hundred sines for each f instead of thousands, and the sum over f becomes a matrix product. Only the imaginary part
    of the product of two complex numbers is needed, which is the inner product of one with i times the conjugate of the
    other.
    """
    f = np.arange(k.a.shape[1])
    weight, cycles = k.a / (f + 2.0) ** alpha, f * k.b
    start = weight * np.exp(2j * np.pi * k.c)
    coarse, fine = (np.empty((count, f.size), complex) for count in (COARSE, FINE))  # reused for every unit
    for unit in range(len(out)):
        coarse[0], fine[0] = start[unit], 1j
        _turn(coarse, cycles[unit] / COARSE)
        _turn(fine, -cycles[unit] / GRID)
        out[unit, :-1] = (coarse.view(float) @ fine.view(float).T).ravel()
    out[:, -1] = np.sum(weight * np.sin(2 * np.pi * (cycles + k.c)), axis=1)


def _turn(rows: np.ndarray, cycles: np.ndarray) -> None:
    """Set row k to the first row, turned by k·cycles. The number of rows is 2ⁿ, and n products fill them."""
    done = 1
    while done < len(rows):
        np.multiply(rows[:done], np.exp(2j * np.pi * done * cycles), out=rows[done : 2 * done])
        done *= 2


# The dataset


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["tables", "low", "high", "first"],
    meta_fields=["encoding", "standardize", "classes", "steps", "points"],
)
@dataclass(frozen=True)
class Randman:
    """A dataset; `randman` makes it. It may hold several draws of the manifolds, and uses one of them."""

    encoding: str
    standardize: str
    classes: int
    steps: int
    points: int  # per class, from which minimum and maximum are taken
    tables: Array  # [draws · classes, dims, GRID + 1, units]
    low: Array  # [draws · classes, units] the minimum of fixed points
    high: Array  # [draws · classes, units] their maximum
    first: Array  # the first manifold of the draw that is used

    def __repr__(self) -> str:
        """One line without arrays."""
        shape = getattr(self.tables, "shape", ())
        if len(shape) != 4:  # inside functions of jax.tree, fields may hold anything
            return f"Randman({self.encoding!r}, {type(self.tables).__name__})"
        manifolds, dims, _, units = shape
        draws = f", {manifolds // self.classes} draws" * (manifolds > self.classes)
        return (
            f"Randman({self.encoding!r}, {self.classes} classes, {units} units, {dims} dims, {self.steps} steps,"
            f" standardize={self.standardize!r}{draws})"
        )

    @property
    def shape(self) -> tuple[int]:
        return (self.units,)

    @property
    def units(self) -> int:
        return self.tables.shape[-1]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"manifold {label}" for label in range(self.classes))

    def on(self, draw: Any) -> "Randman":
        """Return the same dataset on another draw of the manifolds, by number: 0 is the first."""
        if not isinstance(draw, Tracer):
            check.whole("draw", draw, len(self.tables) // self.classes)
        return replace(self, first=jnp.asarray(draw * self.classes, jnp.int32))

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """Return the mini-batch of this step in a run with this seed."""
        return self.sample(step_key(seed, step), size)

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Return spikes [steps, batch, units] and labels [batch], drawn from the key."""
        self._check(key, batch)
        return _sample(self, key, batch)

    def values(self, key: Array, batch: int) -> tuple[Array, Array]:
        """Return what `sample` with the same key encodes: values [batch, units] in [0, 1], and labels [batch]."""
        self._check(key, batch)
        return _values(self, jax.random.split(key)[0], batch)

    def _check(self, key: Array, batch: int) -> None:
        check_draw(self, key, batch, units=self.units)
        drawn = self.classes * self.points
        if self.standardize == "batch" and batch > drawn:
            raise ValueError(
                f"batch is {batch}, expected at most {drawn}: that many points are drawn for a mini-batch,"
                f" {self.points} of each class. Use a smaller batch, or more points."
            )


def randman(
    encoding: Literal["time", "rate"] = "time",
    *,
    classes: int = 10,
    units: int = 50,
    dims: int = 3,
    alpha: float = 1.0,
    steps: int = 50,
    seed: int | Sequence[int] = 0,
    standardize: Literal["batch", "fixed"] = "batch",
    points: int = 1000,
) -> Randman:
    """Return T-Randman ("time": one spike per unit) or R-Randman ("rate": more spikes for larger values).

    The default settings are the paper's. `seed` decides the manifolds and nothing else. With several seeds, the dataset
    holds a draw for each. It uses the first one, and `on(1)` is the same dataset on the second. Values are standardised
    by the minimum and maximum of `points` random points per class. The tables are made once per process, and cached on
    the disk (in OTPE_CACHE, else in ~/.cache/otpe).
    """
    check.one_of("encoding", encoding, ("time", "rate"))
    check.one_of("standardize", standardize, ("batch", "fixed"))
    counts = {"classes": classes, "units": units, "dims": dims, "steps": steps, "points": points}
    classes, units, dims, steps, points = (check.count(what, value, MOST) for what, value in counts.items())
    if points < 2:
        raise ValueError("points is 1, expected at least 2: a value is placed between the lowest and the highest.")
    alpha = check.number("alpha", alpha, "a number above 0 and at most 10. The paper uses 1", lambda a: 0 < a <= 10)
    given = seed if isinstance(seed, Sequence) else [seed]
    _check_size(len(given), classes, units, dims, points)
    seeds = tuple(check.whole("seed", each, 2**32) for each in given)
    if not seeds:
        raise ValueError("seed is empty, expected a number, or several, each for a draw of the manifolds.")
    manifold = (classes, units, dims, alpha)
    tables, (low, high) = _tables(seeds, *manifold), _extremes(points, seeds, *manifold)
    with jax.ensure_compile_time_eval():
        first = jnp.zeros((), jnp.int32)
    return Randman(encoding, standardize, classes, steps, points, tables, low, high, first)


ENCODINGS: dict[str, Literal["time", "rate"]] = {"t-randman": "time", "r-randman": "rate"}


def from_settings(settings: Any) -> Randman:
    """Return the dataset of `DataSettings`, for the registry."""
    return randman(
        ENCODINGS[settings.dataset],
        classes=settings.classes,
        units=50 if settings.units is None else settings.units,
        dims=settings.dims,
        alpha=settings.alpha,
        steps=settings.time_steps,
        seed=range(settings.manifolds, settings.manifolds + settings.draws),
        standardize=settings.standardize,
    )


def expected_shape(settings: Any) -> tuple[int, tuple[int, ...], int]:
    """Return time steps, shape of the units and number of classes, for the registry."""
    units = check.count("units", 50 if settings.units is None else settings.units, MOST)
    for name in ("classes", "dims", "time_steps"):
        check.count(name, getattr(settings, name), MOST)
    check.whole("manifolds", settings.manifolds, 2**32)
    return settings.time_steps, (units,), settings.classes


def _check_size(draws: int, classes: int, units: int, dims: int, points: int) -> None:
    """Raise ValueError if the tables, and the points by which values are standardised, do not fit into memory."""
    sizes = {"units": units, "classes": classes, "dims": dims}
    tables = 4 * classes * dims * (GRID + 1) * units  # bytes of one draw, which the host makes
    memory.check_fits("the tables of the manifolds", tables, sizes, memory.host())
    needed, sizes = draws * tables + 4 * classes * points * units, {**sizes, "draws": draws, "points": points}
    memory.check_fits("the tables of the manifolds, with random points on them,", needed, sizes)


@lru_cache(maxsize=4)
def _tables(seeds: tuple[int, ...], *manifold: Any) -> Array:
    with jax.ensure_compile_time_eval():  # no tracers in the cache, even if the first call is inside a user's jit
        return jnp.concatenate([jnp.asarray(tables(seed, *manifold)) for seed in seeds])


@lru_cache(maxsize=16)
def _extremes(points: int, seeds: tuple[int, ...], classes: int, *manifold: Any) -> tuple[Array, Array]:
    with jax.ensure_compile_time_eval():
        draw = jax.jit(_draw, static_argnames=("classes", "points"))
        tables = _tables(seeds, classes, *manifold)
        drawn = [draw(tables, k * classes, random_key(seed), classes, points) for k, seed in enumerate(seeds)]
        return jnp.concatenate([each.min(1) for each in drawn]), jnp.concatenate([each.max(1) for each in drawn])


@partial(jax.jit, static_argnames="batch")
def _sample(data: Randman, key: Array, batch: int) -> SpikeBatch:
    for_values, for_spikes = jax.random.split(key)
    values, labels = _values(data, for_values, batch)
    encode = _at_times if data.encoding == "time" else partial(_at_rates, for_spikes)
    return SpikeBatch(encode(once(values), data.steps), labels)


@partial(jax.jit, static_argnames="batch")
def _values(data: Randman, key: Array, batch: int) -> tuple[Array, Array]:
    """Return values in [0, 1], standardised by a fresh draw or by the fixed extremes, and labels."""
    classes, points = data.classes, data.points
    first_key, second_key = jax.random.split(key)
    if data.standardize == "batch":
        drawn = _draw(data.tables, data.first, first_key, classes, points)
        chosen = shuffled(second_key, classes * points, jnp.arange(batch))
        labels = chosen // points
        values, low, high = drawn.reshape(-1, data.units)[chosen], drawn.min(1)[labels], drawn.max(1)[labels]
    else:
        x = jax.random.uniform(first_key, (batch, data.tables.shape[1]), jnp.float32)
        labels = jax.random.randint(second_key, (batch,), 0, classes, jnp.int32)
        manifold = data.first + labels
        values = jax.vmap(look_up, (None, 0, 0))(data.tables, manifold, x)
        low, high = data.low[manifold], data.high[manifold]
    return jnp.clip((values - low) / (high - low), 0, 1), labels


def _draw(tables: Array, first: Any, key: Array, classes: int, points: int) -> Array:
    """Return values [classes, points, units] of random points on each manifold, from manifold number `first` on."""
    x = jax.random.uniform(key, (classes, points, tables.shape[1]), jnp.float32)
    of_manifold = jax.vmap(look_up, (None, None, 0))
    return jax.vmap(of_manifold, (None, 0, 0))(tables, first + jnp.arange(classes), x)


def look_up(tables: Array, manifold: Array, x: Array) -> Array:
    """Return v(x) [units] for one x [dims], by linear interpolation between the two nearest points of each table."""
    place = x * GRID
    i = place.astype(jnp.int32)
    dims = jnp.arange(x.size)
    below = tables.at[manifold, dims, i].get(mode="promise_in_bounds")  # [dims, units]
    above = tables.at[manifold, dims, i + 1].get(mode="promise_in_bounds")
    return jnp.prod(below + (place - i)[:, None] * (above - below), axis=0)


def _at_times(values: Array, steps: int) -> Array:
    """Return one spike per unit, in step floor(value · T), or in the last step for the value 1."""
    time = jnp.minimum((values * steps).astype(jnp.int32), steps - 1)
    return (jnp.arange(steps)[:, None, None] == time).astype(jnp.uint8)


def _at_rates(key: Array, values: Array, steps: int) -> Array:
    """Return floor(value · T) + 1 spikes per unit, T at most, in random steps for each sample and unit.

    If n steps and k spikes are left, the next step has a spike with probability k/n. Then every choice of steps is
    equally likely (Knuth's algorithm S). The spikes of 32 steps are the bits of one word, so that a GPU runs the loop
    over these steps in one kernel.
    """
    count = jnp.minimum((values * steps).astype(jnp.int32) + 1, steps)
    words = -(-steps // WORD)
    draws = jax.random.uniform(key, (words, WORD, *values.shape), jnp.float32)
    left = jnp.maximum(steps - jnp.arange(words * WORD), 1).reshape(words, WORD).astype(jnp.float32)
    _, drawn = jax.lax.scan(_word, count.astype(jnp.float32), (draws, left), unroll=min(words, 4))
    spikes = (drawn[:, None] >> jnp.arange(WORD, dtype=jnp.uint32)[:, None, None]) & 1
    return spikes.reshape(-1, *values.shape)[:steps].astype(jnp.uint8)


def _word(spikes_left: Array, steps: tuple[Array, Array]) -> tuple[Array, Array]:
    draws, steps_left = steps
    word = jnp.zeros(spikes_left.shape, jnp.uint32)
    for i in range(WORD):
        spike = draws[i] * steps_left[i] < spikes_left
        word |= spike.astype(jnp.uint32) << i
        spikes_left -= spike
    return spikes_left, word
