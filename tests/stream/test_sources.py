"""Steps from recordings, from text and from Python."""

import io
import itertools
import os
import threading
import zipfile

import numpy as np
import pytest
import three_recordings
import tiny_events

from otpe.datasets import Binning
from otpe.datasets.heidelberg import load
from otpe.lab.settings import StreamConfig
from otpe.stream.sources import iterate, lines, open_source, recordings, source_kind
from otpe.stream.time_steps import RESET, Bad, Binner, Step

# Recordings


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tiny_events.make(tmp_path_factory.mktemp("data") / "some_train.h5", recordings=6)


def cut(steps):
    """Split steps into sequences."""
    sequences = []
    for step in steps:
        if step.reset:
            sequences.append([])
        sequences[-1].append(step)
    return sequences


@pytest.mark.parametrize("binning", [Binning(7), Binning(dt=0.05, pool=3, binary=True), Binning(9, remainder="drop")])
def test_steps_of_recordings_equal_their_frames(file, binning):
    whole = load(file, tiny_events.UNITS, binning)
    sequences = cut(recordings(file, tiny_events.UNITS, binning))
    assert len(sequences) == 6
    for i, sequence in enumerate(sequences):
        length = None if whole.lengths is None else whole.lengths[i]
        np.testing.assert_array_equal([s.x for s in sequence], whole.frames[i][:length])
        assert {s.label for s in sequence} == {i % 4}
        assert sequence[0].x.dtype == np.float32


def test_recorded_steps_have_times_from_0(tmp_path):
    path = three_recordings.write(tmp_path / "train.h5")
    by_number, by_time = (cut(recordings(path, 8, b)) for b in (2, Binning(dt=0.25)))
    assert [[round(s.time, 3) for s in sequence] for sequence in by_number] == [[0, 0.25], [0.2, 0.7], [0, 0.25]]
    assert [len(sequence) for sequence in by_time] == [3, 5, 3], "each recording starts at 0 and has its own length"
    assert [s.time for s in by_time[2]] == [0, 0.25, 0.5]


def test_recordings_are_shuffled_by_seed_and_repeated_by_epochs(file):
    def labels(n=18, **options):
        return [sequence[0].x.sum() for sequence in cut(itertools.islice(recordings(file, 12, 1, **options), n))]

    stored = labels()
    assert len(stored) == 6
    assert labels(epochs=2) == stored * 2
    shuffled = labels(shuffle=True, epochs=None)
    assert len(shuffled) == 18, "it repeats for ever"
    each = [shuffled[:6], shuffled[6:12], shuffled[12:]]
    assert all(sorted(epoch) == sorted(stored) for epoch in each)
    assert each[0] != each[1] != each[2] != stored
    assert labels(shuffle=True, epochs=3) == shuffled, "the order depends on the seed"
    assert labels(shuffle=True, epochs=3, seed=1) != shuffled


def test_recordings_are_read_from_a_folder(file):
    assert len(cut(recordings(file.parent, 12, 2))) == 6
    with pytest.raises(FileNotFoundError, match=r"holds no test.h5, nor anything_test.h5"):
        recordings(file.parent, 12, split="test")
    with pytest.raises(FileNotFoundError, match=r"nowhere is not there. Name a file in SHD's layout, or a folder"):
        recordings("nowhere", 12)


def test_recordings_are_read_from_a_zip_of_any_name(file, tmp_path):
    packed = tmp_path / "my_train.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(file, "anything.h5")
    expected, found = (list(recordings(path, tiny_events.UNITS, 5)) for path in (file, packed))
    np.testing.assert_array_equal([step.x for step in found], [step.x for step in expected])
    assert len(list(recordings(tmp_path, tiny_events.UNITS, 5))) == len(expected), "by the name of the folder too"
    config = StreamConfig(source=str(packed), units=tiny_events.UNITS, classes=4, bins=5)
    assert source_kind(config) == "recordings"
    assert len(list(open_source(config, print).steps)) == len(expected)


