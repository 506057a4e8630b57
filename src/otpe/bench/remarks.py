"""What exponents of these sizes show, and what they do not: the remarks beside the table."""

from collections.abc import Mapping, Sequence
from typing import Any

from otpe.bench.growth import OURS, form
from otpe.bench.points import Point, sequence_bytes
from otpe.bench.report import sizes


def remarks(measured: dict[str, Any], bases: Sequence[Point], grid: Mapping[Any, str]) -> list[str]:
    """`grid` says over which n and T it was counted what is kept."""
    forms = {form(base.mode, base.options) for base in bases}
    deep = [base.rule for base in bases if base.rule.removeprefix("f-") in OURS]
    said = [
        _network(bases[0]),
        f"What is kept is counted exactly, over n {grid['width']} and T {grid['steps']}, without weights, gradients"
        " and data. For a rule in the per-step form it is the state between two steps; for one that goes back through"
        " the whole sequence, such as BPTT, a float for each neuron and step, T·Σn for each sample: the least that"
        " the way back needs." + _planned(measured["points"]),
        "A time's exponent is the slope between the sizes that were measured, on this machine: it shows how this"
        " program grows there. It is no order. Small programs are mostly constants (calls, memory, cores that are not"
        " full), so slopes begin near 0 and rise towards those in brackets; where a cache becomes too small they can"
        " rise above them, and on a machine with other work they scatter.",
    ]
    if forms - {"offline"}:
        said.append(
            "The paper's T n + n² of OTTT and Approx OTPE counts the traces and one gradient at the end. Here the"
            " forward pass, n² a step for every rule, and a gradient at every step are in the time, so theory in"
            " brackets is n² over n for them too; what these rules save is memory and the factor in front."
        )
    if any(base.mode == "offline" for base in bases):
        said.append(
            "Offline we train in the whole-sequence form, which is another algorithm with the same gradient: it keeps"
            " the sequence as BPTT does, and has BPTT's orders in time and memory for every rule that has this form."
            + (" The times here are those of the per-step form instead." if "steps" in forms else "")
        )
    if "step" in forms:
        said.append("Of one step, T is how many were seen before: 0 over T is the paper's T for all of them together.")
    if deep:
        said.append(f"Ours, not the paper's: {', '.join(dict.fromkeys(deep))}. They keep a trace for each layer above.")
    return [*said, *_missing(measured, bases)]


def _network(base: Point) -> str:
    depth = len(base.sizes) - 1
    return (
        "The paper counts one dense layer of n inputs and n neurons. Here it is a network of"
        f" {depth} layer{'s' * (depth > 1)}, batch {base.batch}: over n and T the orders are the same, the"
        " constants are not."
    )


def _planned(points: list[dict[str, Any]]) -> str:
    """How much the compiled program of BPTT really takes."""
    shares = [
        p["bytes"]["working"] / sequence_bytes(p["sizes"], p["steps"], p["batch"])
        for p in points
        if p["rule"] == "bptt"
    ]
    ends = dict.fromkeys(f"{share:.1f}" for share in sorted(shares)[:: max(1, len(shares) - 1)])
    return f" The compiled BPTT plans {' to '.join(ends)} times that." if shares else ""


def _missing(measured: dict[str, Any], bases: Sequence[Point]) -> list[str]:
    timed = {(point["mode"], point["rule"]) for point in measured["points"]}
    untimed = [base.rule for base in bases if (base.mode, base.rule) not in timed]
    said = [
        f"Left out: {p['rule']}, {p['mode']}, {sizes(p['sizes'])}, T {p['steps']}: {p['why']}."
        for p in measured["left_out"]
    ]
    if untimed:
        said.append(f"Counted but not timed here: {', '.join(dict.fromkeys(untimed))}.")
    if not measured["finished"]:
        said.append("Stopped before all was measured.")
    return said
