"""One mini-batch, online: an optimizer update at every time step."""

from functools import partial
from itertools import pairwise
from typing import Any, get_args

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.typing import ArrayLike

from otpe import check, scan
from otpe.engine import Backend, Engine, Precision, engine
from otpe.losses import Loss, LossChoice, is_timed
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.rulebook.choose import TraceChoice, stepper
from otpe.rulebook.named_rules import rule_and_loss
from otpe.rulebook.rule import StepForm
from otpe.training.interned import Interned, interned
from otpe.training.optimizer import Optimizer

SEGMENTS = 4  # more segments would save little time and compile longer


def online_pass(
    net: Network,
    params: Any,
    opt_state: Any,
    spikes: ArrayLike,
    labels: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    rule: str | Rule = "otpe",
    optimizer: optax.GradientTransformation | Optimizer,
    loss: LossChoice = None,
    every: int = 1,
    traces: TraceChoice = "auto",
    precision: Precision = "float32",
    backend: Backend = "auto",
    donate: bool = False,
) -> tuple[Any, Any, Array]:
    """Learn from one mini-batch step by step: each time step's loss makes one optimizer update.

    Neurons and traces start at rest. Arguments not listed here are as in `otpe.gradients`.

    Args:
      mask: [T, B], true for the time steps that belong to a sample. The loss of a step is the mean over the samples
        that are still running. A step without such a sample makes no update.
      opt_state: what `optimizer.init(params)`, or the last pass, returned.
      optimizer: any optax optimizer, or an `otpe.Optimizer`.
      every: number of time steps per update. An update uses the gradient of their mean loss. The steps left over at
        the end also make an update. If `every` is the number of time steps, there is one update, with the gradient of
        `otpe.gradients`.
      traces: how a rule with a trace per weight stores it, see `otpe.stepper`.
      donate: let the new parameters and optimizer state reuse the memory of the given ones. The given ones can then
        not be used again.

    Returns:
      The new parameters, the new optimizer state, and the loss of each step [T].
    """
    rule, loss = rule_and_loss(rule, loss)
    params = check.params(net, params)
    x = check.spikes(net, params, spikes, labels)
    y = check.targets(net, loss, labels, *x.shape[1::-1])
    running = None if mask is None else check.mask(mask, *x.shape[:2])
    check.one_of("traces", traces, get_args(TraceChoice))
    check.optimizer(optimizer)
    check.flag("donate", donate)
    every = min(check.count("every", every), x.shape[0])
    chosen_optimizer = interned(optimizer, params)
    check.state(opt_state, chosen_optimizer.state, "opt_state from optimizer.init(params)")
    chosen_engine = engine(backend, precision, params)
    learn = _online_pass_in_place if donate else _online_pass
    return learn(net, rule, loss, chosen_optimizer, every, traces, chosen_engine, params, opt_state, x, y, running)


def _learn_online(
    net: Network,
    rule: Rule,
    loss: Loss,
    optimizer: Interned,
    every: int,
    traces: TraceChoice,
    engine: Engine,
    params: Any,
    opt_state: Any,
    x: Array,
    y: Array,
    running: Array | None,
) -> tuple[Any, Any, Array]:
    (steps, batch), narrow = x.shape[:2], x.dtype.itemsize == 1
    step_form = stepper(net, rule, traces=traces, batch=batch, steps=steps, narrow=narrow, loss=loss, **vars(engine))
    timed = is_timed(y)

    def learn(form: StepForm, carry: Any, group: Any) -> tuple[Any, Array]:
        """One update, with the gradient of the mean loss of a group of steps."""
        if every == 1:
            group = jax.tree.map(lambda a: a[None], group)
        (params, opt_state, state), (_, _, group_running) = carry, group
        state, losses, mean, grads = _gradient(form, params, state, None if timed else y, *group)
        updates, new_opt_state = optimizer.update(grads, opt_state, params, value=mean)
        learned = (optax.apply_updates(params, updates), new_opt_state)
        if group_running is not None:  # without running samples, momentum must not change the weights
            learned = jax.tree.map(partial(jnp.where, group_running.any()), learned, (params, opt_state))
        return (*learned, state), losses

    losses, segments = [], _segments(step_form, steps, every)
    state = step_form.remembering(segments[0].stop).init(batch, jax.tree.leaves(params)[0].dtype)
    for segment in segments:
        form = step_form.remembering(segment.stop)
        groups = jax.tree.map(partial(_grouped, segment, every), (x, y if timed else None, running))
        (params, opt_state, state), segment_losses = scan.loop(
            partial(learn, form), (params, opt_state, form.widen(state)), groups
        )
        losses.append(segment_losses.reshape(-1))
    return params, opt_state, jnp.concatenate(losses)


