"""Events to frames, compared with tonic and with counting by hand."""

import numpy as np
import pytest
import tiny_events
from hypothesis import given, settings
from hypothesis import strategies as st
from tonic.transforms import ToFrame

from otpe import memory
from otpe.datasets import Binning, from_events
from otpe.datasets import frames as binned
from otpe.datasets.events import assemble, flat
from otpe.datasets.frames import frames

UNITS = tiny_events.UNITS


def joined(recordings, **options):
    times, units = zip(*recordings, strict=True)
    labels = np.zeros(len(recordings), int)
    return assemble(*flat(times, float), *flat(units, int), labels, width=UNITS, where="test", **options)


def tonics(times, units, bins):
    events = np.zeros(len(times), [("t", int), ("x", int), ("p", int)])
    events["t"], events["x"] = np.asarray(times, np.float64) * 1e6, units
    return ToFrame(sensor_size=(UNITS, 1, 1), n_time_bins=bins)(events)[:, 0]


recording = st.integers(2, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(0, 2, width=16), min_size=n, max_size=n).map(sorted),
        st.lists(st.integers(0, UNITS - 1), min_size=n, max_size=n),
    )
)


@given(st.lists(recording, min_size=1, max_size=4), st.integers(1, 60))
@settings(max_examples=60)
def test_equal_to_tonic(recordings, bins):
    recordings = [(np.array([*t, 2.0], np.float16), np.array([*u, 0])) for t, u in recordings if t[0] < 1.9]
    if not recordings:
        return
    exact = frames(joined(recordings), UNITS, Binning(bins, remainder="drop")).counts
    ours = frames(joined(recordings), UNITS, Binning(bins)).counts
    for i, (times, units) in enumerate(recordings):
        expected = tonics(times, units, bins)
        np.testing.assert_array_equal(exact[i], expected)
        np.testing.assert_array_equal(ours[i, :-1], expected[:-1])
        assert ours[i].sum() == len(times), "no spike is lost"


def test_tonic_drops_the_last_spikes_and_we_keep_them(tmp_path):
    """Shows that the comparison can fail: tonic omits at least the last spike of every recording."""
    recordings = tiny_events.recordings(tiny_events.make(tmp_path / "train.h5"))
    with_rest, dropped = (frames(joined(recordings), UNITS, Binning(50, remainder=r)).counts for r in ("keep", "drop"))
    assert (with_rest.sum((1, 2)) > dropped.sum((1, 2))).all()


def test_float16_times_do_not_overflow():
    times = np.array([0.0, 0.9, 1.8], np.float16)
    with np.errstate(all="ignore"):
        assert np.isinf(times * np.float16(60_000)).any()
    np.testing.assert_array_equal(
        frames(joined([(times, np.array([3, 3, 3]))]), UNITS, Binning(2)).counts[0, :, 3], [1, 2]
    )


def test_bins_of_a_fixed_duration():
    recordings = [(np.array([0.0, 0.009, 0.01, 0.034]), np.array([0, 0, 1, 2])), (np.array([0.021]), np.array([4]))]
    binned = frames(joined(recordings), UNITS, Binning(dt=0.01))
    assert binned.counts.shape == (2, 4, UNITS)
    np.testing.assert_array_equal(binned.lengths, [4, 3])
    expected = np.zeros((2, 4, UNITS))
    expected[0, 0, 0], expected[0, 1, 1], expected[0, 3, 2], expected[1, 2, 4] = 2, 1, 1, 1
    np.testing.assert_array_equal(binned.counts, expected)
    longer = frames(joined(recordings), UNITS, Binning(dt=0.01, steps=9))
    assert longer.counts.shape == (2, 9, UNITS), "the requested number of steps, so that all splits have the same"
    np.testing.assert_array_equal(longer.lengths, [4, 3])
    cut = frames(joined(recordings), UNITS, Binning(dt=0.01, steps=2))
    np.testing.assert_array_equal(cut.counts, expected[:, :2])
    np.testing.assert_array_equal(cut.lengths, [2, 2])


def test_times_on_a_grid_fall_into_their_own_step():
    """As a float, 1.001 s times a million is slightly below 1,001,000 µs."""
    k = np.arange(2000)
    data = from_events([(k / 1000, np.zeros(2000, int))], [0], Binning(dt=0.001), units=1)
    np.testing.assert_array_equal(data.frames[0, :, 0], 1)


def test_every_number_type_gives_the_same_result():
    recordings = [(np.array([0.0, 0.5, 1.0]), np.array([0, 1, 11], np.uint64))]
    given = Binning(np.int64(2), pool=np.int8(2)).checked(UNITS)
    assert (type(given.bins), type(given.pool)) == (int, int)
    assert frames(joined(recordings), UNITS, given).counts.shape == (1, 2, 6)
    assert Binning(dt=np.float32(0.01)).checked(UNITS).dt == pytest.approx(0.01)


