"""Verdicts on the paper's claims follow from numbers: these tests know the numbers, and some are the stored results."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from otpe.lab.paper import claims, evidence, outcomes, plan, published
from otpe.lab.paper.evidence import KERNEL, MODEL, TEST, VALIDATION, Number
from otpe.lab.paper.items import ITEMS
from otpe.lab.paper.verdicts import Check, Claim
from otpe.lab.report.content import Against, Figure, Sample, Section, Table, from_json, to_json
from otpe.lab.report.panels import Bar, Bars, Line, Lines

NAN = math.nan
STORED = Path(__file__).parents[2] / "docs" / "results" / "paper"


def section(name, numbers=(), **more):
    """Return a section of the paper with values of each network: {rule: values} by quantity."""
    samples = [Sample(what=w, rule=rule, values=v) for w, rules in dict(numbers).items() for rule, v in rules.items()]
    return Section(name=name, title="", lead="Shown.", where="Figure", samples=samples or None, **more)


def verdict(name, *sections):
    (found,) = [each for each in claims.judged(sections) if each.claim.name == name]
    return found


def t_randman(**accuracies):
    base = {"bptt": [0.80, 0.82, 0.81], "otpe": [0.81, 0.83, 0.825], "approx-otpe": [0.81, 0.83, 0.82]}
    rivals = {"ostl": [0.75, 0.77, 0.765], "ottt": [0.70, 0.72, 0.71]}
    changed = {rule.replace("_", "-"): values for rule, values in accuracies.items()}
    return section("offline-t-randman", {VALIDATION: {**base, **rivals, **changed}})


@pytest.fixture(scope="module")
def stored():
    names = json.loads((STORED / "order.json").read_text())
    return [from_json((STORED / name / "section.json").read_text()) for name in names]


def test_every_claim_is_about_items_of_the_paper():
    names = [claim.name for claim in claims.CLAIMS]
    assert len(set(names)) == len(names)
    for claim in claims.CLAIMS:
        assert claim.sections
        assert {*claim.sections} <= {*ITEMS}
        assert claim.text.endswith(".")
        assert claim.criterion
    assert {name for claim in claims.CLAIMS for name in claim.sections} == {*ITEMS}


def test_a_claim_holds_if_every_difference_exceeds_two_standard_errors():
    found = verdict("t-randman", t_randman())
    assert (found.verdict, found.passed, len(found.checks)) == ("holds", 4, 4)
    gap = np.array([0.06, 0.06, 0.06])
    check = found.checks[0]
    assert (check.about, check.number.n) == ("OTPE minus OSTL", 3)
    assert check.number.mean == pytest.approx(gap.mean())
    assert check.number.error == pytest.approx(0, abs=1e-12), "network by network, the difference never varies"


def test_a_claim_holds_partly_if_some_differences_do_not():
    found = verdict("t-randman", t_randman(ottt=[0.90, 0.93, 0.92], otpe=[0.81, 0.83, 0.82]))
    assert (found.verdict, found.passed) == ("partly", 2)
    assert found.decisive.about.endswith("minus OTTT"), "furthest on the wrong side"
    assert found.decisive.outcome == "fails"
    noisy = verdict("t-randman", t_randman(ottt=[0.60, 0.99, 0.80]))
    assert noisy.decisive.outcome == "unclear"
    assert noisy.verdict == "partly"


def test_a_claim_does_not_hold_if_nothing_passes_and_something_fails():
    above = {"ostl": [0.9, 0.93, 0.92], "ottt": [0.9, 0.93, 0.92]}
    assert verdict("t-randman", t_randman(**above)).verdict == "does not hold"


def test_a_claim_without_its_sections_is_not_run():
    found = verdict("r-randman", t_randman())
    assert (found.verdict, found.checks, found.missing) == ("not run", [], ["offline-r-randman"])
    left_out = section("offline-r-randman", left_out="No recordings.")
    assert verdict("r-randman", t_randman(), left_out).verdict == "not run"
    assert claims.judged([left_out]) == [], "nothing of the paper is there"
    other = section("a-study")
    assert claims.judged([other, replace(t_randman(), where="")]) == [], "no section of the paper"


def test_a_claim_with_some_of_its_sections_holds_partly():
    cosines = {
        f"{KERNEL}, {layer}": {"otpe": [0.9, 0.91], "ostl": [0.5, 0.51], "ottt": [0.4, 0.43]} for layer in ("H2", "H1")
    }
    found = verdict("cosines", section("cosines-digits", cosines))
    assert (found.verdict, found.passed, len(found.checks)) == ("partly", 4, 4)
    assert found.missing == ["cosines-r-randman", "cosines-t-randman", "cosines-digits-5"]
    whole = [section(name, cosines) for name in claims.COSINES]
    assert verdict("cosines", *whole).verdict == "holds"


def test_a_rule_without_a_number_does_not_pass():
    numbers = {VALIDATION: {"otpe": [0.9, 0.91], "ostl": [0.5, 0.52], "ottt": [0.5, 0.52]}}
    found = verdict("t-randman", section("offline-t-randman", numbers))
    assert (found.verdict, found.passed) == ("partly", 2)
    assert outcomes.decisive(found) == "Approx OTPE minus OSTL: no number"


@pytest.mark.parametrize(
    ("name", "apart", "expected"),
    [
        ("t-randman", ["made small"], "not comparable"),
        ("t-randman", ["coarser"], "holds"),
        ("table-numbers", ["other recordings"], "not comparable"),
        ("table-numbers", ["coarser"], "not comparable"),
    ],
)
def test_what_differs_from_the_paper_may_make_a_claim_not_comparable(name, apart, expected):
    tests = {f"{TEST}, {size}": {"otpe": [0.7, 0.72]} for size in claims.SIZES}
    tables = [section(each, tests, apart=apart) for each in claims.TABLES]
    found = verdict(name, replace(t_randman(), apart=apart), *tables)
    assert found.verdict == expected
    assert found.apart == apart


def test_numbers_without_a_standard_error_are_never_enough():
    one = {
        f"{TEST}, 3 layers of 128, rate {rate}": {"otpe": [0.5], "ostl": [0.4], "ottt": [0.3]} for rate in ("0.1", "1")
    }
    found = verdict("learning-rates", section("rates-digits", one))
    assert (found.verdict, found.passed) == ("partly", 2)
    assert outcomes.decisive(found).endswith("+10.0 points, no standard error, n\u00a0=\u00a01, a single one")
    below = {what: {"otpe": [0.2], "ostl": [0.4], "ottt": [0.3]} for what in one}
    assert verdict("learning-rates", section("rates-digits", below)).verdict == "does not hold"


def test_rules_are_alike_only_if_the_range_is_certainly_small():
    def among(*means, spread=0.001):
        rules = dict(zip(claims.OFFLINE_RULES, means, strict=True))
        values = {rule: [mean - spread, mean + spread * (1 + i), mean] for i, (rule, mean) in enumerate(rules.items())}
        return verdict("r-randman", section("offline-r-randman", {VALIDATION: values})).verdict

    assert among(0.80, 0.802, 0.804, 0.803, 0.801) == "holds"
    assert among(0.80, 0.802, 0.904, 0.803, 0.801) == "does not hold"
    assert among(0.80, 0.802, 0.812, 0.803, 0.801, spread=0.01) == "unclear", "too few networks to tell"


def test_the_numbers_of_table_2_are_compared_with_both_standard_errors():
    theirs = published.OFFLINE[3, 512]["otpe"]
    tests = {f"{TEST}, 3 layers of 512": {"otpe": [theirs.mean + 0.01, theirs.mean + 0.03]}}
    found = verdict("table-numbers", section("table-digits-offline", tests))
    (mine,) = [check for check in found.checks if check.about.startswith("OTPE, 3 layers of 512")]
    assert mine.number.mean == pytest.approx(0.02)
    assert mine.number.error == pytest.approx(math.hypot(theirs.std / 2, 0.01))
    assert mine.outcome == "passes"
    assert mine._replace(number=mine.number._replace(error=0.009)).outcome == "fails"


def test_checks_on_either_side_of_a_limit():
    near = Number(0.5, 0.1, 4)
    for sense, limit, expected in (
        ("above", 0.2, "passes"), ("above", 0.4, "unclear"), ("above", 0.8, "fails"),
        ("below", 0.8, "passes"), ("below", 0.6, "unclear"), ("below", 0.2, "fails"),
        ("equal", 0.6, "passes"), ("equal", 0.8, "fails"),
    ):  # fmt: skip
        assert Check("", near, sense, limit).outcome == expected
    assert Check("", Number(NAN)).outcome == "fails"
    exact = Number(1.9, 0.0, exact=True)
    assert (Check("", exact, "below", 2).outcome, Check("", exact, "below", 1).outcome) == ("passes", "fails")


def test_the_text_of_a_number_has_its_error_and_n():
    assert outcomes.number_text(Number(0.0494, 0.0031, 12), True) == "+4.9 ± 0.3 points, n\u00a0=\u00a012"
    assert outcomes.number_text(Number(-0.5, 0.02, 4, at_most=True), False) == (
        "−0.500 ± at most 0.020, n\u00a0=\u00a04, few"
    )
    assert outcomes.number_text(Number(1.667, 0, exact=True), False, signed=False) == "1.667, counted"
    check = Check("the range", Number(0.02, 0.018, 12), "below", 0.013, points=True)
    assert outcomes.check_text(check) == "the range: 2.0 ± 1.8 points, n\u00a0=\u00a012, limit 1.3 points"


# --------------------
# Sections from before they had samples.


def test_older_sections_give_means_and_standard_errors():
    table = Table(
        name="accuracies",
        columns=["rule", "validation", "test"],
        rows=[["otpe", "0.822 ± 0.044", "0.8 ± 0.1"], ["ostl", "0.772 ± 0.045", ""], ["ottt", "no run", ""]],
    )
    old = section("offline-t-randman", tables=[table], settings={"seeds": 12})
    of = evidence.numbers(old)
    assert of[VALIDATION, "otpe"] == Number(0.822, pytest.approx(0.044 / math.sqrt(11)), 12), "σ was of the population"
    assert (VALIDATION, "ottt") not in of
    apart = [
        Against(what=evidence.ABOVE_BPTT, rule=r, paper=0, ours=o, spread=s)
        for r, o, s in (("otpe", 0.01, 0.007), ("ostl", -0.04, 0.009))
    ]
    gap = claims.ahead(evidence.numbers(replace(old, against=apart)), VALIDATION, "otpe", "ostl")
    assert (gap.mean, gap.error) == (pytest.approx(0.05), pytest.approx(math.hypot(0.007, 0.009) / math.sqrt(11)))


def test_older_cosines_have_an_upper_bound_of_the_error():
    bars = Bars(title="kernels", y="", groups=["O", "H1"], bars=[Bar(name="otpe", values=[1.0, 0.8])])
    lines = Lines(title="H1", x="", y="", lines=[Line(name="otpe", x=[1, 2], y=[0.9, 0.7], spread=[0.02, 0.04])])
    model = Lines(title="whole model", x="", y="", lines=[Line(name="otpe", x=[1, 2], y=[0.9, 0.98], spread=[0, 0.02])])
    figures = [
        Figure(name=name, caption="", panels=[p])
        for name, p in (("layers", bars), ("over-training", lines), ("model", model))
    ]
    of = evidence.numbers(section("cosines-digits", figures=figures, settings={"seeds": 4}))
    first = of[f"{KERNEL}, H1", "otpe"]
    assert (first.mean, first.at_most, first.n) == (0.8, True, 4)
    assert first.error == pytest.approx(0.03 / math.sqrt(3))
    assert of[MODEL, "otpe"].mean == pytest.approx(0.94)


def test_older_comparisons_get_n_and_the_sample_deviation():
    row = Against(what="test accuracy", rule="otpe", paper=0.9, ours=0.8, paper_spread=0.02, spread=0.03)
    cosine = replace(row, what="kernel cosine, H1")
    old = section("table-digits-offline", against=[row, cosine], settings={"seeds": 4})
    first, second = evidence.completed(old).against
    assert (first.n, first.paper_n, first.spread) == (4, 4, pytest.approx(0.03 * math.sqrt(4 / 3)))
    assert second == cosine, "its spread is also over the moments of training"
    new = replace(old, against=[replace(row, n=12)])
    assert evidence.completed(new).against[0] == new.against[0]


def test_networks_of_older_online_runs_are_those_of_the_plan():
    for name, n in evidence.ONLINE_NETWORKS.items():
        kind = plan.FULL.digits_online if "digits" in name else plan.FULL.randman_online
        assert n == kind.seeds
    assert evidence.networks(section("online-digits")) == 4
    assert evidence.networks(section("a-study")) is None


def test_the_stored_results_give_these_verdicts(stored):
    found = {each.claim.name: each.verdict for each in claims.judged(stored)}
    assert [*found] == [claim.name for claim in claims.CLAIMS]
    assert found["t-randman"] == found["cosines"] == found["landscapes"] == found["table-online"] == "holds"
    assert found["table-offline"] == "partly", "OTPE is below OSTL in 3 layers of 512"
    assert found["best-slope"] == "does not hold"
    assert found["table-numbers"] == found["online-offline"] == "not comparable"
    assert "not run" not in found.values()
    for each in stored:
        assert math.isfinite(max(number.mean for number in evidence.numbers(each).values()))


def test_leads_of_stored_sections_say_what_came_out(stored):
    for each in stored:
        lead = outcomes.with_outcome(each).lead
        assert lead.endswith(each.lead)
        assert any(character.isdigit() for character in lead.removesuffix(each.lead)), each.name
        assert outcomes.with_outcome(outcomes.with_outcome(each)).lead == lead, "only once"
    leads = {each.name: outcomes.with_outcome(each).lead for each in stored}
    assert "OTPE +1.1 ± 0.2, OSTL −3.8 ± 0.3, OTTT −9.1 ± 0.5, n\u00a0=\u00a012." in leads["offline-t-randman"]
    assert "−1.5 ± 0.7 with 3 layers of 512" in leads["table-digits-offline"]
    left_out = section("offline-digits", left_out="Not run.")
    assert outcomes.with_outcome(left_out) == left_out


def test_samples_survive_a_round_trip():
    given = t_randman()
    assert evidence.numbers(from_json(to_json(given))) == evidence.numbers(given)
    assert '"samples"' not in to_json(section("a"))


def test_judging_needs_no_jax():
    code = "import sys; sys.modules['jax'] = None\nfrom otpe.lab.paper import claims, outcomes"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_new_claim_needs_only_an_entry(monkeypatch):
    def checks(found):
        yield Check("one", found["offline-t-randman"][VALIDATION, "otpe"], limit=0.5)

    mine = Claim(
        name="mine", text="OTPE learns.", where="", sections=["offline-t-randman"], criterion="", checks=checks
    )
    monkeypatch.setattr(claims, "CLAIMS", (mine,))
    assert [(each.claim.name, each.verdict) for each in claims.judged([t_randman()])] == [("mine", "holds")]
