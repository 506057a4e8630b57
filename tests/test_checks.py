"""The public check suite: our rules pass it, a user's rule passes it, and broken ones do not."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

import otpe
from otpe.rulebook import Emission
from otpe.testing import CHECKS, Scenario, assert_live, check_rule, relative_error, scenario


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("rule", otpe.rules())
def test_our_rules_pass(rule, check):
    check(otpe.rule(rule))


@dataclass(frozen=True)
class Present:
    """A user's rule: no memory at all, only the present step counts."""

    trace: ClassVar = "input"
    order: ClassVar = 0
    stage_leak: ClassVar = "plain"
    averages: ClassVar = False

    def init(self, row, stages):
        return (row,)

    def advance(self, rows, x, now, decay):
        return (x + 0 * rows[0],)

    def emit(self, rows, q, now):
        return Emission(post=q * now.g, row=rows[0], below=q * now.g)

    def start(self, neuron, stages):
        return (neuron,)

    def backward(self, carry, q, now, decay):
        κ = q * now.g
        return (κ,), κ, κ


def test_a_users_rule_passes():
    check_rule(otpe.Rule("present", hidden=Present(), output=Present()))


@dataclass(frozen=True)
class WrongBackward(otpe.Ostl):
    """Forgets the reset in one of the two forms."""

    def backward(self, carry, q, now, decay):
        (κ,) = carry
        κ = q * now.g + decay.own * κ
        return (κ,), κ, q * now.g


@dataclass(frozen=True)
class TwiceAStep(otpe.Otpe):
    """Updates the eligibility twice a step, in both forms alike it would be found by the golden files; here in one."""

    def advance(self, rows, x, now, decay):
        return super().advance(super().advance(rows, x, now, decay), x, now, decay)


@dataclass(frozen=True)
class SurrogateTwice(otpe.Otpe):
    """Applies the surrogate twice on the way down, in both forms."""

    def emit(self, rows, q, now):
        return super().emit(rows, q, now)._replace(below=q * now.g * now.ḡ)

    def backward(self, carry, q, now, decay):
        carry, κ, m = super().backward(carry, q, now, decay)
        return carry, κ, m * now.g


@dataclass(frozen=True)
class SeesTheBatch(otpe.Ottt):
    """Lets samples see each other."""

    def backward(self, carry, q, now, decay):
        carry, κ, m = super().backward(carry, q, now, decay)
        return carry, κ - κ.mean(0), m


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WrongBackward(), "per-step form with dense traces, and whole-sequence form, differ"),
        (TwiceAStep(), "per-step form with dense traces, and whole-sequence form, differ"),
        (SurrogateTwice(), "without memory, and BPTT, differ"),
        (SeesTheBatch(), "differ"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_broken_rules_are_found(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_rule(otpe.Rule("broken", hidden=broken, output=otpe.Ostl()))


def test_silence_is_found():
    case = scenario()
    silent = Scenario(case.net, tuple(otpe.Dense(0 * p.kernel, 0 * p.bias) for p in case.params), *case[2:])
    with pytest.raises(AssertionError, match="a layer is silent"):
        assert_live(silent)


def test_relative_error_is_the_largest_over_the_leaves():
    assert relative_error(([1.0, 0.0], [3.0]), ([1.0, 0.0], [2.0])) == pytest.approx(0.5)
    assert relative_error([float("nan")], [1.0]) != relative_error([1.0], [1.0])
