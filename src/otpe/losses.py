"""The loss: what it compares, and its derivative. The one place that computes either.

`loss=` takes a name, a function of your own, or a `Loss` with a rate regulariser beside it:

    "spikes"     softmax cross-entropy of the outputs s_t, as logits, against the label
    "leaky"      the same of their leaky sum  o_t = λ o_{t-1} + s_t  (the F- rules)
    "membrane"   the same of the membrane of an output layer that does not spike
    "mse"        squared error, mean over the outputs, of the same outputs to a target; a label stands for its one-hot
    f            f(logits [B, C], target) -> [B], differentiable

Without one, a rule uses cross-entropy on what its readout says: "spikes", or "leaky" for the F- rules.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from otpe import check

Readout = Literal["spikes", "leaky"]
LossFunction = Callable[[Array, Array], Array]


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Softmax cross-entropy of logits [B, C] against labels [B], one number per sample."""
    shifted = logits - logits.max(-1, keepdims=True)
    right = labels[..., None] == jnp.arange(logits.shape[-1])
    return jnp.log(jnp.exp(shifted).sum(-1)) - jnp.where(right, shifted, 0).sum(-1)


def squared_error(outputs: Array, target: Array) -> Array:
    """Mean over the outputs [B, C] of their squared distance to targets [B, C], or to the one-hot of labels [B]."""
    if jnp.issubdtype(target.dtype, jnp.integer):
        target = (target[..., None] == jnp.arange(outputs.shape[-1])).astype(outputs.dtype)
    if target.shape[-1] != outputs.shape[-1]:
        raise ValueError(
            f"targets have {target.shape[-1]} numbers for {outputs.shape[-1]} outputs, expected one per output."
        )
    return jnp.square(outputs - target).mean(-1)


#          name       function           what it sees: None for what the rule says   may targets be real numbers?
NAMED = {
    "spikes":   (cross_entropy, "spikes", False),
    "leaky":    (cross_entropy, "leaky",  False),
    "membrane": (cross_entropy, "spikes", False),
    "mse":      (squared_error, None,     True),
}  # fmt: skip


