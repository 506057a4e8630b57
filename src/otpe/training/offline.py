"""The gradient of one mini-batch, offline, by any rule."""

from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from otpe import check, scan
from otpe.network import Network
from otpe.rulebook import Rule, whole
from otpe.rulebook.choose import TraceChoice, stepper
from otpe.rulebook.named import rule as named_rule

Form = Literal["whole", "steps"]


def gradients(
    net: Network,
    params: Any,
    spikes: ArrayLike,
    labels: ArrayLike,
    *,
    rule: str | Rule = "otpe",
    form: Form | None = None,
    traces: TraceChoice = "auto",
) -> tuple[Array, tuple[Any, ...]]:
    """The loss of a mini-batch, mean over time and samples, and its gradient by a learning rule.

    Args:
      spikes: input spikes [T, B, n_in], time first; counts are allowed.
      labels: whole numbers [B].
      rule: a name from `otpe.rules()`, or a composition of your own.
      form: "whole" filters the whole sequence backwards in time, the fast one; "steps" sums the per-step form.
        The same gradient from both. By default "whole", where the rule has it.
      traces: for `form="steps"`, see `otpe.stepper`.

    Returns:
      The loss, and the gradient in the shape of `params`.
    """
    rule = named_rule(rule)
    params = check.params(net, params)
    x = check.spikes(net, params, spikes, labels)
    y = check.labels(net.classes, labels, batch=x.shape[1])
    check.one_of("traces", traces, get_args(TraceChoice))
    return _gradients(net, rule, _form(rule, form), traces, params, x, y)


def _form(rule: Rule, form: Form | None) -> Form:
    has = {"whole": rule.has_whole, "steps": rule.has_steps}
    if form is None:
        return "whole" if has["whole"] else "steps"
    check.one_of("form", form, has)
    if not has[form]:
        other = "steps" if form == "whole" else "whole"
        raise ValueError(
            f"rule {rule.name!r} has no form {form!r}, only {other!r}. Use form={other!r}, or leave it out."
        )
    return form


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _gradients(
    net: Network, rule: Rule, form: Form, traces: TraceChoice, params: Any, x: Array, y: Array
) -> tuple[Array, tuple[Any, ...]]:
    if form == "whole":
        return whole.gradients(net, rule, params, x, y)

    steps, batch = x.shape[:2]
    step_form = stepper(net, rule, traces=traces, batch=batch, steps=steps)

    def add_step(carry: Any, x_t: Array) -> Any:
        state, total = carry
        state, info = step_form.advance(params, state, x_t)
        loss, grads = step_form.emit(params, state, info, y)
        return (state, jax.tree.map(lambda a, b: a + b / steps, total, (loss, grads))), None

    zero = (jnp.zeros((), x.dtype), jax.tree.map(jnp.zeros_like, params))
    (_, total), _ = scan.loop(add_step, (step_form.init(batch, x.dtype), zero), x)
    return total
