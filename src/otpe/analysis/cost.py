"""The memory that a rule needs."""

from typing import Any, NamedTuple

import jax

from otpe.networks import Network
from otpe.rulebook import Rule, stepper
from otpe.rulebook.choose import TraceChoice


class StateBytes(NamedTuple):
    """Bytes that the per-step form carries from one step to the next. They do not depend on the number of steps.

    traces: the rule's traces; for factored traces, the inputs and neuron values that they are computed from.
    neurons: numbers per neuron, such as membrane, survival, average of the surrogate, and readout.
    """

    traces: int
    neurons: int

    @property
    def total(self) -> int:
        return self.traces + self.neurons


def state_bytes(
    net: Network,
    rule: str | Rule,
    *,
    batch: int = 1,
    traces: TraceChoice = "dense",
    steps: int | None = None,
    dtype: Any = "float32",
) -> StateBytes:
    """The size of a rule's per-step state on a network, without allocating it. Arguments are as in `otpe.stepper`."""
    form = stepper(net, rule, traces=traces, batch=batch, steps=steps)
    state = jax.eval_shape(lambda: form.init(batch, dtype))
    traces_only = _bytes(form.traces_of(state))
    return StateBytes(traces=traces_only, neurons=_bytes(state) - traces_only)


def _bytes(tree: Any) -> int:
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
