"""Every loop over time in the project, but for the oracles in `testing`, which share nothing with what they judge.

Kinds that have different floors:

`recur`  an elementwise recurrence: at each step the carry and the slices of `xs` are combined number by
         number, with nothing but broadcasting between them. One pass over memory; on a GPU, one kernel that walks all
         steps with the carry in registers.
`replace`  the same over another axis, such as that of samples, for large arrays that are updated in place.
`loop`   anything else, such as a whole network step with an optimizer update in it.

Nothing outside this folder knows how the steps are executed.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp

from otpe.engine import Backend
from otpe.scan import plain
from otpe.scan.parts import Parts, Stacked, one_step, settled
from otpe.scan.plain import Carry, FixedStep, loop

__all__ = ["Parts", "Stacked", "loop", "recur", "replace"]

NO_KERNELS = (
    "jax {} cannot make the kernels of otpe ({}), so plain loops run instead: the same numbers, on a GPU several times"
    " slower. Kernels need Pallas with Triton, as in jax 0.10 to 0.12."
)
NO_KERNEL = (
    "the step {!r} has no fused kernel, so a plain loop runs instead: the same numbers, on a GPU several times slower."
    " The reason: {}."
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
      step: may use numbers and shapes from around it, but no arrays: those go into `fixed`.
      carry: arrays that broadcast to the shape of the widest, as all others here do, time aside. One number may stand
        for an array full of it.
      fixed: arrays that stay the same at every step.
      reverse: the last step comes first; the outputs keep the order of time.
    """
    kernel = _kernel(backend, step, fixed, carry, xs, reverse=reverse)
    if kernel is None:
        return plain.recur(step, fixed, _at_full_size(step, fixed, carry, one_step(xs)), xs, reverse=reverse)
    return kernel.run(fixed, carry, xs)


def replace(
    step: Any, carry: Carry, old: Any, xs: Any, *, fixed: Any = None, backend: Backend = "plain"
) -> tuple[Carry, Any, Any]:
    """Run an elementwise `step(fixed, carry, old_k, x_k) -> (carry, new_k, y_k)` over the leading axis of `old`, `xs`.

    The new arrays take the place of the old ones, each number read once and written once. Otherwise like `recur`.
    """

    def update(fixed: Any, carry: Any, at: Any) -> Any:
        carry, new, y = step(fixed, carry, *at)
        return carry, (new, y)

    kernel = _kernel(backend, update, fixed, carry, (old, xs), replaced=len(jax.tree.leaves(old)))
    if kernel is None:
        return plain.replace(step, fixed, carry, old, xs)
    carry, (new, ys) = kernel.run(fixed, carry, (old, xs))
    return carry, new, ys


def _at_full_size(step: Any, fixed: Any, carry: Any, x: Any) -> Any:
    return jax.tree.map(lambda a, like: jnp.broadcast_to(a, like.shape), carry, settled(step, fixed, carry, x))


def _kernel(backend: Backend, *given: Any, **how: Any) -> Any:
    if backend == "plain":
        return None
    try:
        from otpe.scan import pallas  # only where it is wanted: it takes long to import, and not every platform has it
    except ImportError as error:
        warnings.warn(NO_KERNELS.format(jax.__version__, error), stacklevel=2)
        return None
    kernel = pallas.kernel(*given, **how, interpret=backend == "interpret")
    if isinstance(kernel, pallas.NoKernel):
        warnings.warn(NO_KERNEL.format(given[0].__name__, kernel.reason), stacklevel=2)
        return None
    return kernel
