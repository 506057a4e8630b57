"""The HDF5 reader: valid files, its messages for invalid files, and that no file crashes the process."""

import os
import subprocess
import sys
import time
import zipfile

import h5py
import numpy as np
import pytest
import tiny_events
from tiny_events import NAMES, UNITS

from otpe.datasets import hdf5, hdf5_process


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train.h5"


@pytest.mark.parametrize("zipped", [False, True])
def test_recordings_are_read_as_written(path, zipped):
    expected = tiny_events.recordings(tiny_events.make(path))
    events = hdf5.read(tiny_events.zipped(path) if zipped else path, UNITS)
    assert len(events) == 20
    assert events.names == NAMES
    assert events.times.dtype == np.float16
    np.testing.assert_array_equal(events.labels, np.arange(20) % 4)
    assert events.speakers.shape == (20,)
    for i, (times, units) in enumerate(expected):
        got_times, got_units = events.recording(i)
        np.testing.assert_array_equal(got_times, times.astype(float))
        np.testing.assert_array_equal(got_units, units)


def test_names_are_fit_to_print(path):
    events = hdf5.read(tiny_events.make(path, extra__keys=np.array([b"\x1b[2J", "fünf".encode(), b"c", b"d"])), UNITS)
    assert events.names == ("\ufffd[2J", "fünf", "c", "d")


def test_speakers_and_names_may_be_missing(path):
    events = hdf5.read(tiny_events.make(path, extra__speaker=None, extra__keys=None), UNITS)
    assert events.speakers is None
    assert events.names == ("0", "1", "2", "3")


TIMES, UNIT_ROWS = tiny_events.rows()


def with_one(rows, change):
    return [*rows[:3], change(rows[3]), *rows[4:]]


