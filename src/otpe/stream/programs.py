"""JAX does not survive a fork: its threads stay in the parent, and a call in the child would wait for them forever."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from otpe import memory, scan
from otpe.networks import Network, one_step
from otpe.rulebook.rule import StepForm
from otpe.stream.cell import Program, whole
from otpe.training.optimizer import ByValue

_used = False  # has this process, or one that it was forked from, made a learner?
_forked = False  # was it forked after that?


def check_not_forked() -> None:
    """Raises in a process that was forked from one with a learner. Call it before anything that asks JAX."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one that uses JAX, and JAX would hang here. Save the learner before, start"
            " the process with multiprocessing.get_context('spawn'), and load the learner there."
        )


def mark_jax_used() -> None:
    global _used
    check_not_forked()
    _used = True


def _in_child() -> None:
    global _forked
    _forked = _used


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)


# --------------------
# What a streaming learner runs on the device: one time step of one stream, or a block of them.
#
# Every step starts with the same forward pass, so what a learner would have predicted before it learned from a step
# comes
# for free with learning. Memory is handed over to each program and comes back changed: never copied, and never larger.
#
# Numbers that are not finite show in the loss, which is infinite then. Each step looks at the membranes and biases,
# which
# costs nothing: they are added, times zero, to the spikes whose mean is taken anyway. A weight that is not finite makes
# the membrane of its neuron so at the next step. The end of a block looks at all weights.


NO_LABEL = -1  # of a step that is only observed


class Memory(NamedTuple):
    """All that a learner remembers."""

    params: Any
    opt_state: Any
    state: Any  # membranes and traces, of the rule's per-step form
    scores: Array  # [classes] leaky sum of output spikes
    total: Any  # loss and gradient, summed since the last update; None where every step makes one
    labelled: Array  # steps in that sum
    present: Any = None  # of a learner whose labels come late: membranes and scores of now; the others are of then


class Told(NamedTuple):
    """What a step has to tell."""

    scores: Array  # [classes] as before learning from it
    loss: Array  # NaN without a label; infinite where weights or membranes are not finite
    rates: Array  # [layers] share of the neurons that spiked
    spikes: Array  # [classes] of the output neurons


@dataclass(frozen=True)
class How:
    """All that decides which programs are compiled."""

    net: Network
    form: StepForm
    optimizer: ByValue
    every: int  # labelled steps to an update
    late: bool  # are labels late, and learned from when the network is further on?
    score_leak: float
    decay: float  # share of the weights that an update takes away
    limit: float | None  # on the size of a weight


class Programs(NamedTuple):
    predict: Any  # plain leaves of the memory, x -> scores
    observe: Program  # memory, x -> memory, told
    learn: Program  # memory, x, label -> memory, told
    observe_many: Program  # memory, xs -> memory, told of each
    learn_many: Program  # memory, xs, labels -> memory, told of each
    mixed_many: Program  # the same, where some labels are NO_LABEL
    look_many: Program  # memory, xs -> memory, told of each: the present goes on, and nothing else
    late_many: Program  # memory, xs, then, labels, begins -> the same, and steps of then are learned from
    rest: Program  # memory -> memory, (): an update by what is left of a group of steps, then all but weights at rest


@lru_cache(maxsize=64)
def programs_for(how: How) -> Programs:
    """One set for all learners that are alike."""
    like = jax.eval_shape(lambda: start(how, how.net.init(jax.random.key(0), jnp.float32)))

    def program(function: Any) -> Program:
        return Program(function, like)

    def block(step: Any) -> Program:
        def run(memory: Memory, *of_each: Array) -> tuple[Memory, Told]:
            memory, told = scan.loop(step, memory, of_each)
            told = _flagged(told)
            sound = jnp.stack([jnp.isfinite(w).all() for w in jax.tree.leaves(memory.params)]).all()
            last = jnp.where(sound, told.loss[-1], jnp.inf)
            return memory, told._replace(loss=told.loss.at[-1].set(last))

        return program(run)

    def single(step: Any) -> Program:
        def run(memory: Memory, *at: Array) -> tuple[Memory, Told]:
            memory, told = step(memory, *at)
            return memory, _flagged(told)

        return program(run)

    observe, learn = partial(_observe, how), partial(_learn, how)

    def mixed(memory: Memory, x: Array, label: Array) -> tuple[Memory, Told]:
        return jax.lax.cond(label >= 0, learn, lambda memory, x, _: observe(memory, x), memory, x, label)

    def late(memory: Memory, x: Array, then: Array, label: Array, begins: Array) -> tuple[Memory, Told]:
        memory, now = _look(how, memory, x)
        memory = jax.lax.cond(begins, partial(_rest, how), lambda m: m, memory)
        memory, told = mixed(memory, then, label)
        return memory, now._replace(loss=_flagged(told).loss)

    ahead = partial(_look, how) if how.late else observe
    return Programs(
        predict=jax.jit(lambda leaves, x: ahead(whole(like, leaves), x)[1].scores),
        observe=single(observe),
        learn=single(learn),
        observe_many=block(lambda memory, at: observe(memory, *at)),
        learn_many=block(lambda memory, at: learn(memory, *at)),
        mixed_many=block(lambda memory, at: mixed(memory, *at)),
        look_many=block(lambda memory, at: _look(how, memory, *at)),
        late_many=block(lambda memory, at: late(memory, *at)),
        rest=program(lambda memory: (_rest(how, memory), ())),
    )


