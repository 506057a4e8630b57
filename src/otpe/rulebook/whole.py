"""Driver of the whole-sequence form: runs any rule at about the cost of BPTT.

Forwards, a layer's currents for all T·B rows are one matrix product, and its spikes one elementwise recurrence.
Backwards, another recurrence turns the signal q into κ and m. Then Σ_t x_t ⊗ κ_t is one matrix product, and m Wᵀ, the
signal of the layer below, is another. No array has the size n_in · n_out · T.

A sequence may be cut into chunks. This does not change the gradient. The first pass runs the chunks forwards. The
second pass runs them from the last to the first, and each chunk passes its filters to the one before it. There are
two ways. For a long sequence, to save memory, the first pass stores only the state at the start of each chunk, and the
second pass repeats the forward pass of each chunk. For a short sequence, to save time, the first pass stores the record
of each layer. Chunks still help a CPU: currents and signals are as short as a chunk and fit into its caches.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from otpe import layers, losses, neurons, scan, states
from otpe.engine import Engine
from otpe.layers import Current
from otpe.losses import Loss
from otpe.networks import Layer, Network, bind, join_gradients, output_type, walk
from otpe.rulebook import stages
from otpe.rulebook.rule import Rule


class Record(NamedTuple):
    """What one layer did over a chunk."""

    output: Array  # s_t                                       [T, B, *out]
    kept: Any  # what `step` returns for `linearise`       [T, B, *out] each
    h̄: Any  # None if the rule uses no averages            [T, B, *out] each
    mean: Array | None  # mean_j ρ_t, if a rule needs it            [T, B]
    causes: dict[str, Array]  # x of each trained neuron parameter        [T, B, *out]


class State(NamedTuple):
    """What one chunk passes to the next."""

    layers: tuple[Any, ...]  # for each layer: the state of the neurons, and the average of h
    readout: Array | None  # o_t, if the loss sees the leaky sum    [B, classes]


class Filters(NamedTuple):
    """The filters of a rule in one layer. They run backwards in time."""

    weights: Any
    neurons: Any  # for the trained neuron parameters; None if `weights` is used for both


class ForwardRecord(NamedTuple):
    """The result of the forward pass over a chunk."""

    after: Any  # the state after the chunk; None if it is not stored
    records: list[Record]
    logits: Array  # what the loss sees    [T, B, classes]


class Plan(NamedTuple):
    """What is computed, and in which chunks."""

    net: Network
    rule: Rule
    loss: Loss
    chunk: int | None = None  # time steps per chunk; None: the whole sequence at once
    keep: bool = False  # whether the first pass stores the records; otherwise the second pass computes them again


class Task(NamedTuple):
    """What is the same for all chunks."""

    plan: Plan
    engine: Engine
    steps: int  # of the whole sequence; the loss is a mean over them
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
    """The loss and its gradient by the rule. The loss is a mean over time and batch, or a sum with `weight` [T, B]."""
    (steps, batch), chunk = spikes.shape[:2], plan.chunk
    task = Task(plan, engine, steps, params, bind(plan.net, params))
    if chunk is None or chunk >= steps:
        forward = _forward(task, _initial_state(task), spikes)
        return _backward(task, forward, _initial_filters(task), spikes, target, weight)[1]

    timed = losses.is_timed(target)

    def first_pass(state: State, x: Array) -> tuple[State, Any]:
        forward = _forward(task, state, x)
        return forward.after, forward._replace(after=None) if plan.keep else state

    def second_pass(carry: Any, inputs: Any) -> tuple[Any, None]:
        (filters, total), (stored, x, y, w) = carry, inputs
        forward = stored if plan.keep else _forward(task, stored, x)
        filters, result = _backward(task, forward, filters, x, y if timed else target, w)
        return (filters, jax.tree.map(jnp.add, total, result)), None

    whole = steps // chunk * chunk
    head, tail = _cut(spikes, chunk), spikes[whole:]
    state, stored = scan.loop(first_pass, _initial_state(task, batch), head)
    filters = _initial_filters(task, batch)
    total = (jnp.zeros((), task.dtype), jax.tree.map(jnp.zeros_like, params))
    if len(tail):
        tail_weight = None if weight is None else weight[whole:]
        forward, tail_target = _forward(task, state, tail), target[whole:] if timed else target
        filters, total = _backward(task, forward, filters, tail, tail_target, tail_weight)
    targets = _cut(target, chunk) if timed else None
    weights = None if weight is None else _cut(weight, chunk)
    (_, total), _ = scan.loop(second_pass, (filters, total), (stored, head, targets, weights), reverse=True)
    return total


def _cut(sequence: Array, chunk: int) -> Array:
    """The whole chunks of a sequence: [chunks, steps per chunk, …], without the rest."""
    chunks = len(sequence) // chunk
    return sequence[: chunks * chunk].reshape(chunks, chunk, *sequence.shape[1:])


def _backward(
    task: Task, forward: ForwardRecord, filters: list[Filters], x: Array, target: Array, weight: Array | None
) -> tuple[list[Filters], tuple[Array, tuple[Any, ...]]]:
    """Run the backward pass. Return the filters for the chunk before, and this chunk's share of loss and gradient."""
    net, loss_function, share = task.net, task.plan.loss, x.shape[0] / task.steps
    loss, q = losses.value_and_signal(loss_function, forward.logits, target, weight)
    if weight is None:
        loss, q = share * loss, share * q
    first = task.layers[0]
    x = layers.narrow(first.map, first.params, x, task.engine, task.dtype)
    inputs = [x, *(record.output for record in forward.records)]
    before, grads = [], []
    for layer in reversed(task.layers):
        i = layer.number
        filters_before, grad, m = _backward_layer(task, layer, inputs[i], forward.records, filters[i], q)
        before.append(filters_before)
        grads.append(grad)
        if i > 0:
            q = layers.transpose(layer.map, layer.params, m, task.engine)
            if loss_function.rate_weight and neurons.is_spiking(net.neurons[i - 1]):
                output, rank = inputs[i].astype(q.dtype), len(net.layers[i - 1].out_shape)
                penalty, more = losses.rate_penalty(loss_function, output, rank, weight)
                scale = 1 if weight is not None else share
                loss, q = loss + scale * penalty, q + scale * more
    return before[::-1], (loss, tuple(reversed(grads)))


