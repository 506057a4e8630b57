"""Every loop over time in the project, but for the oracles in `testing`, which share nothing with what they judge.

Two kinds, because they have different floors:

`recur`  an elementwise recurrence: at each step the carry and the slices of `xs` are combined number by
         number, with nothing but broadcasting between them. One pass over memory; on a GPU, one kernel that walks all
         steps with the carry in registers.
`loop`   anything else, such as a whole network step with an optimizer update in it.

Nothing outside this folder knows how the steps are executed.
"""

from typing import Any

import jax

from otpe.engine import Backend
from otpe.scan import plain
from otpe.scan.parts import Parts, Stacked
from otpe.scan.plain import Carry, FixedStep, loop

__all__ = ["Parts", "Stacked", "loop", "recur"]


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
      carry: arrays that broadcast to the shape of the widest, as all others here do, time aside.
      fixed: arrays that stay the same at every step.
      reverse: the last step comes first; the outputs keep the order of time.
    """

    def run_plain(fixed: Any, carry: Any, xs: Any) -> Any:
        return plain.recur(step, fixed, carry, xs, reverse=reverse)

    if backend == "plain":
        return run_plain(fixed, carry, xs)

    from otpe.scan import pallas  # not every platform has it

    if not pallas.can_run(step, fixed, carry, xs):
        return run_plain(fixed, carry, xs)

    @jax.custom_jvp
    def run(fixed: Any, carry: Any, xs: Any) -> Any:
        return pallas.recur(step, fixed, carry, xs, reverse=reverse, interpret=backend == "interpret")

    @run.defjvp
    def _(primals: Any, tangents: Any) -> Any:  # a kernel has no derivative; the same steps in plain JAX do
        return jax.jvp(run_plain, primals, tangents)

    return run(fixed, carry, xs)
