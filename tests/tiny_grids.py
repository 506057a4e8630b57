"""Samples on a small grid, with a user's batch function; and a user's neuron, map and network to learn them."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import otpe
from otpe.datasets import SpikeBatch
from otpe.datasets.dataset import random_key
from otpe.surrogates import surrogate_derivative

SHAPE = (2, 4, 4)
SIGMOID = otpe.fast_sigmoid(10.0)


@partial(jax.tree_util.register_dataclass, data_fields=["frames", "labels"], meta_fields=["names"])
@dataclass(frozen=True)
class Grid:
    """Samples drawn with replacement, so that batches never end."""

    frames: Any  # [T, R, *shape]
    labels: Any  # [R], or [T, R]
    names: tuple[str, ...] = ("a", "b", "c")

    @property
    def steps(self):
        return self.frames.shape[0]

    @property
    def shape(self):
        return self.frames.shape[2:]

    def batch(self, seed, step, size):
        which = jax.random.randint(jax.random.fold_in(random_key(seed), step), (size,), 0, self.frames.shape[1])
        return SpikeBatch(self.frames[:, which], self.labels[..., which])


def grid(labels=None):
    rng, which = np.random.default_rng(0), np.arange(24) % 3
    busy = np.arange(SHAPE[-1]) == which[:, None]
    frames = rng.random((5, 24, *SHAPE)) < 0.2 + 0.5 * busy[None, :, None, None, :]
    return Grid(jnp.asarray(frames, jnp.uint8), jnp.asarray(which, jnp.int32) if labels is None else labels)


def splits(labels=None):
    return otpe.Splits(*[grid(labels)] * 3)


@dataclass(frozen=True)
class MyNeuron:
    """LIF, written by a user."""

    leak: float = 0.8
    spiking = True

    def start(self, shape, dtype):
        return jnp.zeros(shape, dtype)

    def step(self, u, current):
        v = self.leak * u + current
        s = otpe.spike(SIGMOID, v - 0.3)
        return v - 0.3 * s, s, v

    def linearise(self, v):
        return (
            self.leak * (1 - 0.3 * surrogate_derivative(SIGMOID, v - 0.3)),
            1.0,
            surrogate_derivative(SIGMOID, v - 0.3),
        )


@dataclass(frozen=True)
class Scale:
    """A user's map: one weight for each input."""

    n: int

    @property
    def in_shape(self):
        return (self.n,)

    out_shape = in_shape

    def init(self, key, dtype):
        return {"w": jnp.ones(self.n, dtype), "bias": jnp.zeros(self.n, dtype)}

    def apply(self, params, x, one=1.0):
        return params["w"] * x + params["bias"] * one


MINE = otpe.network(
    SHAPE,
    [
        (otpe.layers.conv(3, 3), MyNeuron()),
        (otpe.layers.flatten() >> otpe.layers.dense(6), otpe.CubaLIF(0.8, 0.7, 0.3, learn_leak=True)),
        (Scale(6), MyNeuron()),
        (otpe.layers.dense(3), otpe.LeakyIntegrator(0.9)),
    ],
)
RULE = otpe.Rule("mixed", hidden=otpe.Otpe(), output=otpe.Ostl())
CONFIG = {
    "batch": 4, "steps": 2, "eval_every": 2, "valid_samples": 4, "test_samples": 4, "hidden": (5,), "threshold": 0.3,
    "learning_rate": 0.03,
}  # fmt: skip
