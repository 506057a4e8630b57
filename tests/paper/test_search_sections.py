"""Sections of searches, online runs and tables of digits, compared with answers computed by hand."""

import math

import numpy as np
import pytest
from made_up_runs import run

from otpe.lab.paper import accuracy_tables
from otpe.lab.report.panels import Heat

NAN = math.nan


@pytest.fixture
def search(tmp_path):
    """Three rates of OTPE, two of OSTL. The best rate at the end is not the one with the best test accuracy."""

    def trial(rule, rate, end, test):
        valid = [[0.9, 0.9]] * 6 + [[end, end]] * 2
        return run(tmp_path, rule, valid, test=test, learning_rate=rate, mode="online")

    return {
        "otpe": [
            trial("otpe", 1e-3, 0.5, [0.1, 0.3]), trial("otpe", 1e-4, 0.7, [0.4, 0.4]), trial("otpe", 4e-4, None, [0.9, 0.9])
        ],
        "ostl": [trial("ostl", 1e-3, 0.6, [0.5, 0.7]), trial("ostl", 1e-4, 0.6, [0.2, 0.2])],
        "ottt": [],
    }  # fmt: skip


def test_a_search_compares_the_last_quarter_of_each_run(search):
    assert accuracy_tables.score(search["otpe"][0], last=1_000) == pytest.approx(0.5), "only the last quarter counts"
    assert accuracy_tables.score(search["otpe"][0], last=10) == pytest.approx(0.5)
    assert math.isnan(accuracy_tables.score(search["otpe"][2], 10))
    for order in ([0, 1, 2], [2, 1, 0], [2, 0, 1]):
        assert accuracy_tables.best([search["otpe"][i] for i in order], 10).result["learning_rate"] == 1e-4
    assert accuracy_tables.best(search["ostl"], 10).result["learning_rate"] == 1e-3, "the first of equal rates"


def test_the_table_of_a_search_has_all_rates(search):
    table = accuracy_tables.rates_table(search, 10)
    assert table.columns == ["rule", "0.001", "0.0004", "0.0001"]
    assert table.rows[0] == ["otpe", "0.500", "nan", "0.700"]
    assert table.rows[1:] == [["ostl", "0.600", "no run", "0.600"], ["ottt", *["no run"] * 3]]
    assert table.caption == "The search: validation accuracy, mean of the last 10 of 80 mini-batches, by learning rate."
    assert "mean of the last 20 of 80" in accuracy_tables.rates_table(search, 1_000).caption, "at most a quarter"


def test_the_online_section_has_final_runs_and_the_search(search):
    section = accuracy_tables.online_section({"otpe": search["otpe"][1], "ostl": None}, search, 10, "R-Randman")
    assert [line.name for line in section["figures"][0].panels[0].lines] == ["otpe"]
    accuracies, rates = section["tables"]
    assert accuracies.rows[0] == ["otpe", "2, few", "0.700 ± 0.000", "0.400 ± 0.000", "1.000 ± 0.000", "0.0001"]
    assert accuracies.rows[1] == ["ostl", "", "no run", "", "", ""]
    assert len(accuracies.columns) == 6, "one draw has no spread over draws"
    assert rates == accuracy_tables.rates_table(search, 10)
    short = accuracy_tables.online_section({"otpe": search["otpe"][1]}, search, 1_000, "R-Randman")["tables"][0]
    assert short.rows[0][2] == "0.700 ± 0.000", "the end of a short run is not the whole run"
    assert "mean of the last 20 mini-batches" in short.caption


def test_the_rates_figure_has_a_panel_per_size_and_a_line_per_rule(search):
    section = accuracy_tables.digits_rates({(32, 32): search, (16,) * 4: {"otpe": search["otpe"][:1]}}, 10, "my digits")
    wide, deep = section["figures"][0].panels
    assert (wide.title, deep.title, wide.log_x) == ("3 layers of 32", "5 layers of 16", True)
    assert [line.name for line in wide.lines] == ["otpe", "ostl", "ottt"]
    assert [*wide.lines[0].x] == [1e-4, 4e-4, 1e-3]
    assert wide.lines[0].y == pytest.approx([0.4, 0.9, 0.2])
    assert wide.lines[0].spread == pytest.approx([0, 0, np.std([0.1, 0.3], ddof=1)])
    assert [table.name for table in section["tables"]] == ["rates-3-layers-of-32", "rates-5-layers-of-16"]
    assert section["tables"][1].caption.startswith("5 layers of 16. The search:")
    assert section["figures"][0].caption == "my digits, online; mean ± σ of 2 networks (few)."


