"""The points of a benchmark, their compiled programs, and a race that measures their times.

A point is a rule in one mode at one place: a network, a number of time steps and a number of samples. Its program is
compiled first, so that its bytes are known before it runs.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe import check
from otpe.analysis import state_bytes
from otpe.lab.percentiles import percentiles
from otpe.lab.settings import BenchConfig, BenchMode
from otpe.networks import Network, dense
from otpe.rulebook import rule as named_rule
from otpe.rulebook import rules as all_rules
from otpe.rulebook import stepper
from otpe.rulebook.rule import NonLocal
from otpe.training import gradients, online_pass

OPTIMIZER = optax.adamax(1e-3)
RATE = 0.2  # share of input units that spike in a step
STREAM = 16  # a stream repeats this many inputs
MOST = 2**31 - 1
SHORTEST_TURN = 1e-3  # seconds; a turn repeats a shorter call
FEWEST_ROUNDS = 3


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


def applies(rule: str, mode: BenchMode) -> bool:
    """Return whether a rule has this mode: some rules need the whole sequence."""
    return mode == "offline" or named_rule(rule).has_steps


# --------------------
# From the settings to the points.


class Place(NamedTuple):
    sizes: tuple[int, ...]
    steps: int
    batch: int


class Heat(NamedTuple):
    """Points that race against each other: all rules in one mode at one place."""

    points: list[Point]
    axes: dict[str, int]  # the axes that the place is on, and its value on each


def checked(config: BenchConfig) -> BenchConfig:
    """Return the settings with `quick` applied and repeated values removed. Raises for any invalid setting."""
    config = config.resolved()
    scalable = tuple(name for name in all_rules() if not isinstance(named_rule(name).hidden, NonLocal))
    rules = scalable if config.rules == ("all",) else tuple(dict.fromkeys(config.rules))
    modes, sizes = tuple(dict.fromkeys(config.modes)), tuple(check.sizes(config.sizes))
    for what, known, given in (("rule", all_rules(), rules), ("mode", get_args(BenchMode), modes)):
        for name in given:
            check.one_of(what, name, known)
        if not given:
            raise ValueError(f"{what}s is empty, expected at least one of: {', '.join(known)}.")
    counts = {
        "base steps": (config.base_steps,), "base batch": (config.base_batch,), "width": config.widths,
        "steps": config.steps, "batch": config.batches, "depth": config.depths,
    }  # fmt: skip
    for what, values in counts.items():
        for value in values:
            check.count(what, value, MOST)
    for what, value in (("seconds", config.seconds), ("max gb", config.max_gb)):
        if not value > 0:
            raise ValueError(f"{what} is {value}, expected a number above 0.")
    if not any(applies(rule, mode) for rule in rules for mode in modes):
        raise ValueError(
            f"rules {', '.join(rules)} in modes {', '.join(modes)} leave nothing to measure: they have no per-step"
            " form. Add the mode offline, or a rule that learns online, such as otpe."
        )
    return replace(config, rules=rules, modes=modes, sizes=sizes)


def heats(config: BenchConfig, options: Mapping[str, Any] = MappingProxyType({})) -> list[Heat]:
    """Return what to measure. A place on several axes is measured once. `options` go to every measured function."""
    found = []
    for mode in config.modes:
        rules = [rule for rule in config.rules if applies(rule, mode)]
        for place, axes in places(config).items() if rules else ():
            found.append(Heat([Point(*place, rule, mode, dict(options)) for rule in rules], axes))
    return found


def places(config: BenchConfig) -> dict[Place, dict[str, int]]:
    """Return all places with their value on each axis they are on. If no axis is swept, the base place alone."""
    base = Place(config.sizes, config.base_steps, config.base_batch)
    swept: list[tuple[str, int, Place]] = [
        *(("width", n, base._replace(sizes=(n,) * len(base.sizes))) for n in config.widths),
        *(("steps", T, base._replace(steps=T)) for T in config.steps),
        *(("batch", B, base._replace(batch=B)) for B in config.batches),
        *(("depth", L, base._replace(sizes=(base.sizes[1],) * (L + 1))) for L in config.depths),
    ]
    found: dict[Place, dict[str, int]] = {} if swept else {base: {}}
    for axis, value, place in swept:
        found.setdefault(place, {})[axis] = value
    return found


def bases(config: BenchConfig, heats: list[Heat]) -> list[Point]:
    """Return every rule in every mode, at the base place."""
    first = {(point.mode, point.rule): point for heat in heats for point in heat.points}
    return [
        replace(point, sizes=config.sizes, steps=config.base_steps, batch=config.base_batch) for point in first.values()
    ]


# --------------------
# Bytes that are known without running anything.


def state(point: Point) -> int | None:
    """Bytes that the rule carries from step to step. None if it runs on the whole sequence."""
    if point.mode == "offline" and named_rule(point.rule).has_whole and point.options.get("form") != "steps":
        return None
    traces = point.options.get("traces", "dense" if point.mode == "step" else "auto")
    return state_bytes(point.net, point.rule, batch=point.batch, steps=point.steps, traces=traces).total


def kept(point: Point) -> int:
    """Return the bytes that the rule must keep: its state, or for a whole sequence the input of the backward pass."""
    carried = state(point)
    return sequence_bytes(point.sizes, point.steps, point.batch) if carried is None else carried


def sequence_bytes(sizes: Sequence[int], steps: int, batch: int) -> int:
    """Bytes of one membrane per neuron and step. This is a minimum: spikes and derivatives follow from membranes."""
    return 4 * steps * batch * sum(sizes[1:])


def least(point: Point) -> int:
    """Bytes that every mode needs at this point: weights, and a mini-batch."""
    weights = sum((n + 1) * m for n, m in itertools.pairwise(point.sizes))
    return 4 * (weights + point.steps * point.batch * point.sizes[0])


# --------------------
# Programs.


class Bytes(NamedTuple):
    """The memory that XLA plans for a program. It is known without running it, and the same every time."""

    arguments: int
    outputs: int
    working: int  # temporary: neither arguments nor outputs
    aliased: int  # outputs that are written over arguments

    @property
    def peak(self) -> int:
        return self.arguments + self.outputs + self.working - self.aliased


class Recipe(NamedTuple):
    """How a mode is measured."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]  # shapes and types
    start: Callable[[Any], Callable[[], Any]]  # takes the compiled program, returns a function that calls it once
    donate: tuple[int, ...] = ()
    before: int = 0  # calls before any call is timed


