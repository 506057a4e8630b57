"""Losses and their derivatives. No other module computes them.

`loss=` takes a name, a function of your own, or a `Loss`, which can add a penalty on spike rates:

    "spikes"     softmax cross-entropy between the outputs s_t, as logits, and the label
    "leaky"      softmax cross-entropy between their leaky sum  o_t = λ o_{t-1} + s_t  and the label (the F- rules)
    "membrane"   softmax cross-entropy between the membrane of an output layer that does not spike and the label
    "mse"        mean squared error over the outputs, between the rule's readout and a target; labels become one-hot
    f            f(logits [B, C], target) -> [B], differentiable

By default the loss is the cross-entropy of the rule's readout: "spikes", or "leaky" for the F- rules.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from otpe import check

Readout = Literal["spikes", "leaky"]
LossFunction = Callable[[Array, Array], Array]


def squared_error(outputs: Array, target: Array) -> Array:
    """Return the mean squared error [B] between outputs [B, C] and targets [B, C], or labels [B] made one-hot."""
    if jnp.issubdtype(target.dtype, jnp.integer):
        target = (target[..., None] == jnp.arange(outputs.shape[-1])).astype(outputs.dtype)
    if target.shape[-1] != outputs.shape[-1]:
        raise ValueError(
            f"targets have {target.shape[-1]} numbers for {outputs.shape[-1]} outputs, expected one per output."
        )
    return jnp.square(outputs - target).mean(-1)


class _Named(NamedTuple):
    """The properties of a loss that has a name."""

    function: LossFunction | None  # None: softmax cross-entropy, see `_cross_entropy`
    readout: Readout | None  # None: that of the rule
    takes_reals: bool  # whether targets may be real numbers


NAMED = {
    "spikes": _Named(None, "spikes", False),
    "leaky": _Named(None, "leaky", False),
    "membrane": _Named(None, "spikes", False),
    "mse": _Named(squared_error, None, True),
}


@dataclass(frozen=True)
class Loss:
    """A loss function and a penalty on spike rates.

    Args:
      function: a name from the list above, or f(logits [B, C], target) -> [B]. None: cross-entropy of the rule's
        readout.
      rate: the share of a hidden layer's neurons that should spike at each time step.
      rate_weight: for every hidden layer that spikes, rate_weight · (mean_j s_tj − rate)² is added to the loss of each
        time step.
    """

    function: str | LossFunction | None = None
    rate: float = 0.0
    rate_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.function is not None and not callable(self.function):
            check.one_of("loss", self.function, NAMED)
        check.number("rate", self.rate, "a share from 0 to 1", lambda x: 0 <= x <= 1)
        check.number("rate_weight", self.rate_weight, "a finite number, 0 or above", lambda x: 0 <= x < math.inf)

    @property
    def readout(self) -> Readout | None:
        """The readout that the loss needs, or None if it takes the readout of the rule."""
        return NAMED[self.function].readout if isinstance(self.function, str) else None

    @property
    def takes_reals(self) -> bool:
        """Whether targets may be real numbers."""
        if isinstance(self.function, str):
            return NAMED[self.function].takes_reals
        return self.function is not None

    @property
    def per_sample(self) -> LossFunction | None:
        """The function that returns the loss of each sample, or None for softmax cross-entropy."""
        return NAMED[self.function].function if isinstance(self.function, str) else self.function

    @property
    def name(self) -> str:
        """The name for messages and files."""
        if self.function is None or isinstance(self.function, str):
            return self.function or "cross-entropy"
        return getattr(self.function, "__name__", type(self.function).__name__)


DEFAULT = Loss()
LossChoice = str | LossFunction | Loss | None


def as_loss(loss: LossChoice) -> Loss:
    """Return the `Loss` for a name, a function or None. Raises TypeError for anything else."""
    if isinstance(loss, Loss):
        return loss
    if loss is not None and not isinstance(loss, str) and (isinstance(loss, type) or not callable(loss)):
        raise TypeError(
            f"loss is {loss!r}, expected one of {', '.join(map(repr, NAMED))}, or a function of logits [B, C] and"
            " targets that returns one number per sample, [B]."
        )
    return DEFAULT if loss is None else Loss(loss)


def is_timed(target: Array) -> bool:
    """Return whether a target has a time axis: labels [T, B], or real numbers [T, B, C]."""
    return target.ndim == (2 if jnp.issubdtype(target.dtype, jnp.integer) else 3)


def value_and_signal(loss: Loss, logits: Array, target: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Return the loss of logits [..., B, C] and its derivative by the logits.

    The loss is the mean over all rows [..., B], or with `weight` [..., B] the weighted sum. `target` has the leading
    axes [..., B] of the logits, or only the batch axis [B].
    """
    function = loss.per_sample
    if function is None:
        return _cross_entropy(logits, target, weight)

    def total(logits: Array) -> Array:
        losses = _per_row(function, loss.name, logits, target)
        return losses.mean() if weight is None else (losses * weight).sum()

    return jax.value_and_grad(total)(logits)