def test_one_network_has_no_spread(tmp_path):
    alone = {"otpe": [run(tmp_path, "otpe", [[0.5]], test=[0.4])], "ottt": []}
    section = accuracy_tables.digits_rates({(32, 32): alone}, 10, "my digits")["figures"][0]
    assert section.panels[0].lines[0].spread is None
    assert section.caption == "my digits, online; one network each."


def test_the_table_of_digits_compares_with_the_paper_and_names_a_different_order(tmp_path):
    def tested(rule, *test):
        return run(tmp_path, rule, [[0.5] * len(test)], test=test)

    otpe, ostl = tested("otpe", 0.70, 0.74), tested("ostl", 0.60, 0.64)
    sizes = {
        (128, 128): {"otpe": otpe, "ostl": ostl, "ottt": None, "deep-otpe": tested("deep-otpe", 0.8)},
        (512, 512): {"otpe": ostl, "ostl": otpe, "ottt": tested("ottt", 0.61999998)},
        (64, 64): {"otpe": ostl, "ostl": otpe},
    }
    section = accuracy_tables.digits_table(sizes, "offline", "my digits")
    rows = section["tables"][0].rows
    assert rows[0] == ["otpe", "3", "128", "2, few", "72.0 ± 2.8", "72.5 ± 0.7", "0.001"]
    assert rows[2] == ["ottt", "3", "128", "", "", "64.3 ± 1.0", ""]
    assert rows[3] == ["deep-otpe", "3", "128", "1, few", "80.0", "", "0.001"], "the paper has no number for our rule"
    assert rows[7] == ["otpe", "3", "64", "2, few", "62.0 ± 2.8", "", "0.001"], "nor for another size"
    assert [(each.rule, each.what) for each in section["against"]] == [
        *(("otpe", "test accuracy, 3 layers of 128"), ("ostl", "test accuracy, 3 layers of 128")),
        *((rule, "test accuracy, 3 layers of 512") for rule in ("otpe", "ostl", "ottt")),
    ]
    first = section["against"][0]
    assert (first.paper, first.paper_spread, first.ours, first.spread) == (
        0.725, 0.007, pytest.approx(0.72), pytest.approx(0.02 * 2**0.5)
    )  # fmt: skip
    assert (first.n, first.paper_n) == (2, 4)
    assert section["remarks"] == [
        "3 layers of 512: OTPE (62.0 ± 2.8, n\u00a0=\u00a02, few) is not above OSTL (72.0 ± 2.8, n\u00a0=\u00a02, few), offline, unlike in the paper.",
        "3 layers of 512: OTPE (62.0 ± 2.8, n\u00a0=\u00a02, few) is not above OTTT (62.0, n\u00a0=\u00a01, a single one), offline, unlike in the paper.",
    ]
    assert accuracy_tables.digits_table(sizes, "online", "my digits")["tables"][0].rows[0][5] == "73.6 ± 1.4"
    assert "from a search" in accuracy_tables.digits_table({}, "online", "my digits")["lead"]


def test_the_slopes_figure_has_a_map_per_rule_and_depth_and_the_best_point(tmp_path):
    def at(*test, best=0.5):
        return run(tmp_path, "otpe", [[0.5, 0.5]], test=test, best=[best, best])

    results = {
        "otpe": {(3, 32, 5): at(0.1, 0.3), (3, 32, 25): at(0.5, 0.5), (3, 64, 5): at(0.4, 0.4, best=0.6), (5, 32, 5): at(0.3, 0.3)},
        "ostl": {},
    }  # fmt: skip
    section = accuracy_tables.digits_slopes(results, "my digits")
    panels = [panel for figure in section["figures"] for panel in figure.panels]
    assert [figure.name for figure in section["figures"]] == ["slopes-3", "slopes-5"]
    assert [panel.title for panel in panels] == ["OTPE, 3 layers", "OSTL, 3 layers", "OTPE, 5 layers", "OSTL, 5 layers"]
    assert isinstance(panels[0], Heat)
    assert (panels[0].columns, panels[0].rows, panels[0].x, panels[0].y) == (
        ["32", "64"],
        ["5", "25"],
        "width",
        "slope",
    )
    np.testing.assert_allclose(panels[0].values, [[0.2, 0.4], [0.5, NAN]])
    np.testing.assert_allclose(panels[0].spread, [[np.std([0.1, 0.3], ddof=1), 0], [0, NAN]])
    np.testing.assert_allclose(panels[2].values, [[0.3, NAN], [NAN, NAN]])
    assert section["tables"][0].rows == [["otpe", "3", "64", "5", "2, few", "0.400 ± 0.000"]], (
        "the best by validation, not by test"
    )
    assert accuracy_tables.digits_slopes({"otpe": {}}, "my digits")["tables"][0].rows == []
