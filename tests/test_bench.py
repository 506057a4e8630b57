"""The benchmark suite: its fits, its measurements, and that the numbers agree with the paper's table."""

import time
from dataclasses import replace

import jax
import numpy as np
import pytest

import otpe
from otpe.lab.bench import figures, growth, measurements, points
from otpe.lab.bench.points import Point
from otpe.lab.settings import BenchConfig
from otpe.rulebook import named_rules

# Exponents


@pytest.mark.parametrize("power", [-1, 0, 0.5, 1, 2, 3])
def test_the_fit_finds_a_known_power(power):
    values = [3, 10, 20, 70]
    assert growth.exponent(values, [5.0 * v**power for v in values]) == pytest.approx(power, abs=1e-9)


def test_the_exponent_is_fitted_by_least_squares():
    x, y = np.log([1, 2, 4]), np.array([0.0, 1.0, 1.0])
    by_hand = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    assert growth.exponent([1, 2, 4], np.exp(y).tolist()) == pytest.approx(by_hand)


@pytest.mark.parametrize(("values", "measured"), [([], []), ([4], [7.0]), ([4, 4], [7.0, 8.0]), ([1, 2], [0, 5])])
def test_too_few_points_give_no_fit(values, measured):
    assert growth.exponent(values, measured) is None


# The paper's table, without a clock


LARGE = {"width": (512, 2048), "steps": (10, 1000), "batch": (1, 64), "depth": (64, 128)}


def at(axis, value, rule, mode, width):
    place = {"sizes": (width,) * 3, "steps": 50, "batch": 4}
    squares = {"width": {"sizes": (value,) * 3}, "depth": {"sizes": (width,) * (value + 1)}}
    return Point(**{**place, **squares.get(axis, {axis: value})}, rule=rule, mode=mode)


@pytest.mark.parametrize("rule", [rule for rule in otpe.rules() if rule != "bptt"])
@pytest.mark.parametrize("axis", growth.AXES)
def test_the_state_grows_as_in_the_table(rule, axis):
    state = [points.state(at(axis, value, rule, "step", width=128)) for value in LARGE[axis]]
    memory = growth.expected(rule, "step").memory
    assert growth.exponent(LARGE[axis], state) == pytest.approx(getattr(memory, axis), abs=0.1)


# Exponents of time and memory of one step over n, T, B and L, counted by hand.
PER_WEIGHT, PER_INPUT = ((2, 0, 1, 1), (2, 0, 1, 1)), ((2, 0, 1, 1), (1, 0, 1, 1))
DEEP_PER_WEIGHT, DEEP_PER_INPUT = ((2, 0, 1, 2), (2, 0, 1, 2)), ((2, 0, 1, 1), (1, 0, 1, 2))
STEP = {
    "bptt": None, "rtrl": ((4, 0, 1, 3), (3, 0, 1, 2)), "ostl": PER_WEIGHT, "ottt": PER_INPUT,
    "otpe": PER_WEIGHT, "approx-otpe": PER_INPUT, "f-otpe": PER_WEIGHT, "f-approx-otpe": PER_INPUT,
    "deep-otpe": DEEP_PER_WEIGHT, "approx-deep-otpe": DEEP_PER_INPUT,
    "f-deep-otpe": DEEP_PER_WEIGHT, "f-approx-deep-otpe": DEEP_PER_INPUT,
}  # fmt: skip


@pytest.mark.parametrize("rule", STEP)
def test_the_theory_of_a_step_is_as_counted_by_hand(rule):
    assert growth.expected(rule, "step") == STEP[rule]


@pytest.mark.parametrize(
    ("hidden", "like", "orders"),
    [
        (otpe.Otpe(order=2), "otpe", ("ours: O(n²)", "ours: O(T n²)")),
        (otpe.Approx(order=3), "ottt", ("ours: O(n)", "ours: O(T n + n²)")),
        (otpe.Otpe(order="depth"), "deep-otpe", ("ours: O(L n²)", "ours: O(T L n²)")),
        (otpe.Ottt(), "ottt", growth.PAPER["ottt"]),
    ],
)
def test_a_new_rule_is_in_the_tables_without_an_edit(monkeypatch, hidden, like, orders):
    monkeypatch.setitem(named_rules.NAMED, "new", otpe.Rule("new", hidden, otpe.Ottt()))
    for form in ("offline", "online", "steps", "step"):
        assert growth.expected("new", form) == growth.expected(like, form)
    assert growth.orders("new") == orders
    config = points.checked(BenchConfig(rules=("all",), quick=True))
    measured = measurements.blank(config)
    (row,) = (
        figures.section(measured, [Point((6, 6, 6), 3, 1, "new", "step")], name="", title="", command="").tables[0].rows
    )
    assert (row[0], row[2], row[3][-3:]) == ("new", orders[0], f"({growth.expected(like, 'step').memory.width})")
    assert "new" in config.rules


