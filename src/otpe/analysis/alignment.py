"""How close a rule's gradient is to the exact one: direction and size."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from otpe import check
from otpe.engine import Backend, Precision
from otpe.losses import Loss, LossChoice, as_loss
from otpe.networks import Network
from otpe.rulebook import Rule, rule, rules
from otpe.training import gradients


class Alignment(NamedTuple):
    """A rule's gradient g compared with BPTT's gradient b. A cosine is NaN if g or b is zero and has no direction.

    `layers` and `size` are shaped like the parameters, with one number per kernel and per bias.
    """

    layers: tuple[Any, ...]  # cosine g·b / |g||b|, per layer
    model: Array  # the same over all parameters at once
    size: tuple[Any, ...]  # |g| / |b|, per layer
    model_size: Array  # the same over all parameters at once


def alignment(
    net: Network,
    params: Any,
    spikes: ArrayLike,
    labels: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    rules: str | Rule | Sequence[str | Rule] = tuple(name for name in rules() if name not in ("bptt", "rtrl")),
    loss: LossChoice = None,
    precision: Precision = "float32",
    backend: Backend = "auto",
) -> dict[str, Alignment]:
    """Cosine to BPTT's gradient, and ratio of norms, for each rule on one mini-batch.

    Each rule is compared with BPTT on the rule's own loss: the F- rules are compared with BPTT on the leaky readout.
    `mask`, `loss`, `precision` and `backend` are as in `otpe.gradients`.
    """
    chosen_loss = as_loss(loss)
    chosen = tuple(rule(name, chosen_loss.readout) for name in ([rules] if isinstance(rules, str | Rule) else rules))
    names = [c.name for c in chosen]
    if len(set(names)) < len(names):
        raise ValueError(f"rules are {names}, expected different names: the results are stored by name.")
    params = check.params(net, params)
    x = check.spikes(net, params, spikes, labels)
    y = check.targets(net, chosen_loss, labels, *x.shape[1::-1])
    return _alignment(net, chosen, chosen_loss, precision, backend, params, x, y, mask)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _alignment(
    net: Network,
    chosen: tuple[Rule, ...],
    loss: Loss,
    precision: Precision,
    backend: Backend,
    params: Any,
    x: Array,
    y: Array,
    mask: Any,
) -> dict[str, Alignment]:
    def gradient(by: Rule) -> Any:
        return gradients(net, params, x, y, mask, rule=by, loss=loss, precision=precision, backend=backend)[1]

    exact: dict[str, Any] = {}
    for c in chosen:
        if c.readout not in exact:
            exact[c.readout] = gradient(rule("bptt", readout=c.readout))
    return {c.name: compare(gradient(c), exact[c.readout]) for c in chosen}


def compare(given: Any, exact: Any) -> Alignment:
    """The alignment of any two gradients of the same shape."""
    dot = jax.tree.map(lambda a, b: jnp.vdot(a, b, precision="highest"), given, exact)
    norms = [jax.tree.map(lambda a: jnp.vdot(a, a, precision="highest"), g) for g in (given, exact)]
    total = [sum(jax.tree.leaves(tree)) for tree in (dot, *norms)]
    return Alignment(
        layers=jax.tree.map(_cosine, dot, *norms),
        model=_cosine(*total),
        size=jax.tree.map(_ratio, *norms),
        model_size=_ratio(*total[1:]),
    )


def _cosine(dot: Any, given: Any, exact: Any) -> Array:
    """The cosine, from the inner product and the two squared norms. NaN for a zero gradient."""
    return dot / (jnp.sqrt(given) * jnp.sqrt(exact))


def _ratio(given: Any, exact: Any) -> Array:
    return jnp.sqrt(given) / jnp.sqrt(exact)
