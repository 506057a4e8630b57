"""Reference gradients: the network step by step in plain JAX, differentiated by JAX.

They are independent of the code that they test. The neurons in `_NEURONS`, the losses and the leaks are implemented a
second time here. Maps and other neurons are the library's: `apply` defines a map, and `otpe.testing.check_layer`
compares the rest of the map with it; `step` defines a neuron, and `otpe.testing.check_neuron` compares the rest of the
neuron with it.
"""

import math
from collections import namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from otpe import neurons
from otpe.losses import Loss, LossChoice, Readout
from otpe.networks import Network
from otpe.neurons import LIF, AdaptiveLIF, CubaLIF, LeakyIntegrator, PerNeuron, Uniform

LEAKS = ("adaptation_leak", "current_leak", "leak")  # in the order of the parameters


def autodiff(
    net: Network,
    params: Any,
    spikes: Array,
    labels: Array,
    mask: Array | None = None,
    *,
    readout: Readout = "spikes",
    loss: LossChoice = None,
    detach_reset: tuple[int, ...] = (),
) -> tuple[Array, Any]:
    """Return the loss and the exact gradient: `jax.grad` through a `lax.scan` over time steps.

    Arguments as in `otpe.gradients`. In the layers of `detach_reset`, no gradient passes from a spike to its own
    neuron: neither through the reset nor, in an adaptive neuron, through the adaptation.
    """
    return _value_and_grad(net, readout, loss, tuple(detach_reset), params, spikes, jnp.asarray(labels), mask)


def _loss(
    net: Network, readout: str, loss: Any, detach: tuple[int, ...], params: Any, spikes: Array, labels: Array, mask: Any
) -> Array:
    function, rate, rate_weight = (
        (loss.function, loss.rate, loss.rate_weight) if isinstance(loss, Loss) else (loss, 0.0, 0.0)
    )
    readout = {"leaky": "leaky", "spikes": "spikes", "membrane": "spikes"}.get(str(function), readout)
    batch, dtype = spikes.shape[1], jax.tree.leaves(params)[0].dtype
    layers = [
        _layer(layer, neuron, p, dtype, i in detach)
        for i, (layer, neuron, p) in enumerate(zip(net.layers, net.neurons, params, strict=True))
    ]

    def step(carry: Any, x: Array) -> Any:
        (states, o), after, outputs = carry, [], []
        for (current, fire, _), state in zip(layers, states, strict=True):
            state, x = fire(state, current(x))
            after.append(state)
            outputs.append(x)
        o = _readout_leak(net) * o + x
        return (after, o), (outputs, x if readout == "spikes" else o)

    rest = [start(batch) for _, _, start in layers]
    _, (outputs, logits) = jax.lax.scan(step, (rest, jnp.zeros((batch, net.classes), dtype)), spikes.astype(dtype))
    shares = jnp.full(logits.shape[:2], 1 / math.prod(logits.shape[:2])) if mask is None else mask / jnp.sum(mask)
    total = (_losses(function, logits, labels) * shares).sum()
    for neuron, output in zip(net.neurons[:-1], outputs[:-1], strict=True):
        if rate_weight and getattr(neuron, "spiking", False):
            rates = output.reshape(*output.shape[:2], -1).mean(-1)
            total = total + rate_weight * ((rates - rate) ** 2 * shares).sum()
    return total


_value_and_grad = jax.jit(jax.value_and_grad(_loss, argnums=4), static_argnums=(0, 1, 2, 3))


def _layer(layer: Any, neuron: Any, params: Any, dtype: Any, detach: bool) -> tuple[Any, Any, Any]:
    """Return three functions: the current of an input, one step of the neurons, and their initial state."""
    weights, leaks = _split(neuron, params)

    def current(x: Array) -> Array:
        with jax.default_matmul_precision("highest"):
            return layer.apply(weights, x)

    if type(neuron) in _NEURONS:
        leaks = {name: _leak(neuron, name, leaks, layer.out_shape, dtype) for name in LEAKS if hasattr(neuron, name)}
        fire = _NEURONS[type(neuron)]
        count = 2 if isinstance(neuron, CubaLIF | AdaptiveLIF) else 1

        def start(batch: int) -> tuple[Array, ...]:
            return (jnp.zeros((batch, *layer.out_shape), dtype),) * count

        return current, lambda state, c: fire(neuron, leaks, state, c, detach), start
    if detach:
        raise ValueError(f"{type(neuron).__name__} is not one of otpe's neurons, so its reset cannot be detached.")
    bound = neurons.bind(neuron, neurons.values(neuron, leaks, layer.out_shape, dtype))
    return (
        current,
        lambda state, c: bound.step(state, c)[:2],
        lambda batch: bound.start((batch, *layer.out_shape), dtype),
    )


