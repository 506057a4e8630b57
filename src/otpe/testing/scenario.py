"""Networks for tests in which every layer spikes. On a silent network, every rule has the same gradient."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from otpe.layers import Dense
from otpe.networks import Network, dense
from otpe.rulebook import rule
from otpe.surrogates import Surrogate, fast_sigmoid
from otpe.testing.assertions import require
from otpe.training import gradients


class Scenario(NamedTuple):
    """A network and a mini-batch on which every layer spikes: the arguments of `otpe.gradients`."""

    net: Network
    params: tuple[Dense, ...]
    spikes: Any  # [T, B, n_in]
    labels: Any  # [B]


def scenario(
    sizes: Sequence[int] = (6, 8, 7, 5),
    steps: int = 12,
    batch: int = 3,
    *,
    leak: float | Sequence[float] = 0.9,
    surrogate: Surrogate = fast_sigmoid(5.0),
    reset: Any = "subtract",
    threshold: float = 1.0,
    seed: int = 0,
) -> Scenario:
    """Return a random dense LIF network and a mini-batch. Biases are raised until every layer spikes."""
    net = dense(sizes, leak=leak, surrogate=surrogate, reset=reset, threshold=threshold)
    rng = np.random.default_rng(seed)
    spikes = (rng.random((steps, batch, sizes[0])) < 0.5).astype(float)
    spikes[0, :, 0] = 1  # so that no sample is silent
    labels = rng.integers(0, sizes[-1], batch)
    params, x = [], spikes
    for layer, neuron in zip(net.layers, net.neurons, strict=True):
        n_in, n_out = layer.in_shape[0], layer.out_shape[0]
        kernel = rng.standard_normal((n_in, n_out)) * 1.5 * threshold / np.sqrt(n_in)
        bias = rng.standard_normal(n_out) * threshold / 10
        while (outputs := _spikes(neuron, x @ kernel + bias)).mean() < 0.15:
            bias += threshold / 10
        params.append(Dense(jnp.asarray(kernel), jnp.asarray(bias)))
        x = outputs
    dtype = params[0].kernel.dtype
    return Scenario(net, tuple(params), jnp.asarray(spikes, dtype), jnp.asarray(labels))


def scenario_on(net: Network, steps: int = 10, batch: int = 3, *, rate: float = 0.2, seed: int = 0) -> Scenario:
    """Return a random mini-batch for any network. Biases are raised until the spike rate of each layer is `rate`."""
    rng, dtype = np.random.default_rng(seed), jnp.zeros(()).dtype
    spikes = jnp.asarray(rng.random((steps, batch, *net.in_shape)) < 0.5, dtype)
    labels = rng.integers(0, net.classes, batch)
    params = [_randomised(layer, rng) for layer in net.init(jax.random.key(seed), dtype)]
    for i, neuron in enumerate(net.neurons):
        for _ in range(100):
            if not getattr(neuron, "spiking", False) or net.record(tuple(params), spikes)[i].mean() >= rate:
                break
            require(getattr(params[i], "bias", None) is not None, f"layer {i} is silent and has no bias to raise")
            params[i] = params[i]._replace(bias=params[i].bias + 0.1)
    return Scenario(net, tuple(params), spikes, jnp.asarray(labels))


def assert_live(case: Scenario) -> None:
    """Raise AssertionError if a layer is silent, if its output is constant, or if a part of the gradient is zero."""
    outputs = case.net.record(case.params, case.spikes)
    rates = [float(jnp.abs(s).mean()) for s in outputs]
    require(min(rates) > 0, f"a layer is silent; spike rates by layer: {rates}")
    deviations = [float(s.std()) for s in outputs]
    require(min(deviations) > 0, f"the output of a layer is constant; standard deviations by layer: {deviations}")
    _, grads = gradients(*case, rule=rule("bptt"))
    norms = [float(jnp.linalg.norm(g.ravel())) for g in jax.tree.leaves(grads)]
    require(min(norms) > 0, f"a part of the exact gradient is zero; norms: {norms}")


def _randomised(params: Any, rng: np.random.Generator) -> Any:
    """Double the weights of a layer, and add noise to its biases and to the trained parameters of its neurons."""
    changed = {}
    for name, value in getattr(params, "_asdict", dict)().items():
        if name == "kernel":
            changed[name] = 2 * value
        elif name != "map" and value is not None:
            changed[name] = value + 0.1 * jnp.asarray(rng.standard_normal(value.shape), value.dtype)
    return params._replace(**changed) if changed else params


def _spikes(neuron: Any, current: np.ndarray) -> np.ndarray:
    """Return the spikes [T, B, n] of LIF neurons with these currents [T, B, n], computed in numpy."""
    u, out = np.zeros_like(current[0]), []
    for c in current:
        v = neuron.leak * u + c
        s = (v >= neuron.threshold).astype(float)
        u = {"subtract": v - neuron.threshold * s, "zero": v * (1 - s), "none": v}[neuron.reset]
        out.append(s)
    return np.stack(out)
