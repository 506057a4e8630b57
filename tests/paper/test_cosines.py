"""Cosines beside the paper's: means over networks and time, computed by hand."""

import numpy as np
import pytest
from made_up_runs import aligned, run

from otpe.lab.paper import cosines, published
from otpe.lab.studies import align


@pytest.fixture
def bptt(tmp_path):
    """Two moments, four networks, three layers: kernel cosines from the first layer to the output."""
    ostl = [[[0.1, 0.4, 1.0], [None, None, None]], [[0.3, 0.6, 1.0], [0.2, 0.5, 1.0]]]
    otpe = [[[h1 + more, h2, 1.0] for more in (0.0, 0.1) for h1, h2 in each] for each in FIRST]
    moments = [aligned({"otpe": a, "ostl": b * 2}) for a, b in zip(otpe, ostl, strict=True)]
    return run(tmp_path, "bptt", [[0.5] * 4] * 2, alignment=moments)


FIRST = [[(0.5, 0.8), (0.7, 0.9)], [(0.6, 0.8), (0.8, 0.9)]]


def test_mean_and_spread_are_over_networks_and_time_output_first(bptt):
    section = cosines.section(bptt, ("otpe", "ostl", "ottt"), "my digits", cosines.beside_three)
    (columns, rows) = section["tables"][0].columns, section["tables"][0].rows
    assert columns == ["rule", "O", "H2", "H1", "model", "ratio of norms"]
    assert rows[0] == ["otpe", "1.000 ± 0.000", "0.850 ± 0.053", "0.700 ± 0.131", "0.070 ± 0.013", "0.140 ± 0.026"]
    assert rows[1][1:4] == ["1.000 ± 0.000", "0.500 ± 0.089", "0.200 ± 0.089"], "null is not counted"
    assert len(rows) == 2, "a rule that was not measured is absent"
    assert "on my digits" in section["lead"]
    assert section["lead"].endswith("the highest mean is 0.70 (OTPE).")
    kernels = section["figures"][0].panels[0]
    assert kernels.bars[0].values == pytest.approx([1, 0.85, 0.7])
    over = section["figures"][2].panels[2]
    assert (over.title, over.lines[1].y) == ("H1", pytest.approx([0.1, 0.25]))
    against = {(each.what, each.rule): each for each in section["against"]}
    assert len(against) == 2 * 3 + 2
    first = against["kernel cosine, H1", "otpe"]
    each_network = [0.55, 0.75, 0.65, 0.85]  # the mean over training
    assert (first.paper, first.ours, first.n) == (0.862, pytest.approx(0.7), 4)
    assert first.spread == pytest.approx(np.std(each_network, ddof=1))
    (stored,) = [each for each in section["samples"] if (each.what, each.rule) == ("kernel cosine, H1", "otpe")]
    assert stored.values == pytest.approx(each_network)
    assert against["kernel cosine, O", "ostl"].paper == 1.0
    assert against["kernel cosine, H2", "ostl"].ours == pytest.approx(0.5)
    assert against["cosine, whole model", "otpe"].ours == pytest.approx(0.07)
    assert against["cosine, whole model", "otpe"].paper == published.COSINES_MODEL["otpe"]


def test_five_layers_are_compared_at_the_end_of_training(tmp_path):
    early, late = ([[h1, 0.3, 0.4, 0.5, 1.0]] for h1 in (0.9, 0.2))
    bptt_run = run(tmp_path, "bptt", [[0.5]] * 3, alignment=[aligned({"otpe": each}) for each in (early, late, late)])
    along = align.along(bptt_run.metrics)
    beside = {each.what: each for each in cosines.beside_five(along, last=20)}
    assert [*beside] == [f"kernel cosine at the end, {name}" for name in ("O", "H4", "H3", "H2", "H1")]
    assert beside["kernel cosine at the end, H1"].ours == pytest.approx(0.2)
    assert [each.paper for each in beside.values()] == [*published.COSINES_5["otpe"]]
    assert {each.what: each.ours for each in cosines.beside_five(along, last=30)}["kernel cosine at the end, H1"] > 0.4
    assert cosines.beside_three(along)[0].what == "cosine, whole model", "kernels of another depth are not compared"


def test_a_rule_without_cosines_is_never_the_best(tmp_path):
    moment = aligned({"ostl": [[None, 0.3, 1.0]], "otpe": [[-0.4, 0.3, 1.0]]})
    bptt_run = run(tmp_path, "bptt", [[0.5]], alignment=[moment])
    section = cosines.section(bptt_run, ("ostl", "otpe"), "my digits")
    assert section["lead"].endswith("the highest mean is -0.40 (OTPE).")
    assert section["tables"][0].rows[0][3] == "nan"
    assert section["remarks"] == [
        "A zero gradient has no direction. Means leave it out. ostl: some of the 1 kernel cosines per layer are unknown"
        " (H1 1)."
    ]
    assert section["against"] == []


def test_without_a_bptt_run_there_are_no_cosines():
    assert cosines.section(None, ("otpe",), "my digits") == {"lead": "There is no run by BPTT to compare with."}


def test_distances_from_the_paper_are_given_at_the_end_and_for_the_closest_fifth(tmp_path):
    """One rule, five moments; the first layer's cosine falls, the last hidden one's rises."""
    theirs = published.COSINES_5["otpe"][::-1]
    moments = [[[theirs[0] + off, *theirs[1:]]] for off in (0.4, 0.3, 0.05, -0.1, -0.2)]
    bptt_run = run(tmp_path, "bptt", [[0.5]] * 5, alignment=[aligned({"otpe": each}) for each in moments])
    section = cosines.section(
        bptt_run, ("otpe",), "my digits", lambda a: cosines.beside_five(a, 10), published.COSINES_5
    )
    assert section["remarks"] == [
        "All kernel cosines differ from the paper's by at most 0.200. Cosines change while a network learns, so the"
        " comparison depends on when they are taken: over all of training they differ by at most 0.090, and by at most"
        " 0.050 in the closest fifth, mini-batches 20 to 30."
    ]
