"""The programs of a streaming learner on the device: one time step of a stream, or a block of them.

Every step starts with the same forward pass, so a program that learns from a step also returns what the network
predicted before. A program takes over the arrays of the learner's memory and returns new ones. So memory is never
copied, and never grows.

If numbers are not finite, the loss is infinite. Each step checks membranes and biases at no cost: it adds them, times
zero, to the spikes, whose mean it computes anyway. A weight that is not finite makes the membrane of its neuron not
finite at the next step. The end of a block checks all weights.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from otpe import memory as machine
from otpe import scan
from otpe.networks import Network, one_step
from otpe.rulebook.rule import StepForm
from otpe.stream.cell import Program, from_leaves
from otpe.training.interned import Interned

NO_LABEL = -1  # the label of a step that is only observed


class Memory(NamedTuple):
    """All that a learner remembers. Saved learners use the names of the fields."""

    params: Any
    opt_state: Any
    state: Any  # membranes and traces, of the rule's per-step form
    scores: Array  # [classes] leaky sum of output spikes
    total: Any  # loss and gradient, summed since the last update; None if every step makes an update
    labelled: Array  # number of steps in that sum
    present: Any = None  # with a delay: membranes and scores after the newest step; all other fields are `delay` behind


class StepOutput(NamedTuple):
    """What a step returns."""

    scores: Array  # [classes] before learning from the step
    loss: Array  # NaN without a label; infinite if weights or membranes are not finite
    rates: Array  # [layers] share of the neurons that spiked
    spikes: Array  # [classes] of the output neurons


@dataclass(frozen=True)
class ProgramSettings:
    """All that decides which programs are compiled."""

    net: Network
    form: StepForm
    optimizer: Interned
    every: int  # labelled steps per update
    delayed: bool  # whether labels may come late, so that learning is behind the present
    score_leak: float
    decay: float  # share of the weights that an update takes away
    limit: float | None  # the largest size of a weight


class Programs(NamedTuple):
    predict: Any  # plain leaves of the memory, x -> scores
    observe: Program  # memory, x -> memory, output
    learn: Program  # memory, x, label -> memory, output
    observe_many: Program  # memory, xs -> memory, output of each step
    learn_many: Program  # memory, xs, labels -> memory, output of each step
    mixed_many: Program  # the same, where some labels are NO_LABEL
    ahead_many: Program  # memory, xs -> memory, output of each step; only the present advances
    late_many: Program  # memory, xs, old_xs, labels, begins -> the same; also learns from the old steps
    reset: Program  # memory -> memory, (); updates by an incomplete group of steps, then clears all but weights


@lru_cache(maxsize=64)
def programs_for(settings: ProgramSettings) -> Programs:
    """Return the programs. Learners with equal settings share them."""
    like = memory_shapes(settings)
    observe, learn, ahead = (partial(step, settings) for step in (_observe, _learn, _ahead))

    def one(step: Callable[..., tuple[Memory, StepOutput]]) -> Program:
        def run(memory: Memory, *arrays: Array) -> tuple[Memory, StepOutput]:
            memory, output = step(memory, *arrays)
            return memory, _flag_not_finite(output)

        return Program(run, like)

    def many(step: Callable[..., tuple[Memory, StepOutput]]) -> Program:
        def run(memory: Memory, *arrays: Array) -> tuple[Memory, StepOutput]:
            memory, output = scan.loop(lambda memory, at: step(memory, *at), memory, arrays)
            output = _flag_not_finite(output)
            finite = jnp.stack([jnp.isfinite(w).all() for w in jax.tree.leaves(memory.params)]).all()
            last = jnp.where(finite, output.loss[-1], jnp.inf)
            return memory, output._replace(loss=output.loss.at[-1].set(last))

        return Program(run, like)

    def mixed(memory: Memory, x: Array, label: Array) -> tuple[Memory, StepOutput]:
        return jax.lax.cond(label >= 0, learn, lambda memory, x, _: observe(memory, x), memory, x, label)

    def late(memory: Memory, x: Array, old_x: Array, label: Array, begins: Array) -> tuple[Memory, StepOutput]:
        memory, output = ahead(memory, x)
        memory = jax.lax.cond(begins, partial(_reset, settings), lambda same: same, memory)
        memory, old = mixed(memory, old_x, label)
        return memory, output._replace(loss=_flag_not_finite(old).loss)

    newest = ahead if settings.delayed else observe
    return Programs(
        predict=jax.jit(lambda leaves, x: newest(from_leaves(like, leaves), x)[1].scores),
        observe=one(observe),
        learn=one(learn),
        observe_many=many(observe),
        learn_many=many(learn),
        mixed_many=many(mixed),
        ahead_many=many(ahead),
        late_many=many(late),
        reset=Program(lambda memory: (_reset(settings, memory), ()), like),
    )


def start(settings: ProgramSettings, params: Any) -> Memory:
    """Return the memory before the first step."""
    total = None if settings.every == 1 else (jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, params))
    memory = Memory(
        params=params,
        opt_state=settings.optimizer.init(params),
        state=settings.form.init(1, jnp.float32),
        scores=jnp.zeros(settings.net.classes, jnp.float32),
        total=total,
        labelled=jnp.zeros((), jnp.int32),
        present=at_rest(settings.net) if settings.delayed else None,
    )
    return jax.tree.map(jnp.copy, memory)  # an array that occurs twice could not be handed over


def at_rest(net: Network) -> tuple[Any, Array]:
    """Return membranes and scores at the beginning of a sequence."""
    return net.start(1, jnp.float32), jnp.zeros(net.classes, jnp.float32)


@lru_cache(maxsize=64)
def memory_shapes(settings: ProgramSettings) -> Memory:
    return jax.eval_shape(lambda: start(settings, settings.net.init(jax.random.key(0), jnp.float32)))


def check_fits(settings: ProgramSettings) -> None:
    """Raise ValueError if the memory of the learner cannot fit into the machine's."""
    units, *hidden, classes = layer_sizes(settings.net)
    given = {"hidden": tuple(hidden), "units": units, "classes": classes}
    machine.check_fits("what the learner remembers", machine.size(memory_shapes(settings)), given)


