"""The loops in plain JAX, for any device."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from otpe.scan.parts import Parts, Stacked, leaves

Carry = TypeVar("Carry")
Step = Callable[[Carry, Any], tuple[Carry, Any]]
FixedStep = Callable[[Any, Carry, Any], tuple[Carry, Any]]


def recur(step: FixedStep[Carry], fixed: Any, carry: Carry, xs: Any, *, reverse: bool = False) -> tuple[Carry, Any]:
    """See `otpe.scan.recur`."""

    def one_step(carry: Carry, x: Any) -> tuple[Carry, Any]:
        carry, y = step(fixed, carry, _map(_unstack, x))
        return carry, _map(_stack, y)

    return jax.lax.scan(one_step, carry, xs, reverse=reverse)


def replace(step: Any, fixed: Any, carry: Any, old: Any, xs: Any) -> tuple[Any, Any, Any]:
    """See `otpe.scan.replace`."""

    def one_step(carry: Any, at: Any) -> tuple[Any, Any]:
        carry, new, y = step(fixed, carry, *at)
        return carry, (new, _map(_stack, y))

    carry, (new, ys) = jax.lax.scan(one_step, carry, (old, xs))
    return carry, new, ys


def loop(step: Step[Carry], carry: Carry, xs: Any, *, reverse: bool = False) -> tuple[Carry, Any]:
    """See `otpe.scan.loop`."""
    return jax.lax.scan(step, carry, xs, reverse=reverse)


def _map(change: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to each array of a tree. `Parts` and `Stacked` count as one array."""
    arrays, structure = leaves(tree)
    return jax.tree.unflatten(structure, [change(a) for a in arrays])


def _unstack(x: Any) -> Any:
    return Parts(tuple(x.array[:, k] for k in range(x.array.shape[1]))) if isinstance(x, Stacked) else x


def _stack(y: Any) -> Any:
    return Stacked(jnp.stack(y.arrays, axis=1)) if isinstance(y, Parts) else y
