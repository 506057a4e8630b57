"""All loops over time. Two other places have their own: the oracles of `testing`, which share no code with what they
check, and `datasets.manifolds`, which draws random spikes.

There are three kinds of loops, with different costs:

`recur`  an elementwise recurrence: at each step the carry and the slices of `xs` are combined number by number, with
         no operation between neurons except broadcasting. It reads and writes each array once. On a GPU it is one
         kernel that loops over all steps with the carry in registers.
`replace`  an elementwise recurrence over another axis, such as samples, for large arrays that are updated in place.
`loop`   any other loop, such as a whole network step with an optimizer update.

No module outside this folder knows how the steps are executed.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from otpe.engine import Backend
from otpe.scan import plain
from otpe.scan.parts import Parts, Stacked, carry_shapes, step_shapes
from otpe.scan.plain import Carry, FixedStep, loop

__all__ = ["Parts", "Stacked", "loop", "recur", "replace"]

NO_KERNELS = (
    "jax {} cannot make the kernels of otpe ({}), so plain loops run instead. The results are the same, but several"
    " times slower on a GPU. Kernels need Pallas with Triton, as in jax 0.10 to 0.12."
)
NO_KERNEL = (
    "the step {!r} has no fused kernel, so a plain loop runs instead. The result is the same, but several times slower"
    " on a GPU. The reason: {}."
)


def recur(
    step: FixedStep[Carry],
    carry: Carry,
    xs: Any,
    *,
    fixed: Any = None,
    reverse: bool = False,
    backend: Backend = "plain",
) -> tuple[Carry, Any]:
    """Run an elementwise `step(fixed, carry, x_t) -> (carry, y_t)` over the leading axis of `xs`.

    Args:
      step: an elementwise function. It may use numbers and shapes from its scope, but no arrays: pass those in `fixed`.
      carry: arrays. They, `fixed`, and one step of `xs` broadcast to a common shape. A single number may stand for an
        array of equal numbers.
      fixed: arrays that are the same at every step.
      reverse: start with the last step. The outputs stay in order of time.
    """
    kernel = _kernel(backend, step, fixed, carry, xs, reverse=reverse)
    if kernel is None:
        return plain.recur(step, fixed, _broadcast_carry(step, fixed, carry, step_shapes(xs)), xs, reverse=reverse)
    return kernel.run(fixed, carry, xs)


def replace(
    step: Any, carry: Carry, old: Any, xs: Any, *, fixed: Any = None, backend: Backend = "plain"
) -> tuple[Carry, Any, Any]:
    """Run an elementwise `step(fixed, carry, old_k, x_k) -> (carry, new_k, y_k)` over the leading axis of `old`, `xs`.

    The new arrays replace the old ones. Each number is read once and written once. Otherwise like `recur`.
    """

    def update(fixed: Any, carry: Any, inputs: Any) -> Any:
        carry, new, y = step(fixed, carry, *inputs)
        return carry, (new, y)

    kernel = _kernel(backend, update, fixed, carry, (old, xs), replaced=len(jax.tree.leaves(old)))
    if kernel is None:
        return plain.replace(step, fixed, carry, old, xs)
    carry, (new, ys) = kernel.run(fixed, carry, (old, xs))
    return carry, new, ys


def _broadcast_carry(step: Any, fixed: Any, carry: Any, x: Any) -> Any:
    """The initial carry, broadcast to the shapes that it has after a step."""
    return jax.tree.map(lambda a, like: jnp.broadcast_to(a, like.shape), carry, carry_shapes(step, fixed, carry, x))


def _kernel(backend: Backend, *arguments: Any, **settings: Any) -> Any:
    """The kernel of a step on this backend. None, with a warning, if there is none."""
    if backend == "plain":
        return None
    try:
        from otpe.scan import pallas  # imported only if needed: it is slow to import, and not on every platform
    except ImportError as error:
        warnings.warn(NO_KERNELS.format(jax.__version__, error), stacklevel=2)
        return None
    kernel = pallas.kernel(*arguments, **settings, interpret=backend == "interpret")
    if isinstance(kernel, pallas.NoKernel):
        warnings.warn(NO_KERNEL.format(arguments[0].__name__, kernel.reason), stacklevel=2)
        return None
    return kernel
