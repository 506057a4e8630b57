"""The benchmark suite: what it fits, what it measures, and that the numbers are those of the paper's table."""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

import otpe
from otpe import files
from otpe.bench import growth, plan, points, report, results, run, timing
from otpe.bench.config import BenchConfig
from otpe.bench.points import Point

TOY = BenchConfig(
    rules=("bptt", "otpe"), modes=("offline", "step"), sizes=(6, 6, 6), base_steps=4, base_batch=2,
    widths=(6, 12), steps=(), batches=(), depths=(), seconds=0.002,
)  # fmt: skip
ONE = replace(TOY, rules=("ottt",), modes=("step",))


# Exponents


@pytest.mark.parametrize("power", [-1, 0, 0.5, 1, 2, 3])
def test_the_fit_finds_a_known_power(power):
    values = [3, 10, 20, 70]
    assert growth.exponent(values, [5.0 * v**power for v in values]) == pytest.approx(power, abs=1e-9)


def test_the_fit_is_a_least_squares_line():
    x, y = np.log([1, 2, 4]), np.array([0.0, 1.0, 1.0])
    by_hand = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    assert growth.exponent([1, 2, 4], np.exp(y).tolist()) == pytest.approx(by_hand)


@pytest.mark.parametrize(("values", "measured"), [([], []), ([4], [7.0]), ([4, 4], [7.0, 8.0]), ([1, 2], [0, 5])])
def test_no_fit_where_there_is_none(values, measured):
    assert growth.exponent(values, measured) is None


# The paper's table, without a clock


LARGE = {"width": (512, 2048), "steps": (10, 1000), "batch": (1, 64), "depth": (64, 128)}


def at(axis, value, **kwargs):
    sizes = {"width": (value,) * 3, "depth": (128,) * (value + 1)}.get(axis, (128,) * 3)
    return Point(
        sizes,
        **{"steps": 10, "batch": 4, axis: value} if axis in ("steps", "batch") else {"steps": 10, "batch": 4},
        **kwargs,
    )


@pytest.mark.parametrize("rule", [rule for rule in otpe.rules() if rule != "bptt"])
@pytest.mark.parametrize("axis", growth.AXES)
def test_the_state_grows_as_in_the_table(rule, axis):
    state = [points.state(at(axis, value, rule=rule, mode="step")) for value in LARGE[axis]]
    memory = growth.expected(rule, "step").memory
    assert growth.exponent(LARGE[axis], state) == pytest.approx(getattr(memory, axis), abs=0.1)


def test_the_table_has_every_rule():
    assert {*growth.STEP, "bptt"} == set(otpe.rules())
    assert set(growth.PAPER) <= set(otpe.rules())
    for rule in otpe.rules():
        assert growth.expected(rule, "offline").time.steps == 1
    assert growth.expected("mine", "offline") is growth.expected("mine", "step") is None


@pytest.mark.parametrize("rule", ["bptt", "otpe"])
@pytest.mark.parametrize(
    ("axis", "values"), [("width", (16, 64)), ("steps", (50, 200)), ("batch", (4, 16)), ("depth", (3, 9))]
)
def test_offline_every_rule_has_the_memory_of_bptt(rule, axis, values):
    small = {"sizes": (32,) * 3, "steps": 50, "batch": 8, "rule": rule, "mode": "offline"}
    change = {"width": lambda n: {"sizes": (n,) * 3}, "depth": lambda L: {"sizes": (32,) * (L + 1)}}
    working = [
        points.build(Point(**{**small, **change.get(axis, lambda v: {axis: v})(value)})).bytes.working
        for value in values
    ]
    memory = growth.expected(rule, "offline").memory
    assert growth.exponent(values, working) == pytest.approx(getattr(memory, axis), abs=0.15)


# Points


@pytest.mark.parametrize("rule", ["otpe", "ottt", "rtrl"])
def test_a_step_needs_the_same_memory_however_long_the_stream(rule):
    short, long = (points.build(Point((5, 4), steps, 2, rule, "step")) for steps in (2, 200))
    assert short.bytes == long.bytes
    call, _ = points.ready(short)
    before = sum(array.nbytes for array in jax.live_arrays())
    for _ in range(20):
        call()
    assert sum(array.nbytes for array in jax.live_arrays()) <= before


