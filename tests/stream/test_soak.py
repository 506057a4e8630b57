"""A short soak: memory does not grow, numbers stay finite, and errors are found. Also the stream benchmark."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import otpe

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import soak_stream

    monkeypatch.setattr(soak_stream, "POINTS", 12)
    return soak_stream


@pytest.fixture
def stream(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import stream

    return stream


def test_a_short_soak_does_not_grow_memory(tmp_path):
    """Runs in a new process: memory that was used before could hide a leak."""
    command = [
        sys.executable,
        ROOT / "benchmarks" / "soak_stream.py",
        "--lives",
        "12-16-16-4:30000",
        "--json",
        "s.json",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads((tmp_path / "s.json").read_text())["lives"]
    assert row["wrong"] == []
    assert row["grown_kib"] <= 2048
    assert len(row["resident_kib"]) == 41
    assert min(row["rates"]) > 0


def test_the_soak_finds_growth_and_non_finite_numbers(soak, monkeypatch, capsys, tmp_path):
    resident, learn_many = iter(range(0, 10**6, 300)), otpe.StreamLearner.learn_many

    def ill(learner, xs, labels):
        result = learn_many(learner, xs, labels)
        return result._replace(losses=result.losses * np.nan) if learner.steps > 3900 else result

    monkeypatch.setattr(otpe.StreamLearner, "learn_many", ill)
    monkeypatch.setattr(soak, "resident_kib", lambda: next(resident))
    command = ["soak", "--lives", "12-16-16-4:4000", "--json", str(tmp_path / "soak.json")]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as stopped:
        soak.main()
    assert stopped.value.code == 1
    (row,) = json.loads((tmp_path / "soak.json").read_text())["lives"]
    grown = "resident memory has grown by 3000 KiB, expected at most 2048"  # growth is measured from the middle of the first 3 of 13 points
    assert {"a loss is not finite", grown} <= set(row["wrong"])
    assert grown in capsys.readouterr().out


def test_traces_that_are_not_finite_are_found(soak):
    learner = otpe.StreamLearner(otpe.dense([12, 16, 16, 4]))
    assert soak.finite(learner) == set()
    memory = learner._memory._replace(scores=learner._memory.scores * np.nan)
    learner._cell.replace(memory, learner._cell.host)
    assert soak.finite(learner) == {"scores are not finite"}


def test_an_invalid_soak_argument_is_refused(soak):
    with pytest.raises(SystemExit, match="--lives is '50-10', expected a network and its steps, such as"):
        soak.network_and_steps("50-10")


def test_the_stream_benchmark_measures_speed_and_floor(stream, monkeypatch, tmp_path):
    small = (12, 16, 16, 4)
    monkeypatch.setattr(stream, "CASES", [stream.Case(small, "otpe", how, 100) for how in ("learn_one", "learn_many")])
    monkeypatch.setattr(stream, "BEYOND", 1 << 20)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{stream.BEGIN}old\n{stream.END}after\n")
    monkeypatch.setattr(
        sys, "argv", ["stream", "--seconds", "0.05", "--json", str(tmp_path / "s.json"), "--docs", str(page)]
    )
    stream.main()
    recorded = json.loads((tmp_path / "s.json").read_text())
    one, many = recorded["rows"]
    weights = 4 * (12 * 16 + 16 + 16 * 16 + 16 + 16 * 4 + 4)
    assert one["parts"]["params"] == weights
    assert one["parts"]["opt_state"] == 2 * weights + 4, "Adamax: two numbers per weight, and a counter"
    assert one["bytes_moved"] == 2 * otpe.StreamLearner(otpe.dense(small)).bytes >= 2 * sum(one["parts"].values())
    assert one["floor_us"] == pytest.approx(1e6 * one["bytes_moved"] / one["bandwidth"])
    assert many["over_floor"] == pytest.approx(1e6 / many["steps_per_second"] / many["floor_us"])
    assert one["p50_us"] <= one["p99_us"] <= one["worst_us"]
    assert (
        page.read_text()
        == "before\n" + stream.BEGIN + "\n".join(stream.lines(recorded)) + "\n" + stream.END + "after\n"
    )
    with pytest.raises(SystemExit, match="the page has no place for the table, expected a line <!--"):
        stream.refreshed("nothing", recorded)


def test_the_table_in_the_docs_matches_the_recorded_numbers(stream):
    page = (ROOT / "docs" / "performance" / "streaming.md").read_text(encoding="utf-8")
    recorded = json.loads((ROOT / "benchmarks" / "results" / "stream-cpu.json").read_text())
    assert stream.refreshed(page, recorded) == page, (
        "use: python benchmarks/stream.py --json ... --docs docs/performance/streaming.md"
    )
