"""Driver of the whole-sequence form: any rule for the work that BPTT does.

Forwards, a layer's currents for all T·B rows are one matrix product, and its spikes one elementwise recurrence.
Backwards, one more recurrence turns the signal q into κ and m, Σ_t x_t ⊗ κ_t is one matrix product, and m Wᵀ,
the signal of the layer below, another. Nothing has a size of n_in · n_out · T.

A sequence may be cut into chunks; the gradient is the same. The chunks are taken forwards, and then from the last to
the first, each handing its filters on to the one before. For a long sequence the first pass keeps only the state in
which each chunk begins, and the second runs each forwards once more: memory is that of one chunk. For a short one it
keeps what the layers did, and currents and signals, which are only as long as a chunk, stay in a CPU's caches.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import layers, losses, scan
from otpe.engine import Engine
from otpe.layers import Current
from otpe.network import Network
from otpe.rulebook import stages
from otpe.rulebook.base import Now, Rule


class Activity(NamedTuple):
    """What one layer did over a chunk."""

    spikes: Array  # s_t                           [T, B, *out]
    v: Array  # v_t, from which g_t and ρ_t   [T, B, *out]
    ḡ: Array | None  # for rules that average        [T, B, *out]
    mean: Array | None  # mean_j ρ_t, where asked for   [T, B]


class State(NamedTuple):
    """What goes on from one chunk to the next."""

    layers: tuple[Any, ...]  # membrane u and average of the surrogate
    readout: Array | None  # o_t, where the loss looks at the leaky sum    [B, classes]


class Ran(NamedTuple):
    """What happened in a chunk."""

    after: Any  # the state; None where it is not kept
    activities: list[Activity]
    logits: Array  # what the loss looks at    [T, B, classes]


class Task(NamedTuple):
    """What stays the same for all chunks."""

    net: Network
    rule: Rule
    engine: Engine
    steps: int  # of the whole sequence: the loss is a mean over it
    params: Any
    labels: Array


class Plan(NamedTuple):
    net: Network
    rule: Rule
    chunk: int | None  # how many steps at a time; None: all at once
    keep: bool = False  # does the first pass keep what each layer did? Else it is computed again


def gradients(
    plan: Plan, engine: Engine, params: Any, spikes: Array, labels: Array, weight: Array | None = None
) -> tuple[Array, tuple[Any, ...]]:
    """Mean loss over time and batch, or its sum with these weights [T, B], and its gradient by the rule."""
    (steps, batch), chunk = spikes.shape[:2], plan.chunk
    task = Task(plan.net, plan.rule, engine, steps, params, labels)
    if chunk is None or chunk >= steps:
        return _learn(task, _forward(task, _rest(task), spikes), _filters_at_end(task), spikes, weight)[1]

    def first_pass(state: State, x: Array) -> tuple[State, Any]:
        ran = _forward(task, state, x)
        return ran.after, ran._replace(after=None) if plan.keep else state

    def second_pass(carry: Any, at: Any) -> tuple[Any, None]:
        (filters, total), (kept, x, w) = carry, at
        filters, more = _learn(task, kept if plan.keep else _forward(task, kept, x), filters, x, w)
        return (filters, jax.tree.map(jnp.add, total, more)), None

    whole = steps // chunk * chunk
    head, tail = _cut(spikes, chunk), spikes[whole:]
    state, kept = scan.loop(first_pass, _rest(task, batch), head)
    filters, total = _filters_at_end(task, batch), (jnp.zeros((), _dtype(task)), jax.tree.map(jnp.zeros_like, params))
    if len(tail):
        last = None if weight is None else weight[whole:]
        filters, total = _learn(task, _forward(task, state, tail), filters, tail, last)
    weights = None if weight is None else _cut(weight, chunk)
    (_, total), _ = scan.loop(second_pass, (filters, total), (kept, head, weights), reverse=True)
    return total


def _cut(sequence: Array, chunk: int) -> Array:
    """[chunks, steps of each, …], without the rest."""
    chunks = len(sequence) // chunk
    return sequence[: chunks * chunk].reshape(chunks, chunk, *sequence.shape[1:])


def _learn(
    task: Task, ran: Ran, filters: list[Any], x: Array, weight: Array | None
) -> tuple[list[Any], tuple[Array, tuple[Any, ...]]]:
    """The filters before a chunk, and the chunk's share of the loss and of its gradient."""
    net, params, share = task.net, task.params, x.shape[0] / task.steps
    loss, q = losses.cross_entropy_and_signal(ran.logits, task.labels, weight)
    if weight is None:
        loss, q = share * loss, share * q
    inputs = [layers.narrow(net.layers[0], params[0], x, task.engine), *(a.spikes for a in ran.activities)]
    before, grads = [], []
    for i in reversed(range(net.depth)):
        now, grad, m = _backward(task, i, inputs[i], ran.activities, filters[i], q)
        before.append(now)
        grads.append(grad)
        if i > 0:
            q = layers.transpose(net.layers[i], params[i], m, task.engine)
    return before[::-1], (loss, tuple(reversed(grads)))


