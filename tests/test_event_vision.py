"""The event vision example runs from start to end, and the docs show the measured numbers."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

import otpe

ROOT = Path(__file__).parent.parent


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples")
    return import_module("07_event_vision")


def test_all_rules_learn_and_are_drawn(example, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(example, "EVERY", 2)
    monkeypatch.setattr(example, "BATCH", 4)
    monkeypatch.setattr(example, "SHORT", example.Size(grid=12, time_steps=3, channels=(2, 3), steps=4, test=8))
    files = ["--json", str(tmp_path / "numbers.json"), "--figure", str(tmp_path / "event-vision.png")]
    monkeypatch.setattr(sys, "argv", ["07_event_vision.py", "--networks", "1", *files])
    example.main()
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert set(numbers["rules"]) == {"bptt", "otpe", "approx-otpe", "ottt"}
    assert all(len(curve) == 2 for curves in numbers["accuracy"].values() for curve in curves)
    assert (tmp_path / "event-vision.png").exists()
    table = capsys.readouterr().out
    assert "| BPTT | 4 |" in table
    assert "| OTPE | 12 |" in table, "there is an update at each time step"


def test_hidden_layers_spike_from_the_start(example):
    net, data = example.network(example.LONG), example.shapes(example.LONG)
    *hidden, _ = net.record(example.start(net, 0), data.batch(0, 0, 8).spikes)
    assert all(0.01 < float(spikes.mean()) < 0.5 for spikes in hidden)
    assert otpe.state_bytes(net, "approx-otpe").traces < otpe.state_bytes(net, "otpe").traces / 10


def test_otpe_is_exact_below_outputs_that_do_not_spike(example):
    size = example.SHORT
    net, data = example.network(size), example.shapes(size)
    params, (spikes, labels) = example.start(net, 0), data.batch(0, 0, 8)
    exact, actual = (
        otpe.gradients(net, params, spikes, labels, rule=rule, loss=example.LOSS)[1] for rule in ("bptt", "otpe")
    )
    assert otpe.testing.relative_error(actual[1:], exact[1:]) < 1e-4
    assert otpe.testing.relative_error(actual[:1], exact[:1]) > 0.1, "the first convolution is estimated"


def test_the_table_in_the_docs_matches_the_recorded_numbers(example):
    page = (ROOT / "docs" / "results" / "event-vision.md").read_text(encoding="utf-8")
    for name in ("event-vision", "event-vision-one-leak"):
        numbers = json.loads((ROOT / "docs" / "results" / f"{name}.json").read_text())
        size = example.Size(**{field: numbers["settings"][field] for field in example.Size._fields})
        assert example.table(numbers["rules"], size) in page
        assert numbers["command"] in page
        assert numbers["settings"]["learning_rates"] == example.RATES
