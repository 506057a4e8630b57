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

from otpe import layers, losses, neurons, scan, states
from otpe.engine import Engine
from otpe.layers import Current
from otpe.losses import Loss
from otpe.networks import Layer, Network, bind, joined_gradient, output_type, walk
from otpe.rulebook import stages
from otpe.rulebook.rule import Rule


class Record(NamedTuple):
    """What one layer did over a chunk."""

    output: Array  # s_t                                       [T, B, *out]
    kept: Any  # what its neurons keep for `linearise`     [T, B, *out] each
    h̄: Any  # for rules that average                    [T, B, *out] each
    mean: Array | None  # mean_j ρ_t, where asked for               [T, B]
    causes: dict[str, Array]  # of trained numbers of the neurons         [T, B, *out]


class State(NamedTuple):
    """What goes on from one chunk to the next."""

    layers: tuple[Any, ...]  # of each: the state of the neurons, the average of h
    readout: Array | None  # o_t, where the loss looks at the leaky sum    [B, classes]


class Filters(NamedTuple):
    """The filters of a rule in one layer, which run backwards in time."""

    weights: Any
    neurons: Any  # for trained numbers of the neurons, where these need filters of their own


class Forward(NamedTuple):
    """A chunk, after the forward pass."""

    after: Any  # the state; None where it is not kept
    records: list[Record]
    logits: Array  # what the loss looks at    [T, B, classes]


class Plan(NamedTuple):
    """What is computed, and in which pieces."""

    net: Network
    rule: Rule
    loss: Loss
    chunk: int | None = None  # time steps at a time; None: all at once
    keep: bool = False  # does the first pass keep what each layer did? Else it is computed again


class Task(NamedTuple):
    """What stays the same for all chunks."""

    plan: Plan
    engine: Engine
    steps: int  # of the whole sequence: the loss is a mean over it
    params: Any
    layers: tuple[Layer, ...]

    @property
    def net(self) -> Network:
        return self.plan.net

    @property
    def rule(self) -> Rule:
        return self.plan.rule

    @property
    def leaks(self) -> list[Any]:
        return stages.leaks(self.layers)

    @property
    def dtype(self) -> Any:
        return jax.tree.leaves(self.params)[0].dtype


def gradients(
    plan: Plan, engine: Engine, params: Any, spikes: Array, target: Array, weight: Array | None = None
) -> tuple[Array, tuple[Any, ...]]:
    """Mean loss over time and batch, or its sum with these weights [T, B], and its gradient by the rule."""
    (steps, batch), chunk = spikes.shape[:2], plan.chunk
    task = Task(plan, engine, steps, params, bind(plan.net, params))
    if chunk is None or chunk >= steps:
        return _learn(task, _forward(task, _rest(task), spikes), _filters_at_end(task), spikes, target, weight)[1]

    timed = losses.is_timed(target)

    def first_pass(state: State, x: Array) -> tuple[State, Any]:
        ran = _forward(task, state, x)
        return ran.after, ran._replace(after=None) if plan.keep else state

    def second_pass(carry: Any, at: Any) -> tuple[Any, None]:
        (filters, total), (kept, x, y, w) = carry, at
        ran = kept if plan.keep else _forward(task, kept, x)
        filters, more = _learn(task, ran, filters, x, y if timed else target, w)
        return (filters, jax.tree.map(jnp.add, total, more)), None

    whole = steps // chunk * chunk
    head, tail = _cut(spikes, chunk), spikes[whole:]
    state, kept = scan.loop(first_pass, _rest(task, batch), head)
    filters, total = _filters_at_end(task, batch), (jnp.zeros((), task.dtype), jax.tree.map(jnp.zeros_like, params))
    if len(tail):
        last = None if weight is None else weight[whole:]
        ran, last_target = _forward(task, state, tail), target[whole:] if timed else target
        filters, total = _learn(task, ran, filters, tail, last_target, last)
    targets = _cut(target, chunk) if timed else None
    weights = None if weight is None else _cut(weight, chunk)
    (_, total), _ = scan.loop(second_pass, (filters, total), (kept, head, targets, weights), reverse=True)
    return total


