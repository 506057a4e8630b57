"""What a streaming learner runs on the device: one time step of one stream, or a block of them.

Every step starts with the same forward pass, so what a learner would have predicted before it learned from a step comes
for free with learning. Memory is handed over to each program and comes back changed: never copied, and never larger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from otpe import layers, scan
from otpe.network import Network
from otpe.rulebook.base import StepForm
from otpe.training.optimizer import ByValue

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
    loss: Array  # NaN without a label
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
    predict: Any  # memory, x -> scores
    observe: Any  # memory, x -> memory, told
    learn: Any  # memory, x, label -> memory, told
    observe_many: Any  # memory, xs -> memory, told of each
    learn_many: Any  # memory, xs, labels -> memory, told of each
    mixed_many: Any  # the same, where some labels are NO_LABEL
    look_many: Any  # memory, xs -> memory, told of each: the present goes on, and nothing else
    late_many: Any  # memory, xs, then, labels, begins -> the same, and steps of then are learned from
    settle: Any  # memory -> memory: an update by what is left of a group of steps
    rest: Any  # memory -> memory with membranes, traces and scores at rest


@lru_cache(maxsize=64)
def programs(how: How) -> Programs:
    """One set for all learners that are alike."""

    def block(step: Any) -> Any:
        return jax.jit(lambda memory, *of_each: scan.loop(step, memory, of_each), donate_argnums=0)

    observe, learn = partial(_observe, how), partial(_learn, how)

    def mixed(memory: Memory, x: Array, label: Array) -> tuple[Memory, Told]:
        return jax.lax.cond(label >= 0, learn, lambda memory, x, _: observe(memory, x), memory, x, label)

    def late(memory: Memory, x: Array, then: Array, label: Array, begins: Array) -> tuple[Memory, Told]:
        memory, now = _look(how, memory, x)
        memory = jax.lax.cond(begins & (memory.labelled > 0), partial(_settle, how), lambda m: m, memory)
        memory = jax.lax.cond(begins, partial(_rest, how), lambda m: m, memory)
        memory, told = mixed(memory, then, label)
        return memory, now._replace(loss=told.loss)

    ahead = partial(_look, how) if how.late else observe
    return Programs(
        predict=jax.jit(lambda memory, x: ahead(memory, x)[1].scores),
        observe=jax.jit(observe, donate_argnums=0),
        learn=jax.jit(learn, donate_argnums=0),
        observe_many=block(lambda memory, at: observe(memory, *at)),
        learn_many=block(lambda memory, at: learn(memory, *at)),
        mixed_many=block(lambda memory, at: mixed(memory, *at)),
        look_many=block(lambda memory, at: _look(how, memory, *at)),
        late_many=block(lambda memory, at: late(memory, *at)),
        settle=jax.jit(partial(_settle, how), donate_argnums=0),
        rest=jax.jit(partial(_rest, how), donate_argnums=0),
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
    membranes, scores = memory.present
    moved, spikes, s = [], [], x[None]
    for layer, neuron, params, u in zip(how.net.layers, how.net.neurons, memory.params, membranes, strict=True):
        u, s, _ = neuron.fire(u, layers.apply(layer, params, s))
        moved.append(u)
        spikes.append(s)
    told = _told(how, scores, spikes, jnp.full((), jnp.nan, jnp.float32))
    return memory._replace(present=(tuple(moved), told.scores)), told


def _observe(how: How, memory: Memory, x: Array) -> tuple[Memory, Told]:
    """Membranes and traces move on, weights stay."""
    state, info = how.form.advance(memory.params, memory.state, x[None])
    told = _told(how, memory.scores, info.spikes, jnp.full((), jnp.nan, jnp.float32))
    return memory._replace(state=state, scores=told.scores), told


def _learn(how: How, memory: Memory, x: Array, label: Array) -> tuple[Memory, Told]:
    """Membranes, traces and weights move on."""
    state, info, loss, grads = how.form.learn(memory.params, memory.state, x[None], label[None])
    told = _told(how, memory.scores, info.spikes, loss)
    memory = memory._replace(state=state, scores=told.scores)
    if how.every == 1:
        return _update(how, memory, grads, loss), told
    total = jax.tree.map(jnp.add, memory.total, (loss, grads))
    memory = memory._replace(total=total, labelled=memory.labelled + 1)
    return jax.lax.cond(memory.labelled == how.every, partial(_settle, how), lambda same: same, memory), told


def _told(how: How, scores: Array, spikes: Sequence[Array], loss: Array) -> Told:
    """`scores`: those of before."""
    rates, out = jnp.stack([s.mean() for s in spikes]), spikes[-1].reshape(-1)
    return Told(how.score_leak * scores + out, loss, rates, out)


def _settle(how: How, memory: Memory) -> Memory:
    """An update by the mean over the steps that have not made one yet."""
    if memory.total is None:
        return memory
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
    return memory._replace(state=how.form.init(1, jnp.float32), scores=jnp.zeros_like(memory.scores))
