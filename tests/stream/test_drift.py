"""The example of a changing world: its summary of a curve, and that learners run through all changes."""

import json
import sys
from importlib import import_module
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from otpe.stream import worlds

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def drift(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    example = import_module("06_drift")
    monkeypatch.setattr(example, "TIME", 16)
    return example


def test_the_summary_of_a_change_has_before_worst_end_and_recovery(drift):
    size = drift.Size(hidden=8, first=40, each=60)
    changes = {"swap": worlds.Swap(at=640, classes=(0, 1)), "die": worlds.Die(at=1600, share=0.3)}
    accuracy = [0.5, 1.0, 0.2, 0.9, 0.96, 0.95, 0.94, 0.94]  # every 20 sequences
    summaries = drift.summary({320 * (i + 1): a for i, a in enumerate(accuracy)}, changes, size)
    assert summaries["swap"] == {"before": 1.0, "worst": 0.2, "end": 0.96, "steps": 3 * 320}
    assert summaries["die"] == {"before": 0.96, "worst": 0.94, "end": 0.94, "steps": 0}
    lost = drift.summary({320 * (i + 1): a for i, a in enumerate([1.0, 1.0, 0.2, 0.3, 0.9, 1, 1, 1])}, changes, size)
    assert lost["swap"]["steps"] is None, "a rise after the next change is no recovery from this one"


@pytest.mark.parametrize(
    ("steps", "words"),
    [([10, 30], "20 ± 14"), ([10, None, 30], "20 ± 14 (in 2 of 3)"), ([None], "not recovered"), ([1000], "1,000")],
)
def test_recovery_times_are_written_in_words(drift, steps, words):
    assert drift.recovery(steps) == words


def test_a_learner_and_its_frozen_copy_run_through_all_changes(drift, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(drift, "SHORT", drift.Size(hidden=8, first=40, each=20))
    monkeypatch.setattr(drift, "RATES", {"otpe": 1e-3})
    svg = tmp_path / "drift.svg"
    monkeypatch.setattr(sys, "argv", ["06_drift.py", "--json", str(tmp_path / "d.json"), "--figure", str(svg)])
    drawn, draw = {}, drift.draw
    monkeypatch.setattr(drift, "draw", lambda curves, *rest: (drawn.update(curves), draw(curves, *rest)))
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "none")
    drift.main()
    recorded = json.loads((tmp_path / "d.json").read_text())["learners"]
    assert set(recorded) == {"otpe", "frozen"}
    first = recorded["otpe"][0]["4 classes swap"]["before"]
    assert recorded["frozen"][0]["4 classes swap"]["before"] == first, "the same network until the first change"
    assert {path.name for path in tmp_path.iterdir()} == {"drift.svg", "d.json"}
    assert [len(drawn[name][0]) for name in recorded] == [6, 6], "one point every 20 of 120 sequences"
    assert "sensors shift" in svg.read_text()
    assert "| OTPE |" in capsys.readouterr().out


def test_all_learners_see_the_same_stream(drift):
    size = drift.Size(hidden=8, first=3, each=2)
    streams = [list(drift.world(0, size)[0]) for _ in range(2)]
    assert len(streams[0]) == 16 * (3 + 4 * 2)
    for a, b in zip(*streams, strict=True):
        assert (a.label, a.reset) == (b.label, b.reset)
        np.testing.assert_array_equal(a.x, b.x)


def test_the_tables_in_the_docs_match_the_recorded_numbers(drift):
    recorded = json.loads((ROOT / "docs" / "results" / "drift.json").read_text())
    page = (ROOT / "docs" / "results" / "drift.md").read_text(encoding="utf-8")
    for table in drift.tables(recorded["learners"]).strip().split("\n\n"):
        assert table in page