# The neurons. Each function takes a state and a current, and returns the state after the step and the output.


def _lif(neuron: Any, leaks: dict[str, Array], state: tuple[Array, ...], c: Array, detach: bool) -> Any:
    v = leaks["leak"] * state[0] + c
    s = _spike(neuron, v - neuron.threshold)
    return (_reset(neuron, v, s, detach),), s


def _cuba(neuron: Any, leaks: dict[str, Array], state: tuple[Array, ...], c: Array, detach: bool) -> Any:
    i = leaks["current_leak"] * state[0] + c
    v = leaks["leak"] * state[1] + i
    s = _spike(neuron, v - neuron.threshold)
    return (i, _reset(neuron, v, s, detach)), s


def _adaptive(neuron: Any, leaks: dict[str, Array], state: tuple[Array, ...], c: Array, detach: bool) -> Any:
    """The state is (u, a): the membrane after the reset, and the adaptation of the threshold for the next step."""
    (u, a), r = state, leaks["adaptation_leak"]
    v = leaks["leak"] * u + c
    s = _spike(neuron, v - (neuron.threshold + neuron.strength * a))
    adapting = jax.lax.stop_gradient(s) if detach else s
    return (_reset(neuron, v, s, detach), r * a + (1 - r) * adapting), s


def _integrator(neuron: Any, leaks: dict[str, Array], state: tuple[Array, ...], c: Array, detach: bool) -> Any:
    v = leaks["leak"] * state[0] + c
    return (v,), v


_NEURONS: dict[type, Any] = {LIF: _lif, CubaLIF: _cuba, AdaptiveLIF: _adaptive, LeakyIntegrator: _integrator}


def _spike(neuron: Any, d: Array) -> Array:
    """Return H(d), with the surrogate as its derivative: `ramp` cancels in the value, but not in the gradient."""
    ramp = jax.lax.stop_gradient(neuron.surrogate(d)) * d
    return jax.lax.stop_gradient((d >= 0).astype(d.dtype) - ramp) + ramp


def _reset(neuron: Any, v: Array, s: Array, detach: bool) -> Array:
    s = jax.lax.stop_gradient(s) if detach else s
    return {"subtract": v - neuron.threshold * s, "zero": v * (1 - s), "none": v}[neuron.reset]


# Parameters and leaks


def _split(neuron: Any, params: Any) -> tuple[Any, dict[str, Array]]:
    """Return the parameters of the map and the trained parameters of the neurons."""
    if type(neuron) in _NEURONS:
        names = [name for name in LEAKS if getattr(neuron, f"learn_{name}", False)]
    else:
        names = sorted(jax.eval_shape(lambda: neuron.init((1,), jnp.float32))) if hasattr(neuron, "init") else []
    if not names:
        return params, {}
    trained = {name: getattr(params, name) for name in names}
    fields = [name for name in params._fields if name not in trained]
    if fields == ["map"]:
        return params.map, trained
    return namedtuple("OfMap", fields)(*(getattr(params, name) for name in fields)), trained


def _leak(neuron: Any, name: str, trained: dict[str, Array], shape: tuple[int, ...], dtype: Any) -> Array:
    """Return one leak per neuron. A trained leak is the logistic function of its parameter."""
    if name in trained:
        return jnp.broadcast_to(1 / (1 + jnp.exp(-trained[name])), shape)
    return jnp.asarray(_fixed_leak(getattr(neuron, name), shape), dtype)


def _fixed_leak(leak: Any, shape: tuple[int, ...]) -> np.ndarray:
    if isinstance(leak, Uniform):
        return np.random.default_rng(leak.seed).uniform(leak.low, leak.high, shape)
    return np.broadcast_to(leak.values if isinstance(leak, PerNeuron) else leak, shape)


def _readout_leak(net: Network) -> float:
    neuron = net.neurons[-1]
    return (
        float(_fixed_leak(neuron.leak, net.layers[-1].out_shape).mean())
        if type(neuron) in _NEURONS
        else net.readout_leak
    )


# Losses


def _losses(function: Any, logits: Array, target: Array) -> Array:
    """Return the loss of each sample at each time step [T, B]."""
    are_labels = jnp.issubdtype(target.dtype, jnp.integer)
    if target.ndim == (1 if are_labels else 2):
        target = jnp.broadcast_to(target, (logits.shape[0], *target.shape))
    if function == "mse":
        expected = jax.nn.one_hot(target, logits.shape[-1], dtype=logits.dtype) if are_labels else target
        return ((logits - expected) ** 2).mean(-1)
    if callable(function):
        losses: list[Any] = [function(logits_t, target_t) for logits_t, target_t in zip(logits, target, strict=True)]
        return jnp.stack(losses)
    of_label = jnp.take_along_axis(logits, target[..., None], -1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - of_label
