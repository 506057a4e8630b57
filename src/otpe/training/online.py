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
from otpe.rulebook.named import rule_and_loss
from otpe.rulebook.rule import StepForm
from otpe.training.optimizer import ByValue

QUARTERS = 4  # more would save little, and compile longer


def online_pass(
    net: Network,
    params: Any,
    opt_state: Any,
    spikes: ArrayLike,
    labels: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    rule: str | Rule = "otpe",
    optimizer: optax.GradientTransformation,
    loss: LossChoice = None,
    every: int = 1,
    traces: TraceChoice = "auto",
    precision: Precision = "float32",
    backend: Backend = "auto",
    donate: bool = False,
) -> tuple[Any, Any, Array]:
    """Learn from one mini-batch step by step: every time step's loss makes one optimizer update.

    Membranes and traces start at rest. Arguments as in `otpe.gradients`, and

      mask: true [T, B] where a sample has time steps of its own. A step's loss is the mean over the samples that are
        still running; where none is, nothing is updated.
      opt_state: what `optimizer.init(params)`, or the last pass, returned.
      optimizer: any optax optimizer.
      loss: as in `otpe.gradients`.
      every: update after this many time steps, by the gradient of their mean loss; what is left at the end makes an
        update too. As many as there are time steps: one update, by the gradient of `otpe.gradients`.
      traces: how rules with a trace per weight keep it, see `otpe.stepper`.
      precision, backend: as in `otpe.gradients`.
      donate: let the new parameters and optimizer state take the place of those given, which cannot be used any more.

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
    check.state(opt_state, jax.eval_shape(optimizer.init, params), "opt_state from optimizer.init(params)")
    how = engine(backend, precision, params)
    learn = _online_pass_in_place if donate else _online_pass
    return learn(net, rule, loss, ByValue(optimizer), every, traces, how, params, opt_state, x, y, running)


def _learn_online(
    net: Network,
    rule: Rule,
    loss: Loss,
    optimizer: ByValue,
    every: int,
    traces: TraceChoice,
    how: Engine,
    params: Any,
    opt_state: Any,
    x: Array,
    y: Array,
    running: Array | None,
) -> tuple[Any, Any, Array]:
    (steps, batch), narrow = x.shape[:2], x.dtype.itemsize == 1
    update = optax.with_extra_args_support(optimizer.value).update  # some optimizers look at the loss
    choice = stepper(net, rule, traces=traces, batch=batch, steps=steps, narrow=narrow, loss=loss, **vars(how))
    timed = is_timed(y)

    def learn(form: StepForm, carry: Any, group: Any) -> tuple[Any, Array]:
        """One update, by the mean loss of a group of steps."""
        if every == 1:
            group = jax.tree.map(lambda a: a[None], group)
        (params, opt_state, state), (_, _, running_then) = carry, group
        state, losses, mean, grads = _gradient(form, params, state, None if timed else y, *group)
        updates, new_opt_state = update(grads, opt_state, params, value=mean)
        learned = (optax.apply_updates(params, updates), new_opt_state)
        if running_then is not None:  # momentum would go on moving weights after the last sample has ended
            learned = jax.tree.map(partial(jnp.where, running_then.any()), learned, (params, opt_state))
        return (*learned, state), losses

    losses, stretches = [], _stretches(choice, steps, every)
    state = choice.remembering(stretches[0].stop).init(batch, jax.tree.leaves(params)[0].dtype)
    for stretch in stretches:
        form = choice.remembering(stretch.stop)
        groups = jax.tree.map(partial(_grouped, stretch, every), (x, y if timed else None, running))
        (params, opt_state, state), more = scan.loop(
            partial(learn, form), (params, opt_state, form.widen(state)), groups
        )
        losses.append(more.reshape(-1))
    return params, opt_state, jnp.concatenate(losses)


def _gradient(
    form: StepForm, params: Any, state: Any, y: Array | None, x: Array, ys: Array | None, running: Array | None
) -> tuple[Any, Array, Array, Any]:
    """The state after a group of steps [k, B, …], the loss of each of them, their mean and its gradient.

    The target is `y` at every step, or `ys`, one for each.
    """
    group = len(x)
    own = None if running is None else running.sum(1)  # samples that are still running, [k]
    shares = jnp.full(group, 1 / group) if own is None else own / jnp.maximum(own.sum(), 1)
    shares = shares.astype(jax.tree.leaves(params)[0].dtype)

    def one(state: Any, at: Any) -> Any:
        x_t, y_t, running_t = at
        weight = None if running_t is None else _shares(running_t, params)
        state, _, loss, grads = form.learn(params, state, x_t, y if y_t is None else y_t, weight)  # type: ignore[arg-type]
        return state, (loss, grads)

    if group == 1:
        state, (loss, grads) = one(state, jax.tree.map(lambda a: a[0], (x, ys, running)))
        return state, loss[None], loss, grads

    def add(carry: Any, at: Any) -> Any:
        (state, total), (share, *now) = carry, at
        state, (loss, grads) = one(state, now)
        return (state, jax.tree.map(lambda a, b: a + share * b, total, grads)), loss

    (state, grads), losses = scan.loop(add, (state, jax.tree.map(jnp.zeros_like, params)), (shares, x, ys, running))
    return state, losses, shares @ losses, grads


_online_pass = jax.jit(_learn_online, static_argnums=(0, 1, 2, 3, 4, 5, 6))
_online_pass_in_place = jax.jit(_learn_online, static_argnums=(0, 1, 2, 3, 4, 5, 6), donate_argnums=(7, 8))


def _shares(running: Array, params: Any) -> Array:
    """What each sample [B] has of the mean over those that are still running."""
    return running.astype(jax.tree.leaves(params)[0].dtype) / jnp.maximum(running.sum(), 1)


def _grouped(stretch: slice, every: int, sequence: Array) -> Array:
    """[groups, steps of each, …]: those of a stretch, which has only whole groups or is a shorter one by itself.

    Single steps stay as they are, [steps, …]: an axis more would be a copy of the whole sequence.
    """
    part = sequence[stretch]
    if every == 1:
        return part
    return part.reshape(-1, min(every, len(part)), *part.shape[1:])


def _stretches(form: StepForm, steps: int, every: int) -> list[slice]:
    """Parts of a sequence with only whole groups of steps, but for a shorter group at the end, alone.

    Where rows are added as the sequence goes on, a quarter of them at a time: early steps then pay for what there is to
    remember, not for what there will be.
    """
    whole = steps // every
    cuts = [round(k * whole / QUARTERS) for k in range(QUARTERS + 1)] if form.grows else [0, whole]
    return [slice(a, b) for a, b in pairwise([*(cut * every for cut in cuts), steps]) if b > a]
