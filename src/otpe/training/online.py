"""One mini-batch, online: an optimizer update at every time step."""

from functools import partial
from typing import Any, get_args

import jax
import optax
from jax import Array
from jax.typing import ArrayLike

from otpe import check, scan
from otpe.network import Network
from otpe.rulebook import Rule
from otpe.rulebook.choose import TraceChoice, stepper
from otpe.rulebook.named import rule as named_rule
from otpe.training.optimizer import ByValue


def online_pass(
    net: Network,
    params: Any,
    opt_state: Any,
    spikes: ArrayLike,
    labels: ArrayLike,
    *,
    rule: str | Rule = "otpe",
    optimizer: optax.GradientTransformation,
    traces: TraceChoice = "auto",
) -> tuple[Any, Any, Array]:
    """Learn from one mini-batch step by step: every time step's loss makes one optimizer update.

    Membranes and traces start at rest. Arguments as in `otpe.gradients`, and

      opt_state: what `optimizer.init(params)`, or the last pass, returned.
      optimizer: any optax optimizer.
      traces: how rules with a trace per weight keep it, see `otpe.stepper`.

    Returns:
      The new parameters, the new optimizer state, and the loss of each step [T].
    """
    rule = named_rule(rule)
    params = check.params(net, params)
    x = check.spikes(net, params, spikes, labels)
    y = check.labels(net.classes, labels, batch=x.shape[1])
    check.one_of("traces", traces, get_args(TraceChoice))
    check.optimizer(optimizer)
    check.state(opt_state, jax.eval_shape(optimizer.init, params), "opt_state from optimizer.init(params)")
    return _online_pass(net, rule, ByValue(optimizer), traces, params, opt_state, x, y)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _online_pass(
    net: Network, rule: Rule, optimizer: ByValue, traces: TraceChoice, params: Any, opt_state: Any, x: Array, y: Array
) -> tuple[Any, Any, Array]:
    steps, batch = x.shape[:2]
    step_form = stepper(net, rule, traces=traces, batch=batch, steps=steps)
    update = optax.with_extra_args_support(optimizer.value).update  # some optimizers look at the loss

    def learn(carry: Any, x_t: Array) -> tuple[Any, Array]:
        params, opt_state, state = carry
        state, info = step_form.advance(params, state, x_t)
        loss, grads = step_form.emit(params, state, info, y)
        updates, opt_state = update(grads, opt_state, params, value=loss)
        return (optax.apply_updates(params, updates), opt_state, state), loss

    carry = (params, opt_state, step_form.init(batch, x.dtype))
    (params, opt_state, _), losses = scan.loop(learn, carry, x)
    return params, opt_state, losses
