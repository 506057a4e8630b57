"""How time and memory grow: powers fitted to what was measured, beside those of the paper.

On a log-log plot a power law is a straight line, and its exponent the slope. A real program is a sum of such laws and a
constant: at small sizes its slope is smaller than the one it tends to.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from otpe.bench.config import Mode

Axis = Literal["width", "steps", "batch", "depth"]
Form = Mode | Literal["steps"]
AXES: tuple[Axis, ...] = ("width", "steps", "batch", "depth")
SYMBOLS = {"width": "n", "steps": "T", "batch": "B", "depth": "L"}


class Powers(NamedTuple):
    """Exponents over n units per layer, T time steps, B samples and L layers."""

    width: int
    steps: int
    batch: int
    depth: int


class Expected(NamedTuple):
    time: Powers
    memory: Powers | None  # beyond weights, gradients and the data; None where it depends on the choice of traces


# Table 1 of the paper, "for calculating gradients at time-step T", one layer of n inputs and n neurons, batch 1;
# RTRL from its introduction.
PAPER = {
    "bptt": ("O(T n)", "O(T n²)"),
    "ottt": ("O(n)", "O(T n + n²)"),
    "ostl": ("O(n²)", "O(T n²)"),
    "approx-otpe": ("O(n)", "O(T n + n²)"),
    "otpe": ("O(n²)", "O(T n²)"),
    "rtrl": ("O(n³)", "O(n⁴) a step"),
}

# Ours, counted in the same way: a trace for each of L layers above.
OURS = {
    "deep-otpe": ("O(L n²)", "O(T L n²)"),
    "approx-deep-otpe": ("O(L n)", "O(T L n + n²)"),
}

# The same for one time step: T n² becomes n², and T n + n² becomes n + n², which tends to n²: the forward pass and the
# gradient of a dense layer are n² whatever the trace. Samples and layers, of which the paper takes one, stand side by
# side, except where a trace spans layers: the deep rules keep one per layer above, RTRL one per weight and neuron.
_PER_WEIGHT = Expected(time=Powers(2, 0, 1, 1), memory=Powers(2, 0, 1, 1))
_PER_INPUT = Expected(time=Powers(2, 0, 1, 1), memory=Powers(1, 0, 1, 1))
STEP = {
    "rtrl": Expected(time=Powers(4, 0, 1, 3), memory=Powers(3, 0, 1, 2)),
    "ostl": _PER_WEIGHT,
    "ottt": _PER_INPUT,
    "otpe": _PER_WEIGHT,
    "approx-otpe": _PER_INPUT,
    "f-otpe": _PER_WEIGHT,
    "f-approx-otpe": _PER_INPUT,
    "deep-otpe": Expected(time=Powers(2, 0, 1, 2), memory=Powers(2, 0, 1, 2)),
    "approx-deep-otpe": Expected(time=Powers(2, 0, 1, 1), memory=Powers(1, 0, 1, 2)),
    "f-deep-otpe": Expected(time=Powers(2, 0, 1, 2), memory=Powers(2, 0, 1, 2)),
    "f-approx-deep-otpe": Expected(time=Powers(2, 0, 1, 1), memory=Powers(1, 0, 1, 2)),
}
# Offline, in the whole-sequence form, every rule has BPTT's orders.
_WHOLE = Expected(time=Powers(2, 1, 1, 1), memory=Powers(1, 1, 1, 1))


def form(mode: Mode, options: Mapping[str, Any]) -> Form:
    """What theory takes a point for. `gradients(form="steps")` does what online training does, less the updates."""
    if mode != "offline" or options.get("form") != "steps":
        return mode
    return "steps" if options.get("traces") == "dense" else "online"


def expected(rule: str, mode: Form) -> Expected | None:
    """The exponents that theory gives a rule; None for one that is not in the table, such as a user's own."""
    if mode == "offline" and rule != "rtrl":
        return _WHOLE if rule in STEP or rule == "bptt" else None
    if rule not in STEP:
        return None
    one_step = STEP[rule]
    if mode == "step":
        return one_step
    return Expected(time=one_step.time._replace(steps=1), memory=one_step.memory if mode == "steps" else None)


def exponent(values: Sequence[float], measured: Sequence[float]) -> float | None:
    """The slope of the least-squares line through log(measured) over log(values); None from less than two values."""
    x, y = np.asarray(values, float), np.asarray(measured, float)
    if len(set(values)) < 2 or (y <= 0).any():
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
