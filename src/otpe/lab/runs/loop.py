"""The programs that run on the device: a block of steps with its evaluations, and a test.

A block is a number of strides, and a stride is a loop of a few steps with a fixed length. The number of strides is an
argument of the program, not a part of it. So every step is computed by the same instructions, wherever signals,
checkpoints or the speed of the machine cut a run into blocks, and a resumed run ends with the same bits. The loop over
strides has a variable length, so a GPU waits for the host after each stride, but not after each step. On a CPU a stride
is one step.

Evaluations are part of the block. If the host started them, each would take milliseconds longer, and in that time a GPU
can train on tens of mini-batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from otpe import losses
from otpe.analysis import Alignment, alignment
from otpe.datasets import Dataset, SpikeBatch
from otpe.datasets.dataset import FrameSet, random_key
from otpe.engine import Backend, Precision
from otpe.lab.runs.task import EvaluationSet
from otpe.lab.settings import Mode
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.rulebook.choose import TraceChoice
from otpe.training import gradients, online_pass
from otpe.training.interned import Interned
from otpe.training.optimizer import Schedule

LONGEST_STRIDE = 20
ROWS = 64  # the largest number of evaluations in a block
FOR_WEIGHTS = 2**31  # folded into the seed's key; mini-batches fold in their number, which is smaller


@dataclass(frozen=True)
class EvaluationSetup:
    """Everything that an evaluation depends on, except data and parameters."""

    net: Network
    readout: losses.Readout
    precision: Precision
    backend: Backend
    loss: losses.Loss = losses.DEFAULT


@dataclass(frozen=True)
class Recipe:
    """Everything that the compiled training program depends on."""

    setup: EvaluationSetup
    rule: Rule
    mode: Mode
    optimizer: Interned | optax.GradientTransformationExtraArgs
    schedule: Schedule | None  # of the learning rate; None for a user's optimizer, which has its own
    batch: int
    every: int
    stride: int
    traces: TraceChoice
    validation_set: EvaluationSet
    align: tuple[Rule, ...] = ()  # rules whose gradients are compared with BPTT's at evaluations


def longest_stride(common: int) -> int:
    """Return the number of steps in a stride: a divisor of `common`. Evaluations are at multiples of `common`."""
    longest = 1 if jax.default_backend() == "cpu" else LONGEST_STRIDE
    return max(n for n in range(1, longest + 1) if common % n == 0)


class Best(NamedTuple):
    """The parameters with the best validation so far."""

    accuracy: Array  # [S], −1 before the first validation
    step: Array  # [S]
    params: Any


class State(NamedTuple):
    """The state of a run. Every array but `step` has a first axis of S seeds."""

    step: Array  # mini-batches so far
    params: Any
    opt_state: Any
    loss: Array  # [S] sum over the steps since the last evaluation
    last_loss: Array  # [S] the same sum at the last evaluation
    best: Best


class Scores(NamedTuple):
    loss: Array  # [S]
    accuracy: Array  # [S]
    rates: Array  # [S, layers] spikes per neuron and time step


class Row(NamedTuple):
    """An evaluation."""

    step: Array
    loss: Array  # [S] of training: sum over the steps since the previous evaluation
    scores: Scores
    alignment: dict[str, Alignment]  # on the next mini-batch, each number [S]


class Log(NamedTuple):
    """The evaluations of a block."""

    filled: Array
    rows: Row  # arrays [ROWS, …]; the first `filled` rows are valid


class Networks(NamedTuple):
    """The S networks that are trained. Under `each_network` there is no axis S: it is a single network."""

    seed: Array  # [S] of the initial weights and the mini-batches
    draw: Array | None = None  # [S] number of the manifold draw; None: all networks see the same data

    def sees(self, data: Any) -> Dataset:
        return data if self.draw is None else data.on(self.draw)


class Numbers(NamedTuple):
    """Numbers that are arguments of the program: runs that differ only in these share a compiled program."""

    every: Any  # steps between evaluations
    last: Any  # the last step, which is evaluated too
    rate: Any  # learning rate


@partial(jax.jit, static_argnums=0)
def start(recipe: Recipe, seeds: Array, given: Any = None) -> State:
    """Return the state before the first step. `given`: parameters with a first axis of S seeds; None: random."""

    def weights(seed: Array) -> Any:
        return recipe.setup.net.init(jax.random.fold_in(random_key(seed), FOR_WEIGHTS), jnp.float32)

    params, none = jax.vmap(weights)(seeds) if given is None else given, jnp.zeros(len(seeds), jnp.float32)
    best = Best(none - 1, jnp.zeros(len(seeds), jnp.int32), params)
    return State(jnp.zeros((), jnp.int32), params, jax.vmap(recipe.optimizer.init)(params), none, none, best)


@partial(jax.jit, static_argnums=0)
def advance(
    recipe: Recipe, train: Dataset, valid: Dataset, networks: Networks, state: State, strides: Any, numbers: Numbers
) -> tuple[State, Log, Array]:
    """Return the state after a number of strides, the evaluations, and whether all numbers of a seed are finite [S]."""
    count = len(networks.seed)

    def step(_: Any, state: State) -> State:
        def one(network: Networks, params: Any, opt_state: Any) -> Any:
            batch = network.sees(train).batch(network.seed, state.step, recipe.batch)
            return _learn(recipe, batch, params, opt_state, state.step, numbers.rate)

        params, opt_state, loss = each_network(count, one)(networks, state.params, state.opt_state)
        return state._replace(step=state.step + 1, params=params, opt_state=opt_state, loss=state.loss + loss)

    def measure(state: State) -> tuple[State, Row]:
        validated, scores = _validated(recipe, valid, networks, state)
        return validated, Row(state.step, state.loss, scores, _aligned(recipe, train, networks, state))

    def evaluate(state: State, log: Log) -> tuple[State, Log]:
        validated, row = measure(state)
        rows = jax.tree.map(lambda rows, one: rows.at[log.filled].set(one), log.rows, row)
        return validated, Log(log.filled + 1, rows)

    def stride(_: Any, carry: tuple[State, Log]) -> tuple[State, Log]:
        state, log = carry
        state = jax.lax.fori_loop(0, recipe.stride, step, state)
        due = (state.step % numbers.every == 0) | (state.step == numbers.last)
        return jax.lax.cond(due, evaluate, lambda *same: same, state, log)

    state, log = jax.lax.fori_loop(0, strides, stride, (state, _blank(jax.eval_shape(measure, state)[1])))
    sound = [jnp.isfinite(leaf).reshape(count, -1).all(1) for leaf in jax.tree.leaves((state.params, state.loss))]
    return state, log, jnp.stack(sound).all(0)


def _blank(row: Row) -> Log:
    return Log(jnp.zeros((), jnp.int32), jax.tree.map(lambda x: jnp.zeros((ROWS, *x.shape), x.dtype), row))


def _validated(recipe: Recipe, data: Dataset, networks: Networks, state: State) -> tuple[State, Scores]:
    """Return the scores, and the state with the best parameters updated and the sum of losses reset."""
    scores = _scores(recipe.setup, recipe.validation_set, data, networks, state.params, recipe.validation_set.batches)
    better = scores.accuracy > state.best.accuracy

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    now = Best(scores.accuracy, jnp.broadcast_to(state.step, better.shape), state.params)
    best = jax.tree.map(keep, now, state.best)
    return state._replace(loss=jnp.zeros_like(state.loss), last_loss=state.loss, best=best), scores


def _aligned(recipe: Recipe, data: Dataset, networks: Networks, state: State) -> dict[str, Alignment]:
    """Return the alignment of the rules' gradients with BPTT's, on the next mini-batch."""
    if not recipe.align:
        return {}
    setup = recipe.setup
    how: dict[str, Any] = {"loss": setup.loss, "precision": setup.precision, "backend": setup.backend}

    def one(network: Networks, params: Any) -> dict[str, Alignment]:
        batch = network.sees(data).batch(network.seed, state.step, recipe.batch)
        mask = None if batch.lengths is None else batch.mask
        return alignment(recipe.setup.net, params, batch.spikes, batch.labels, mask, rules=recipe.align, **how)

    return each_network(len(networks.seed), one)(networks, state.params)


@partial(jax.jit, static_argnums=(0, 1))
def score(
    setup: EvaluationSetup, evaluation_set: EvaluationSet, data: Dataset, networks: Networks, params: Any, batches: Any
) -> Scores:
    """Return the scores of these parameters over the first `batches` mini-batches of the evaluation."""
    return _scores(setup, evaluation_set, data, networks, params, batches)


def _learn(
    recipe: Recipe, batch: SpikeBatch, params: Any, opt_state: Any, step: Array, rate: Any
) -> tuple[Any, Any, Array]:
    """Learn from one mini-batch. Returns new parameters, new optimizer state, mean loss."""
    if recipe.schedule is not None:
        opt_state = opt_state._replace(rate=rate * recipe.schedule(step))
    (spikes, labels), mask = batch, None if batch.lengths is None else batch.mask
    setup, optimizer = recipe.setup, recipe.optimizer
    options: dict[str, Any] = {
        "rule": recipe.rule, "loss": setup.loss, "precision": setup.precision, "backend": setup.backend,
    }  # fmt: skip
    if recipe.mode == "online":
        options |= {"optimizer": optimizer, "every": recipe.every, "traces": recipe.traces}
        params, opt_state, each = online_pass(setup.net, params, opt_state, spikes, labels, mask, **options)
        return params, opt_state, each.mean() if mask is None else each @ (mask.sum(1) / mask.sum()).astype(each.dtype)
    loss, grads = gradients(setup.net, params, spikes, labels, mask, **options)
    updates, opt_state = optimizer.update(grads, opt_state, params, value=loss)
    return optax.apply_updates(params, updates), opt_state, loss


def _scores(
    setup: EvaluationSetup, evaluation_set: EvaluationSet, data: Dataset, networks: Networks, params: Any, batches: Any
) -> Scores:
    """Return means over an evaluation: the rule's loss, accuracy by spike count (silence is wrong), and spike rates."""

    def one(network: Networks, params: Any) -> Scores:
        def add(i: Any, total: Any) -> Any:
            batch, counts = evaluation_batch(evaluation_set, network.sees(data), i)
            own = counts if batch.lengths is None else counts & batch.mask  # [T, B] steps of real samples
            spikes = setup.net.record(params, batch.spikes, precision=setup.precision, backend=setup.backend)
            weight = own.astype(spikes[-1].dtype)
            loss = losses.of_outputs(setup.net, setup.loss, setup.readout, spikes, batch.labels, weight)
            right, asked = losses.hits(spikes[-1], batch.labels, own)
            rates = jnp.stack([(s.mean(range(2, s.ndim)) * weight).sum() for s in spikes])
            return jax.tree.map(jnp.add, total, (loss, weight.sum(), right, asked, rates))

        zero, none = jnp.zeros((), jnp.float32), jnp.zeros((), int)
        total = (zero, zero, none, none, jnp.zeros(setup.net.depth, jnp.float32))
        loss, time, right, samples, rates = jax.lax.fori_loop(0, batches, add, total)
        return Scores(loss / time, (right / samples).astype(jnp.float32), rates / time)

    return each_network(len(networks.seed), one)(networks, params)


def evaluation_batch(evaluation_set: EvaluationSet, data: Dataset, i: Any) -> tuple[SpikeBatch, Array]:
    """Return mini-batch i, and a mask [T, B] of samples to count. The last mini-batch is filled up with a repeated
    sample, which does not count.
    """
    if isinstance(data, FrameSet):
        which = i * evaluation_set.size + jnp.arange(evaluation_set.size)
        batch, counts = data.take(jnp.minimum(which, len(data) - 1)), which < len(data)
    else:
        batch, counts = data.batch(evaluation_set.seed, i, evaluation_set.size), jnp.ones(evaluation_set.size, bool)
    return batch, jnp.broadcast_to(counts, batch.spikes.shape[:2])


def each_network(seeds: int, one: Callable[..., Any]) -> Callable[..., Any]:
    """Return `one` mapped over the seeds. A single seed does without vmap, which would make a GPU a tenth slower."""
    if seeds > 1:
        return jax.vmap(one)
    return lambda *trees: jax.tree.map(lambda x: x[None], one(*jax.tree.map(lambda x: x[0], trees)))
