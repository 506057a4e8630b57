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
from otpe.rulebook.named import rule_and_loss

Form = Literal["whole", "steps"]
MEMORY = 2**30  # bytes of activity above which a long sequence is cut into chunks and computed twice
ROWS = 1280  # time steps times samples that a CPU works on at a time
ON_A_GRID = 2**18  # the same times neurons, for layers on a grid: their products are large for a single step already


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
    """The loss of a mini-batch, mean over time and samples, and its gradient by a learning rule.

    Args:
      spikes: input spikes [T, B, n_in], time first; counts are allowed. As bool or uint8 they are fastest on a GPU.
      labels: whole numbers [B], or [T, B] for a label per time step; for some losses real numbers [B, C] or [T, B, C].
      mask: true [T, B] where a sample has time steps of its own; the mean is over those (`SpikeBatch.mask`).
      rule: a name from `otpe.rules()`, or a composition of your own.
      loss: "spikes", "leaky", "membrane", "mse", a function f(logits [B, C], target) -> [B], or an `otpe.Loss`; see
        `otpe.losses`. By default cross-entropy on what the rule's readout says.
      form: "whole" filters the whole sequence backwards in time, the fast one; "steps" sums the per-step form.
        The same gradient from both. By default "whole", where the rule has it.
      traces: for `form="steps"`, see `otpe.stepper`.
      chunk: for `form="whole"`, how many steps to keep in memory at a time; the rest is computed again when needed.
        The same gradient. By default all, or as many as fit in about 1 GiB.
      precision: of matrix products on a GPU: "float32", "tf32" or "bf16", the fastest and least exact.
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
    form, how = _form(rule, form), engine(backend, precision, params)
    if form == "steps" and chunk is not None:
        raise ValueError(f"chunk is {chunk}, but form='steps' keeps no sequence to cut. Leave chunk out.")
    if form == "whole":
        return _whole(_plan(whole.Plan(net, rule, loss), how, chunk, params, x), how, params, x, y, *weight)
    return _steps(net, rule, loss, how, traces, params, x, y, *weight)


def _shares(mask: Array, params: Any) -> Array:
    """What each step of each sample has of the mean."""
    return mask.astype(jax.tree.leaves(params)[0].dtype) / mask.sum()


def _plan(plan: whole.Plan, how: Engine, chunk: int | None, params: Any, x: Array) -> whole.Plan:
    """How many steps at a time, if not all."""
    steps, batch = x.shape[:2]
    neurons = sum(math.prod(layer.out_shape) for layer in plan.net.layers)
    numbers = 4 * neurons  # per neuron about s, v, ḡ and q
    step = batch * numbers * jax.tree.leaves(params)[0].dtype.itemsize
    if chunk is not None or steps * step > MEMORY:
        return plan._replace(chunk=chunk or max(1, MEMORY // step))
    flat = all(len(layer.out_shape) == 1 for layer in plan.net.layers)
    rows = ROWS if flat else ON_A_GRID // neurons
    if how.backend == "plain" and steps * batch > rows:
        return plan._replace(chunk=max(1, rows // batch), keep=True)
    return plan


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


_whole = jax.jit(plain_when_differentiated(whole.gradients), static_argnums=(0, 1))


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _steps(
    net: Network,
    rule: Rule,
    loss: Loss,
    how: Engine,
    traces: TraceChoice,
    params: Any,
    x: Array,
    y: Array,
    weight: Array | None = None,
) -> tuple[Array, tuple[Any, ...]]:
    (steps, batch), dtype = x.shape[:2], jax.tree.leaves(params)[0].dtype
    narrow, timed = x.dtype.itemsize == 1, is_timed(y)
    step_form = stepper(net, rule, traces=traces, batch=batch, steps=steps, narrow=narrow, loss=loss, **vars(how))

    def add_step(carry: Any, at: Any) -> Any:
        (state, total), (x_t, y_t, w_t) = carry, at
        state, _, value, grads = step_form.learn(params, state, x_t, y_t if timed else y, w_t)
        share = steps if weight is None else 1
        return (state, jax.tree.map(lambda a, b: a + b / share, total, (value, grads))), None

    zero = (jnp.zeros((), dtype), jax.tree.map(jnp.zeros_like, params))
    (_, total), _ = scan.loop(add_step, (step_form.init(batch, dtype), zero), (x, y if timed else None, weight))
    return total
