"""Random networks of any shape whose layers all spike, for statements that must hold for every network."""

from hypothesis import strategies as st

import otpe
from otpe.testing import Scenario, assert_live, relative_error, scenario

EXACT = 1e-10  # relative, in float64


def local_rules():
    """Return the names of all rules that have both forms: all but the two exact ones."""
    return tuple(name for name in otpe.rules() if otpe.rule(name).has_whole and otpe.rule(name).has_steps)


LOCAL = local_rules()
RESETS = ("subtract", "zero", "none")


@st.composite
def live(
    draw, *, min_layers=1, max_layers=4, reset=st.sampled_from(RESETS), surrogate=None, steps=None, leak=None
) -> Scenario:
    """A network with a leak per layer and a mini-batch on which every layer spikes."""
    layers = draw(st.integers(min_layers, max_layers))
    if surrogate is None:
        slope = draw(st.sampled_from([2.0, 5.0, 25.0]))
        surrogate = draw(st.sampled_from([otpe.fast_sigmoid(slope), otpe.arctan(), otpe.gaussian()]))
    case = scenario(
        sizes=draw(st.lists(st.integers(2, 7), min_size=layers + 1, max_size=layers + 1)),
        steps=draw(st.integers(2, 12) if steps is None else steps),
        batch=draw(st.integers(1, 3)),
        leak=draw(st.lists(st.floats(0.3, 0.99) if leak is None else leak, min_size=layers, max_size=layers)),
        threshold=draw(st.sampled_from([1.0, 0.7])),
        surrogate=surrogate,
        reset=draw(reset),
        seed=draw(st.integers(0, 10_000)),
    )
    assert_live(case)
    return case


def bptt(case: Scenario, readout="spikes"):
    return otpe.gradients(*case, rule=otpe.rule("bptt", readout=readout))


def assert_same(actual, expected, tolerance=EXACT) -> None:
    error = relative_error(actual, expected)
    assert error <= tolerance, f"relative error {error:.1e}"


def assert_differ(actual, expected, by=1e-3) -> None:
    error = relative_error(actual, expected)
    assert error > by, f"expected to differ, relative error {error:.1e}"
