"""Fair times of several programs: a race.

They take turns in random order, round after round, so that a slow moment of the machine hits all of them.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe.analysis import state_bytes
from otpe.lab.percentiles import percentiles
from otpe.lab.settings import BenchMode
from otpe.networks import Network, dense
from otpe.rulebook import rule as named_rule
from otpe.rulebook import stepper
from otpe.training import gradients, online_pass

SHORTEST_TURN = 1e-3  # a turn repeats a shorter call until this many seconds have passed
FEWEST_ROUNDS = 3


class Times(NamedTuple):
    """Seconds of one call, over all turns."""

    median: float
    min: float
    quartiles: tuple[float, float]
    turns: int
    calls: int  # of all turns together, without the warm-up calls


def race(contestants: Mapping[str, Callable[[], Any]], seconds: float, seed: int = 0) -> dict[str, Times]:
    """Times of each, which had their first call before. The whole race takes about `seconds` for each of them."""
    turns: dict[str, list[tuple[float, int]]] = {name: [] for name in contestants}
    shuffle = np.random.default_rng(seed)
    end = time.perf_counter() + seconds * len(contestants)
    rounds = 0
    while rounds < FEWEST_ROUNDS or time.perf_counter() < end:
        for name in shuffle.permutation(list(contestants)):
            call_seconds(contestants[name])  # leave what the one before did to the caches behind
            turns[name].append(_turn(contestants[name]))
        rounds += 1
    return {name: summary(taken) for name, taken in turns.items()}


def call_seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call, until its result is there."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def summary(turns: list[tuple[float, int]]) -> Times:
    each = [taken for taken, _ in turns]
    low, median, high = percentiles(each, 25, 50, 75)
    return Times(median, min(each), (low, high), len(turns), sum(calls for _, calls in turns))


def _turn(call: Callable[[], Any]) -> tuple[float, int]:
    """Seconds per call and number of calls of one turn."""
    total, calls = 0.0, 0
    while total < SHORTEST_TURN:
        total += call_seconds(call)
        calls += 1
    return total / calls, calls


# --------------------
# One point: a rule, in one mode, at one size. Compiled ahead, so that its bytes are known before it runs.


OPTIMIZER = optax.adamax(1e-3)
RATE = 0.2  # share of input units that spike in a step
STREAM = 16  # a stream repeats its first so many inputs


@dataclass(frozen=True)
class Point:
    sizes: tuple[int, ...]
    steps: int
    batch: int
    rule: str
    mode: BenchMode
    options: dict[str, Any] = field(default_factory=dict)  # more keyword arguments for the function that is measured

    @property
    def net(self) -> Network:
        return dense(self.sizes)


class Bytes(NamedTuple):
    """What XLA plans for one program. Known without running it, and the same every time."""

    arguments: int
    outputs: int
    working: int  # temporary: neither given nor returned
    aliased: int  # outputs that take the place of arguments

    @property
    def peak(self) -> int:
        return self.arguments + self.outputs + self.working - self.aliased


class Program(NamedTuple):
    compiled: Any
    compile_seconds: float  # tracing and compiling
    bytes: Bytes
    recipe: "Recipe"


class Recipe(NamedTuple):
    """How a mode is measured."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # shapes and types
    start: Callable[[Any], Callable[[], Any]]  # from the compiled program to calls of it
    donate: tuple[int, ...] = ()
    before: int = 0  # calls to make before any is timed


def applies(rule: str, mode: BenchMode) -> bool:
    """Whether a rule has this mode at all: some need the whole sequence."""
    return mode == "offline" or named_rule(rule).has_steps


def state(point: Point) -> int | None:
    """Bytes that the rule carries from step to step at this point; None where it goes through the whole sequence."""
    if point.mode == "offline" and named_rule(point.rule).has_whole and point.options.get("form") != "steps":
        return None
    traces = "dense" if point.mode == "step" else "auto"
    more = {name: value for name, value in point.options.items() if name == "traces"}
    kept = state_bytes(point.net, point.rule, batch=point.batch, steps=point.steps, **{"traces": traces, **more})
    return kept.total


def kept(point: Point) -> int:
    """Bytes that the rule has to keep at this point: its state, or of a whole sequence what the way back needs."""
    carried = state(point)
    return sequence_bytes(point.sizes, point.steps, point.batch) if carried is None else carried


