"""The loops in plain JAX, for any device."""

from collections.abc import Callable
from typing import Any, TypeVar

import jax

Carry = TypeVar("Carry")
Step = Callable[[Carry, Any], tuple[Carry, Any]]


def recur(step: Step[Carry], carry: Carry, xs: Any, *, reverse: bool = False) -> tuple[Carry, Any]:
    """Run an elementwise `step(carry, x_t) -> (carry, y_t)` over the leading axis of `xs`.

    With `reverse` the last step comes first; the outputs keep the order of time.
    """
    return jax.lax.scan(step, carry, xs, reverse=reverse)


def loop(step: Step[Carry], carry: Carry, xs: Any) -> tuple[Carry, Any]:
    """Run `step(carry, x_t) -> (carry, y_t)` over the leading axis of `xs`, in order."""
    return jax.lax.scan(step, carry, xs)
