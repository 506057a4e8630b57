"""otpe itself: `otpe.gradients`, jitted, by rule."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import otpe
from contestants.base import Contestant, Problem

RULES = ("bptt", "ostl", "ottt", "otpe", "approx-otpe")


def contestants(problem: Problem) -> list[Contestant]:
    net, args = network(problem), arguments(problem)
    jitted = {rule: jax.jit(partial(otpe.gradients, net, rule=rule)) for rule in RULES}
    return [Contestant(f"otpe {rule}", rule, partial(wait, run, *args), kernels) for rule, run in jitted.items()]


def network(problem: Problem) -> otpe.Network:
    surrogate = otpe.fast_sigmoid(problem.slope)
    return otpe.dense(problem.sizes, leak=problem.leak, threshold=problem.threshold, surrogate=surrogate)


def arguments(problem: Problem) -> tuple[Any, jax.Array, jax.Array]:
    layers = zip(problem.kernels, problem.biases, strict=True)
    params = tuple(otpe.Dense(jnp.asarray(kernel), jnp.asarray(bias)) for kernel, bias in layers)
    return params, jnp.asarray(problem.spikes), jnp.asarray(problem.labels)


def wait(run: Any, *args: Any) -> Any:
    return jax.block_until_ready(run(*args))


def kernels(result: Any) -> list[np.ndarray]:
    return [np.asarray(layer.kernel) for layer in result[1]]