def sequence_bytes(sizes: Sequence[int], steps: int, batch: int) -> int:
    """A membrane for each neuron and step: spikes and surrogate derivatives follow from it, so it is the least."""
    return 4 * steps * batch * sum(sizes[1:])


def least(point: Point) -> int:
    """Bytes that every mode has to have at this point: weights, and a mini-batch."""
    weights = sum((n + 1) * m for n, m in itertools.pairwise(point.sizes))
    return 4 * (weights + point.steps * point.batch * point.sizes[0])


def build(point: Point) -> Program:
    """Trace and compile, without allocating anything."""
    recipe = RECIPES[point.mode](point)
    begin = time.perf_counter()
    compiled = jax.jit(recipe.function, donate_argnums=recipe.donate).lower(*recipe.arguments).compile()
    seconds = time.perf_counter() - begin
    plan: Any = compiled.memory_analysis()
    planned = Bytes(
        arguments=plan.argument_size_in_bytes,
        outputs=plan.output_size_in_bytes,
        working=plan.temp_size_in_bytes,
        aliased=plan.alias_size_in_bytes,
    )
    return Program(compiled, seconds, planned, recipe)


def ready(program: Program) -> tuple[Callable[[], Any], float]:
    """Calls of the program, and the seconds of the first: traced, compiled and run."""
    call = program.recipe.start(program.compiled)
    first = program.compile_seconds + call_seconds(call)
    for _ in range(program.recipe.before - 1):
        jax.block_until_ready(call())
    return call, first


def mini_batch(point: Point) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    spikes = rng.random((point.steps, point.batch, point.sizes[0]), np.float32) < RATE
    return jnp.asarray(spikes, "float32"), jnp.asarray(rng.integers(0, point.sizes[-1], point.batch), "int32")


def offline(point: Point) -> Recipe:
    net = point.net

    def function(params: Any, spikes: Any, labels: Any) -> Any:
        return gradients(net, params, spikes, labels, rule=point.rule, **point.options)

    def start(compiled: Any) -> Callable[[], Any]:
        arguments = (_params(net), *mini_batch(point))
        return lambda: compiled(*arguments)

    return Recipe(function, (jax.eval_shape(lambda: _params(net)), *_batch_shapes(point)), start)


def online(point: Point) -> Recipe:
    net = point.net

    def function(params: Any, opt_state: Any, spikes: Any, labels: Any) -> Any:
        return online_pass(
            net, params, opt_state, spikes, labels, rule=point.rule, optimizer=OPTIMIZER, **point.options
        )

    def start(compiled: Any) -> Callable[[], Any]:
        params = _params(net)
        arguments = (params, OPTIMIZER.init(params), *mini_batch(point))
        return lambda: compiled(*arguments)

    params = jax.eval_shape(lambda: _params(net))
    return Recipe(function, (params, jax.eval_shape(OPTIMIZER.init, params), *_batch_shapes(point)), start)


def step(point: Point) -> Recipe:
    """One time step of a stream that has seen `point.steps` before. The state is handed on, so there is one of it."""
    net = point.net
    form = stepper(net, point.rule, batch=point.batch, **{"traces": "dense", **point.options})

    def function(params: Any, state: Any, x: Any, labels: Any) -> Any:
        state, _, loss, grads = form.learn(params, state, x, labels)
        return state, (loss, grads)

    def start(compiled: Any) -> Callable[[], Any]:
        params, (spikes, labels) = _params(net), mini_batch(point)
        stream = itertools.cycle(list(spikes[:STREAM]))
        state = form.init(point.batch, "float32")

        def call() -> Any:
            nonlocal state
            state, emitted = compiled(params, state, next(stream), labels)
            return emitted

        return call

    spikes, labels = _batch_shapes(point)
    x = jax.ShapeDtypeStruct(spikes.shape[1:], spikes.dtype)
    params, state = jax.eval_shape(lambda: (_params(net), form.init(point.batch, "float32")))
    return Recipe(function, (params, state, x, labels), start, donate=(1,), before=point.steps)


RECIPES: dict[BenchMode, Callable[[Point], Recipe]] = {"offline": offline, "online": online, "step": step}


def _params(net: Network) -> Any:
    return net.init(jax.random.key(0), "float32")


def _batch_shapes(point: Point) -> tuple[Any, Any]:
    spikes = jax.ShapeDtypeStruct((point.steps, point.batch, point.sizes[0]), jnp.float32)
    return spikes, jax.ShapeDtypeStruct((point.batch,), jnp.int32)
