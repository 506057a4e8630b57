"""`otpe bench` as a whole: the plan, the files, the heats, and which results remain after a failure."""

import errno
import json
import sys
from dataclasses import replace
from pathlib import Path

import jax
import pytest

import otpe
from otpe import files
from otpe.lab.bench import bench, measurements, points
from otpe.lab.report import content
from otpe.lab.settings import BenchConfig

TOY = BenchConfig(
    rules=("bptt", "otpe"), modes=("offline", "step"), sizes=(6, 6, 6), base_steps=4, base_batch=2,
    widths=(6, 12), steps=(), batches=(), depths=(), seconds=0.002,
)  # fmt: skip
ONE = replace(TOY, rules=("ottt",), modes=("step",))


# The plan


def test_a_point_on_several_axes_is_measured_once():
    places = points.places(replace(TOY, widths=(3, 6), batches=(2, 4), depths=(2, 5)))
    assert places == {
        points.Place((3, 3, 3), 4, 2): {"width": 3},
        points.Place((6, 6, 6), 4, 2): {"width": 6, "batch": 2, "depth": 2},
        points.Place((6, 6, 6), 4, 4): {"batch": 4},
        points.Place((6,) * 6, 4, 2): {"depth": 5},
    }


def test_without_axes_only_the_base_point_is_measured():
    base = replace(TOY, sizes=(7, 5, 3), widths=())
    assert points.places(base) == {points.Place((7, 5, 3), 4, 2): {}}


def test_rules_are_measured_only_in_the_modes_they_have():
    heats = points.heats(points.checked(TOY), {"traces": "dense"})
    assert [[(p.rule, p.mode) for p in heat.points] for heat in heats[1:3]] == [
        [("bptt", "offline"), ("otpe", "offline")], [("otpe", "step")],
    ]  # fmt: skip
    assert all(point.options == {"traces": "dense"} for heat in heats for point in heat.points)


def test_quick_changes_only_settings_that_were_not_given():
    quick = BenchConfig(quick=True, widths=(3,), rules=("otpe", "otpe")).resolved()
    assert quick.widths == (3,)
    assert quick.rules == ("otpe", "otpe")
    assert quick.seconds < BenchConfig().seconds
    assert BenchConfig().resolved() == BenchConfig()


def test_the_command_line_rebuilds_the_settings():
    assert BenchConfig().command() == "otpe bench"
    assert BenchConfig(quick=True).resolved().command() == "otpe bench --quick"
    config = replace(BenchConfig(), modes=("step",), base_steps=7, widths=(), seconds=0.5, out=Path("elsewhere"))
    assert config.command() == "otpe bench --modes step --base-steps 7 --widths --seconds 0.5"


def test_the_default_rules_are_all_but_the_one_that_does_not_scale():
    assert points.checked(replace(TOY, rules=("all",))).rules == tuple(r for r in otpe.rules() if r != "rtrl")


# Files


def test_numbers_of_result_files_are_never_used_twice(tmp_path):
    (tmp_path / "bench-007.json").write_text("old")
    (tmp_path / "bench-notes.json").write_text("mine")
    assert files.claim(tmp_path, "bench", ".json").name == "bench-008.json"
    assert files.claim(tmp_path, "bench", ".json").name == "bench-009.json"
    assert (tmp_path / "bench-007.json").read_text() == "old"


def test_two_processes_get_different_file_numbers(tmp_path, monkeypatch):
    (tmp_path / "bench-001.json").write_text("theirs")
    monkeypatch.setattr(Path, "glob", lambda *_: [])  # another process made it after our check
    assert files.claim(tmp_path, "bench", ".json").name == "bench-002.json"


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "numbers.json"
    files.write_atomically(path, "old")

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match=r"no space left on device: '.*numbers\.json'"):
        files.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# The verb


def read(folder: Path) -> dict:
    return json.loads((folder / "bench-001.json").read_text())