def test_bad_recordings_are_refused_before_the_first_step(file, tmp_path):
    with pytest.raises(ValueError, match=r"has a spike of unit \d+, expected 0 to 3"):
        recordings(file, 4)
    with pytest.raises(ValueError, match=r"bins is 10000000, more than the time steps of recording 0"):
        recordings(file, 12, 10_000_000)
    for options, message in [
        ({"epochs": 0}, "epochs is 0, expected a whole number above 0"),
        ({"seed": -1}, "seed is -1, expected a whole number from 0"),
        ({"shuffle": 1}, "shuffle is 1, expected True or False"),
        ({"split": "all"}, "split 'all' is not known"),
        ({"bins": 0}, "bins is 0"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            recordings(file, **{"units": 12, **options})


# Text

EXPECTED = [(0.5, 3, None), (0.75, 4, 1), RESET, (1e-3, 0, None), (2.0, None, 2)]
TEXTS = {
    "csv": "0.5,3\n0.75,4,1\n\n.001,0\n2,,2\n",
    "with a header": "time,unit,label\n0.5,3,\n0.75,4,1\nreset\n1e-3,0,\n2,,2\n",
    "in another order": 'unit;x;"Label";time\n3;;;0.5\n4;a;1;0.75\n\n0;;;0.001\n;;2;2',
    "tabs": "\ufefftime\tunit\tlabel\r\n0.5\t3\t\r\n0.75\t4\t1\r\nRESET\r\n0.001\t0\r\n2\t\t2\r\n",
    "two files in a row": "time,unit\n0.5,3\nunit,time,label\n4,0.75,1\n\n0,0.001,\n,2,2\n",
    "names in quotes": '"time","unit","label"\n0.5,3,\n"0.75","4","1"\n\n0.001,0,\n2,,2\n',
    "json objects": '{"time": 0.5, "unit": 3}\n\n{"label": 1, "unit": 4, "time": 0.75, "x": []}\n{"reset": true}\n{"time": 0.001, "unit": 0}\n{"time": 2, "unit": null, "label": 2}\n',
    "json lists": '[0.5, 3]\n[0.75, 4, 1]\n"reset"\n[0.001, 0, null]\n[2, null, 2]',
    "reset with an event": '{"time": 0.5, "unit": 3}\n[0.75, 4, 1]\n{"reset": true, "time": 0.001, "unit": 0}\n[2, null, 2]',
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_csv_and_json_lines_give_the_same_events(text):
    for source in (io.StringIO(text), io.BytesIO(text.encode()), text.split("\n"), text.splitlines(keepends=True)):
        events = list(lines(source))
        assert events[:5] == EXPECTED
        assert set(map(str, events[5:])) <= {RESET}, "with an empty line at the end"


def test_the_form_of_lines_can_be_given():
    assert list(lines(["", "[1, 2]"], "jsonl")) == [(1, 2, None)]
    with pytest.raises(ValueError, match=r"line 1 is '\[1, 2\]': expected numbers"):
        list(lines(["[1, 2]"], "csv"))
    with pytest.raises(ValueError, match=r"form 'xml' is not known. Expected one of: 'auto', 'csv', 'jsonl'"):
        lines([], "xml")


BAD = [
    ("0.1,1\nabc,2\n0.3,3\n", r"line 2 is 'abc,2': expected numbers: time,unit or time,unit,label. Repair the source, .* on_bad='skip'", "line"),
    ("0.1,1\n0.2\n0.3,3\n", r"line 2 is '0.2': expected time,unit or time,unit,label", "line"),
    ("0.1,1\n1,2,3,4\n0.3,3\n", r"line 2 is '1,2,3,4': expected time,unit or time,unit,label", "line"),
    ("time,unit\n0.1,1\n0.2\n0.3,3\n", r"line 3 is '0.2': expected as many fields as the header has", "line"),
    ("0.1,1\n\0\ufffd\n0.3,3\n", r"line 2 is ", "line"),
    ("0.1,1\n" + "x" * 200 + "\n0.3,3\n", r"line 2 is 'x{76}\.\.\.: expected time,unit", "line"),
    ('[0.1,1]\n{"time": 0.2, "uni\n[0.3,3]\n', r"""line 2 is '{"time": 0.2, "uni': expected JSON""", "line"),
    ('[0.1,1]\n{"time": 0.2, "channel": 2}\n[0.3,3]\n', r"""expected {"time": …, "unit": …}, with a "label" or without, \[time, unit\] or {"reset": true}""", "line"),
    ('[0.1,1]\n{"reset": false}\n[0.3,3]\n', r"line 2 is '{\"reset\": false}': expected {", "line"),
    ("[0.1,1]\n[0.2]\n[0.3,3]\n", r"line 2 is '\[0.2\]': expected {", "line"),
    ("[0.1,1]\n7\n[0.3,3]\n", r"line 2 is '7': expected {", "line"),
    ("[0.1,1]\n" + "[" * 60_000 + "\n[0.3,3]\n", r"line 2 is '\[{76}\.\.\.: ", "line"),
    ("0.1,1\n0.3,3\n0.4", r"line 3, the last, was cut short: '0.4'. Repair the source", "cut"),
    ('[0.1,1]\n[0.3,3]\n{"time": 0.', r"line 3, the last, was cut short: '{\"time\": 0.'", "cut"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "kind"), BAD, ids=[message[:30] for _, message, _ in BAD])
def test_bad_lines_are_refused_or_skipped(text, message, kind):
    with pytest.raises(ValueError, match=message):
        list(lines(io.StringIO(text)))
    messages, bad = [], Bad("skip")
    assert list(lines(io.StringIO(text), on_bad="skip", log=messages.append)) == [(0.1, 1, None), (0.3, 3, None)]
    assert len(messages) == 1
    list(lines(io.StringIO(text), on_bad=bad))
    assert bad.skipped == {kind: 1}


def test_bytes_that_are_not_utf8_are_refused():
    bad = Bad("skip")
    assert list(lines(io.BytesIO(b"0.1,1\n\xff\xfe\x00,\n0.3,3\n"), on_bad=bad)) == [(0.1, 1, None), (0.3, 3, None)]
    assert bad.skipped == {"line": 1}


def test_a_line_without_an_end_does_not_fill_the_memory():
    endless = io.BytesIO(b"7" * 300_000 + b"\n0.3,3\n")
    with pytest.raises(ValueError, match=r"line 1 has 65,536 characters or more, expected one event"):
        list(lines(endless))
    assert endless.tell() == 65_536
    assert list(lines(endless, on_bad="skip")) == [(0.3, 3, None)]
    bad, tail = Bad("skip"), "x" * 65_536 + "0.2,2"  # this is no event, although it ends like one
    assert list(lines(io.StringIO(f"0.1,1\n{tail}\n0.3,3\n{tail}"), on_bad=bad)) == [(0.1, 1, None), (0.3, 3, None)]
    assert bad.skipped == {"line": 2}


def test_a_line_is_read_as_soon_as_it_arrives():
    """There is no read-ahead: the sender waits until each event has arrived."""
    read, write = os.pipe()
    arrived = threading.Semaphore(0)

    def send():
        with open(write, "wb", buffering=0) as pipe:
            for k in range(3):
                pipe.write(b"%d,0\n" % k)
                assert arrived.acquire(timeout=10)

    sender = threading.Thread(target=send)
    sender.start()
    with open(read, "rb") as pipe:
        for k, event in enumerate(lines(pipe)):
            assert event == (k, 0, None)
            arrived.release()
    sender.join()


def test_text_to_steps_with_everything_skipped_counted_together():
    bad = Bad("skip")
    text = io.StringIO("0.1,1\nwhat\n0.2,99\n\n0.0,0,1\n0.25,1")
    steps = list(Binner(2, 0.1, on_bad=bad).steps(lines(text, on_bad=bad)))
    assert [(s.x.tolist(), s.label, s.reset) for s in steps] == [
        ([0, 1], -1, True),
        ([1, 0], 1, True),
        ([0, 0], 1, False),
        ([0, 1], 1, False),
    ]
    assert bad.skipped == {"line": 1, "unit": 1}


# Python


def plain(steps):
    return [(s.x.tolist(), s.label, s.time, s.reset) for s in steps]


def test_iterate_over_events():
    items = [(0.0, 1), [1.5, 0, 3], (np.float64(1.6), np.int64(0)), RESET, (0.0, 0)]
    assert plain(iterate(items, Binner(2, 1.0))) == [
        ([0, 1], -1, 0.0, True),
        ([2, 0], 3, 1.0, False),
        ([1, 0], -1, 0.0, True),
    ]


def test_iterate_over_ready_steps():
    items = [np.array([1, 2]), (np.array([0, 1]), 4), ([3, 0], None), RESET, (np.array([True, False]), np.int8(1)), Step(np.ones(2), 2, 7.5, True)]  # fmt: skip
    steps = list(iterate(iter(items)))
    assert plain(steps) == [
        ([1, 2], -1, 0.0, True),
        ([0, 1], 4, 1.0, False),
        ([3, 0], -1, 2.0, False),
        ([1, 0], 1, 3.0, True),
        ([1, 1], 2, 7.5, True),
    ]
    assert {s.x.dtype for s in steps} == {np.dtype(np.float32)}


def test_steps_do_not_share_the_callers_array():
    x = np.ones(2, np.float32)

    def reused():
        for k in range(3):
            x[:] = k
            yield x

    assert [s.x.tolist() for s in list(iterate(reused()))] == [[0, 0], [1, 1], [2, 2]]


STEPS = [
    (np.ones(3), r"item 2 has a step of the shape \[3\], expected \[2\]. Repair the source, .* on_bad='skip'"),
    (np.ones((1, 2)), r"item 2 has a step of the shape \[1, 2\], expected \[2\]"),
    (np.array([1, np.nan]), r"item 2 has nan in its step, expected how often each unit spiked: finite numbers, none below 0"),
    (np.array([1, np.inf]), r"item 2 has inf in its step"),
    (np.array([1e300, 0]), r"item 2 has inf in its step"),
    (np.array([-1, 1]), r"item 2 has -1 in its step"),
    (np.array(["a", "b"]), r"item 2 has array\(\['a', 'b'\].*, expected numbers"),
    (([1, [2, 3]], 1), r"item 2 has rows of different lengths, expected an array of 2 numbers"),
    ((np.ones(2), 5), r"item 2 has the label 5, expected a whole number from 0 to 4, or −1 for none"),
    ((np.ones(2), 0.5), r"item 2 has the label 0.5"),
    ((np.ones(2), -2), r"item 2 has the label -2"),
    (Step(np.ones(3), 1, 0.0, False), r"item 2 has a step of the shape \[3\]"),
    ((np.ones(2), 1, 2), r"item 2 is \(array.*, expected an event \(time, unit\), an array x, or \(x, label\)"),
    ((0.1, 1, 2, 3), r"item 2 is \(0.1, 1, 2, 3\), expected an event"),
    (7, r"item 2 has a step of the shape \[\]"),
    (None, r"item 2 has None, expected numbers"),
    ("what", r"item 2 has 'what', expected numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("item", "message"), STEPS, ids=[message[:40] for _, message in STEPS])
def test_bad_steps_are_refused_or_skipped(item, message):
    items = [np.ones(2), item, (np.zeros(2), 4)]
    with pytest.raises(ValueError, match=message):
        list(iterate(items, units=2, classes=5))
    bad = Bad("skip")
    assert plain(iterate(items, classes=5, on_bad=bad)) == [([1, 1], -1, 0.0, True), ([0, 0], 4, 1.0, False)]
    assert bad.skipped == {"item": 1}


def test_a_reset_outlives_a_bad_step():
    items = [np.ones(2), Step(np.ones(3), reset=True), np.zeros(2)]
    assert [s.reset for s in iterate(items, on_bad="skip")] == [True, True]


def test_events_need_a_binner():
    with pytest.raises(
        ValueError, match=r"item 1 is the event \(0.1, 3\), which needs a binner: iterate\(items, Binner"
    ):
        list(iterate([(0.1, 3)]))


def test_sizes_of_a_stream_are_checked_at_once():
    with pytest.raises(ValueError, match="units is 0, expected a whole number above 0"):
        iterate([], units=0)
    with pytest.raises(ValueError, match="classes is 0, expected a whole number above 0"):
        iterate([], classes=0)