def of_outputs(
    net: Any, loss: Loss, readout: Readout, outputs: Sequence[Array], target: Array, weight: Array | None = None
) -> Array:
    """Return the loss of a network, given the outputs [T, B, *out] of all its layers, as from `net.record`."""
    logits = outputs[-1] if readout == "spikes" else net.leaky_sum(outputs[-1])
    total = value_and_signal(loss, logits, target, weight)[0]
    if loss.rate_weight:
        for neuron, output in zip(net.neurons[:-1], outputs[:-1], strict=True):
            if getattr(neuron, "spiking", False):
                total = total + rate_penalty(loss, output, output.ndim - 2, weight)[0]
    return total


def rate_penalty(loss: Loss, outputs: Array, rank: int, weight: Array | None = None) -> tuple[Array, Array]:
    """Return the rate penalty of one layer and its derivative by the outputs [..., B, *out].

    `rank` is the number of axes in *out.
    """
    axes = tuple(range(-rank, 0))
    error = outputs.mean(axes, keepdims=True) - loss.rate
    share = 1 / math.prod(outputs.shape[:-rank]) if weight is None else weight.reshape(*weight.shape, *(1,) * rank)
    count = math.prod(outputs.shape[-rank:])
    signal = 2 * loss.rate_weight / count * error * share
    return loss.rate_weight * (jnp.square(error) * share).sum(), jnp.broadcast_to(signal, outputs.shape)


def _per_row(function: LossFunction, name: str, logits: Array, target: Array) -> Array:
    """Return the loss of each row [..., B]. Raises TypeError or ValueError if the function returns something else."""
    if logits.ndim > 2:
        in_axes = (0, 0 if is_timed(target) else None)
        return jax.vmap(lambda at, y: _per_row(function, name, at, y), in_axes=in_axes)(logits, target)
    losses = function(logits, target)
    if not isinstance(losses, jax.Array) or not jnp.issubdtype(losses.dtype, jnp.floating):
        given = f"numbers of type {losses.dtype}" if hasattr(losses, "dtype") else repr(losses)
        raise TypeError(
            f"loss {name!r} returned {given}, expected real numbers [B] that depend on the logits. Without a"
            " derivative nothing can be learned."
        )
    if losses.shape != logits.shape[:1]:
        raise ValueError(
            f"loss {name!r} returned the shape {list(losses.shape)} for logits {list(logits.shape)}, expected"
            f" {list(logits.shape[:1])}: one number per sample. Take the mean or the sum over the outputs, axis -1."
        )
    return losses.astype(logits.dtype)


def _cross_entropy(logits: Array, labels: Array, weight: Array | None) -> tuple[Array, Array]:
    """Return the softmax cross-entropy and its derivative by the logits, softmax − one-hot.

    `value_and_signal` does not differentiate it: the explicit derivative shares the exponentials and fuses better.
    """
    shifted = logits - logits.max(-1, keepdims=True)
    one_hot = labels[..., None] == jnp.arange(logits.shape[-1])
    exponentials = jnp.exp(shifted)
    total = exponentials.sum(-1, keepdims=True)
    share = 1 / math.prod(logits.shape[:-1]) if weight is None else weight[..., None]
    losses = jnp.log(total) - jnp.where(one_hot, shifted, 0).sum(-1, keepdims=True)
    loss = losses.mean() if weight is None else (losses * share).sum()
    return loss, (exponentials / total - one_hot) * share


def predict(outputs: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """Return the class with the largest sum of outputs over time, [T, B, classes] -> [B], or −1 for a silent sample.

    For spikes it is the class with the most spikes. A sample is silent if all its outputs are 0. With `mask` [T, B],
    only the time steps where it is true count, see `SpikeBatch.mask`.
    """
    out = jnp.asarray(check.output_spikes(outputs))
    masked = out if mask is None else jnp.where(check.mask(mask, *out.shape[:2])[..., None], out, 0)
    return jnp.where((masked != 0).any((0, 2)), masked.sum(0).argmax(-1), -1)


def hits(outputs: Array, labels: Array, counted: Array) -> tuple[Array, Array]:
    """Return the number of correct predictions and the number of predictions, where `counted` [T, B] is true.

    For labels [B] there is one prediction per sample, for labels [T, B] one per time step.
    """
    if labels.ndim == 1:
        nonempty = counted.any(0)
        return ((predict(outputs, counted) == labels) & nonempty).sum(), nonempty.sum()
    correct = jnp.where((outputs != 0).any(-1), outputs.argmax(-1), -1) == labels
    return (correct & counted).sum(), counted.sum()


def accuracy(outputs: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """Return the share of samples whose prediction is correct. Silent samples are wrong. `mask` as in `predict`.

    With labels per time step [T, B]: the share of time steps at which the output of the label is the largest.
    """
    out = jnp.asarray(check.output_spikes(outputs))
    labels = check.labels(out.shape[-1], labels, batch=out.shape[1], steps=out.shape[0])
    counted = jnp.ones(out.shape[:2], bool) if mask is None else check.mask(mask, *out.shape[:2])
    correct, predictions = hits(out, labels, counted)
    return correct / (labels.size if labels.ndim == 1 else predictions)