def _cut(sequence: Array, chunk: int) -> Array:
    """[chunks, steps of each, …], without the rest."""
    chunks = len(sequence) // chunk
    return sequence[: chunks * chunk].reshape(chunks, chunk, *sequence.shape[1:])


def _learn(
    task: Task, ran: Forward, filters: list[Filters], x: Array, target: Array, weight: Array | None
) -> tuple[list[Filters], tuple[Array, tuple[Any, ...]]]:
    """The filters before a chunk, and the chunk's share of the loss and of its gradient."""
    net, loss_of, share = task.net, task.plan.loss, x.shape[0] / task.steps
    loss, q = losses.value_and_signal(loss_of, ran.logits, target, weight)
    if weight is None:
        loss, q = share * loss, share * q
    first = task.layers[0]
    x = layers.narrow(first.map, first.params, x, task.engine, task.dtype)
    inputs = [x, *(record.output for record in ran.records)]
    before, grads = [], []
    for layer in reversed(task.layers):
        now, grad, m = _backward(task, layer, inputs[layer.number], ran.records, filters[layer.number], q)
        before.append(now)
        grads.append(grad)
        if layer.number > 0:
            q = layers.transpose(layer.map, layer.params, m, task.engine)
            below = layer.number - 1
            if loss_of.rate_weight and neurons.is_spiking(net.neurons[below]):
                output, rank = inputs[layer.number].astype(q.dtype), len(net.layers[below].out_shape)
                penalty, more = losses.rate_penalty(loss_of, output, rank, weight)
                scale = 1 if weight is not None else share
                loss, q = loss + scale * penalty, q + scale * more
    return before[::-1], (loss, tuple(reversed(grads)))


def _rest(task: Task, batch: int | None = None) -> State:
    """Everything at rest, as arrays for a batch or as small arrays that stand for them."""
    found, weight = [], jnp.zeros((), task.dtype)
    for layer in task.layers:
        start = neurons.rest(layer.kind, batch, layer.shape, task.dtype)
        blank = _blank(task, layer.shape, batch)
        found.append((start, stages.blank_average(task.net, task.rule, layer.number, blank, weight)))
    readout = _blank(task, task.layers[-1].shape, batch) if task.rule.readout == "leaky" else None
    return State(tuple(found), readout)


def _filters_at_end(task: Task, batch: int | None = None) -> list[Filters]:
    found = []
    for layer in task.layers:
        net, i, blank = task.net, layer.number, _blank(task, layer.shape, batch)
        local, count = task.rule.at(i, net.depth), stages.filters(net, task.rule, i)
        weights = local.start(stages.blank_trace(net, task.rule, i, blank), count)
        own = None
        if neurons.causes(layer.kind) and stages.sees_inputs(local):
            own = local.start(states.packed([blank] * neurons.states_of(layer.kind)), count)
        found.append(Filters(weights, own))
    return found


def _blank(task: Task, shape: tuple[int, ...], batch: int | None) -> Array:
    return jnp.zeros(() if batch is None else (batch, *shape), task.dtype)


def _forward(task: Task, state: State, x: Array) -> Forward:
    leaks = task.leaks

    def each(layer: Layer, x: Array, current: Current) -> tuple[Array, Any]:
        record, after = _forward_layer(task, layer, leaks, state.layers[layer.number], current)
        return record.output, (record, after)

    x, found = walk(task.net, task.params, x, task.engine, each)
    records, after = [record for record, _ in found], tuple(after for _, after in found)
    if state.readout is None:
        return Forward(State(after, None), records, x)

    def leaky(_: None, o: Array, s: Array) -> tuple[Array, Array]:
        o = task.net.readout_leak * o + s
        return o, o

    o, logits = scan.recur(leaky, state.readout, x, backend=task.engine.backend)
    return Forward(State(after, o), records, logits)