def _gradient(
    form: StepForm, params: Any, state: Any, y: Array | None, x: Array, ys: Array | None, running: Array | None
) -> tuple[Any, Array, Array, Any]:
    """The state after a group of steps [k, B, …], the loss of each step, the mean loss and its gradient.

    The target of step k is `ys[k]`, or `y` if `ys` is None.
    """
    group = len(x)
    counts = None if running is None else running.sum(1)  # samples that are still running, [k]
    shares = jnp.full(group, 1 / group) if counts is None else counts / jnp.maximum(counts.sum(), 1)
    shares = shares.astype(jax.tree.leaves(params)[0].dtype)

    def one(state: Any, inputs: Any) -> Any:
        x_t, y_t, running_t = inputs
        weight = None if running_t is None else _shares(running_t, params)
        state, _, loss, grads = form.learn(params, state, x_t, y if y_t is None else y_t, weight)  # type: ignore[arg-type]
        return state, (loss, grads)

    if group == 1:
        state, (loss, grads) = one(state, jax.tree.map(lambda a: a[0], (x, ys, running)))
        return state, loss[None], loss, grads

    def add(carry: Any, inputs: Any) -> Any:
        (state, total), (share, *step) = carry, inputs
        state, (loss, grads) = one(state, step)
        return (state, jax.tree.map(lambda a, b: a + share * b, total, grads)), loss

    (state, grads), losses = scan.loop(add, (state, jax.tree.map(jnp.zeros_like, params)), (shares, x, ys, running))
    return state, losses, shares @ losses, grads


_online_pass = jax.jit(_learn_online, static_argnums=(0, 1, 2, 3, 4, 5, 6))
_online_pass_in_place = jax.jit(_learn_online, static_argnums=(0, 1, 2, 3, 4, 5, 6), donate_argnums=(7, 8))


def _shares(running: Array, params: Any) -> Array:
    """The weight of each sample [B] in the mean over the samples that are still running."""
    return running.astype(jax.tree.leaves(params)[0].dtype) / jnp.maximum(running.sum(), 1)


def _grouped(segment: slice, every: int, sequence: Array) -> Array:
    """The groups of a segment: [groups, steps per group, …]. A segment has whole groups only, or one shorter group.

    For `every` 1 the shape stays [steps, …], because another axis would need a copy of the whole sequence.
    """
    part = sequence[segment]
    if every == 1:
        return part
    return part.reshape(-1, min(every, len(part)), *part.shape[1:])


def _segments(form: StepForm, steps: int, every: int) -> list[slice]:
    """Cut a sequence into segments with whole groups of steps. A shorter group at the end is its own segment.

    If the form remembers a growing number of steps, there is one segment per quarter of the sequence. Early steps then
    cost only as much as the steps before them.
    """
    whole = steps // every
    cuts = [round(k * whole / SEGMENTS) for k in range(SEGMENTS + 1)] if form.grows else [0, whole]
    return [slice(a, b) for a, b in pairwise([*(cut * every for cut in cuts), steps]) if b > a]
