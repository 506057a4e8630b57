"""The loss, and what it looks at.

Readout "spikes": the loss of step t sees the output spikes s_t, as 0/1 logits.
Readout "leaky":  it sees their leaky sum  o_t = λ o_{t-1} + s_t  (the F- rules).
"""

import math
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from otpe import check

Readout = Literal["spikes", "leaky"]


def cross_entropy_and_signal(logits: Array, labels: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Softmax cross-entropy of logits [..., B, classes] against labels [B], and its derivative by the logits.

    The mean over all rows [..., B], or their sum with these weights. The derivative, softmax − one-hot, is written out,
    since it fuses better.
    """
    shifted = logits - logits.max(-1, keepdims=True)
    right = labels[:, None] == jnp.arange(logits.shape[-1])
    grown = jnp.exp(shifted)
    total = grown.sum(-1, keepdims=True)
    share = 1 / math.prod(logits.shape[:-1]) if weight is None else weight[..., None]
    each = jnp.log(total) - jnp.where(right, shifted, 0).sum(-1, keepdims=True)
    loss = each.mean() if weight is None else (each * share).sum()
    return loss, (grown / total - right) * share


def predict(spikes: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """The class with the most output spikes over time, [T, B, classes] -> [B]; −1 where none ever spiked.

    `mask` [T, B]: count only where it is true, see `SpikeBatch.mask`.
    """
    out = jnp.asarray(check.outputs(spikes))
    counts = (out if mask is None else jnp.where(check.mask(mask, *out.shape[:2])[..., None], out, 0)).sum(0)
    return jnp.where(counts.max(-1) > 0, counts.argmax(-1), -1)


def accuracy(spikes: ArrayLike, labels: ArrayLike, mask: ArrayLike | None = None) -> Array:
    """Share of samples whose prediction is right. Silence is wrong. `mask` as in `predict`."""
    predicted = predict(spikes, mask)
    return (predicted == check.labels(np.shape(spikes)[-1], labels, batch=predicted.shape[0])).mean()
