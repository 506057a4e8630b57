"""References that share no code with what they judge: the network step by step in plain JAX, differentiated by JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from otpe.losses import Readout
from otpe.networks import Network


def autodiff(
    net: Network,
    params: Any,
    spikes: Array,
    labels: Array,
    *,
    readout: Readout = "spikes",
    detach_reset: tuple[int, ...] = (),
) -> tuple[Array, Any]:
    """Loss and exact gradient: `jax.grad` through a `lax.scan` over time steps of a dense network.

    The resets of the layers in `detach_reset` are kept out of the gradient.
    """
    return jax.value_and_grad(lambda p: _loss(net, p, spikes, labels, readout, detach_reset))(params)


def _loss(
    net: Network, params: Any, spikes: Array, labels: Array, readout: Readout, detach_reset: tuple[int, ...]
) -> Array:
    def step(carry: Any, x: Array) -> Any:
        membranes, o = carry
        after = []
        for i, (neuron, p) in enumerate(zip(net.neurons, params, strict=True)):
            v = neuron.leak * membranes[i] + jnp.matmul(x, p.kernel, precision="highest") + p.bias
            # H(d) whose derivative is the surrogate: the value of the step, the gradient of the product
            g = jax.lax.stop_gradient(neuron.surrogate(v - neuron.threshold))
            ramp = g * v
            x = jax.lax.stop_gradient((v >= neuron.threshold).astype(v.dtype) - ramp) + ramp
            reset = jax.lax.stop_gradient(x) if i in detach_reset else x
            after.append({"subtract": v - neuron.threshold * reset, "zero": v * (1 - reset), "none": v}[neuron.reset])
        o = net.neurons[-1].leak * o + x
        return (after, o), x if readout == "spikes" else o

    batch = spikes.shape[1]
    rest = [jnp.zeros((batch, p.bias.shape[0]), spikes.dtype) for p in params]
    _, logits = jax.lax.scan(step, (rest, rest[-1]), spikes)
    labels = jnp.broadcast_to(labels, logits.shape[:2])
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def require(holds: Any, otherwise: str) -> None:
    """An `assert` that `python -O` does not leave out."""
    if not holds:
        raise AssertionError(f"{otherwise}.")


def relative_error(given: Any, wanted: Any) -> float:
    """The largest |given − wanted| / |wanted| over the leaves of two pytrees, in the 2-norm. NaN if there is one."""
    pairs = zip(jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True)
    return float(np.max([_relative_error(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in pairs]))


def _relative_error(given: np.ndarray, wanted: np.ndarray) -> float:
    if given.shape != wanted.shape:
        raise ValueError(f"shapes differ: {given.shape} against {wanted.shape}.")
    size = np.linalg.norm(wanted)
    difference = np.linalg.norm(given - wanted)
    return float(difference / size) if size > 0 else float(difference)
