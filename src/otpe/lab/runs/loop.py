"""The programs that run on the device: a block of steps with the evaluations that fall into it, and a test.

How many strides a block has is an argument of its program, not a part of it. So however a run is cut into blocks, by
signals, checkpoints or the speed of the machine, every step is computed by the same instructions, and a run that was
resumed ends with the same bits. A stride is a few steps in a loop whose length is fixed, for which a GPU need not ask
the host after each one; a run is only ever cut between two of them. On a CPU, which has nobody to ask, it is one step.

Evaluations are part of the block: the host would need milliseconds for each, in which a GPU trains on tens of
mini-batches.
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
from otpe.lab.runs.task import Exam
from otpe.lab.settings import Mode
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.rulebook.choose import TraceChoice
from otpe.training import gradients, online_pass
from otpe.training.interned import Interned
from otpe.training.optimizer import Schedule

LONGEST_STRIDE = 20
ROWS = 64  # evaluations that a block has room for
FOR_WEIGHTS = 2**31  # folded into the seed's key; mini-batches fold in their number, which is smaller


@dataclass(frozen=True)
class View:
    """How a network is looked at: all that an evaluation depends on."""

    net: Network
    readout: losses.Readout
    precision: Precision
    backend: Backend
    loss: losses.Loss = losses.DEFAULT


@dataclass(frozen=True)
class Recipe:
    """How it is trained: all that decides which program is compiled."""

    view: View
    rule: Rule
    mode: Mode
    optimizer: Interned | optax.GradientTransformationExtraArgs
    schedule: Schedule | None  # of the learning rate; None for a user's optimizer, which has its own
    batch: int
    every: int
    stride: int
    traces: TraceChoice
    exam: Exam  # for validation
    align: tuple[Rule, ...] = ()  # whose gradients are compared with BPTT's at evaluations


def longest_stride(common: int) -> int:
    """For a run whose evaluations and last step all are multiples of this number."""
    longest = 1 if jax.default_backend() == "cpu" else LONGEST_STRIDE
    return max(n for n in range(1, longest + 1) if common % n == 0)


class Best(NamedTuple):
    """What validated best until now."""

    accuracy: Array  # [S], −1 before the first validation
    step: Array  # [S]
    params: Any


class State(NamedTuple):
    """All that a run is; every array but `step` has an axis of S seeds first."""

    step: Array  # mini-batches learned from
    params: Any
    opt_state: Any
    loss: Array  # [S] sum over the steps since the last evaluation
    last_loss: Array  # [S] the same, until the last evaluation
    best: Best


class Scores(NamedTuple):
    loss: Array  # [S]
    accuracy: Array  # [S]
    rates: Array  # [S, layers] spikes per neuron and time step


class Row(NamedTuple):
    """An evaluation."""

    step: Array
    loss: Array  # [S] of training: sum over the steps since the one before
    scores: Scores
    alignment: dict[str, Alignment]  # at the next mini-batch, each number [S]


class Log(NamedTuple):
    """The evaluations of a block."""

    filled: Array
    rows: Row  # with an axis of ROWS first, of which so many are


class Networks(NamedTuple):
    """Those that are trained, S of them; inside a program, one."""

    seed: Array  # [S] of its weights and its mini-batches
    draw: Array | None = None  # [S] of the manifolds it learns; None: all see the same

    def sees(self, data: Any) -> Dataset:
        return data if self.draw is None else data.on(self.draw)


class Numbers(NamedTuple):
    """Of a run, but not of its program: runs that differ in nothing else share what was compiled."""

    every: Any  # there is an evaluation after so many steps
    last: Any  # and after this one
    rate: Any  # learning rate


@partial(jax.jit, static_argnums=0)
def start(recipe: Recipe, seeds: Array, given: Any = None) -> State:
    """Before the first step. `given`: parameters with an axis of S seeds first, in place of random ones."""

    def weights(seed: Array) -> Any:
        return recipe.view.net.init(jax.random.fold_in(random_key(seed), FOR_WEIGHTS), jnp.float32)

    params, none = jax.vmap(weights)(seeds) if given is None else given, jnp.zeros(len(seeds), jnp.float32)
    best = Best(none - 1, jnp.zeros(len(seeds), jnp.int32), params)
    return State(jnp.zeros((), jnp.int32), params, jax.vmap(recipe.optimizer.init)(params), none, none, best)


@partial(jax.jit, static_argnums=0)
def advance(
    recipe: Recipe, train: Dataset, valid: Dataset, networks: Networks, state: State, strides: Any, numbers: Numbers
) -> tuple[State, Log, Array]:
    """The state after so many strides, what was measured, and whether the numbers of each seed are still finite [S]."""
    count = len(networks.seed)

    def step(_: Any, state: State) -> State:
        def one(network: Networks, params: Any, opt_state: Any) -> Any:
            batch = network.sees(train).batch(network.seed, state.step, recipe.batch)
            return _learn(recipe, batch, params, opt_state, state.step, numbers.rate)

        params, opt_state, loss = each_network(count, one)(networks, state.params, state.opt_state)
        return state._replace(step=state.step + 1, params=params, opt_state=opt_state, loss=state.loss + loss)

    def look(state: State) -> tuple[State, Row]:
        validated, scores = _validated(recipe, valid, networks, state)
        return validated, Row(state.step, state.loss, scores, _aligned(recipe, train, networks, state))

    def evaluate(state: State, log: Log) -> tuple[State, Log]:
        validated, row = look(state)
        rows = jax.tree.map(lambda rows, one: rows.at[log.filled].set(one), log.rows, row)
        return validated, Log(log.filled + 1, rows)

    def stride(_: Any, carry: tuple[State, Log]) -> tuple[State, Log]:
        state, log = carry
        state = jax.lax.fori_loop(0, recipe.stride, step, state)
        due = (state.step % numbers.every == 0) | (state.step == numbers.last)
        return jax.lax.cond(due, evaluate, lambda *same: same, state, log)

    state, log = jax.lax.fori_loop(0, strides, stride, (state, _blank(jax.eval_shape(look, state)[1])))
    sound = [jnp.isfinite(leaf).reshape(count, -1).all(1) for leaf in jax.tree.leaves((state.params, state.loss))]
    return state, log, jnp.stack(sound).all(0)


def _blank(row: Row) -> Log:
    return Log(jnp.zeros((), jnp.int32), jax.tree.map(lambda x: jnp.zeros((ROWS, *x.shape), x.dtype), row))


def _validated(recipe: Recipe, data: Dataset, networks: Networks, state: State) -> tuple[State, Scores]:
    """The state with the best until now, whose sum of losses starts anew, and the scores."""
    scores = _scores(recipe.view, recipe.exam, data, networks, state.params, recipe.exam.batches)
    better = scores.accuracy > state.best.accuracy

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)

    now = Best(scores.accuracy, jnp.broadcast_to(state.step, better.shape), state.params)
    best = jax.tree.map(keep, now, state.best)
    return state._replace(loss=jnp.zeros_like(state.loss), last_loss=state.loss, best=best), scores


def _aligned(recipe: Recipe, data: Dataset, networks: Networks, state: State) -> dict[str, Alignment]:
    """How the rules' gradients on the next mini-batch lie to BPTT's."""
    if not recipe.align:
        return {}
    view = recipe.view
    how: dict[str, Any] = {"loss": view.loss, "precision": view.precision, "backend": view.backend}

    def one(network: Networks, params: Any) -> dict[str, Alignment]:
        batch = network.sees(data).batch(network.seed, state.step, recipe.batch)
        mask = None if batch.lengths is None else batch.mask
        return alignment(recipe.view.net, params, batch.spikes, batch.labels, mask, rules=recipe.align, **how)

    return each_network(len(networks.seed), one)(networks, state.params)


@partial(jax.jit, static_argnums=(0, 1))
def examine(view: View, exam: Exam, data: Dataset, networks: Networks, params: Any, batches: Any) -> Scores:
    """The scores of these parameters, over the first so many mini-batches of the exam."""
    return _scores(view, exam, data, networks, params, batches)


def _learn(
    recipe: Recipe, batch: SpikeBatch, params: Any, opt_state: Any, step: Array, rate: Any
) -> tuple[Any, Any, Array]:
    """One mini-batch: new parameters, new optimizer state, mean loss."""
    if recipe.schedule is not None:
        opt_state = opt_state._replace(rate=rate * recipe.schedule(step))
    (spikes, labels), mask = batch, None if batch.lengths is None else batch.mask
    view, optimizer = recipe.view, recipe.optimizer
    options: dict[str, Any] = {
        "rule": recipe.rule, "loss": view.loss, "precision": view.precision, "backend": view.backend,
    }  # fmt: skip
    if recipe.mode == "online":
        options |= {"optimizer": optimizer, "every": recipe.every, "traces": recipe.traces}
        params, opt_state, each = online_pass(view.net, params, opt_state, spikes, labels, mask, **options)
        return params, opt_state, each.mean() if mask is None else each @ (mask.sum(1) / mask.sum()).astype(each.dtype)
    loss, grads = gradients(view.net, params, spikes, labels, mask, **options)
    updates, opt_state = optimizer.update(grads, opt_state, params, value=loss)
    return optax.apply_updates(params, updates), opt_state, loss


def _scores(view: View, exam: Exam, data: Dataset, networks: Networks, params: Any, batches: Any) -> Scores:
    """Means over the exam: loss as the rule sees it, accuracy by spike count with silence as wrong, and rates."""

    def one(network: Networks, params: Any) -> Scores:
        def add(i: Any, total: Any) -> Any:
            batch, counts = exam_batch(exam, network.sees(data), i)
            own = counts if batch.lengths is None else counts & batch.mask  # [T, B]: whose time is it?
            spikes = view.net.record(params, batch.spikes, precision=view.precision, backend=view.backend)
            weight = own.astype(spikes[-1].dtype)
            loss = losses.of_outputs(view.net, view.loss, view.readout, spikes, batch.labels, weight)
            right, asked = losses.hits(spikes[-1], batch.labels, own)
            rates = jnp.stack([(s.mean(range(2, s.ndim)) * weight).sum() for s in spikes])
            return jax.tree.map(jnp.add, total, (loss, weight.sum(), right, asked, rates))

        zero, none = jnp.zeros((), jnp.float32), jnp.zeros((), int)
        total = (zero, zero, none, none, jnp.zeros(view.net.depth, jnp.float32))
        loss, time, right, samples, rates = jax.lax.fori_loop(0, batches, add, total)
        return Scores(loss / time, (right / samples).astype(jnp.float32), rates / time)

    return each_network(len(networks.seed), one)(networks, params)


def exam_batch(exam: Exam, data: Dataset, i: Any) -> tuple[SpikeBatch, Array]:
    """Mini-batch i, and which of its samples count [T, B]: the last one may repeat some to be full."""
    if isinstance(data, FrameSet):
        which = i * exam.size + jnp.arange(exam.size)
        batch, counts = data.take(jnp.minimum(which, len(data) - 1)), which < len(data)
    else:
        batch, counts = data.batch(exam.seed, i, exam.size), jnp.ones(exam.size, bool)
    return batch, jnp.broadcast_to(counts, batch.spikes.shape[:2])


def each_network(seeds: int, one: Callable[..., Any]) -> Callable[..., Any]:
    """`one` for every seed side by side. A single one is spared what an axis of length 1 costs a GPU, a tenth."""
    if seeds > 1:
        return jax.vmap(one)
    return lambda *trees: jax.tree.map(lambda x: x[None], one(*jax.tree.map(lambda x: x[0], trees)))