def _initial_state(task: Task, batch: int | None = None) -> State:
    """The state before the first step: arrays for a batch, or scalars that broadcast if `batch` is None."""
    states_and_averages, weight = [], jnp.zeros((), task.dtype)
    for layer in task.layers:
        start = neurons.initial_state(layer.unbound_neuron, batch, layer.shape, task.dtype)
        blank = _blank(task, layer.shape, batch)
        average = stages.blank_average(task.net, task.rule, layer.number, blank, weight)
        states_and_averages.append((start, average))
    readout = _blank(task, task.layers[-1].shape, batch) if task.rule.readout == "leaky" else None
    return State(tuple(states_and_averages), readout)


def _initial_filters(task: Task, batch: int | None = None) -> list[Filters]:
    """The filters after the last step of the sequence, where the backward pass starts."""
    filters = []
    for layer in task.layers:
        net, i, blank = task.net, layer.number, _blank(task, layer.shape, batch)
        local, count = task.rule.at(i, net.depth), stages.filter_count(net, task.rule, i)
        weights = local.start(stages.blank_trace(net, task.rule, i, blank), count)
        for_neurons = None
        if neurons.cause_vectors(layer.unbound_neuron) and stages.has_input_traces(local):
            for_neurons = local.start(states.packed([blank] * neurons.state_count(layer.unbound_neuron)), count)
        filters.append(Filters(weights, for_neurons))
    return filters


def _blank(task: Task, shape: tuple[int, ...], batch: int | None) -> Array:
    return jnp.zeros(() if batch is None else (batch, *shape), task.dtype)


def _forward(task: Task, state: State, x: Array) -> ForwardRecord:
    """The forward pass over a chunk."""
    leaks = task.leaks

    def each(layer: Layer, x: Array, current: Current) -> tuple[Array, Any]:
        record, after = _forward_layer(task, layer, leaks, state.layers[layer.number], current)
        return record.output, (record, after)

    x, results = walk(task.net, task.params, x, task.engine, each)
    records, after = [record for record, _ in results], tuple(after for _, after in results)
    if state.readout is None:
        return ForwardRecord(State(after, None), records, x)

    def leaky(_: None, o: Array, s: Array) -> tuple[Array, Array]:
        o = task.net.readout_leak * o + s
        return o, o

    o, logits = scan.recur(leaky, state.readout, x, backend=task.engine.backend)
    return ForwardRecord(State(after, o), records, logits)


