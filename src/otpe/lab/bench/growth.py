"""How time and memory grow: exponents fitted to measurements, and those of theory.

On a log-log plot a power law is a straight line, and its exponent is the slope. The cost of a real program is a sum of
power laws and a constant, so at small sizes its slope is below the exponent of theory.

The exponents of theory follow from the facts that a rule declares (one trace per weight or per input, how many stages
above it sees). A new rule needs no entry here. The paper's table is shown beside them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from otpe.lab.settings import BenchMode
from otpe.rulebook import Rtrl, Rule, rules
from otpe.rulebook import rule as named_rule
from otpe.rulebook.rule import NonLocal

Form = BenchMode | Literal["steps"]  # "steps": time step by time step without updates
SYMBOLS = {"width": "n", "steps": "T", "batch": "B", "depth": "L"}
AXES = tuple(SYMBOLS)

# Table 1 of the paper, "for calculating gradients at time-step T": space and time for one layer of n inputs and n
# neurons and one sample. RTRL is from its introduction.
PAPER = {
    "bptt": ("O(T n)", "O(T n²)"),
    "ottt": ("O(n)", "O(T n + n²)"),
    "ostl": ("O(n²)", "O(T n²)"),
    "approx-otpe": ("O(n)", "O(T n + n²)"),
    "otpe": ("O(n²)", "O(T n²)"),
    "rtrl": ("O(n³)", "O(n⁴) a step"),
}


class Powers(NamedTuple):
    """Exponents over n units per layer, T time steps, B samples and L layers."""

    width: int
    steps: int
    batch: int
    depth: int


class Expected(NamedTuple):
    time: Powers
    memory: Powers | None  # without weights, gradients and data; None if it depends on the kind of traces


WHOLE_SEQUENCE = Expected(time=Powers(2, 1, 1, 1), memory=Powers(1, 1, 1, 1))  # BPTT, and every rule in this form
RTRL_STEP = Expected(time=Powers(4, 0, 1, 3), memory=Powers(3, 0, 1, 2))  # a derivative of each neuron by each weight


def expected(name: str, form: Form) -> Expected | None:
    """Return the exponents that theory gives a named rule. None for a rule of the user's own or without this form."""
    if name not in rules():
        return None
    rule = named_rule(name)
    if form == "offline" and rule.has_whole:
        return WHOLE_SEQUENCE
    step = _of_a_step(rule)
    if step is None or form == "step":
        return step
    return Expected(time=step.time._replace(steps=1), memory=step.memory if form == "steps" else None)


def _of_a_step(rule: Rule) -> Expected | None:
    """The exponents of one time step.

    The forward pass and the gradient of a dense layer take n² operations, whatever the traces. A trace per weight takes
    n² numbers, a trace per input n. A deep rule has a trace for each layer above, so L times as many.
    """
    if isinstance(rule.hidden, Rtrl):
        return RTRL_STEP
    if isinstance(rule.hidden, NonLocal) or not rule.has_steps:
        return None
    per_weight, deep = has_trace_per_weight(rule), is_deep(rule)
    return Expected(time=Powers(2, 0, 1, 1 + (per_weight and deep)), memory=Powers(1 + per_weight, 0, 1, 1 + deep))


def has_trace_per_weight(rule: Rule) -> bool:
    return any(getattr(local, "trace", None) == "weight" for local in (rule.hidden, rule.output))


def is_deep(rule: Rule) -> bool:
    """Return whether a rule has a trace for each layer above."""
    return any(getattr(local, "order", None) == "depth" for local in (rule.hidden, rule.output))


def orders(name: str) -> tuple[str, str]:
    """Return the orders of space and time as text: the paper's, or ours for a rule that the paper does not have."""
    rule = named_rule(name)
    for published, texts in PAPER.items():
        if named_rule(published).hidden == rule.hidden:  # an F- rule has the orders of the rule without F-
            return texts
    if isinstance(rule.hidden, NonLocal) or not rule.has_steps:
        return "", ""
    layers = "L " * is_deep(rule)
    if has_trace_per_weight(rule):
        return f"ours: O({layers}n²)", f"ours: O(T {layers}n²)"
    return f"ours: O({layers}n)", f"ours: O(T {layers}n + n²)"


def form_of(mode: BenchMode, options: Mapping[str, Any]) -> Form:
    """Return the form that theory is for. `gradients(form="steps")` does the work of online training but no updates."""
    if mode != "offline" or options.get("form") != "steps":
        return mode
    return "steps" if options.get("traces") == "dense" else "online"


# --------------------
# Exponents of measurements.

QUANTITIES = {  # what grows, by the name in the results
    "time": lambda point: point["seconds"]["median"],
    "peak": lambda point: point["peak_bytes"],
    "working": lambda point: point["bytes"]["working"],
    "state": lambda point: point["state_bytes"],
}
MEMORY: dict[str, str] = {"offline": "working", "online": "state", "step": "state", "steps": "state"}  # by form


def exponent(values: Sequence[float], measured: Sequence[float]) -> float | None:
    """The slope of the least-squares line through log(measured) over log(values). None for less than two values."""
    x, y = np.asarray(values, float), np.asarray(measured, float)
    if len(set(values)) < 2 or (y <= 0).any():
        return None
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def fitted(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fit the exponent of every quantity, for every mode, rule and axis. Each result has the exponent of theory too."""
    fits = []
    for mode, rule in dict.fromkeys((point["mode"], point["rule"]) for point in points):
        own = [point for point in points if (point["mode"], point["rule"]) == (mode, rule)]
        form = form_of(mode, own[0].get("options", {}))
        for axis in AXES:
            on_axis = sorted((p for p in own if axis in p["axes"]), key=lambda p: p["axes"][axis])
            values = [point["axes"][axis] for point in on_axis]
            for quantity, of in QUANTITIES.items():
                measured = [of(point) for point in on_axis]
                slope = None if None in measured else exponent(values, measured)
                if slope is not None:
                    fits.append({"mode": mode, "rule": rule, "axis": axis, "quantity": quantity, "values": values,
                                 "exponent": slope, "theory": _theory(rule, form, axis, quantity)})  # fmt: skip
    return fits


def _theory(rule: str, form: Form, axis: str, quantity: str) -> int | None:
    known = expected(rule, form)
    powers = None if known is None else {"time": known.time, MEMORY[form]: known.memory}.get(quantity)
    return None if powers is None else getattr(powers, axis)
