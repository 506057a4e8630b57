"""The gradient of one mini-batch, offline, by any rule."""

import math
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from otpe import check, scan
from otpe.engine import Backend, Engine, Precision, engine, plain_when_differentiated
from otpe.losses import Loss, LossChoice, is_timed
from otpe.networks import Network
from otpe.rulebook import Rule, whole
from otpe.rulebook.choose import TraceChoice, stepper
from otpe.rulebook.named_rules import rule_and_loss

Form = Literal["whole", "steps"]
MEMORY = 2**30  # bytes; a sequence whose activity needs more is cut into chunks, and each chunk is computed twice
ROWS = 1280  # time steps times samples per chunk on a CPU
ROWS_TIMES_NEURONS = 2**18  # limit for layers on a grid, whose products are large even for a single step


def gradients(
    net: Network,
    params: Any,
    spikes: ArrayLike,
    labels: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    rule: str | Rule = "otpe",
    loss: LossChoice = None,
    form: Form | None = None,
    traces: TraceChoice = "auto",
    chunk: int | None = None,
    precision: Precision = "float32",
    backend: Backend = "auto",
) -> tuple[Array, tuple[Any, ...]]:
    """The loss of a mini-batch, as a mean over time and samples, and its gradient by a learning rule.

    Args:
      spikes: input spikes [T, B, n_in], time first. Spike counts are allowed. On a GPU, bool and uint8 are fastest.
      labels: whole numbers [B], or [T, B] for a label per time step. Some losses take real numbers [B, C] or [T, B, C].
      mask: [T, B], true for the time steps that belong to a sample (`SpikeBatch.mask`). The mean is over these steps.
      rule: a name from `otpe.rules()`, or your own composition.
      loss: "spikes", "leaky", "membrane", "mse", a function f(logits [B, C], target) -> [B], or an `otpe.Loss`; see
        `otpe.losses`. The default is the cross-entropy of the rule's readout.
      form: "whole" filters the whole sequence backwards in time and is fast. "steps" sums the per-step form. Both give
        the same gradient. The default is "whole" if the rule has it.
      traces: for `form="steps"`, see `otpe.stepper`.
      chunk: for `form="whole"`, the number of time steps to keep in memory at once. Other steps are computed again when
        needed. Does not change gradients. The default is all steps, or as many as fit in about 1 GiB.
      precision: of matrix products on a GPU: "float32", "tf32" or "bf16". "bf16" is the fastest and least exact.
      backend: "auto", "plain" or "pallas", see `otpe.engine`.

    Returns:
      The loss, and the gradient in the shape of `params`.
    """
    rule, loss = rule_and_loss(rule, loss)
    params = check.params(net, params)
    x = check.spikes(net, params, spikes, labels)
    y = check.targets(net, loss, labels, *x.shape[1::-1])
    weight = () if mask is None else (_shares(check.mask(mask, *x.shape[:2]), params),)
    check.one_of("traces", traces, get_args(TraceChoice))
    check.count("chunk", 1 if chunk is None else chunk)
    form, chosen_engine = _form(rule, form), engine(backend, precision, params)
    if form == "steps" and chunk is not None:
        raise ValueError(f"chunk is {chunk}, but form='steps' stores no sequence that could be cut. Leave chunk out.")
    if form == "whole":
        plan = _plan(whole.Plan(net, rule, loss), chosen_engine, chunk, params, x)
        return _whole(plan, chosen_engine, params, x, y, *weight)
    return _steps(net, rule, loss, chosen_engine, traces, params, x, y, *weight)


def _shares(mask: Array, params: Any) -> Array:
    """The weight of each step of each sample in the mean."""
    return mask.astype(jax.tree.leaves(params)[0].dtype) / mask.sum()


def _plan(plan: whole.Plan, engine: Engine, chunk: int | None, params: Any, x: Array) -> whole.Plan:
    """Return the plan with a number of steps per chunk, or unchanged to compute the whole sequence at once."""
    steps, batch = x.shape[:2]
    neurons = sum(math.prod(layer.out_shape) for layer in plan.net.layers)
    numbers = 4 * neurons  # about s, v, ḡ and q of each neuron
    bytes_per_step = batch * numbers * jax.tree.leaves(params)[0].dtype.itemsize
    if chunk is not None or steps * bytes_per_step > MEMORY:
        return plan._replace(chunk=chunk or max(1, MEMORY // bytes_per_step))
    flat = all(len(layer.out_shape) == 1 for layer in plan.net.layers)
    rows = ROWS if flat else ROWS_TIMES_NEURONS // neurons
    if engine.backend == "plain" and steps * batch > rows:
        return plan._replace(chunk=max(1, rows // batch), keep=True)
    return plan


def _form(rule: Rule, form: Form | None) -> Form:
    """The form to use. Raises ValueError if the rule does not have it."""
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


_whole = jax.jit(plain_when_differentiated(whole.gradients), static_argnums=(0, 1))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _steps(
    net: Network,
    rule: Rule,
    loss: Loss,
    engine: Engine,
    traces: TraceChoice,
    params: Any,
    x: Array,
    y: Array,
    weight: Array | None = None,
) -> tuple[Array, tuple[Any, ...]]:
    (steps, batch), dtype = x.shape[:2], jax.tree.leaves(params)[0].dtype
    narrow, timed = x.dtype.itemsize == 1, is_timed(y)
    step_form = stepper(net, rule, traces=traces, batch=batch, steps=steps, narrow=narrow, loss=loss, **vars(engine))

    def add_step(carry: Any, inputs: Any) -> Any:
        (state, total), (x_t, y_t, w_t) = carry, inputs
        state, _, value, grads = step_form.learn(params, state, x_t, y_t if timed else y, w_t)
        share = steps if weight is None else 1
        return (state, jax.tree.map(lambda a, b: a + b / share, total, (value, grads))), None

    zero = (jnp.zeros((), dtype), jax.tree.map(jnp.zeros_like, params))
    (_, total), _ = scan.loop(add_step, (step_form.init(batch, dtype), zero), (x, y if timed else None, weight))
    return total