def test_online_with_dense_traces_works_in_constant_memory():
    working = [
        points.build(Point((5, 6, 4), steps, 2, "otpe", "online", {"traces": "dense"})).bytes.working
        for steps in (10, 100)
    ]
    assert working[0] == working[1]


def test_the_state_that_is_told_is_the_state_that_is_held():
    net, point = otpe.dense([5, 6, 4]), Point((5, 6, 4), 3, 2, "otpe", "step")
    held = otpe.stepper(net, "otpe", traces="dense").init(2, "float32")
    assert points.state(point) == sum(leaf.nbytes for leaf in jax.tree.leaves(held))
    assert points.state(replace(point, mode="offline")) is None, "no state: it has the whole sequence"


def test_bytes_are_those_of_the_arguments_and_results():
    program = points.build(Point((5, 6, 4), 3, 2, "bptt", "offline"))
    weights = 4 * (5 * 6 + 6 + 6 * 4 + 4)
    assert program.bytes.arguments == weights + 4 * (3 * 2 * 5) + 4 * 2
    assert weights + 4 <= program.bytes.outputs <= weights + 128  # and pointers to them
    assert program.bytes.peak == program.bytes.arguments + program.bytes.outputs + program.bytes.working


def test_a_stream_has_its_state_once():
    point = Point((30, 30, 30), 3, 4, "otpe", "step")
    program, state = points.build(point), points.state(point)
    assert program.bytes.aliased >= state
    assert program.bytes.peak == sum(program.bytes) - 2 * program.bytes.aliased
    assert program.bytes.peak - program.bytes.working < 1.5 * state


@pytest.mark.parametrize("mode", ["offline", "online", "step"])
def test_what_is_measured_is_what_the_front_door_computes(mode):
    point = Point((5, 6, 4), 3, 2, "otpe", mode)
    call, first = points.ready(points.build(point))
    assert first > 0
    got = call()
    net, (spikes, labels) = point.net, points.mini_batch(point)
    params = net.init(jax.random.key(0), "float32")
    if mode == "offline":
        want = otpe.gradients(net, params, spikes, labels, rule="otpe")
    elif mode == "online":
        start = points.OPTIMIZER.init(params)
        want = otpe.online_pass(net, params, start, spikes, labels, rule="otpe", optimizer=points.OPTIMIZER)
    else:
        form = otpe.stepper(net, "otpe", traces="dense")
        state = form.init(2, "float32")
        for x in (*spikes, spikes[0]):  # three before it counts, and the stream begins anew
            state, info = form.advance(params, state, x)
        want = form.emit(params, state, info, labels)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), got, want)


@pytest.mark.parametrize("mode", ["offline", "online", "step"])
def test_options_reach_what_is_measured(mode):
    with pytest.raises(TypeError, match="nonsense"):
        points.build(Point((5, 4), 3, 2, "ottt", mode, {"nonsense": 1}))


# The race


def test_a_race_is_fair():
    calls = []
    slow, fast = (
        (lambda: (calls.append("slow"), time.sleep(0.004))),
        (lambda: (calls.append("fast"), time.sleep(0.002))),
    )
    times = timing.race({"slow": slow, "fast": fast}, seconds=0.1)
    assert 0.002 <= times["fast"].min <= times["fast"].median < times["slow"].median
    assert times["fast"].turns == times["slow"].turns >= timing.FEWEST_ROUNDS
    each_turn = calls[::2]
    assert calls[1::2] == each_turn, "every turn is a warm-up call and a timed one"
    firsts = each_turn[::2]
    assert {"slow", "fast"} == set(firsts), "the order changes from round to round"


def test_short_calls_are_repeated_within_a_turn():
    times = timing.race({"short": lambda: None}, seconds=0.01)["short"]
    assert times.calls > 10 * times.turns