def _forward_layer(task: Task, layer: Layer, leaks: list[Any], state: Any, current: Current) -> tuple[Record, Any]:
    net, rule, i = task.net, task.rule, layer.number
    own_leaks, numbers = stages.average_leaks(net, rule, i, leaks), output_type(net, task.params, i, task.engine)
    arrays, together = states.split(own_leaks)
    trained = neurons.causes(layer.kind)

    def fire(fixed: Any, carry: Any, terms: Any) -> Any:
        (bias, values, arrays), (state, average) = fixed, carry
        neuron = neurons.bound(layer.kind, values)
        causes = neurons.acting(neuron, state, trained)
        state, output, kept = neuron.step(state, Current(terms, bias).total)
        h̄ = None
        if average is not None:
            h = neurons.derivatives(neuron, kept).h
            average = average.advance(h, together(arrays))
            h̄ = states.arrays_only(average.mean(h, len(own_leaks)))
        return (state, average), (output.astype(numbers), kept, h̄, causes)

    fixed = (current.bias, layer.values, arrays)
    after, (output, kept, h̄, causes) = scan.recur(fire, state, current.terms, fixed=fixed, backend=task.engine.backend)
    mean = None
    if stages.wants_mean(net, rule, i):
        mean = stages.mean_survival(net, i, neurons.derivatives(layer.neuron, kept).A)
    return Record(output, kept, h̄, mean, causes), after


def _backward(
    task: Task, layer: Layer, x: Array, records: list[Record], filters: Filters, q: Array
) -> tuple[Filters, Any, Any]:
    """The filters before the chunk, the gradient of the layer's parameters, and the signal for the layer below."""
    net, rule, i, here = task.net, task.rule, layer.number, records[layer.number]
    local, shared = rule.at(i, net.depth), stages.sees_inputs(rule.at(i, net.depth))
    collect = layers.Collector(layer.map, layer.params, x, task.engine)
    arrays, together = states.split(task.leaks)

    def backward(fixed: Any, carry: Any, at_t: Any) -> Any:
        (values, arrays), (filters, collected, totals) = fixed, carry
        q, kept, h̄, means, causes = at_t
        at = neurons.derivatives(neurons.bound(layer.kind, values), kept)
        h̄ = None if h̄ is None else states.numbers_from(at.h, h̄)
        now, decay = stages.seen(net, rule, i, at, h̄, together(arrays), means)
        seen = stages.of_inputs(net, i, now, decay) if shared else (now, decay)
        after, κ, m = local.backward(filters.weights, q, *seen)
        _check_filters(layer, local, filters.weights, after)
        own = filters.neurons
        for name, entering in neurons.causes(layer.kind).items() if causes else ():
            start = filters.weights if own is None else filters.neurons
            more, κ_own, _ = local.backward(start, q, now, decay._replace(b=entering))
            totals = {**totals, name: totals[name] + κ_own * causes[name]}
            own = None if own is None else more
        collected, kept_κ = collect.step(collected, κ)
        m = None if i == 0 or m is kept_κ else m  # BPTT sends down what it learns from: one array is enough
        return (Filters(after, own), collected, totals), (kept_κ, m)

    means = [stages.per_sample(a.mean, len(layer.shape)) if j >= i else None for j, a in enumerate(records)]
    totals = {name: jnp.zeros((), task.dtype) for name in here.causes}
    (filters, collected, totals), (kept, m) = scan.recur(
        backward,
        (filters, collect.start(), totals),
        (q, here.kept, here.h̄, means, here.causes),
        fixed=(layer.values, arrays),
        reverse=True,
        backend=task.engine.backend,
    )
    of_map = collect.gradient(collected, kept)
    sums = {name: total.sum(0) for name, total in totals.items()}
    return filters, joined_gradient(net, task.params, i, of_map, sums), kept if m is None else m


def _check_filters(layer: Layer, local: Any, before: Any, after: Any) -> None:
    if jax.tree.structure(before) != jax.tree.structure(after):
        k = neurons.states_of(layer.kind)
        raise ValueError(
            f"backward of {type(local).__name__} returned other filters than its start made for layer {layer.number},"
            f" whose neurons have {k} {'state' if k == 1 else 'states'}. A blank vector has one entry per state: keep"
            " such a filter with decay.carry_back, and start one with a single number by scalar(neuron)."
        )