def test_the_table_has_every_rule():
    assert STEP.keys() == set(otpe.rules()[:12])  # the others: test_a_new_rule_is_in_the_tables_without_an_edit
    assert set(growth.PAPER) <= set(otpe.rules())
    for rule in otpe.rules():
        assert growth.expected(rule, "offline").time.steps == 1
    assert growth.expected("mine", "offline") is growth.expected("mine", "step") is None


SMALL = {"width": (16, 64), "steps": (50, 200), "batch": (4, 16), "depth": (3, 9)}


@pytest.mark.parametrize(
    ("rule", "axis"), [*(("bptt", axis) for axis in growth.AXES), ("otpe", "width"), ("otpe", "steps")]
)
def test_offline_memory_of_every_rule_grows_as_that_of_bptt(rule, axis):
    working = [points.build(at(axis, value, rule, "offline", width=32)).bytes.working for value in SMALL[axis]]
    memory = growth.expected(rule, "offline").memory
    assert growth.exponent(SMALL[axis], working) == pytest.approx(getattr(memory, axis), abs=0.15)


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


def test_the_reported_state_size_is_the_size_of_the_real_state():
    point = Point(
        (256, 256, 256), 3, 8, "otpe", "step"
    )  # wide and short, so that online training chooses factored traces
    for mode, traces in (("step", "dense"), ("online", "factored")):
        held = otpe.stepper(point.net, "otpe", traces=traces, batch=8, steps=3).init(8, "float32")
        assert points.state(replace(point, mode=mode)) == sum(leaf.nbytes for leaf in jax.tree.leaves(held))
    assert points.state(replace(point, mode="offline")) is None, "offline has no state: it has the whole sequence"


def test_counted_bytes_are_those_of_arguments_and_results():
    program = points.build(Point((5, 6, 4), 3, 2, "bptt", "offline"))
    weights = 4 * (5 * 6 + 6 + 6 * 4 + 4)
    assert program.bytes.arguments == weights + 4 * (3 * 2 * 5) + 4 * 2
    assert weights + 4 <= program.bytes.outputs <= weights + 128  # plus the pointers to them
    assert program.bytes.peak == program.bytes.arguments + program.bytes.outputs + program.bytes.working


def test_a_stream_holds_one_copy_of_its_state():
    point = Point((30, 30, 30), 3, 4, "otpe", "step")
    program, state = points.build(point), points.state(point)
    assert program.bytes.aliased >= state
    assert program.bytes.peak == sum(program.bytes) - 2 * program.bytes.aliased
    assert program.bytes.peak - program.bytes.working < 1.5 * state


@pytest.mark.parametrize("mode", ["offline", "online", "step"])
def test_the_measured_program_computes_the_public_result(mode):
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
        for x in (*spikes, spikes[0]):  # three warm-up steps, then the stream starts again
            state, info = form.advance(params, state, x)
        want = form.emit(params, state, info, labels)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), got, want)


@pytest.mark.parametrize("mode", ["offline", "online", "step"])
def test_options_reach_the_measured_program(mode):
    with pytest.raises(TypeError, match="nonsense"):
        points.build(Point((5, 4), 3, 2, "ottt", mode, {"nonsense": 1}))


# The race


def test_every_turn_of_a_race_has_a_warm_up_and_the_order_changes():
    calls = []
    slow, fast = (
        (lambda: (calls.append("slow"), time.sleep(0.004))),
        (lambda: (calls.append("fast"), time.sleep(0.002))),
    )
    times = points.race({"slow": slow, "fast": fast}, seconds=0.1)
    assert 0.002 <= times["fast"].min <= times["fast"].median < times["slow"].median
    assert times["fast"].turns == times["slow"].turns >= points.FEWEST_ROUNDS
    each_turn = calls[::2]
    assert calls[1::2] == each_turn, "every turn is a warm-up call and a timed one"
    firsts = each_turn[::2]
    assert {"slow", "fast"} == set(firsts), "the order changes from round to round"


def test_short_calls_are_repeated_within_a_turn():
    times = points.race({"short": lambda: None}, seconds=0.01)["short"]
    assert times.calls > 10 * times.turns


def test_the_median_is_over_turns():
    times = points.summary([(3.0, 1), (1.0, 2), (10.0, 1)])
    assert times == points.Times(median=3.0, min=1.0, quartiles=(2.0, 6.5), turns=3, calls=4)