def start(how: How, params: Any) -> Memory:
    total = None if how.every == 1 else (jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, params))
    memory = Memory(
        params=params,
        opt_state=how.optimizer.value.init(params),
        state=how.form.init(1, jnp.float32),
        scores=jnp.zeros(how.net.classes, jnp.float32),
        total=total,
        labelled=jnp.zeros((), jnp.int32),
        present=at_rest(how.net) if how.late else None,
    )
    return jax.tree.map(jnp.copy, memory)  # one array in two places could not be handed over


def at_rest(net: Network) -> tuple[Any, Array]:
    """Membranes and scores."""
    return net.start(1, jnp.float32), jnp.zeros(net.classes, jnp.float32)


def _look(how: How, memory: Memory, x: Array) -> tuple[Memory, Told]:
    """The present moves on. What waits for its label stays."""
    neurons, scores = memory.present
    moved, outputs = one_step(how.net, memory.params, neurons, x[None])
    told = _told(how, scores, outputs, moved, memory.params)
    return memory._replace(present=(moved, told.scores)), told


def _observe(how: How, memory: Memory, x: Array) -> tuple[Memory, Told]:
    """Membranes and traces move on, weights stay."""
    state, info = how.form.advance(memory.params, memory.state, x[None])
    told = _told(how, memory.scores, info.spikes, how.form.neurons_of(state), memory.params)
    return memory._replace(state=state, scores=told.scores), told


def _learn(how: How, memory: Memory, x: Array, label: Array) -> tuple[Memory, Told]:
    """Membranes, traces and weights move on."""
    state, info, loss, grads = how.form.learn(memory.params, memory.state, x[None], label[None])
    before, memory = memory, memory._replace(state=state)
    if how.every == 1:
        memory = _update(how, memory, grads, loss)
    else:
        total = jax.tree.map(jnp.add, memory.total, (loss, grads))
        memory = memory._replace(total=total, labelled=memory.labelled + 1)
        memory = jax.lax.cond(memory.labelled == how.every, partial(_settle, how), lambda same: same, memory)
    told = _told(how, before.scores, info.spikes, how.form.neurons_of(state), memory.params, loss)
    return memory._replace(scores=told.scores), told


def _told(
    how: How,
    scores: Array,
    outputs: Sequence[Array],
    neurons: Sequence[Any],
    params: Sequence[Any],
    loss: Array | float = jnp.nan,
) -> Told:
    """`scores`: those of before. `params`: those of after."""
    rates = []
    for s, states, of_layer in zip(outputs, neurons, params, strict=True):
        small = [w for w in jax.tree.leaves(of_layer) if w.shape in ((), s.shape[1:])]
        looked_at = sum([*small, *jax.tree.leaves(states)])  # NaN if one of them is not finite
        rates.append((s + 0 * looked_at).mean())
    out, total = outputs[-1].reshape(-1), jnp.stack(rates)
    return Told(how.score_leak * scores + out, jnp.asarray(loss, scores.dtype), total, out)


def _flagged(told: Told) -> Told:
    """With an infinite loss where rates show numbers that are not finite: of one step, or of many at once."""
    return told._replace(loss=jnp.where(jnp.isfinite(told.rates.sum(-1)), told.loss, jnp.inf).astype(told.loss.dtype))


def _settle(how: How, memory: Memory) -> Memory:
    """An update by the mean over the steps that have not made one yet."""
    loss, grads = jax.tree.map(lambda x: x / jnp.maximum(memory.labelled, 1), memory.total)
    updated = _update(how, memory, grads, loss)
    return updated._replace(total=jax.tree.map(jnp.zeros_like, memory.total), labelled=jnp.zeros_like(memory.labelled))


def _update(how: How, memory: Memory, grads: Any, loss: Array) -> Memory:
    update = optax.with_extra_args_support(how.optimizer.value).update  # some optimizers look at the loss
    updates, opt_state = update(grads, memory.opt_state, memory.params, value=loss)
    params = optax.apply_updates(memory.params, updates)
    if how.decay:
        params = jax.tree.map(lambda w: w * (1 - how.decay), params)
    limit = how.limit
    if limit is not None:
        params = jax.tree.map(lambda w: jnp.clip(w, -limit, limit), params)
    return memory._replace(params=params, opt_state=opt_state)


def _rest(how: How, memory: Memory) -> Memory:
    """A sequence is over. What is left of a group of steps makes an update first."""
    if memory.total is not None:
        memory = jax.lax.cond(memory.labelled > 0, partial(_settle, how), lambda same: same, memory)
    return memory._replace(state=how.form.init(1, jnp.float32), scores=jnp.zeros_like(memory.scores))


# --------------------
# Does a learner fit into memory? Counted before it is made.


def check_fits(how: How) -> None:
    """ValueError with a sentence if what the learner remembers cannot fit."""
    units, *hidden, classes = (
        prod(shape) for shape in (how.net.layers[0].in_shape, *(n.out_shape for n in how.net.layers))
    )
    given = {"hidden": tuple(hidden), "units": units, "classes": classes}
    memory.refuse_more("what the learner remembers", _remembered(how), given)


@lru_cache(maxsize=64)
def _remembered(how: How) -> int:
    params = jax.eval_shape(lambda: how.net.init(jax.random.key(0), jnp.float32))
    return memory.size(jax.eval_shape(partial(start, how), params))