def test_binary_and_pooled_counts(tmp_path):
    events = joined(tiny_events.recordings(tiny_events.make(tmp_path / "train.h5")))
    counts = frames(events, UNITS, Binning(10)).counts
    assert counts.max() > 1
    np.testing.assert_array_equal(frames(events, UNITS, Binning(10, binary=True)).counts, counts > 0)
    pooled = frames(events, UNITS, Binning(10, pool=4)).counts
    np.testing.assert_array_equal(pooled, counts.reshape(-1, 10, 3, 4).sum(-1))


def test_large_counts_get_a_wider_type(monkeypatch):
    monkeypatch.setattr(binned, "AT_ONCE", 50 * 2 * UNITS)
    many = (np.linspace(0, 1, 700), np.zeros(700, int))
    few = (np.linspace(0, 1, 7), np.ones(7, int))
    counts = frames(joined([few, many] + 300 * [few]), UNITS, Binning(2)).counts
    assert counts.dtype == np.uint16
    assert counts[1, :, 0].sum() == 700
    assert counts[0, :, 1].sum() == counts[-1, :, 1].sum() == 7


def test_whole_numbers_are_microseconds():
    """As in tonic. Converting 2,916 µs to seconds and back must not give 2,915."""
    times = np.array([0, 2916, 5832])
    np.testing.assert_array_equal(from_events([(times, [0, 0, 0])], [0], 2, units=1).frames[0, :, 0], [1, 2])


def test_order_does_not_matter():
    times, units = np.array([0.5, 0.1, 0.9]), np.array([1, 0, 2])
    order = np.argsort(times)
    a, b = (frames(joined([(times[o], units[o])]), UNITS, Binning(4)).counts for o in ([0, 1, 2], order))
    np.testing.assert_array_equal(a, b)


def test_recordings_without_spikes_give_empty_frames():
    recordings = [(np.empty(0), np.empty(0, int)), (np.array([0.1, 0.2]), np.array([1, 2]))]
    assert frames(joined(recordings, keep_empty=True), UNITS, Binning(5)).counts.sum((1, 2)).tolist() == [0, 2]
    np.testing.assert_array_equal(frames(joined(recordings, keep_empty=True), UNITS, Binning(dt=0.1)).lengths, [1, 3])


BAD = [
    (Binning(), r"neither bins nor dt is given, expected one of them"),
    (Binning(50, dt=0.01), r"bins is 50 and dt is 0.01, expected one of them"),
    (Binning(0), r"bins is 0, expected a whole number above 0"),
    (Binning(2.5), r"bins is 2.5, expected a whole number"),
    (Binning(dt=0), r"dt is 0, expected seconds"),
    (Binning(dt=float("nan")), r"dt is nan, expected seconds"),
    (Binning(dt=float("inf")), r"dt is inf, expected seconds"),
    (Binning(dt=1e300), r"dt is 1e\+300, expected seconds, in whole millionths and at most 10,000,000"),
    (Binning(10**23), r"10{23} time steps of 12 units are more than"),
    (Binning(dt=1.5e-6), r"dt is 1.5e-06, expected seconds, in whole millionths"),
    (Binning(10, steps=5), r"steps is 5 without dt. Give dt as well, or bins=5"),
    (Binning(10, pool=5), r"pool is 5, which does not divide 12 units. Use one of \[2, 3, 4, 6\]"),
    (Binning(10, pool=0), r"pool is 0"),
    (Binning(10, binary="yes"), r"binary is 'yes', expected True or False"),
    (Binning(10, remainder="lose"), r"remainder 'lose' is not known"),
]


@pytest.mark.parametrize(("binning", "message"), BAD, ids=[message[:20] for _, message in BAD])
def test_bad_binnings_are_refused(binning, message):
    with pytest.raises((ValueError, TypeError), match=message):
        binning.checked(UNITS)


def test_more_bins_than_time_steps_are_refused():
    recordings = [(np.array([0.0, 1.0]), np.array([0, 1])), (np.array([0.5, 0.50003]), np.array([0, 1]))]
    with pytest.raises(
        ValueError, match=r"bins is 50, more than the time steps of recording 1, which lasts 30 microseconds"
    ):
        frames(joined(recordings), UNITS, Binning(50))


def test_frames_beyond_memory_are_refused(monkeypatch):
    recordings = [(np.array([0.0, 1.0]), np.array([0, 1]))] * 3
    with pytest.raises(
        ValueError, match=r"20000000 time steps of 12 units are more than 134,217,728 numbers .* Use fewer"
    ):
        Binning(20_000_000).checked(UNITS)
    with pytest.raises(
        ValueError, match=r"12000001 time steps of 1e-06 s, as the longest .* 12 units are more .* Use a larger dt"
    ):
        frames(joined([(np.array([0.0, 12.0]), np.array([0, 1]))]), UNITS, Binning(dt=1e-6))
    monkeypatch.setattr(memory, "host", lambda: 1000)
    with pytest.raises(
        ValueError, match=r"frames \[3, 50, 12\] take 0 GB, more than this machine has. Use fewer time steps"
    ):
        frames(joined(recordings), UNITS, Binning(50))