def test_the_result_file_has_settings_machine_and_points(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # drawing takes time
    assert bench.prepare(replace(TOY, out=tmp_path))() == 0
    recorded = read(tmp_path)
    assert recorded["finished"]
    for name in ("device", "backend", "jax", "otpe", "python", "platform", "cores", "date"):
        assert recorded[name]
    assert recorded["config"]["widths"] == [6, 12]
    assert [(p["rule"], p["mode"], p["axes"]["width"]) for p in recorded["points"]] == [
        ("bptt", "offline", 6), ("otpe", "offline", 6), ("bptt", "offline", 12), ("otpe", "offline", 12),
        ("otpe", "step", 6), ("otpe", "step", 12),
    ]  # fmt: skip
    for point in recorded["points"]:
        assert 0 < point["seconds"]["min"] <= point["seconds"]["median"] < point["first_call_seconds"]
        assert point["peak_bytes"] > point["bytes"]["working"]
        assert (point["state_bytes"] is None) == (point["mode"] == "offline")
    fits = {(f["mode"], f["rule"], f["axis"], f["quantity"]): f for f in recorded["growth"]}
    assert set(fits) == {
        *(("offline", rule, "width", q) for rule in TOY.rules for q in ("time", "working", "peak")),
        *(("step", "otpe", "width", q) for q in ("time", "working", "peak", "state")),
    }
    assert fits["step", "otpe", "width", "state"]["theory"] == 2
    assert fits["offline", "bptt", "width", "working"]["theory"] == 1
    assert fits["step", "otpe", "width", "peak"]["theory"] is None
    section = content.from_json((tmp_path / "section.json").read_text())
    assert [row[:2] for row in section.tables[0].rows] == [
        ["bptt", "whole sequence"], ["otpe", "whole sequence"], ["otpe", "one step, after T"],
    ]  # fmt: skip
    assert [figure.name for figure in section.figures] == ["state-offline", "time-offline", "state-step", "time-step"]
    assert section.seconds > 0


def test_a_stopped_benchmark_keeps_its_measurements(tmp_path, monkeypatch, capsys):
    races = iter([points.race, None])

    def stopped_in_the_second(*args):
        heat = next(races)
        if heat is None:
            raise KeyboardInterrupt
        return heat(*args)

    monkeypatch.setattr(points, "race", stopped_in_the_second)
    assert bench.prepare(replace(ONE, out=tmp_path))() == 130
    recorded = read(tmp_path)
    assert not recorded["finished"]
    assert [p["axes"]["width"] for p in recorded["points"]] == [6]
    output = capsys.readouterr()
    assert "What was measured until now is kept" in output.err
    assert "not finished" in output.out


def test_every_heat_is_written_before_the_next_one_runs(tmp_path, monkeypatch):
    def crash(*_):
        raise RuntimeError("the power is gone")

    race, done = points.race, []

    def once(*args):
        done.append(len(done))
        return race(*args) if len(done) == 1 else crash()

    monkeypatch.setattr(points, "race", once)
    with pytest.raises(RuntimeError, match="power"):
        bench.prepare(replace(ONE, out=tmp_path))()
    assert len(read(tmp_path)["points"]) == 1


def test_points_that_are_too_large_are_left_out_with_a_message(tmp_path, capsys):
    config = replace(TOY, rules=("ottt", "rtrl"), modes=("step",), widths=(30,), max_gb=1e-3, out=tmp_path)
    assert bench.prepare(config)() == 0
    recorded = read(tmp_path)
    assert [point["rule"] for point in recorded["points"]] == ["ottt"]
    (left_out,) = recorded["left_out"]
    assert (left_out["rule"], left_out["why"]) == ("rtrl", "needs 0.0013 GB, more than --max-gb 0.001")
    assert "step, rtrl, 30-30-30, T 4, batch 2: needs 0.0013 GB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "left_out"), [("RESOURCE_EXHAUSTED: out of memory", True), ("INVALID_ARGUMENT: a bug", False)]
)
def test_only_out_of_memory_errors_leave_a_point_out(tmp_path, monkeypatch, message, left_out):
    def fail(_):
        raise jax.errors.JaxRuntimeError(message)

    monkeypatch.setattr(points, "ready", fail)
    job = bench.prepare(replace(ONE, out=tmp_path))
    if left_out:
        assert job() == 0
        assert [point["why"] for point in read(tmp_path)["left_out"]] == [message, message]
    else:
        with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
            job()


def test_the_table_has_the_measured_values(tmp_path):
    measured = measurements.blank(TOY)
    for width in (6, 12):
        for rule, median in (("bptt", 0.002), ("otpe", 0.003)):
            measured["points"].append({
                "sizes": [width] * 3, "steps": 4, "batch": 2, "rule": rule, "mode": "offline", "axes": {"width": width},
                "seconds": {"median": median * width**2, "min": median}, "first_call_seconds": 1.5,
                "peak_bytes": 2_000_000, "bytes": {"working": 1000 * width}, "state_bytes": None,
            })  # fmt: skip
    measurements.save(tmp_path / "numbers.json", measured)
    lines = measurements.text_table(measured).splitlines()
    assert "  network   T  batch  rule   ms  fastest  / bptt  first call s  peak MB  working MB" in lines
    assert "  6-6-6     4      2  otpe  108        3    1.50          1.50        2       0.006" in lines
    assert "  otpe  2.00 (2)" in lines
    assert "  otpe  1.00 (1)" in lines
    assert "  otpe  0.00" in lines
    assert "  otpe         O(n²)   O(T n²)" in lines