def test_the_median_is_over_turns():
    times = timing.summary([(3.0, 1), (1.0, 2), (10.0, 1)])
    assert times == timing.Times(median=3.0, min=1.0, quartiles=(2.0, 6.5), turns=3, calls=4)


# The plan


def test_a_place_on_several_axes_is_measured_once():
    found = plan.places(replace(TOY, widths=(3, 6), batches=(2, 4), depths=(2, 5)))
    assert found == {
        plan.Place((3, 3, 3), 4, 2): {"width": 3},
        plan.Place((6, 6, 6), 4, 2): {"width": 6, "batch": 2, "depth": 2},
        plan.Place((6, 6, 6), 4, 4): {"batch": 4},
        plan.Place((6,) * 6, 4, 2): {"depth": 5},
    }


def test_without_axes_the_base_is_measured():
    base = replace(TOY, sizes=(7, 5, 3), widths=())
    assert plan.places(base) == {plan.Place((7, 5, 3), 4, 2): {}}


def test_rules_without_a_mode_are_not_asked_for_it():
    heats = plan.heats(plan.checked(TOY), {"traces": "dense"})
    assert [[(p.rule, p.mode) for p in heat.points] for heat in heats[1:3]] == [
        [("bptt", "offline"), ("otpe", "offline")], [("otpe", "step")],
    ]  # fmt: skip
    assert all(point.options == {"traces": "dense"} for heat in heats for point in heat.points)


def test_quick_changes_only_what_was_left_alone():
    quick = BenchConfig(quick=True, widths=(3,), rules=("otpe", "otpe")).resolved()
    assert quick.widths == (3,)
    assert quick.rules == ("otpe", "otpe")
    assert quick.seconds < BenchConfig().seconds
    assert BenchConfig().resolved() == BenchConfig()


def test_all_rules_but_the_one_that_does_not_scale():
    assert plan.checked(replace(TOY, rules=("all",))).rules == tuple(r for r in otpe.rules() if r != "rtrl")


# Files


def test_numbers_are_never_given_twice(tmp_path):
    (tmp_path / "bench-007.json").write_text("old")
    (tmp_path / "bench-notes.json").write_text("mine")
    assert files.claim(tmp_path, "bench", ".json").name == "bench-008.json"
    assert files.claim(tmp_path, "bench", ".json").name == "bench-009.json"
    assert (tmp_path / "bench-007.json").read_text() == "old"


def test_two_at_once_get_different_numbers(tmp_path, monkeypatch):
    (tmp_path / "bench-001.json").write_text("theirs")
    monkeypatch.setattr(Path, "glob", lambda *_: [])  # they made it after we looked
    assert files.claim(tmp_path, "bench", ".json").name == "bench-002.json"


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "numbers.json"
    files.write_atomically(path, "old")

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        files.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


# The verb


def read(folder: Path) -> dict:
    return json.loads((folder / "bench-001.json").read_text())


