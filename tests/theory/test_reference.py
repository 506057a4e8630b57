"""Every rule against the plain reference, on networks whose leaks differ by layer."""

import pytest
from theory.cases import LOCAL, assert_same
from theory.reference import RULES, gradients

import otpe
from otpe.testing import assert_live, scenario

CASES = [
    scenario(
        (5, 7, 6, 7, 4), steps=12, batch=2, leak=(0.95, 0.7, 0.85, 0.6), surrogate=otpe.fast_sigmoid(4.0), seed=11
    ),
    scenario((4, 6, 3), steps=15, batch=3, leak=(0.9, 0.97), threshold=0.7, surrogate=otpe.gaussian(), seed=12),
    scenario((4, 6, 5, 3), steps=12, batch=2, leak=(0.9, 0.7, 0.8), reset="zero", seed=13),
    scenario((4, 6, 5, 3), steps=12, batch=2, leak=(0.9, 0.7, 0.8), reset="none", seed=14),
]


def test_the_reference_implements_the_papers_rules_and_ours():
    assert set(RULES) == set(LOCAL[:10])


@pytest.mark.parametrize("case", CASES[:2], ids=["4 layers", "2 layers"])
@pytest.mark.parametrize("rule", LOCAL[:10])
def test_a_rule_that_the_reference_runs_by_its_own_methods_has_the_same_gradient(rule, case, monkeypatch):
    monkeypatch.delitem(RULES, rule)
    actual = [tuple(layer) for layer in otpe.gradients(*case, rule=rule)[1]]
    assert_same(actual, gradients(case, rule))


@pytest.mark.parametrize("case", CASES, ids=["4 layers", "2 layers", "reset zero", "reset none"])
@pytest.mark.parametrize("rule", LOCAL)
def test_gradients_equal_the_reference(rule, case):
    assert_live(case)
    actual = [tuple(layer) for layer in otpe.gradients(*case, rule=rule)[1]]
    assert_same(actual, gradients(case, rule))