def _rest(task: Task, batch: int | None = None) -> State:
    """Everything at rest, as arrays for a batch or as one number for each."""
    layers = []
    for i in range(task.net.depth):
        averages = stages.keeps_average(task.net, task.rule, i)
        u, weight = _blank(task, i, batch), jnp.zeros((), _dtype(task))
        layers.append((u, stages.Average(u, weight) if averages else None))
    return State(tuple(layers), _blank(task, -1, batch) if task.rule.readout == "leaky" else None)


def _filters_at_end(task: Task, batch: int | None = None) -> list[Any]:
    filters = []
    for i in range(task.net.depth):
        count = len(stages.above(task.net, task.rule, i))
        filters.append(task.rule.at(i, task.net.depth).start(_blank(task, i, batch), count))
    return filters


def _blank(task: Task, i: int, batch: int | None) -> Array:
    return jnp.zeros(() if batch is None else (batch, *task.net.layers[i].out_shape), _dtype(task))


def _dtype(task: Task) -> Any:
    return jax.tree.leaves(task.params)[0].dtype


def _forward(task: Task, state: State, x: Array) -> Ran:
    activities, after = [], []
    for i in range(task.net.depth):
        x = layers.narrow(task.net.layers[i], task.params[i], x, task.engine)
        here, carry = _forward_layer(task, i, state.layers[i], x)
        activities.append(here)
        after.append(carry)
        x = here.spikes
    if state.readout is None:
        return Ran(State(tuple(after), None), activities, x)

    def leaky(_: None, o: Array, s: Array) -> tuple[Array, Array]:
        o = task.net.readout_leak * o + s
        return o, o

    o, logits = scan.recur(leaky, state.readout, x, backend=task.engine.backend)
    return Ran(State(tuple(after), o), activities, logits)


def _forward_layer(task: Task, i: int, state: Any, x: Array) -> tuple[Activity, Any]:
    net, rule, layer, neuron = task.net, task.rule, task.net.layers[i], task.net.neurons[i]
    averages, leak = stages.keeps_average(net, rule, i), stages.average_leak(net, rule, i)
    current = layers.current(layer, task.params[i], x, task.engine)
    type_above = layers.spike_type(net.layers[i + 1], task.params[i + 1], task.engine) if i + 1 < net.depth else None

    def fire(bias: Any, carry: Any, terms: Any) -> Any:
        u, average = carry
        u, s, v = neuron.fire(u, Current.now(bias, terms))
        if averages:
            average = average.advance(neuron.pseudo_derivative(v), leak)
        return (u, average), (s.astype(type_above or s.dtype), v, average.ḡ if averages else None)

    after, (s, v, ḡ) = scan.recur(fire, state, current.terms, fixed=current.bias, backend=task.engine.backend)
    mean = None
    if stages.wants_mean(net, rule, i):
        mean = stages.mean_survival(neuron.survival(v, neuron.pseudo_derivative(v)), layer.out_shape)
    return Activity(s, v, ḡ, mean), after


def _backward(task: Task, i: int, x: Array, activities: list[Activity], filters: Any, q: Array) -> tuple[Any, Any, Any]:
    """The filters before the chunk, the gradient of the layer's weights, and the signal for the layer below."""
    net, rule, here = task.net, task.rule, activities[i]
    local, layer, neuron = rule.at(i, net.depth), net.layers[i], net.neurons[i]
    collect = layers.Collector(layer, task.params[i], x, task.engine)

    def backward(_: None, carry: Any, at_t: Any) -> Any:
        filters, collected = carry
        q, v, ḡ, means = at_t
        g = neuron.pseudo_derivative(v)
        decay = stages.decays(net, rule, i, neuron.survival(v, g), means)
        filters, κ, m = local.backward(filters, q, Now(g, g if ḡ is None else ḡ), decay)
        collected, kept = collect.step(collected, κ)
        m = None if i == 0 or m is kept else m  # BPTT sends down what it learns from: one array is enough
        return (filters, collected), (kept, m)

    means = [stages.per_sample(a.mean, layer.out_shape) if j >= i else None for j, a in enumerate(activities)]
    carry = (filters, collect.start())
    (filters, collected), (kept, m) = scan.recur(
        backward, carry, (q, here.v, here.ḡ, means), reverse=True, backend=task.engine.backend
    )
    return filters, collect.gradient(collected, kept), kept if m is None else m