class Program(NamedTuple):
    compiled: Any
    compile_seconds: float  # tracing and compiling
    bytes: Bytes
    recipe: Recipe


def build(point: Point) -> Program:
    """Trace and compile the program of a point, without allocating its arrays."""
    recipe = RECIPES[point.mode](point)
    begin = time.perf_counter()
    compiled = jax.jit(recipe.function, donate_argnums=recipe.donate).lower(*recipe.arguments).compile()
    seconds = time.perf_counter() - begin
    plan: Any = compiled.memory_analysis()
    sizes = (getattr(plan, f"{what}_size_in_bytes") for what in ("argument", "output", "temp", "alias"))
    return Program(compiled, seconds, Bytes(*sizes), recipe)


def ready(program: Program) -> tuple[Callable[[], Any], float]:
    """Return a function that calls the program, and the seconds of the first call, with tracing and compiling."""
    call = program.recipe.start(program.compiled)
    first = program.compile_seconds + call_seconds(call)
    for _ in range(program.recipe.before - 1):
        jax.block_until_ready(call())
    return call, first


def mini_batch(point: Point) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    spikes = rng.random((point.steps, point.batch, point.sizes[0]), np.float32) < RATE
    return jnp.asarray(spikes, "float32"), jnp.asarray(rng.integers(0, point.sizes[-1], point.batch), "int32")


def _params(net: Network) -> Any:
    return net.init(jax.random.key(0), "float32")


def _shapes(point: Point) -> tuple[Any, Any, Any]:
    """Shapes and types of the parameters, the spikes and the labels."""
    spikes = jax.ShapeDtypeStruct((point.steps, point.batch, point.sizes[0]), jnp.float32)
    return jax.eval_shape(lambda: _params(point.net)), spikes, jax.ShapeDtypeStruct((point.batch,), jnp.int32)