def _forward_layer(task: Task, layer: Layer, leaks: list[Any], state: Any, current: Current) -> tuple[Record, Any]:
    """The record of one layer over a chunk, and its state after it."""
    net, rule, i = task.net, task.rule, layer.number
    average_leaks, dtype = stages.average_leaks(net, rule, i, leaks), output_type(net, task.params, i, task.engine)
    arrays, rebuild = states.split(average_leaks)
    trained = neurons.cause_vectors(layer.unbound_neuron)

    def fire(fixed: Any, carry: Any, terms: Any) -> Any:
        (bias, values, arrays), (state, average) = fixed, carry
        neuron = neurons.bind(layer.unbound_neuron, values)
        causes = neurons.cause_inputs(neuron, state, trained)
        state, output, kept = neuron.step(state, Current(terms, bias).total)
        h̄ = None
        if average is not None:
            h = neurons.derivatives(neuron, kept).h
            average = average.advance(h, rebuild(arrays))
            h̄ = states.arrays_only(average.mean(h, len(average_leaks)))
        return (state, average), (output.astype(dtype), kept, h̄, causes)

    fixed = (current.bias, layer.values, arrays)
    after, (output, kept, h̄, causes) = scan.recur(fire, state, current.terms, fixed=fixed, backend=task.engine.backend)
    mean = None
    if stages.needs_mean_survival(net, rule, i):
        mean = stages.mean_survival(net, i, neurons.derivatives(layer.neuron, kept).A)
    return Record(output, kept, h̄, mean, causes), after


def _backward_layer(
    task: Task, layer: Layer, x: Array, records: list[Record], filters: Filters, q: Array
) -> tuple[Filters, Any, Any]:
    """The filters before the chunk, the gradient of the layer's parameters, and the signal for the layer below."""
    net, rule, i, record = task.net, task.rule, layer.number, records[layer.number]
    local, shared = rule.at(i, net.depth), stages.has_input_traces(rule.at(i, net.depth))
    collect = layers.Collector(layer.map, layer.params, x, task.engine)
    arrays, rebuild = states.split(task.leaks)

    def backward(fixed: Any, carry: Any, inputs: Any) -> Any:
        (values, arrays), (filters, collected, totals) = fixed, carry
        q, kept, h̄, means, causes = inputs
        derivatives = neurons.derivatives(neurons.bind(layer.unbound_neuron, values), kept)
        h̄ = None if h̄ is None else states.numbers_from(derivatives.h, h̄)
        now, decay = stages.rule_inputs(net, rule, i, derivatives, h̄, rebuild(arrays), means)
        for_weights = stages.for_input_traces(net, i, now, decay) if shared else (now, decay)
        after, κ, m = local.backward(filters.weights, q, *for_weights)
        _check_filters(layer, local, filters.weights, after)
        neuron_filters = filters.neurons
        for name, entering in neurons.cause_vectors(layer.unbound_neuron).items() if causes else ():
            start = filters.weights if neuron_filters is None else filters.neurons
            new_filters, κ_value, _ = local.backward(start, q, now, decay._replace(b=entering))
            totals = {**totals, name: totals[name] + κ_value * causes[name]}
            neuron_filters = None if neuron_filters is None else new_filters
        collected, stored_κ = collect.step(collected, κ)
        m = None if i == 0 or m is stored_κ else m  # in BPTT, m is κ: store this array only once
        return (Filters(after, neuron_filters), collected, totals), (stored_κ, m)

    means = [stages.per_sample(a.mean, len(layer.shape)) if j >= i else None for j, a in enumerate(records)]
    totals = {name: jnp.zeros((), task.dtype) for name in record.causes}
    (filters, collected, totals), (stored_κ, m) = scan.recur(
        backward,
        (filters, collect.start(), totals),
        (q, record.kept, record.h̄, means, record.causes),
        fixed=(layer.values, arrays),
        reverse=True,
        backend=task.engine.backend,
    )
    map_grad = collect.gradient(collected, stored_κ)
    sums = {name: total.sum(0) for name, total in totals.items()}
    return filters, join_gradients(net, task.params, i, map_grad, sums), stored_κ if m is None else m


def _check_filters(layer: Layer, local: Any, before: Any, after: Any) -> None:
    """Raise ValueError if `backward` returned filters of another structure than it was given."""
    if jax.tree.structure(before) != jax.tree.structure(after):
        k = neurons.state_count(layer.unbound_neuron)
        raise ValueError(
            f"backward of {type(local).__name__} returned other filters than its start made for layer {layer.number},"
            f" whose neurons have {k} {'state' if k == 1 else 'states'}. A blank vector has one entry per state: update"
            " such a filter with decay.carry_back. For a filter with a single number, use scalar(neuron) in start."
        )