def test_what_the_file_holds(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # it takes time
    assert run.prepare(replace(TOY, out=tmp_path))() == 0
    kept = read(tmp_path)
    assert kept["finished"]
    for name in ("device", "backend", "jax", "otpe", "python", "platform", "cores", "date"):
        assert kept[name]
    assert kept["config"]["widths"] == [6, 12]
    assert [(p["rule"], p["mode"], p["axes"]["width"]) for p in kept["points"]] == [
        ("bptt", "offline", 6), ("otpe", "offline", 6), ("bptt", "offline", 12), ("otpe", "offline", 12),
        ("otpe", "step", 6), ("otpe", "step", 12),
    ]  # fmt: skip
    for point in kept["points"]:
        assert 0 < point["seconds"]["min"] <= point["seconds"]["median"] < point["first_call_seconds"]
        assert point["peak_bytes"] > point["bytes"]["working"]
        assert (point["state_bytes"] is None) == (point["mode"] == "offline")
    fits = {(f["mode"], f["rule"], f["axis"], f["quantity"]): f for f in kept["growth"]}
    assert set(fits) == {
        *(("offline", rule, "width", q) for rule in TOY.rules for q in ("time", "working", "peak")),
        *(("step", "otpe", "width", q) for q in ("time", "working", "peak", "state")),
    }
    assert fits["step", "otpe", "width", "state"]["theory"] == 2
    assert fits["offline", "bptt", "width", "working"]["theory"] == 1
    assert fits["step", "otpe", "width", "peak"]["theory"] is None


def test_stopping_keeps_what_was_measured(tmp_path, monkeypatch, capsys):
    races = iter([timing.race, None])

    def stopped_in_the_second(*args):
        heat = next(races)
        if heat is None:
            raise KeyboardInterrupt
        return heat(*args)

    monkeypatch.setattr(timing, "race", stopped_in_the_second)
    assert run.prepare(replace(ONE, out=tmp_path))() == 130
    kept = read(tmp_path)
    assert not kept["finished"]
    assert [p["axes"]["width"] for p in kept["points"]] == [6]
    told = capsys.readouterr()
    assert "What was measured until now is kept" in told.err
    assert "not finished" in told.out


def test_every_heat_is_on_the_disk_before_the_next(tmp_path, monkeypatch):
    def crash(*_):
        raise RuntimeError("the power is gone")

    race, done = timing.race, []

    def once(*args):
        done.append(len(done))
        return race(*args) if len(done) == 1 else crash()

    monkeypatch.setattr(timing, "race", once)
    with pytest.raises(RuntimeError, match="power"):
        run.prepare(replace(ONE, out=tmp_path))()
    assert len(read(tmp_path)["points"]) == 1


def test_what_is_too_large_is_left_out_and_said(tmp_path, capsys):
    config = replace(TOY, rules=("ottt", "rtrl"), modes=("step",), widths=(30,), max_gb=1e-3, out=tmp_path)
    assert run.prepare(config)() == 0
    kept = read(tmp_path)
    assert [point["rule"] for point in kept["points"]] == ["ottt"]
    (left_out,) = kept["left_out"]
    assert (left_out["rule"], left_out["why"]) == ("rtrl", "needs 0.0013 GB, more than --max-gb 0.001")
    assert "step, rtrl, 30-30-30, T 4, batch 2: needs 0.0013 GB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("message", "kept"), [("RESOURCE_EXHAUSTED: out of memory", True), ("INVALID_ARGUMENT: a bug", False)]
)
def test_a_full_device_is_left_out_and_a_bug_is_not(tmp_path, monkeypatch, message, kept):
    def fail(_):
        raise jax.errors.JaxRuntimeError(message)

    monkeypatch.setattr(points, "ready", fail)
    job = run.prepare(replace(ONE, out=tmp_path))
    if kept:
        assert job() == 0
        assert [point["why"] for point in read(tmp_path)["left_out"]] == [message, message]
    else:
        with pytest.raises(jax.errors.JaxRuntimeError, match="a bug"):
            job()


def test_the_table(tmp_path):
    measured = results.blank(TOY)
    for width in (6, 12):
        for rule, median in (("bptt", 0.002), ("otpe", 0.003)):
            measured["points"].append({
                "sizes": [width] * 3, "steps": 4, "batch": 2, "rule": rule, "mode": "offline", "axes": {"width": width},
                "seconds": {"median": median * width**2, "min": median}, "first_call_seconds": 1.5,
                "peak_bytes": 2_000_000, "bytes": {"working": 1000 * width}, "state_bytes": None,
            })  # fmt: skip
    results.save(tmp_path / "numbers.json", measured)
    lines = report.text(measured).splitlines()
    assert "  network   T  batch  rule   ms  fastest  / bptt  first call s  peak MB  working MB" in lines
    assert "  6-6-6     4      2  otpe  108        3    1.50          1.50        2       0.006" in lines
    assert "  otpe  2.00 (2)" in lines
    assert "  otpe  1.00 (1)" in lines
    assert "  otpe  0.00" in lines
    assert "  otpe         O(n²)   O(T n²)" in lines
