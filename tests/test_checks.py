"""The public check suite: our rules and a user's rule pass it, broken rules fail."""

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

import otpe
from otpe.rulebook import Emission
from otpe.testing import CHECKS, Scenario, assert_live, assertions, check_rule, relative_error, rule_checks, scenario


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("rule", otpe.rules())
def test_our_rules_pass(rule, check):
    check(otpe.rule(rule))


def test_no_check_uses_an_assert_statement():
    folder = Path(otpe.testing.__file__).parent
    for path in folder.glob("*.py"):
        bare = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
        assert bare == [], f"{path.name} has an assert, which python -O removes. Use require"
    code = "from otpe.testing import assertions; import numpy as np; assertions.same(np.float64(1), np.float64(2), 'one and two')"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert "AssertionError: one and two, differ by a relative 5.0e-01" in done.stderr


@dataclass(frozen=True)
class Present:
    """A user's rule without memory: only the current step counts."""

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
    """Omits the reset in one of the two forms."""

    def backward(self, carry, q, now, decay):
        (κ,) = carry
        κ = q * now.g + decay.own * κ
        return (κ,), κ, q * now.g


@dataclass(frozen=True)
class TwiceAStep(otpe.Otpe):
    """Updates the eligibility twice a step, in one form. (In both forms, the golden files would find it.)"""

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
class SeesTheBatch(Present):
    """Mixes samples in both forms alike, when there is more than one step."""

    averages: ClassVar = True

    def emit(self, rows, q, now):
        return super().emit(rows, q * self.leaked(now), now)

    def backward(self, carry, q, now, decay):
        return super().backward(carry, q * self.leaked(now), now, decay)

    def leaked(self, now):
        return 1 + (now.ḡ - now.g).mean(0)  # is 1 at the first step and with leak 0


@dataclass(frozen=True)
class Grows(Present):
    """Changes the type of its trace along a stream."""

    def advance(self, rows, x, now, decay):
        return (jnp.float32(x + 0 * rows[0]),)


@dataclass(frozen=True)
class NotFinite(Present):
    """Divides by the signal, which can be zero."""

    def backward(self, carry, q, now, decay):
        κ = now.g * q * q / q
        return (κ,), κ * jnp.where(now.g == now.g.max(), jnp.nan, 1), κ


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (WrongBackward(), "per-step form with dense traces, and whole-sequence form, differ"),
        (TwiceAStep(), "per-step form with dense traces, and whole-sequence form, differ"),
        (SurrogateTwice(), "without memory, and BPTT, differ"),
        (SeesTheBatch(), "a batch, and the mean over its samples one by one, differ"),
        (NotFinite(), "a gradient is not finite"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_broken_rules_are_found(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_rule(otpe.Rule("broken", hidden=broken, output=otpe.Ostl()))


@dataclass(frozen=True)
class RandomFeedback(Present):
    """Sends down a signal that does not use the weights above. It is inexact on purpose."""

    def emit(self, rows, q, now):
        return super().emit(rows, q, now)._replace(below=-q * now.g)

    def backward(self, carry, q, now, decay):
        carry, κ, m = super().backward(carry, q, now, decay)
        return carry, κ, -m


def test_checks_can_be_skipped_by_name(capsys):
    rule = otpe.Rule("feedback", hidden=RandomFeedback(), output=RandomFeedback())
    with pytest.raises(AssertionError, match="feedback without memory, and BPTT, differ"):
        check_rule(rule)
    lines = check_rule(rule, skip=("exact without memory",))
    assert lines == ("exact without memory: skipped, listed in `skip`",)
    assert "feedback: exact without memory: skipped, listed in `skip`" in capsys.readouterr().out
    assert check_rule(rule, skip="check_exact_without_memory") == lines
    reason = {"exact without memory": "its feedback is random"}
    assert check_rule(rule, skip=reason) == ("exact without memory: skipped, its feedback is random",)


def test_checks_that_do_not_apply_are_named(monkeypatch):
    few = (rule_checks.check_forms_agree, rule_checks.check_causal, rule_checks.check_state_does_not_grow)
    monkeypatch.setattr(rule_checks, "CHECKS", few)
    assert check_rule("bptt") == (
        "forms agree: skipped, the rule has only one form",
        "causal: skipped, the rule has no per-step form",
        "state does not grow: skipped, the rule has no per-step form",
    )


@pytest.mark.parametrize("skip", [("exact without memroy",), "exact", [3], {"memory": "because"}], ids=str)
def test_unknown_checks_are_refused(skip):
    with pytest.raises(
        ValueError, match=r"check .* is not known.*Expected one of: 'output', 'forms agree', 'exact without memory'"
    ):
        check_rule("ottt", skip=skip)


def test_a_state_that_changes_is_found():
    with pytest.raises((AssertionError, ValueError, TypeError), match="state"):
        rule_checks.check_state_does_not_grow(otpe.Rule("broken", hidden=Grows(), output=otpe.Ostl()))


def test_silence_is_found():
    case = scenario()
    silent = Scenario(case.net, tuple(otpe.Dense(0 * p.kernel, 0 * p.bias) for p in case.params), *case[2:])
    with pytest.raises(AssertionError, match="a layer is silent"):
        assert_live(silent)


def test_relative_error_is_the_largest_over_the_leaves():
    assert relative_error(([1.0, 0.0], [3.0]), ([1.0, 0.0], [2.0])) == pytest.approx(0.5)
    with pytest.raises(ValueError, match=r"shapes differ: \(1,\) against \(2,\)"):
        relative_error([np.zeros(1)], [np.zeros(2)])


def test_a_nan_in_any_leaf_is_found():
    for given in ([np.nan, 1.0], [1.0, np.nan]):
        assert np.isnan(relative_error(given, [1.0, 1.0]))
        with pytest.raises(AssertionError, match="differ by a relative nan"):
            assertions.same(given, [np.ones(()), np.ones(())], "these")