def _offline(point: Point) -> Recipe:
    def function(params: Any, spikes: Any, labels: Any) -> Any:
        return gradients(point.net, params, spikes, labels, rule=point.rule, **point.options)

    def start(compiled: Any) -> Callable[[], Any]:
        arguments = (_params(point.net), *mini_batch(point))
        return lambda: compiled(*arguments)

    return Recipe(function, _shapes(point), start)


def _online(point: Point) -> Recipe:
    how: dict[str, Any] = {"rule": point.rule, "optimizer": OPTIMIZER, **point.options}

    def function(params: Any, opt_state: Any, spikes: Any, labels: Any) -> Any:
        return online_pass(point.net, params, opt_state, spikes, labels, **how)

    def start(compiled: Any) -> Callable[[], Any]:
        params = _params(point.net)
        arguments = (params, OPTIMIZER.init(params), *mini_batch(point))
        return lambda: compiled(*arguments)

    params, *batch = _shapes(point)
    return Recipe(function, (params, jax.eval_shape(OPTIMIZER.init, params), *batch), start)


def _step(point: Point) -> Recipe:
    """One time step of a stream that has run for `point.steps` steps. The state is donated, so there is one of it."""
    form = stepper(point.net, point.rule, batch=point.batch, **{"traces": "dense", **point.options})

    def function(params: Any, state: Any, x: Any, labels: Any) -> Any:
        state, _, loss, grads = form.learn(params, state, x, labels)
        return state, (loss, grads)

    def start(compiled: Any) -> Callable[[], Any]:
        params, (spikes, labels) = _params(point.net), mini_batch(point)
        stream = itertools.cycle(list(spikes[:STREAM]))
        state = form.init(point.batch, "float32")

        def call() -> Any:
            nonlocal state
            state, emitted = compiled(params, state, next(stream), labels)
            return emitted

        return call

    params, spikes, labels = _shapes(point)
    x = jax.ShapeDtypeStruct(spikes.shape[1:], spikes.dtype)
    state = jax.eval_shape(lambda: form.init(point.batch, "float32"))
    return Recipe(function, (params, state, x, labels), start, donate=(1,), before=point.steps)


RECIPES: dict[BenchMode, Callable[[Point], Recipe]] = {"offline": _offline, "online": _online, "step": _step}


# --------------------
# The race: programs take turns in random order, so that a slow moment of the machine affects all of them.


class Times(NamedTuple):
    """Seconds of one call, over all turns."""

    median: float
    min: float
    quartiles: tuple[float, float]
    turns: int
    calls: int  # in all turns, without the warm-up calls


def race(contestants: Mapping[str, Callable[[], Any]], seconds: float, seed: int = 0) -> dict[str, Times]:
    """Return the times of each function, after its first call. The race takes about `seconds` for each of them."""
    turns: dict[str, list[tuple[float, int]]] = {name: [] for name in contestants}
    shuffle = np.random.default_rng(seed)
    end = time.perf_counter() + seconds * len(contestants)
    rounds = 0
    while rounds < FEWEST_ROUNDS or time.perf_counter() < end:
        for name in shuffle.permutation(list(contestants)):
            call_seconds(contestants[name])  # warm up: the turn before has left other data in the caches
            turns[name].append(_turn(contestants[name]))
        rounds += 1
    return {name: summary(taken) for name, taken in turns.items()}


def call_seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call, until its result is ready."""
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def _turn(call: Callable[[], Any]) -> tuple[float, int]:
    """Seconds per call, and number of calls, of one turn."""
    total, calls = 0.0, 0
    while total < SHORTEST_TURN:
        total += call_seconds(call)
        calls += 1
    return total / calls, calls


def summary(turns: list[tuple[float, int]]) -> Times:
    each = [taken for taken, _ in turns]
    low, median, high = percentiles(each, 25, 50, 75)
    return Times(median, min(each), (low, high), len(turns), sum(calls for _, calls in turns))
