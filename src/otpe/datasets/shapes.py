"""Moving shapes: what an event camera sees when a shape moves over its grid.

A disc, ring, square, triangle or cross moves in a straight line at constant speed. Opposite edges of the grid are
joined: a shape that leaves on the right comes back on the left. So every time step of a sample shows the shape and its
motion, and the label holds from the first step to the last.

A pixel is lit if the shape covers its centre. Positions are not rounded to pixels, so that slow motion gives events
too. Channel 1 has an event where a pixel gets brighter in a time step, channel 0 where it gets darker, which is tonic's
order of polarities. Half of the shapes are bright on a dark ground, the others dark on a bright ground. A dark shape
that moves left gives the same events as a bright one that moves right, in reverse order. So neither a single frame nor
the sum of all frames tells a direction from its opposite: only the order of the frames does.

Samples are drawn from a key, in pure JAX.
"""

from dataclasses import dataclass
from functools import partial
from math import ceil, log1p, prod, sqrt
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import check
from otpe.datasets.dataset import Flat, SpikeBatch, check_draw, once, shuffled, step_key

KINDS = ("disc", "ring", "square", "triangle", "cross")
DIRECTIONS = ("right", "down-right", "down", "down-left", "left", "up-left", "up", "up-right")  # 45° apart
NAMES = {"direction": DIRECTIONS, "shape": KINDS}
SMALLEST = 12  # pixels: on smaller grids a triangle looks like a disc
RADIUS = (0.15, 0.25)  # of the circle around a shape, as a share of the grid
MOST = 2**30  # entries of one sample, so that the sum of two places fits into 32 bits


class Scenes(NamedTuple):
    """The scenes of a mini-batch."""

    label: Array  # [B] int32
    kind: Array  # [B] int32, in KINDS
    start: Array  # [2, B] x and y of the centre before the first time step, in pixels
    velocity: Array  # [2, B] in pixels per time step; y points down
    radius: Array  # [B] of the circle around the shape, in pixels
    turn: Array  # [B] the angle by which the shape is rotated, in radians
    bright: Array  # [B] bool


@partial(jax.tree_util.register_dataclass, data_fields=[], meta_fields=["label", "size", "steps", "noise", "speed"])
@dataclass(frozen=True)
class MovingShapes:
    """A dataset of any number of random samples; `moving_shapes` makes it."""

    label: str
    size: int
    steps: int
    noise: float
    speed: tuple[float, float]

    @property
    def shape(self) -> tuple[int, int, int]:
        return (2, self.size, self.size)

    @property
    def units(self) -> int:
        return prod(self.shape)

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[self.label]

    def batch(self, seed: Any, step: Any, size: int) -> SpikeBatch:
        """Return the mini-batch of this step in a run with this seed."""
        return self.sample(step_key(seed, step), size)

    def sample(self, key: Array, batch: int) -> SpikeBatch:
        """Return spikes [steps, batch, 2, size, size], zeros and ones, and labels [batch], drawn from the key."""
        check_draw(self, key, batch, size=self.size)
        return _sample(self, key, batch)

    def scenes(self, key: Array, batch: int) -> Scenes:
        """Return what `sample` with the same key shows."""
        check_draw(self, key, batch, size=self.size)
        return _scenes(self, jax.random.split(key)[0], batch)

    def flat(self) -> Flat:
        """Return the same dataset with its 2 · size² units flattened to one axis, as `otpe.dense` takes them."""
        return Flat(self)


def moving_shapes(
    label: Literal["direction", "shape"] = "direction",
    *,
    size: int = 34,
    time_steps: int = 50,
    noise: float = 0.001,
    speed: tuple[float, float] = (0.25, 1.0),
) -> MovingShapes:
    """Return a dataset of shapes that move over a grid of `size` × `size` pixels, seen by an event camera.

    Args:
      label: whether the label is one of eight directions, or one of five shapes. The other property is
        random.
      size: height and width of the grid, in pixels.
      time_steps: T.
      noise: the probability of a background event, in each pixel, channel and time step.
      speed: the lowest and the highest speed, in pixels per time step.
    """
    check.one_of("label", label, NAMES)
    size, time_steps = check.count("size", size, 2**15), check.count("time_steps", time_steps, MOST)
    if size < SMALLEST:
        raise ValueError(f"size is {size}, expected at least {SMALLEST} pixels: smaller shapes look alike.")
    if time_steps * 2 * size**2 > MOST:
        raise ValueError(
            f"time_steps is {time_steps} and size is {size}: a sample would have {time_steps * 2 * size**2:,} entries,"
            f" expected at most {MOST:,}. Use fewer time steps or a smaller grid."
        )
    noise = check.number("noise", noise, "a probability from 0 to 0.5, such as 0.001", lambda p: 0 <= p <= 0.5)
    return MovingShapes(label, size, time_steps, noise, _speeds(speed, size))


def _speeds(speed: Any, size: int) -> tuple[float, float]:
    """Return two checked numbers. A step above a quarter of the grid would look like one in the opposite direction."""
    most = size / 4
    expected = f"two numbers above 0 and at most {most:g} (size / 4), the slower one first, such as (0.25, 1.0)"
    given = list(speed) if isinstance(speed, tuple | list | np.ndarray) else []
    if len(given) == 2:
        slow, fast = (check.number("speed", value, expected, lambda v: 0 < v <= most) for value in given)
        if slow <= fast:
            return slow, fast
    raise ValueError(f"speed is {speed!r}, expected {expected}.")