BAD = [
    ({"labels": None}, r"train.h5 has no 'labels', but 'extra', 'spikes'"),
    ({"spikes__times": None}, r"has no 'spikes/times'"),
    ({"spikes__times": np.zeros(20)}, r"has 'spikes/times' of the shape \[20\], expected a row for each recording"),
    ({"labels": np.zeros(20)}, r"has labels of float64 \[20\], expected a row of whole numbers"),
    ({"labels": np.zeros((20, 2), int)}, r"has labels of int64 \[20, 2\], expected a row of numbers"),
    ({"labels": np.zeros(19, int)}, r"has 19 labels but times of 20 recordings"),
    ({"labels": np.full(20, 4)}, r"recording 0 has the label 4, but there are names for 4 classes, counted from 0 \(20 such recordings\)"),
    ({"labels": np.full(20, -1)}, r"recording 0 has -1 among its labels, expected 0 to 99,999 \(20 such recordings\)"),
    ({"labels": np.full(20, 2**32 + 1)}, r"recording 0 has 4294967297 among its labels"),
    ({"labels": np.arange(20) * 10**6, "extra__keys": None}, r"recording 1 has 1000000 among its labels"),
    ({"spikes__times": [row.astype(float) * 1e300 for row in TIMES]}, r"recording 0 has a spike at 1.\d+e\+29\d s, too late"),
    ({"extra__keys": np.bytes_("word")}, r"has 'extra/keys' that are no row of names"),
    ({"spikes__units": [row.astype(">u2") for row in UNIT_ROWS]}, r"has 'spikes/units' in the byte order of another kind of machine"),
    ({"extra__speaker": np.zeros(3, int)}, r"has 20 labels but speakers of 3 recordings"),
    ({"extra__keys": np.array([b"\xff\xfe"] * 4)}, r"has 'extra/keys' that are no row of names"),
    ({"spikes__times": with_one(TIMES, lambda x: x * np.nan)}, r"recording 3 has a spike at the time nan"),
    ({"spikes__times": with_one(TIMES, lambda x: x + np.inf)}, r"recording 3 has a spike at the time inf"),
    ({"spikes__times": with_one(TIMES, lambda x: x - 1)}, r"recording 3 has a spike at -0.\d+ s, before the start"),
    ({"spikes__times": with_one(TIMES, lambda x: x[1:])}, r"recording 3 has \d+ times but \d+ units"),
    ({"spikes__times": [row.astype(np.int32) for row in TIMES]}, r"has times of type int32, expected seconds as floating-point"),
    ({"spikes__units": with_one(UNIT_ROWS, lambda x: x + 11)}, r"recording 3 has a spike of unit 1\d, expected 0 to 11"),
    ({"spikes__units": [row.astype(np.float32) for row in UNIT_ROWS]}, r"has units of type float32, expected whole numbers"),
    ({"spikes__times": with_one(TIMES, lambda x: x[:0]), "spikes__units": with_one(UNIT_ROWS, lambda x: x[:0])},
     r"recording 3 has no spikes. Leave such recordings out, or keep them as silence with keep_empty=True"),
    ({"spikes__times": [], "spikes__units": [], "labels": np.zeros(0, int), "extra__speaker": None}, r"has no recordings, expected at least one"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_invalid_content_is_refused(path, change, message):
    tiny_events.make(path, **change)
    with pytest.raises(ValueError, match=message) as error:
        hdf5.read(path, UNITS)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_hdf5_is_refused(path):
    path.write_text("<html>not found</html>")
    with pytest.raises(ValueError, match=r"train.h5 cannot be read: .*signature not found.* fetch it again"):
        hdf5.read(path, UNITS)


def test_bad_archives_are_refused(path):
    archive = tiny_events.zipped(tiny_events.make(path))
    whole = archive.read_bytes()
    archive.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"train.h5.zip cannot be unzipped: File is not a zip file"):
        hdf5.read(archive, UNITS)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    archive.write_bytes(flipped)
    with pytest.raises(ValueError, match="cannot be unzipped"):
        hdf5.read(archive, UNITS)
    with zipfile.ZipFile(archive, "w") as other:
        other.writestr("readme.txt", "no data")
    with pytest.raises(ValueError, match=r"holds readme.txt, expected one .h5 file"):
        hdf5.read(archive, UNITS)


def test_an_archive_with_too_large_contents_is_refused(path):
    """The size in the archive's directory is checked, and it limits how much is unpacked."""
    tiny_events.make(path)
    too_large = r"unpacks to 3,000,000,000 bytes, expected 1,000,\d+,\d+ at most in an archive of its size"
    for size, message in ((3_000_000_000, too_large), (50, "cannot be unzipped: Bad CRC-32")):
        archive = path.with_name("train.h5.zip")
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.write(path, path.name)
            packed.infolist()[0].file_size = size
        with pytest.raises(ValueError, match=message):
            hdf5.read(archive, UNITS)


def test_a_path_that_is_not_a_plain_file_is_refused(path, tmp_path, hasty):
    os.mkfifo(path)
    for place, what in {path: "named pipe", tmp_path: "folder", "/dev/zero": "device"}.items():
        with pytest.raises(OSError, match=rf"{place} is a {what}, expected a file in SHD's layout. Name the file"):
            hdf5.read(place, UNITS)
    with pytest.raises(OSError, match=r"none.h5 cannot be read: No such file or directory. Name a file in SHD's"):
        hdf5.read(tmp_path / "none.h5", UNITS)


# Files that refer to other files


@pytest.fixture
def secret(tmp_path):
    """A private file of the reading user. It would give 20 labels if it were read."""
    other = tmp_path / "secret"
    other.write_bytes(bytes([1, 0] * 20))
    return other


@pytest.fixture
def hasty(monkeypatch):
    """Shorten the time limits, so that a reader that waits for ever fails soon with another message."""
    monkeypatch.setattr(hdf5, "SECONDS", 10)


@pytest.fixture
def pipe(tmp_path, hasty):
    """A pipe: opening it waits for ever."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.fixture
def another(tmp_path):
    return tiny_events.make(tmp_path / "another.h5", seed=1)


def external(name):
    return lambda file, target: file.create_dataset(name, (20,), "<u2", external=[(str(target), 0, 40)])


def virtual(name):
    def make(file, target):
        layout = h5py.VirtualLayout((20,), "<u2")
        layout[:] = h5py.VirtualSource(str(target), "labels", (20,))
        file.create_virtual_dataset(name, layout)

    return make


def linked(name, to=None):
    def make(file, target):
        file[name] = h5py.ExternalLink(str(target), to or name)

    return make


def soft(name):
    def make(file, target):
        file["away"] = h5py.ExternalLink(str(target), "/")
        file[name] = h5py.SoftLink(f"/away/{name}")

    return make


STORED = r"has the numbers of '{}' in another file, which is not read"
LINKED = r"reaches '{}' through a link, which may lead to another file and is not followed"
LEADING_AWAY = {
    "stored in a file": ("labels", external("labels"), "secret", STORED),
    "stored in a pipe": ("labels", external("labels"), "pipe", STORED),
    "optional, stored": ("extra/speaker", external("extra/speaker"), "secret", STORED),
    "virtual": ("labels", virtual("labels"), "another", STORED),
    "virtual, a pipe": ("labels", virtual("labels"), "pipe", STORED),
    "linked": ("labels", linked("labels"), "another", LINKED),
    "linked to a pipe": ("labels", linked("labels"), "pipe", LINKED),
    "linked rows": ("spikes/times", linked("spikes/times"), "another", LINKED),
    "linked names": ("extra/keys", linked("extra/keys"), "another", LINKED),
    "soft": ("labels", soft("labels"), "another", LINKED),
    "soft to a pipe": ("labels", soft("labels"), "pipe", LINKED),
}


@pytest.mark.parametrize("case", LEADING_AWAY)
def test_content_stored_in_other_files_is_not_read(path, case, request):
    name, make, target, message = LEADING_AWAY[case]
    tiny_events.make(path)
    with h5py.File(path, "a") as file:
        del file[name]
        make(file, request.getfixturevalue(target))
    with pytest.raises(ValueError, match=rf"train.h5 {message.format(name)}. It may be"):
        hdf5.read(path, UNITS)


def test_a_group_stored_in_another_file_is_refused(path, another):
    tiny_events.make(path)
    with h5py.File(path, "a") as file:
        del file["spikes"]
        file["spikes"] = h5py.ExternalLink(str(another), "/spikes")
    with pytest.raises(ValueError, match=LINKED.format("spikes/times")):
        hdf5.read(path, UNITS)


def test_a_link_within_the_file_is_not_followed_either(path):
    """It could lead to another file."""
    tiny_events.make(path)
    with h5py.File(path, "a") as file:
        file.move("labels", "words")
        file["labels"] = h5py.SoftLink("/words")
    with pytest.raises(ValueError, match=LINKED.format("labels")):
        hdf5.read(path, UNITS)


def test_no_program_is_loaded_for_a_filter(path, tmp_path, monkeypatch, hasty):
    """A file gives its filters by number. HDF5 would load libraries from its plugin folders to find one."""
    tiny_events.make(path, labels=None)
    with h5py.File(path, "a") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((20,))
        plist.set_filter(32_100, h5py.h5z.FLAG_OPTIONAL, ())
        kind = h5py.h5t.NATIVE_UINT16
        labels = h5py.h5d.create(file.id, b"labels", kind, h5py.h5s.create_simple((20,)), plist)
        labels.write_direct_chunk((0,), bytes(40), 0)
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    os.mkfifo(plugins / "libfilter.so")  # opening it waits for ever
    monkeypatch.setenv("HDF5_PLUGIN_PATH", str(plugins))
    with pytest.raises(ValueError, match=r"train.h5 cannot be read: .*filter"):
        hdf5.read(path, UNITS)


def outcome(path):
    """Return None for recordings that pass every check, else the error message."""
    try:
        events = hdf5.read(path, UNITS)
    except ValueError as error:
        return str(error)
    assert events.units.max() < UNITS
    assert np.isfinite(events.times).all()
    return None


def test_no_damaged_file_brings_the_process_down(path):
    """Truncated files, flipped bits, overwritten bytes: the result is a sentence or recordings that pass every check."""
    good = tiny_events.make(path, recordings=8).read_bytes()
    outcomes = []
    for seed in range(15):
        path.write_bytes(damaged(good, seed))
        outcomes.append(outcome(path))
    refused = [sentence for sentence in outcomes if sentence is not None]
    assert len(refused) >= 6
    assert all(str(path) in sentence for sentence in refused)


def damaged(good, seed):
    rng, content = np.random.default_rng(seed), bytearray(good)
    if seed % 3 == 0:
        return content[: rng.integers(len(content))]
    if seed % 3 == 1:
        for _ in range(rng.integers(1, 5)):
            content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        return content
    start, length = rng.integers(len(content)), rng.integers(1, 64)
    content[start : start + length] = rng.bytes(length)
    return content


READY = f"import os, signal, sys; print({hdf5.READY.decode().strip()!r}, flush=True); "
HALF = """print('{"names": null, "arrays": {"times": ["<f2", 9]}}', flush=True); os.abort()"""


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (READY + "os.abort()", ValueError, r"train.h5 makes the HDF5 library crash \(-6\). It may be cut short"),
        (READY + "os.kill(os.getpid(), signal.SIGXCPU)", ValueError, r"makes the HDF5 library run for ever"),
        (READY + "os.kill(os.getpid(), signal.SIGKILL)", ValueError, r"was killed, perhaps because memory ran out"),
        (READY + "sys.stdout.write('{\"arr')", ValueError, r"makes the HDF5 library crash \(0\)"),
        (READY + HALF, ValueError, r"crash \(-6\)"),
        ("import no_such_h5py", OSError, r"could not be started \(it ended with 1: ModuleNotFoundError: .* works"),
        ("print('otpe is ready')", OSError, r"separate Python process, which could not be started \(it ended with 0\)"),
    ],
    ids=["crash", "for ever", "killed", "half a line", "half the data", "no start", "another program"],
)
def test_a_reader_process_that_fails_is_reported(path, monkeypatch, program, error, message):
    tiny_events.make(path)
    monkeypatch.setattr(hdf5, "PROGRAM", path.with_suffix(".py"))
    hdf5.PROGRAM.write_text(program)
    with pytest.raises(error, match=message):
        hdf5.read(path, UNITS)


def test_chatter_before_the_reader_starts_does_not_matter(path, monkeypatch):
    """Such as from a sitecustomize module that prints."""
    tiny_events.make(path)
    program = path.with_suffix(".py")
    program.write_text("print('hello')\n" + hdf5.PROGRAM.read_text())
    monkeypatch.setattr(hdf5, "PROGRAM", program)
    assert len(hdf5.read(path, UNITS)) == 20
    assert hdf5.READY == hdf5_process.READY


def test_a_missing_python_executable_is_reported(path, monkeypatch):
    tiny_events.make(path)
    monkeypatch.setattr("sys.executable", str(path / "none"))
    with pytest.raises(OSError, match=r"could not be started \(.*train.h5/none.*\). Check that `.*import h5py'` works"):
        hdf5.read(path, UNITS)


def test_a_file_without_read_permission_is_refused(path, monkeypatch):
    tiny_events.make(path)
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(PermissionError, match=r"train.h5 may not be read. Ask for permission"):
        hdf5.read(path, UNITS)


def test_the_reader_process_limits_its_time_and_memory(path, monkeypatch):
    """A process is stopped if it needs more time or memory than a file of this size can need."""
    resource = pytest.importorskip("resource")
    limits = {}
    monkeypatch.setattr(resource, "setrlimit", lambda what, values: limits.update({what: values}))
    hdf5_process._limit(100_000_000)
    assert limits[resource.RLIMIT_CPU][0] == 30
    assert limits[resource.RLIMIT_AS][0] == 6_000_000_000


def test_an_endless_read_is_stopped_by_the_processor_time_limit():
    """A negative file size gives a limit of two processor seconds."""
    pytest.importorskip("resource")
    program = f"""
import sys
sys.path.insert(0, {str(hdf5.PROGRAM.parent)!r})
import hdf5_process
def _read(path):
    while True:
        pass
hdf5_process._read = _read
sys.argv = ["", "a.h5", "-40000000"]
hdf5_process.main()
"""
    ended = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, timeout=60)
    assert "for ever" in hdf5._end(ended.returncode)


@pytest.mark.parametrize("before", [READY, "import os; "], ids=["reading", "starting"])
def test_a_reader_that_waits_for_ever_is_stopped_by_the_clock(path, monkeypatch, before):
    """It uses no processor time, so only the clock can stop it."""
    tiny_events.make(path)
    program = path.with_suffix(".py")
    program.write_text(before + "import time; time.sleep(20)")
    monkeypatch.setattr(hdf5, "PROGRAM", program)
    monkeypatch.setattr(hdf5, "SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(OSError, match=r"train.h5 was not read after 1 seconds, so reading was stopped. Copy it to a"):
        hdf5.read(path, UNITS)
    assert time.monotonic() - began < 10


def test_a_large_file_gets_more_time(path, monkeypatch):
    tiny_events.make(path)
    monkeypatch.setattr(hdf5, "SECONDS", 0)
    monkeypatch.setattr(hdf5, "BYTES_A_SECOND", path.stat().st_size / 60)
    assert len(hdf5.read(path, UNITS)) == 20


def test_without_h5py_the_error_says_how_to_install_it(path, monkeypatch):
    tiny_events.make(path)
    monkeypatch.setattr(hdf5, "find_spec", lambda name: None)
    with pytest.raises(OSError, match=r"needs h5py, which is not installed. Use: pip install 'otpe\[data\]'"):
        hdf5.read(path, UNITS)
