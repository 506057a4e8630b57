"""The benchmark against other libraries, with none of them installed."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

TOY = ["--sizes", "12", "10", "5", "--steps", "10", "--batch", "8", "--rounds", "2"]


@pytest.fixture
def race(monkeypatch, tmp_path, capsys):
    """Run the benchmark and return its output and its file."""
    monkeypatch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    import rivals
    from contestants import ours

    def run(*args, rule):
        monkeypatch.setattr(ours, "RULES", (rule,))
        monkeypatch.setattr(sys, "argv", ["rivals.py", *TOY, *args, "--json", str(tmp_path / "out.json")])
        rivals.main()
        (result,) = json.loads((tmp_path / "out.json").read_text())["runs"]
        return capsys.readouterr().out, result

    return run


def test_a_rival_that_is_not_installed_is_named_and_left_out(race, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    printed, result = race(rule="ostl")
    assert "not installed: pip install slax==0.0.1" in printed
    assert set(result["absent"]) == {"jax.grad", "snntorch", "spikingjelly", "slax", "braintrace"}
    assert all(c["median_seconds"] > 0 and c["timed_calls"] == 2 for c in result["contestants"].values())


def test_a_rival_in_another_python_is_checked_and_timed(race):
    _, result = race("--rivals", "--elsewhere", f"jax.grad={sys.executable}", rule="bptt")
    rival = result["contestants"]["jax.grad bptt"]
    assert rival["same"]
    assert max(rival["relative_errors"]) < 1e-5
    assert rival["ratio"] > 0


def test_wrong_rivals_get_no_ratio_and_failing_ones_are_named(race, monkeypatch):
    from contestants import RIVALS, Contestant

    def contestants(problem):
        ones = [np.ones_like(k) for k in problem.kernels]
        return [
            Contestant("wrong", "otpe", lambda: None, lambda _: ones),
            Contestant("broken", "otpe", lambda: 1 / 0, lambda _: ones),
        ]

    monkeypatch.setitem(sys.modules, RIVALS["slax"].module, sys.modules[__name__])
    monkeypatch.setitem(globals(), "contestants", contestants)
    monkeypatch.setitem(RIVALS, "slax", RIVALS["slax"]._replace(package="otpe"))
    printed, result = race("--rivals", "slax", rule="otpe")
    assert "computes something else than otpe" in printed
    assert not result["contestants"]["wrong"]["same"]
    assert "ratio" not in result["contestants"]["wrong"]
    assert result["contestants"]["broken"]["error"] == "ZeroDivisionError: division by zero"
