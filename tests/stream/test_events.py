"""Events to time steps, compared with counting by hand and with the frames of recordings."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otpe.datasets import Binning
from otpe.datasets.events import assemble, flat
from otpe.datasets.frames import frames
from otpe.stream.time_steps import RESET, Bad, Binner

EVENTS = [(0.001, 3), (0.0099, 3, 1), (0.02, 0), (0.049, 4, 2)]


def plain(steps):
    """Return time, counts, label and reset of each step, as plain numbers."""
    return [(round(s.time, 6), s.x.tolist(), s.label, s.reset) for s in steps]


def test_every_bin_is_a_step_even_when_empty():
    assert plain(Binner(5, 0.01).steps(EVENTS)) == [
        (0.0, [0, 0, 0, 2, 0], 1, True),
        (0.01, [0, 0, 0, 0, 0], 1, False),
        (0.02, [1, 0, 0, 0, 0], 1, False),
        (0.03, [0, 0, 0, 0, 0], 1, False),
        (0.04, [0, 0, 0, 0, 1], 2, False),
    ]


def test_a_label_can_hold_for_its_bin_only():
    steps = Binner(5, 0.01, labels="bin").steps(EVENTS)
    assert [s.label for s in steps] == [1, -1, -1, -1, 2]


def test_a_label_holds_until_the_next_label_none_or_a_reset():
    events = [
        (0.0, 0, 3),
        (0.01, 0),
        (0.02, 0, -1),
        (0.03, 0),
        (0.04, 0, 2),
        RESET,
        (0.0, 0),
        (0.01, 0, 0),
        (0.01, 1, 1),
    ]
    steps = list(Binner(5, 0.01).steps(events))
    assert [s.label for s in steps] == [3, 3, -1, -1, 2, -1, 1]
    assert [s.reset for s in steps] == [True, False, False, False, False, True, False]


def test_a_step_is_returned_as_soon_as_its_bin_ends():
    binner = Binner(2, 0.5)
    assert [len(list(binner.add(t, 0))) for t in (0.1, 0.4, 0.5, 0.6, 2.0)] == [0, 0, 1, 0, 3]
    assert plain(binner.reset()) == [(2.0, [1, 0], -1, False)]
    assert list(binner.reset()) == [], "no event came since"


def test_time_can_advance_without_spikes():
    """So a silent stream continues, a label can come without spikes, and a recording starts at 0."""
    steps = plain(Binner(1, 1.0).steps([(0, None), (1.5, 0), (2.0, None, 4), (3.0, None)]))
    assert steps == [(0, [0], -1, True), (1, [1], -1, False), (2, [0], 4, False), (3, [0], 4, False)]


def test_every_number_type_gives_the_same_result():
    events = [(np.float32(0), np.uint8(1), np.int64(2)), (1, 1.0, 2.0), (np.int32(1), np.float64(0))]
    assert plain(Binner(2, 1.0).steps(events)) == [(0, [0, 1], 2, True), (1, [1, 1], 2, False)]


def test_binary_and_pooled_counts():
    events = [(0.0, u) for u in (0, 1, 1, 5)]
    assert next(Binner(6, 0.1).steps(events)).x.tolist() == [1, 2, 0, 0, 0, 1]
    assert next(Binner(6, 0.1, pool=2).steps(events)).x.tolist() == [3, 0, 1]
    assert next(Binner(6, 0.1, pool=2, binary=True).steps(events)).x.tolist() == [1, 0, 1]
    assert next(Binner(6, 0.1).steps(events)).x.dtype == np.float32


def test_large_times_in_seconds_fall_into_the_right_bins():
    """Binning by floats would be wrong: 1.001 s times a million is slightly below 1,001,000 µs."""
    steps = list(Binner(1, 0.001).steps([(1.7e9 + k / 1000, 0) for k in range(2000)]))
    assert [s.x[0] for s in steps] == [1] * 2000


@given(
    st.lists(st.tuples(st.integers(0, 500_000), st.integers(0, 11)), min_size=1, max_size=80).map(sorted),
    st.sampled_from([1, 7, 100, 20_000]),
    st.sampled_from([1, 2, 3]),
    st.booleans(),
)
@settings(max_examples=60)
def test_equal_to_the_frames_of_recordings(recorded, wide, pool, binary):
    times, units = np.array([t * 20 / 1e6 for t, _ in recorded]), np.array([u for _, u in recorded])
    dt = wide * 100 / 1e6
    events = assemble(*flat([times], float), *flat([units], int), np.zeros(1, int), width=12, where="test")
    expected = frames(events, 12, Binning(dt=dt, pool=pool, binary=binary)).counts[0]
    binner = Binner(12, dt, pool=pool, binary=binary)
    from_events = list(binner.steps([(0.0, None), *zip(times.tolist(), units.tolist(), strict=True)]))
    np.testing.assert_array_equal([s.x for s in from_events], expected)
    np.testing.assert_allclose([s.time for s in from_events], np.arange(len(expected)) * dt)


def test_silence_up_to_the_longest_gap_is_filled():
    binner = Binner(1, 0.1, max_gap=1.0)
    assert len(list(binner.steps([(0.0, 0), (1.1, 0)]))) == 12
    with pytest.raises(ValueError, match=r"event 4 has the time 1.2 s"):
        list(binner.steps([(0.0, 0), (1.2, 0)]))


BAD = {
    "late": (
        (0.55, 0),
        r"event 2 has the time 0.55 s, but the present bin began at 0.6 s. Sort events by time, send a reset .* late='skip'",
    ),
    "gap": (
        (99.0, 0),
        r"event 2 has the time 99.0 s, but the present bin began at 0.6 s, and max_gap is 10 s. .* gap='reset', or raise max_gap",
    ),
    "unit": (
        (0.7, 5),
        r"event 2 has the unit 5, expected a whole number from 0 to 4. Repair the source, .* on_bad='skip'",
    ),
    "unit below": ((0.7, -1), r"event 2 has the unit -1, expected a whole number from 0 to 4"),
    "unit in parts": ((0.7, 1.5), r"event 2 has the unit 1.5"),
    "unit NaN": ((0.7, float("nan")), r"event 2 has the unit nan"),
    "unit a flag": ((0.7, True), r"event 2 has the unit True"),
    "unit text": ((0.7, "3"), r"event 2 has the unit '3'"),
    "time NaN": ((float("nan"), 0), r"event 2 has the time nan, expected seconds, a finite number, 0 to 9,000,000,000"),
    "time inf": ((float("inf"), 0), r"event 2 has the time inf"),
    "time below 0": ((-0.1, 0), r"event 2 has the time -0.1"),
    "time in milliseconds": ((1.7e12, 0), r"event 2 has the time 1700000000000.0, expected seconds"),
    "time huge": ((10**400, 0), r"event 2 has the time 10{76}\.\.\., expected seconds"),
    "time None": ((None, 0), r"event 2 has the time None"),
    "time a flag": ((True, 0), r"event 2 has the time True"),
    "label": ((0.7, 0, 3), r"event 2 has the label 3, expected a whole number from 0 to 2, or −1 for none"),
    "label below": ((0.7, 0, -2), r"event 2 has the label -2"),
    "label in parts": ((0.7, 0, 0.5), r"event 2 has the label 0.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_events_change_nothing(case):
    event, message = BAD[case]
    expected = plain(Binner(5, 0.1, classes=3).steps([(0.6, 1, 2), (0.65, 4), (0.7, 0)]))
    binner, steps = Binner(5, 0.1, classes=3), []
    steps += binner.add(0.6, 1, 2)
    with pytest.raises(ValueError, match=message):
        binner.add(*event)
    assert plain([*steps, *binner.add(0.65, 4), *binner.add(0.7, 0), *binner.reset()]) == expected

    messages = []
    skipping = Binner(5, 0.1, classes=3, on_bad="skip", log=messages.append)
    assert plain(skipping.steps([(0.6, 1, 2), event, event, (0.65, 4), (0.7, 0)])) == expected
    assert skipping.skipped == {case.split()[0]: 2}
    assert len(messages) == 1
    assert messages[0].startswith("Skipped: event 2 has the")
    assert messages[0].endswith("Others like it are counted.")


@pytest.mark.parametrize("event", [(0.65,), (0.65, 1, 2, 3), 0.65, "rest", None])
def test_invalid_events_are_refused(event):
    with pytest.raises(ValueError, match=r"event 2 has .*, expected \(time, unit\), \(time, unit, label\) or 'reset'"):
        list(Binner(5, 0.1).steps([(0.6, 1), event]))
    skipping = Binner(5, 0.1, on_bad="skip")
    assert plain(skipping.steps([(0.6, 1), event, (0.7, 4)])) == plain(Binner(5, 0.1).steps([(0.6, 1), (0.7, 4)]))
    assert skipping.skipped == {"event": 1}


def test_only_late_events_are_skipped():
    binner = Binner(1, 1.0, late="skip")
    assert [s.x[0] for s in binner.steps([(0.0, 0), (2.5, 0), (1.9, 0), (2.1, 0)])] == [1, 0, 2]
    assert binner.skipped == {"late": 1}
    with pytest.raises(ValueError, match=r"event 5 has the unit 7"):
        binner.add(3.0, 7)


def test_a_long_pause_can_start_a_new_sequence():
    binner = Binner(1, 1.0, classes=2, max_gap=3.0, gap="reset")
    assert plain(binner.steps([(0.0, 0, 1), (100.0, 0), (101.0, 0)])) == [
        (0, [1], 1, True),
        (100, [1], -1, True),
        (101, [1], -1, False),
    ]
    assert binner.skipped == {}


def test_all_skipped_events_are_counted_together():
    bad = Bad("skip")
    list(Binner(1, 1.0, on_bad=bad).steps([(0.0, 1)]))
    list(Binner(1, 1.0, on_bad=bad).steps([(0.0, 1), (-1.0, 0)]))
    assert bad.skipped == {"unit": 2, "time": 1}


def test_without_classes_any_label_fits():
    assert next(Binner(1, 1.0).steps([(0.0, 0, 99_999)])).label == 99_999
    with pytest.raises(ValueError, match=r"label 100000, expected a whole number from 0 to 99999"):
        Binner(1, 1.0).add(0.0, 0, 100_000)


def test_memory_does_not_grow_over_long_silences():
    """Also for a long silence between events: its steps are made one at a time."""
    binner = Binner(50, 0.001, max_gap=100.0)
    steps = binner.steps(itertools.chain([(0.0, 0)], ((50.0 + k * 1e-4, k % 50) for k in itertools.count())))
    tracemalloc.start()
    for _ in itertools.islice(steps, 55_000):
        pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 30_000


SETTINGS = [
    ({"units": 0}, r"units is 0, expected a whole number above 0"),
    ({"dt": 0.0}, r"dt is 0.0, expected seconds, in whole millionths"),
    ({"pool": 2}, r"pool is 2, which does not divide 5 units"),
    ({"binary": 1}, r"binary is 1, expected True or False"),
    ({"classes": 0}, r"classes is 0, expected a whole number above 0"),
    ({"labels": "keep"}, r"labels 'keep' is not known.* Expected one of: 'hold', 'bin'"),
    ({"max_gap": -1.0}, r"max_gap is -1.0, expected seconds, 0 to 9,000,000,000"),
    ({"max_gap": float("nan")}, r"max_gap is nan"),
    ({"on_bad": "ignore"}, r"on_bad 'ignore' is not known. Expected one of: 'raise', 'skip'"),
    ({"late": "reset"}, r"late 'reset' is not known.* Expected one of: 'raise', 'skip'"),
    ({"gap": "fill"}, r"gap 'fill' is not known.* Expected one of: 'raise', 'skip', 'reset'"),
]


@pytest.mark.parametrize(("settings", "message"), SETTINGS, ids=[message[:12] for _, message in SETTINGS])
def test_bad_settings_are_refused(settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Binner(**{"units": 5, "dt": 0.01, **settings})