@partial(jax.jit, static_argnames="batch")
def _sample(data: MovingShapes, key: Array, batch: int) -> SpikeBatch:
    for_scenes, for_noise = jax.random.split(key)
    scenes = _scenes(data, for_scenes, batch)
    lit = once(_covered(data, scenes) == scenes.bright[:, None, None])
    before, after = lit[:-1], lit[1:]
    spikes = jnp.stack([before & ~after, after & ~before], axis=2).astype(jnp.uint8)
    if data.noise:
        spikes |= _noise(data, for_noise, batch)
    return SpikeBatch(spikes, scenes.label)


@partial(jax.jit, static_argnames="batch")
def _scenes(data: MovingShapes, key: Array, batch: int) -> Scenes:
    keys = iter(jax.random.split(key, 8))
    label = _balanced(next(keys), len(data.names), batch)

    def between(low: float, high: float, *shape: int) -> Array:
        return jax.random.uniform(next(keys), (*shape, batch), jnp.float32, low, high)

    any_kind = jax.random.randint(next(keys), (batch,), 0, len(KINDS), jnp.int32)
    any_way = between(0.0, 2 * np.pi)
    kind, way = (any_kind, label * jnp.float32(np.pi / 4)) if data.label == "direction" else (label, any_way)
    return Scenes(
        label=label,
        kind=kind,
        start=between(0.0, data.size, 2),
        velocity=between(*data.speed) * jnp.stack([jnp.cos(way), jnp.sin(way)]),
        radius=data.size * between(*RADIUS),
        turn=between(0.0, 2 * np.pi),
        bright=jax.random.bernoulli(next(keys), shape=(batch,)),
    )


def _balanced(key: Array, classes: int, batch: int) -> Array:
    """Return labels [batch] in random order. The numbers of samples of two classes differ by 1 at most."""
    for_order, for_first = jax.random.split(key)
    order = shuffled(for_order, batch, jnp.arange(batch))
    return (order + jax.random.randint(for_first, (), 0, classes, jnp.int32)) % classes


def _covered(data: MovingShapes, scenes: Scenes) -> Array:
    """Return which pixels the shape covers, before the first time step and after each: [T + 1, B, size, size]."""
    time = jnp.arange(data.steps + 1, dtype=jnp.float32)[:, None]
    half, pixels = data.size / 2, jnp.arange(data.size, dtype=jnp.float32)

    def offset(axis: int) -> Array:
        """Return the way from the centre to each pixel, the shorter way around, in radii: [T + 1, B, size]."""
        centre = scenes.start[axis] + time * scenes.velocity[axis]
        return once((jnp.mod(pixels - centre[..., None] + half, data.size) - half) / scenes.radius[:, None])

    x, y = offset(0)[:, :, None, :], offset(1)[:, :, :, None]
    cos, sin = (f(scenes.turn)[:, None, None] for f in (jnp.cos, jnp.sin))
    return _inside(scenes.kind[:, None, None], cos * x + sin * y, cos * y - sin * x)


def _inside(kind: Array, x: Array, y: Array) -> Array:
    """Return whether a point is inside the shape, whose corners are on the circle of radius 1, or slightly inside."""
    a, b, square = jnp.abs(x), jnp.abs(y), x * x + y * y
    longer, shorter = jnp.maximum(a, b), jnp.minimum(a, b)
    tests = {
        "disc": square < 1,
        "ring": (square < 1) & (square > 0.3),
        "square": longer < sqrt(1 / 2),
        "triangle": (y > -1 / 2) & (sqrt(3) * a + y < 1),
        "cross": (shorter < 1 / 4) & (longer < sqrt(15 / 16)),
    }
    return jax.lax.select_n(jnp.broadcast_to(kind, square.shape), *(tests[name] for name in KINDS))


def _noise(data: MovingShapes, key: Array, batch: int) -> Array:
    """Return background events [T, B, 2, size, size].

    A random number for each entry would take ten times as long as everything else. So we draw the gaps between events,
    which have a geometric distribution. The gaps reach the end of a sample, except with a probability below 10⁻¹⁴.
    """
    entries = data.steps * data.units
    expected = entries * data.noise
    gaps = ceil(expected + 8 * sqrt(expected) + 16)
    drawn = jax.random.exponential(key, (batch, gaps), jnp.float32) / -log1p(-data.noise)
    steps = jnp.minimum(drawn, entries).astype(jnp.int32) + 1
    place = jax.lax.associative_scan(lambda a, b: jnp.minimum(a + b, entries + 1), steps, axis=1) - 1
    empty = jnp.zeros((data.steps, batch, data.units), jnp.uint8)
    step, unit, sample = place // data.units, place % data.units, jnp.arange(batch)[:, None]
    return empty.at[step, sample, unit].set(1, mode="drop").reshape(data.steps, batch, *data.shape)


def from_settings(settings: Any) -> MovingShapes:
    """Return the dataset of `DataSettings`, for the registry."""
    return moving_shapes(settings.label, size=settings.size, time_steps=settings.time_steps, noise=settings.noise)