def layer_sizes(net: Network) -> list[int]:
    """Return the number of inputs, then the number of neurons of each layer."""
    return [prod(shape) for shape in (net.layers[0].in_shape, *(layer.out_shape for layer in net.layers))]


# The steps


def _ahead(settings: ProgramSettings, memory: Memory, x: Array) -> tuple[Memory, StepOutput]:
    """The present advances. Membranes and traces that wait for labels stay."""
    neurons, scores = memory.present
    neurons, outputs = one_step(settings.net, memory.params, neurons, x[None])
    output = _output(settings, scores, outputs, neurons, memory.params)
    return memory._replace(present=(neurons, output.scores)), output


def _observe(settings: ProgramSettings, memory: Memory, x: Array) -> tuple[Memory, StepOutput]:
    """Membranes and traces advance, weights stay."""
    state, info = settings.form.advance(memory.params, memory.state, x[None])
    output = _output(settings, memory.scores, info.spikes, settings.form.neurons_of(state), memory.params)
    return memory._replace(state=state, scores=output.scores), output


def _learn(settings: ProgramSettings, memory: Memory, x: Array, label: Array) -> tuple[Memory, StepOutput]:
    """Membranes, traces and weights advance."""
    state, info, loss, grads = settings.form.learn(memory.params, memory.state, x[None], label[None])
    memory = memory._replace(state=state)
    if settings.every == 1:
        memory = _update(settings, memory, grads, loss)
    else:
        total = jax.tree.map(jnp.add, memory.total, (loss, grads))
        memory = memory._replace(total=total, labelled=memory.labelled + 1)
        complete = memory.labelled == settings.every
        memory = jax.lax.cond(complete, partial(_update_by_mean, settings), lambda same: same, memory)
    output = _output(settings, memory.scores, info.spikes, settings.form.neurons_of(state), memory.params, loss)
    return memory._replace(scores=output.scores), output


def _output(
    settings: ProgramSettings,
    scores: Array,
    outputs: Sequence[Array],
    neurons: Sequence[Any],
    params: Sequence[Any],
    loss: Array | float = jnp.nan,
) -> StepOutput:
    """Return the output of a step. `scores`: from before the step. `params`: from after it."""
    rates = []
    for spikes, states, weights in zip(outputs, neurons, params, strict=True):
        small = [w for w in jax.tree.leaves(weights) if w.shape in ((), spikes.shape[1:])]
        checked = sum([*small, *jax.tree.leaves(states)])  # not finite if one of them is not finite
        rates.append((spikes + 0 * checked).mean())
    out, rates = outputs[-1].reshape(-1), jnp.stack(rates)
    return StepOutput(settings.score_leak * scores + out, jnp.asarray(loss, scores.dtype), rates, out)


def _flag_not_finite(output: StepOutput) -> StepOutput:
    """Make the loss infinite where the rates are not finite. For one step or for many."""
    finite = jnp.isfinite(output.rates.sum(-1))
    return output._replace(loss=jnp.where(finite, output.loss, jnp.inf).astype(output.loss.dtype))


def _update_by_mean(settings: ProgramSettings, memory: Memory) -> Memory:
    """Update by the mean over the labelled steps since the last update."""
    loss, grads = jax.tree.map(lambda x: x / jnp.maximum(memory.labelled, 1), memory.total)
    updated = _update(settings, memory, grads, loss)
    return updated._replace(total=jax.tree.map(jnp.zeros_like, memory.total), labelled=jnp.zeros_like(memory.labelled))


def _update(settings: ProgramSettings, memory: Memory, grads: Any, loss: Array) -> Memory:
    updates, opt_state = settings.optimizer.update(grads, memory.opt_state, memory.params, value=loss)
    params, limit = optax.apply_updates(memory.params, updates), settings.limit
    if settings.decay:
        params = jax.tree.map(lambda w: w * (1 - settings.decay), params)
    if limit is not None:
        params = jax.tree.map(lambda w: jnp.clip(w, -limit, limit), params)
    return memory._replace(params=params, opt_state=opt_state)


def _reset(settings: ProgramSettings, memory: Memory) -> Memory:
    """End the sequence. An incomplete group of steps makes an update first."""
    if memory.total is not None:
        waiting = memory.labelled > 0
        memory = jax.lax.cond(waiting, partial(_update_by_mean, settings), lambda same: same, memory)
    return memory._replace(state=settings.form.init(1, jnp.float32), scores=jnp.zeros_like(memory.scores))


# JAX does not survive a fork: its threads stay in the parent, and a call in the child would wait for them forever.


_jax_used = False  # has this process, or one that it was forked from, made a learner?
_forked = False  # was it forked after that?


def check_not_forked() -> None:
    """Raise RuntimeError in a process that was forked from one with a learner. Call it before any call of JAX."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one that uses JAX, and JAX would hang here. Save the learner before, start"
            " the process with multiprocessing.get_context('spawn'), and load the learner there."
        )


def mark_jax_used() -> None:
    global _jax_used
    check_not_forked()
    _jax_used = True


def _in_child() -> None:
    global _forked
    _forked = _jax_used


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