@dataclass(frozen=True)
class Loss:
    """A loss function, and a penalty on rates.

    Args:
      function: a name from the list above, or f(logits [B, C], target) -> [B].
      rate: the share of neurons of a hidden layer that should spike at each time step.
      rate_weight: adds rate_weight · (mean_j s_tj − rate)² of every hidden layer that spikes to the loss of a step.
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
        """What the loss sees, if it says so itself."""
        return NAMED[self.function][1] if isinstance(self.function, str) else None  # type: ignore[return-value]

    @property
    def takes_reals(self) -> bool:
        """May targets be real numbers?"""
        if isinstance(self.function, str):
            return NAMED[self.function][2]
        return self.function is not None

    @property
    def each(self) -> LossFunction:
        """The loss of each sample."""
        if isinstance(self.function, str):
            return NAMED[self.function][0]
        return cross_entropy if self.function is None else self.function

    @property
    def name(self) -> str:
        if self.function is None or isinstance(self.function, str):
            return self.function or "cross-entropy"
        return getattr(self.function, "__name__", type(self.function).__name__)


DEFAULT = Loss()
LossChoice = str | LossFunction | Loss | None


def named(loss: LossChoice) -> Loss:
    """The loss that was asked for."""
    if isinstance(loss, Loss):
        return loss
    if loss is not None and not isinstance(loss, str) and (isinstance(loss, type) or not callable(loss)):
        raise TypeError(
            f"loss is {loss!r}, expected one of {', '.join(map(repr, NAMED))}, or a function of logits [B, C] and"
            " targets that returns one number per sample, [B]."
        )
    return DEFAULT if loss is None else Loss(loss)


def is_timed(target: Array) -> bool:
    """Does a target have an axis of time? Labels [T, B], or real numbers [T, B, C]."""
    return target.ndim == (2 if jnp.issubdtype(target.dtype, jnp.integer) else 3)


def value_and_signal(loss: Loss, logits: Array, target: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """The loss of logits [..., B, C], and its derivative by the logits.

    The mean over all rows [..., B], or their sum with these weights. `target` has the leading axes of the logits, or
    only that of the samples.
    """
    if loss.each is cross_entropy:
        return _cross_entropy(logits, target, weight)

    def total(logits: Array) -> Array:
        each = _of_each(loss, logits, target)
        return each.mean() if weight is None else (each * weight).sum()

    return jax.value_and_grad(total)(logits)


def of_outputs(
    net: Any, loss: Loss, readout: Readout, outputs: Sequence[Array], target: Array, weight: Array | None = None
) -> Array:
    """The loss of a network from the outputs [T, B, *out] of all its layers, such as `net.record` gives them."""
    logits = outputs[-1] if readout == "spikes" else net.leaky_sum(outputs[-1])
    total = value_and_signal(loss, logits, target, weight)[0]
    if loss.rate_weight:
        for neuron, output in zip(net.neurons[:-1], outputs[:-1], strict=True):
            if getattr(neuron, "spiking", False):
                total = total + rate_penalty(loss, output, output.ndim - 2, weight)[0]
    return total


def rate_penalty(loss: Loss, outputs: Array, rank: int, weight: Array | None = None) -> tuple[Array, Array]:
    """The penalty on the rate of one layer with outputs [..., B, *out], and its derivative; `rank` axes are *out."""
    axes = tuple(range(-rank, 0))
    off = outputs.mean(axes, keepdims=True) - loss.rate
    share = 1 / math.prod(outputs.shape[:-rank]) if weight is None else weight.reshape(*weight.shape, *(1,) * rank)
    count = math.prod(outputs.shape[-rank:])
    signal = 2 * loss.rate_weight / count * off * share
    return loss.rate_weight * (jnp.square(off) * share).sum(), jnp.broadcast_to(signal, outputs.shape)


def _of_each(loss: Loss, logits: Array, target: Array) -> Array:
    """One number per row [..., B]."""
    if logits.ndim > 2:
        in_axes = (0, 0 if is_timed(target) else None)
        return jax.vmap(lambda at, y: _of_each(loss, at, y), in_axes=in_axes)(logits, target)
    found = loss.each(logits, target)
    if not isinstance(found, jax.Array) or not jnp.issubdtype(found.dtype, jnp.floating):
        given = f"numbers of type {found.dtype}" if hasattr(found, "dtype") else repr(found)
        raise TypeError(
            f"loss {loss.name!r} returned {given}, expected real numbers [B] that depend on the logits: without a"
            " derivative nothing can be learned."
        )
    each = found
    if each.shape != logits.shape[:1]:
        raise ValueError(
            f"loss {loss.name!r} returned the shape {list(each.shape)} for logits {list(logits.shape)}, expected"
            f" {list(logits.shape[:1])}: one number per sample. Take the mean or the sum over the outputs, axis -1."
        )
    return each.astype(logits.dtype)


def _cross_entropy(logits: Array, labels: Array, weight: Array | None) -> tuple[Array, Array]:
    """The derivative, softmax − one-hot, is written out, since it fuses better."""
    shifted = logits - logits.max(-1, keepdims=True)
    right = labels[..., None] == jnp.arange(logits.shape[-1])
    grown = jnp.exp(shifted)
    total = grown.sum(-1, keepdims=True)
    share = 1 / math.prod(logits.shape[:-1]) if weight is None else weight[..., None]
    each = jnp.log(total) - jnp.where(right, shifted, 0).sum(-1, keepdims=True)
    loss = each.mean() if weight is None else (each * share).sum()
    return loss, (grown / total - right) * share


def predict(outputs: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """The class with the largest sum of outputs over time, [T, B, classes] -> [B]; −1 where no output was ever active.

    For spikes that is the class with the most of them. `mask` [T, B]: count only where it is true, see
    `SpikeBatch.mask`.
    """
    out = jnp.asarray(check.output_spikes(outputs))
    counted = out if mask is None else jnp.where(check.mask(mask, *out.shape[:2])[..., None], out, 0)
    return jnp.where((counted != 0).any((0, 2)), counted.sum(0).argmax(-1), -1)


def hits(outputs: Array, labels: Array, counted: Array) -> tuple[Array, Array]:
    """Number of right predictions, and number of predictions, where `counted` [T, B] is true.

    One per sample for labels [B], one per time step for labels [T, B].
    """
    if labels.ndim == 1:
        alive = counted.any(0)
        return ((predict(outputs, counted) == labels) & alive).sum(), alive.sum()
    right = jnp.where((outputs != 0).any(-1), outputs.argmax(-1), -1) == labels
    return (right & counted).sum(), counted.sum()


def accuracy(outputs: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """Share of samples whose prediction is right. Silence is wrong. `mask` as in `predict`.

    With labels per time step [T, B]: share of the steps whose largest output is that of the label.
    """
    out = jnp.asarray(check.output_spikes(outputs))
    labels = check.labels(out.shape[-1], labels, batch=out.shape[1], steps=out.shape[0])
    counted = jnp.ones(out.shape[:2], bool) if mask is None else check.mask(mask, *out.shape[:2])
    right, asked = hits(out, labels, counted)
    return right / (labels.size if labels.ndim == 1 else asked)
