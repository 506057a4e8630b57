"""Fair times of several programs: a race.

They take turns in random order, round after round, so that a slow moment of the machine hits all of them.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

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
    low, median, high = (float(q) for q in np.quantile(each, (0.25, 0.5, 0.75)))
    return Times(median, min(each), (low, high), len(turns), sum(calls for _, calls in turns))


def _turn(call: Callable[[], Any]) -> tuple[float, int]:
    """Seconds per call and number of calls of one turn."""
    total, calls = 0.0, 0
    while total < SHORTEST_TURN:
        total += call_seconds(call)
        calls += 1
    return total / calls, calls
