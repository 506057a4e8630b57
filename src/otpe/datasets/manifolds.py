"""Random smooth manifolds: for each class and unit, a function of x in [0, 1]^d.

    v(x) = Π_d g_d(x_d),   g_d(x) = Σ_f a_f / (f + 2)^α · sin(2π (f·x·b_f + c_f)),   f = 0 … F−1

with a, b, c uniform in [0, 1] for each class, unit and dimension, and a_0 = 0. F is where the spectrum has fallen to a
thousandth, 1,000 at most (the paper: α = 1, so 1,000).

Evaluated directly, a mini-batch of the authors' protocol takes 1.5·10⁹ sines. But every g_d is a function of one
number: it is tabulated once, on GRID + 1 points, and looked up between them, with an error of about 10⁻⁴ of its range.
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
from otpe.datasets.dataset import SpikeBatch, once, random_key, shuffled, step_number

GRID = 8192  # a power of two, so that the place in the table is exact in float32
COARSE = 64  # the grid is walked in 64 strides of 128 points
FINE = GRID // COARSE


class Coefficients(NamedTuple):
    """Of one class, each [units, dims, F]."""

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray


def cutoff(alpha: float) -> int:
    """F: how many terms."""
    if alpha <= 1:
        return 1000
    return math.ceil(1000 ** (1 / alpha) - 1e-9)  # less a hair, lest rounding add a term on some machine


def coefficients(seed: int, label: int, units: int, dims: int, alpha: float) -> Coefficients:
    """Equal on every machine: made from the raw bits of PCG64, whose stream numpy promises not to change."""
    shape = (3, units, dims, cutoff(alpha))
    bits = np.random.PCG64([seed, label]).random_raw(math.prod(shape))
    a, b, c = ((bits >> np.uint64(11)) * 2.0**-53).reshape(shape)
    a[..., 0] = 0
    return Coefficients(a, b, c)


def direct(k: Coefficients, x: np.ndarray, alpha: float) -> np.ndarray:
    """v(x) [points, units] straight from the formula, for x [points, dims]."""
    f = np.arange(k.a.shape[-1])
    phase = f * x[:, None, :, None] * k.b + k.c  # [points, units, dims, F]
    return (k.a / (f + 2.0) ** alpha * np.sin(2 * np.pi * phase)).sum(-1).prod(-1)


def tables(seed: int, classes: int, units: int, dims: int, alpha: float) -> np.ndarray:
    """Every g at 0, 1/GRID, …, 1: [classes, dims, GRID + 1, units] float32, from the disk where it is cached there.

    The units are last: a point has one x_d for all of them, and finds them side by side.
    """
    name = f"randman-{seed}-{classes}x{units}x{dims}-alpha-{alpha:g}"
    stamp = {"tables": 1, "seed": seed, "classes": classes, "units": units, "dims": dims, "alpha": alpha, "grid": GRID}
    home, made = cache.home(), np.empty((classes, dims, GRID + 1, units), np.float32)
    kept = cache.read(home, name, stamp, lambda kept: _alike(kept["tables"], made))
    if kept is not None:
        return kept["tables"]
    rows = np.empty((units, GRID + 1), np.float32)
    for label in range(classes):
        k = coefficients(seed, label, units, dims, alpha)
        for dim in range(dims):
            tabulate(Coefficients(*(part[:, dim] for part in k)), alpha, rows)
            made[label, dim] = rows.T
    cache.write(home, name, stamp, {"tables": made})
    return made


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)


def tabulate(k: Coefficients, alpha: float, out: np.ndarray) -> None:
    """Every g of one dimension [units, GRID + 1] from its coefficients, each [units, F].

    A point is x = h/COARSE + l/GRID, so e^(2πi f·x·b) = e^(2πi f·b·h/COARSE) · e^(2πi f·b·l/GRID): a few hundred sines
    for each f instead of thousands, and a matrix product in place of the sum over f. Of the product of two complex
    numbers the imaginary part is wanted, which is the inner product of the one with i times the conjugate of the other.
    """
    f = np.arange(k.a.shape[1])
    weight, cycles = k.a / (f + 2.0) ** alpha, f * k.b
    start = weight * np.exp(2j * np.pi * k.c)
    coarse, fine = (np.empty((count, f.size), complex) for count in (COARSE, FINE))  # used again for every unit
    for unit in range(len(out)):
        coarse[0], fine[0] = start[unit], 1j
        _turn(coarse, cycles[unit] / COARSE)
        _turn(fine, -cycles[unit] / GRID)
        out[unit, :-1] = (coarse.view(float) @ fine.view(float).T).ravel()
    out[:, -1] = np.sum(weight * np.sin(2 * np.pi * (cycles + k.c)), axis=1)


def _turn(rows: np.ndarray, cycles: np.ndarray) -> None:
    """Row k becomes the first, turned by k·cycles. There are 2ⁿ rows: each half is the half before, turned."""
    done = 1
    while done < len(rows):
        np.multiply(rows[:done], np.exp(2j * np.pi * done * cycles), out=rows[done : 2 * done])
        done *= 2


# --------------------
# Randman: classes are random smooth manifolds, to be told apart by spike times (T-Randman) or rates (R-Randman).
#
# Spikes are drawn as they are needed, from a key, in pure JAX. The protocol decides how hard the task is:
#
# - `standardize="batch"`, the authors': every mini-batch draws 1,000 fresh points per class, maps each unit's values to
#   [0, 1] by the minimum and maximum of that very draw, and keeps `batch` of the points. The extremes jitter from batch
#   to batch, and with them all values: rules end at 65 to 82 % (docs/data.md).
# - `standardize="fixed"`: the extremes are taken once, from 1,000 points per class that the manifold seed decides, and
#   values beyond them are clipped. An easier task: every rule passes 99 %.


MOST = 2**31 - 1  # of any size


class Settings(NamedTuple):
    encoding: str
    standardize: str
    classes: int
    steps: int
    points: int  # per class, whose extremes standardise


@partial(jax.tree_util.register_dataclass, data_fields=["tables", "low", "high", "first"], meta_fields=["settings"])
@dataclass(frozen=True)
class Randman:
    """A dataset; `randman` makes it. It may hold several draws of the manifolds, and is on one of them."""

    settings: Settings
    tables: Array  # [draws · classes, dims, GRID + 1, units]
    low: Array  # [draws · classes, units] of fixed points
    high: Array
    first: Array  # manifold of the draw it is on

    @property
    def steps(self) -> int:
        return self.settings.steps

    @property
    def shape(self) -> tuple[int]:
        return (self.units,)

    @property
    def units(self) -> int:
        return self.tables.shape[-1]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"manifold {label}" for label in range(self.settings.classes))

    def on(self, draw: Any) -> "Randman":
        """The same on another draw of the manifolds, by number: 0 is the first."""
        if not isinstance(draw, Tracer):
            check.whole("draw", draw, len(self.tables) // self.settings.classes)
        return replace(self, first=jnp.asarray(draw * self.settings.classes, jnp.int32))

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """The mini-batch of this step, in a run with this seed."""
        return self.sample(jax.random.fold_in(random_key(seed), step_number(step)), size)

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Spikes [steps, batch, units] and labels [batch], random but for the key."""
        self._check(key, batch)
        return _sample(self, key, batch)

    def values(self, key: Array, batch: int) -> tuple[Array, Array]:
        """What `sample` with the same key encodes: values [batch, units] in [0, 1], and labels [batch]."""
        self._check(key, batch)
        return _values(self, jax.random.split(key)[0], batch)

    def _check(self, key: Array, batch: int) -> None:
        check.key(key)
        check.count("batch", batch)
        samples = {"batch": batch, "time_steps": self.steps, "units": self.units}
        memory.refuse_more("a mini-batch of spikes", batch * self.steps * self.units, samples)
        drawn = self.settings.classes * self.settings.points
        if self.settings.standardize == "batch" and batch > drawn:
            raise ValueError(
                f"batch is {batch}, expected at most {drawn}: that many points are drawn for a mini-batch,"
                f" {self.settings.points} of each class. Use a smaller batch, or more points."
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
    """T-Randman ("time": one spike per unit) or R-Randman ("rate": as many spikes as the value says).

    The settings are the paper's. `seed` chooses the manifolds, and only them; with several, the dataset holds a draw of
    each, is on the first, and `on(1)` is the same on the second. `points` per class are drawn to standardise by. The
    tables are made once per process, and kept on the disk (in OTPE_CACHE, else in ~/.cache/otpe).
    """
    check.one_of("encoding", encoding, ("time", "rate"))
    check.one_of("standardize", standardize, ("batch", "fixed"))
    counts = {"classes": classes, "units": units, "dims": dims, "steps": steps, "points": points}
    classes, units, dims, steps, points = (check.count(what, value, MOST) for what, value in counts.items())
    if points < 2:
        raise ValueError("points is 1, expected at least 2: a value is placed between the lowest and the highest.")
    alpha = check.number("alpha", alpha, "a number above 0 and at most 10. The paper has 1", lambda a: 0 < a <= 10)
    given = seed if isinstance(seed, Sequence) else [seed]
    _check_size(len(given), classes, units, dims, points)
    seeds = tuple(check.whole("seed", each, 2**32) for each in given)
    if not seeds:
        raise ValueError("seed is empty, expected a number, or several, each for a draw of the manifolds.")
    manifold = (classes, units, dims, alpha)
    tables, (low, high) = _tables(seeds, *manifold), _extremes(points, seeds, *manifold)
    with jax.ensure_compile_time_eval():
        first = jnp.zeros((), jnp.int32)
    return Randman(Settings(encoding, standardize, classes, steps, points), tables, low, high, first)


def _check_size(draws: int, classes: int, units: int, dims: int, points: int) -> None:
    """Do the tables fit into memory, and beside them the points by which values are standardised?"""
    shape = {"units": units, "classes": classes, "dims": dims}
    tables = 4 * classes * dims * (GRID + 1) * units  # of one draw, made by the host
    memory.refuse_more("the tables of the manifolds", tables, shape, memory.host())
    drawn = 4 * classes * points * units
    given = {**shape, "draws": draws, "points": points}
    memory.refuse_more("the tables of the manifolds, with random points on them,", draws * tables + drawn, given)


@lru_cache(maxsize=4)
def _tables(seeds: tuple[int, ...], *manifold: Any) -> Array:
    with jax.ensure_compile_time_eval():  # kept for good, so not a tracer even when somebody's jit asks first
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
    encode = {"time": _at_times, "rate": _at_rates}[data.settings.encoding]
    return SpikeBatch(encode(for_spikes, once(values), data.steps), labels)


@partial(jax.jit, static_argnames="batch")
def _values(data: Randman, key: Array, batch: int) -> tuple[Array, Array]:
    draw = {"batch": _standardized_by_draw, "fixed": _standardized_once}[data.settings.standardize]
    return draw(data, key, batch)


def _standardized_by_draw(data: Randman, key: Array, batch: int) -> tuple[Array, Array]:
    for_draw, for_choice = jax.random.split(key)
    classes, points = data.settings.classes, data.settings.points
    drawn = _draw(data.tables, data.first, for_draw, classes, points)
    low, high = drawn.min(1), drawn.max(1)
    chosen = shuffled(for_choice, classes * points, jnp.arange(batch))
    labels = chosen // points
    values = drawn.reshape(-1, data.units)[chosen]
    return _between(values, low[labels], high[labels]), labels


def _standardized_once(data: Randman, key: Array, batch: int) -> tuple[Array, Array]:
    dims = data.tables.shape[1]
    for_x, for_labels = jax.random.split(key)
    x = jax.random.uniform(for_x, (batch, dims), jnp.float32)
    labels = jax.random.randint(for_labels, (batch,), 0, data.settings.classes, jnp.int32)
    which = data.first + labels
    values = jax.vmap(look_up, (None, 0, 0))(data.tables, which, x)
    return _between(values, data.low[which], data.high[which]), labels


def _draw(tables: Array, first: Any, key: Array, classes: int, points: int) -> Array:
    """Values of as many random points on each manifold, from the first one on: [classes, points, units]."""
    x = jax.random.uniform(key, (classes, points, tables.shape[1]), jnp.float32)
    of_manifold = jax.vmap(look_up, (None, None, 0))
    return jax.vmap(of_manifold, (None, 0, 0))(tables, first + jnp.arange(classes), x)


def look_up(tables: Array, manifold: Array, x: Array) -> Array:
    """v(x) [units] for one x [dims], on a straight line between the two nearest points of each table."""
    place = x * GRID
    i = place.astype(jnp.int32)
    dims = jnp.arange(x.size)
    below = tables.at[manifold, dims, i].get(mode="promise_in_bounds")  # [dims, units]
    above = tables.at[manifold, dims, i + 1].get(mode="promise_in_bounds")
    return jnp.prod(below + (place - i)[:, None] * (above - below), axis=0)


def _between(values: Array, low: Array, high: Array) -> Array:
    return jnp.clip((values - low) / (high - low), 0, 1)


def _at_times(key: Array, values: Array, steps: int) -> Array:
    """One spike per unit, at floor(value · T), the highest value in the last step."""
    del key
    time = jnp.minimum((values * steps).astype(jnp.int32), steps - 1)
    return (jnp.arange(steps)[:, None, None] == time).astype(jnp.uint8)


def _at_rates(key: Array, values: Array, steps: int) -> Array:
    """floor(value · T) + 1 spikes per unit, T at most, in steps drawn for each sample and unit.

    Step by step, with n steps to come and k spikes left to place, there is one with probability k/n: so every choice of
    steps is as likely as any other (Knuth's algorithm S). 32 steps at a time are the bits of a word: a loop over steps
    that a GPU runs in one kernel.
    """
    count = jnp.minimum((values * steps).astype(jnp.int32) + 1, steps)
    words = -(-steps // WORD)
    lots = jax.random.uniform(key, (words, WORD, *values.shape), jnp.float32)
    to_come = jnp.maximum(steps - jnp.arange(words * WORD), 1).reshape(words, WORD).astype(jnp.float32)
    _, drawn = jax.lax.scan(_word, count.astype(jnp.float32), (lots, to_come), unroll=min(words, 4))
    spikes = (drawn[:, None] >> jnp.arange(WORD, dtype=jnp.uint32)[:, None, None]) & 1
    return spikes.reshape(-1, *values.shape)[:steps].astype(jnp.uint8)


WORD = 32


def _word(left: Array, part: tuple[Array, Array]) -> tuple[Array, Array]:
    lots, to_come = part
    word = jnp.zeros(left.shape, jnp.uint32)
    for i in range(WORD):
        spike = lots[i] * to_come[i] < left
        word |= spike.astype(jnp.uint32) << i
        left -= spike
    return left, word
