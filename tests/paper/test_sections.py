"""Sections of offline runs, compared with answers computed by hand."""

import math

import numpy as np
import pytest
from made_up_runs import MACHINE, run

from otpe.lab.paper import accuracy_tables, published
from otpe.lab.paper.plan import read_run

NAN = math.nan


def test_reading_an_unfinished_run_gives_none(tmp_path):
    loaded = run(tmp_path, "ostl", [[0.1, 0.2], [0.3, None], [0.5, 0.6]], test=[0.4, 0.6], learning_rate=0.02)
    assert loaded.rule == "ostl"
    assert loaded.steps.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(loaded.along("valid_accuracy"), [[0.1, 0.2], [0.3, NAN], [0.5, 0.6]])
    np.testing.assert_allclose(loaded.last("valid_accuracy", 20), [0.4, 0.6], err_msg="null is not counted")
    np.testing.assert_array_equal(loaded.last("valid_accuracy", 10), [0.5, 0.6])
    assert loaded.test.tolist() == [0.4, 0.6]
    assert loaded.about["device"] == MACHINE["device"]
    (loaded.path / "result.json").unlink()
    assert read_run(loaded.path) is None


def test_a_curve_is_the_mean_over_networks_and_has_a_hundred_points_at_most(tmp_path):
    loaded = run(tmp_path, "otpe", [[0.0, 0.2, 0.4, 0.6], [0.0, 0.2, 0.8, None]] * 100, every=5)
    line = accuracy_tables.curve(loaded, "valid_accuracy")
    assert line.name == "otpe"
    assert [*line.x] == list(range(10, 1001, 10))
    np.testing.assert_allclose(line.y, np.full(100, (0 + 0.2 + 0.6 + 0.6) / 4))
    np.testing.assert_allclose(line.spread, np.full(100, np.std([0, 0.2, 0.6, 0.6], ddof=1)))


@pytest.fixture
def runs(tmp_path):
    """Two rules with four networks on two draws, OSTL on one draw; OTTT is missing."""
    none, loss = [0.0] * 4, [[9, 9, 9, 9], [1, 2, 3, 4]]
    return {
        "bptt": run(tmp_path, "bptt", [none, [0.6, 0.8, 0.3, 0.5]], test=[0.5, 0.7, 0.3, 0.5], loss=loss, draws=2),
        "otpe": run(tmp_path, "otpe", [none, [0.7, 0.8, 0.3, None]], draws=2),
        "ostl": run(tmp_path, "ostl", [none, [0.1, 0.3, 0.2, 0.4]]),
        "ottt": None,
    }


def test_the_table_of_accuracies_has_means_of_draws_and_names_missing_runs(runs):
    bptt, otpe, ostl, ottt = accuracy_tables.accuracies(runs, last=10).rows
    assert bptt == ["bptt", "4, few", "0.550 ± 0.208", "0.400 to 0.700", "0.500 ± 0.163", "2.500 ± 1.291", "0.001"]
    assert otpe[2:4] == ["0.600 ± 0.265", "0.300 to 0.750"], "null is not counted"
    assert ostl[2:4] == ["0.250 ± 0.129", "one"]
    assert ottt == ["ottt", "", "no run", "", "", "", ""]
    assert accuracy_tables.accuracies(runs, last=20).rows[0][2] == "0.275 ± 0.104"
    assert "mean of the last 1,000 mini-batches" in accuracy_tables.accuracies(runs, last=1000).caption


def test_the_papers_numbers_are_compared_with_the_means_of_all_networks(runs):
    comparisons = accuracy_tables.beside(
        runs, {"otpe": 0.8, "bptt": 0.9, "ottt": 0.7, "f-otpe": 0.5}, "what", "valid_accuracy", 10
    )
    assert [each.rule for each in comparisons] == ["otpe", "bptt"], "there is a number to compare with"
    assert (comparisons[1].what, comparisons[1].paper, comparisons[1].percent) == ("what", 0.9, True)
    assert (comparisons[1].ours, comparisons[1].spread) == (
        pytest.approx(0.55),
        pytest.approx(np.std([0.6, 0.8, 0.3, 0.5], ddof=1)),
    )
    assert [each.n for each in comparisons] == [3, 4], "null is not counted"
    assert {each.paper_n for each in comparisons} == {None}, "these numbers of the paper have no spread"
    (loss,) = accuracy_tables.beside(runs, {"bptt": 2.0}, "what", "loss", 10)
    assert (loss.ours, loss.percent) == (pytest.approx(2.5), False)


def test_the_distance_from_bptt_is_taken_network_by_network(runs):
    otpe, ostl = accuracy_tables.from_bptt(runs, {"otpe": 0.007, "ostl": -0.038, "ottt": -0.086}, 10)
    apart = [0.7 - 0.6, 0.8 - 0.8, 0.3 - 0.3]
    assert (otpe.ours, otpe.spread) == (pytest.approx(np.mean(apart)), pytest.approx(np.std(apart, ddof=1)))
    assert (ostl.ours, ostl.spread) == (pytest.approx(-0.3), pytest.approx(np.std([-0.5, -0.5, -0.1, -0.1], ddof=1)))
    assert otpe.percent
    for none in ({**runs, "bptt": None}, {"otpe": runs["otpe"]}):
        assert accuracy_tables.from_bptt(none, {"otpe": 0.007}, 10) == []


def test_sections_of_randman(runs):
    section = accuracy_tables.offline_randman(runs, 10, "t-randman")
    assert "Offline training on T-Randman: 2 draws of the manifolds" in section["lead"]
    assert [each.what for each in section["against"]] == ["validation accuracy above BPTT's"] * 2
    assert section["remarks"] == [
        "The paper gives accuracies on T-Randman only as differences from BPTT.",
        "Manifolds are drawn at random, and the authors' draw is not known. Validation accuracy differs by up to 45.0"
        " points between draws for one rule, and by 30.0 points between the means of rules over all draws. σ is over"
        " the networks on all draws; the table has the means of single draws.",
    ]
    accuracy, loss = section["figures"][0].panels
    assert [line.name for line in accuracy.lines] == [line.name for line in loss.lines] == ["bptt", "otpe", "ostl"]
    assert accuracy.lines[0].y == pytest.approx([0, 0.55])
    assert loss.lines[0].y == pytest.approx([9, 2.5])
    section = accuracy_tables.offline_randman(runs, 10, "r-randman")
    assert {each.rule: each.paper for each in section["against"]} == {
        rule: published.R_RANDMAN[rule] for rule in ("bptt", "otpe", "ostl")
    }
    assert len(section["remarks"]) == 1
    one = accuracy_tables.offline_randman({"ostl": runs["ostl"]}, 10, "r-randman")["remarks"][0]
    assert "differs by up to" not in one, "one draw cannot show the spread over draws"
    nothing = accuracy_tables.offline_randman({"bptt": None, "otpe": None}, 10, "r-randman")
    assert not nothing["against"]
    assert not nothing["figures"][0].panels[0].lines


def test_the_section_of_offline_digits_compares_accuracy_and_loss(runs):
    section = accuracy_tables.offline_digits(runs, 10, "my digits")
    assert [(each.what, each.paper) for each in section["against"] if each.rule == "bptt"] == [
        ("validation accuracy at the end", 0.946),
        ("training loss at the end", 2.196),
    ]
    assert "on my digits" in section["lead"]
