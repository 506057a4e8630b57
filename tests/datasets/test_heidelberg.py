"""SHD, SSC and similar folders: finding files, splits, caches, downloads, and error messages."""

import hashlib
import http.server
import os
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tiny_events
from tiny_events import NAMES, UNITS

from otpe import datasets
from otpe.datasets import Binning, Holdout, cache, download, hdf5, heidelberg

REAL = Path(os.environ.get("OTPE_SHD", "data/shd"))


@pytest.fixture
def root(tmp_path):
    for split, seed in (("train", 0), ("test", 1)):
        tiny_events.make(tmp_path / f"shd_{split}.h5", seed=seed)
    return tmp_path


def cache_files(root):
    return sorted(path.name for path in (root / "otpe-cache").iterdir())


def test_default_settings_are_those_of_the_paper(root):
    """50 bins, counts, the first tenth of the training file for validation, with labels, speakers and names."""
    train, valid, test = (datasets.shd(root, split) for split in ("train", "valid", "test"))
    assert [len(part) for part in (train, valid, test)] == [18, 2, 20]
    assert (train.steps, train.units, train.names) == (50, 700, NAMES)
    np.testing.assert_array_equal(np.concatenate([valid.labels, train.labels]), np.arange(20) % 4)
    np.testing.assert_array_equal(np.concatenate([valid.speakers, train.speakers]), np.arange(20) // 7)
    events = hdf5.read(root / "shd_train.h5", 700)
    np.testing.assert_array_equal(valid.frames.sum((1, 2)), events.counts[:2])
    np.testing.assert_array_equal(datasets.shd(root, "train", bins=50).frames, train.frames)


def test_speakers_are_held_out_as_a_whole(root):
    speaker = np.arange(20) // 7  # of the file: 7, 7 and 6 recordings
    for seed in range(6):
        held = Holdout("speakers", 0.4, seed)
        parts = [datasets.shd(root, split, validation=held) for split in ("train", "valid")]
        train, valid = (set(np.asarray(part.speakers).tolist()) for part in parts)
        assert train | valid == {0, 1, 2}
        assert not train & valid
        assert len(valid) == 1, "7 of 20 are closer to .4 than 13 or 14"
        np.testing.assert_array_equal(held.held(speaker % 4, speaker), np.isin(speaker, [*valid]))
    drawn = {tuple(Holdout("speakers", 0.4, seed).held(speaker, speaker)) for seed in range(20)}
    assert len(drawn) == 3, "the seed decides"


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.3, 0.5, 0.95])
def test_the_share_of_held_out_speakers_is_about_the_fraction(fraction):
    speakers = np.repeat(np.arange(40), np.random.default_rng(0).integers(10, 30, 40))
    for seed in range(10):
        held = Holdout("speakers", fraction, seed).held(speakers, speakers)
        assert abs(held.mean() - fraction) < 0.03
        assert held.any()
        assert not held.all()
    two = np.repeat([3, 8], [9, 1])
    assert 0 < Holdout("speakers", fraction).held(two, two).sum() < 10, "one of two, whatever the fraction"


def test_without_speakers_they_cannot_be_held_out(tmp_path):
    tiny_events.make(tmp_path / "shd_train.h5", extra__speaker=None)
    with pytest.raises(ValueError, match=r"shd_train.h5 has no speaker numbers: .* needs extra/speaker. Use 'strat"):
        datasets.shd(tmp_path, "valid", validation="speakers")
    tiny_events.make(tmp_path / "shd_train.h5", extra__speaker=np.full(20, 3))
    with pytest.raises(ValueError, match=r"shd_train.h5 has one speaker only, .*nobody to learn from. Use 'stratified"):
        datasets.shd(tmp_path, "train", validation="speakers")
    with pytest.raises(ValueError, match=r"one speaker only"):
        datasets.folder(tmp_path, "train", units=12, validation="speakers")


def test_stratified_validation_takes_the_same_share_of_every_class(root):
    held = {seed: Holdout("stratified", 0.4, seed) for seed in (0, 1)}
    first = datasets.shd(root, "valid", validation=held[0])
    np.testing.assert_array_equal(np.bincount(first.labels), [2, 2, 2, 2])
    assert len(datasets.shd(root, "train", validation=held[0])) == 12
    chosen = [held[seed].held(np.arange(20) % 4) for seed in (0, 1)]
    assert not np.array_equal(*chosen)
    np.testing.assert_array_equal(held[0].held(np.arange(20) % 4), chosen[0])
    assert np.flatnonzero(held[0].held(np.arange(12) % 2)).tolist() == [1, 4, 6, 11], "equal on any machine"


def test_validation_none_leaves_no_validation_split(root):
    assert len(datasets.shd(root, "train", validation="none")) == 20
    with pytest.raises(
        ValueError, match=r"split is 'valid', for which validation='none' .* leave none of 20 recordings"
    ):
        datasets.shd(root, "valid", validation="none")


def test_ssc_has_a_file_for_each_split(tmp_path):
    for seed, split in enumerate(("train", "valid", "test")):
        tiny_events.make(tmp_path / f"ssc_{split}.h5", recordings=8 + seed, seed=seed)
    assert [len(datasets.ssc(tmp_path, split, 10)) for split in ("train", "valid", "test")] == [8, 9, 10]


def test_any_folder_in_shd_layout_is_read(tmp_path):
    tiny_events.make(tmp_path / "train.h5")
    tiny_events.zipped(tiny_events.make(tmp_path / "birds_test.h5", recordings=9))
    load = lambda split: datasets.folder(tmp_path, split, 10, units=UNITS)  # noqa: E731
    assert [len(load(split)) for split in ("train", "valid", "test")] == [18, 2, 9]
    tiny_events.make(tmp_path / "valid.h5", recordings=5)
    assert [len(load(split)) for split in ("train", "valid", "test")] == [20, 5, 9]
    (tmp_path / "v1.0_train.h5").mkdir()  # a folder does not count as a file
    tiny_events.make(tmp_path / "fish-v1.0-test.h5")
    with pytest.raises(ValueError, match=r"holds 2 files for test: birds_test.h5.zip, fish-v1.0-test.h5. Expected one"):
        load("test")


@pytest.mark.parametrize("verb", ["folder", "shd"])
def test_archives_are_found_whatever_their_name(verb, tmp_path):
    for split in ("train", "test"):
        packed = tiny_events.zipped(tiny_events.make(tmp_path / f"shd_{split}.h5"))
        packed.rename(tmp_path / f"shd_{split}.zip")
    more = {"units": 700} if verb == "folder" else {}
    read = lambda split: getattr(datasets, verb)(tmp_path, split, 10, **more)  # noqa: E731
    with zipfile.ZipFile(tmp_path / "notes_train.zip", "w") as other:
        other.writestr("notes.txt", "no recordings")
    (tmp_path / "broken_test.zip").write_bytes(b"no archive")
    assert [len(read(split)) for split in ("train", "valid", "test")] == [18, 2, 20]
    tiny_events.zipped(tiny_events.make(tmp_path / "shd_train.h5", recordings=9))
    with pytest.raises(
        ValueError, match=r"2 archives of shd_train: shd_train.h5.zip, shd_train.zip. Expected one: mov"
    ):
        read("train")
    tiny_events.make(tmp_path / "shd_train.h5", recordings=30)
    assert len(read("train")) == 27, "an unpacked file comes before archives"
    if verb == "folder":
        packed = tiny_events.zipped(tiny_events.make(tmp_path / "birds.h5"))
        packed.rename(tmp_path / "birds-test.zip")
        with pytest.raises(ValueError, match=r"holds 2 files for test: birds-test.zip, shd_test.zip. Expected one"):
            read("test")


def test_units_are_read_from_the_files(tmp_path):
    tiny_events.make(tmp_path / "train.h5")
    tiny_events.make(tmp_path / "test.h5", spikes__units=[u % 5 for u in tiny_events.rows(seed=1)[1]], seed=1)
    parts = [datasets.folder(tmp_path, split, 10) for split in ("train", "valid", "test")]
    assert [part.units for part in parts] == [UNITS] * 3, "the test file alone has 5"
    np.testing.assert_array_equal(parts[0].frames, datasets.folder(tmp_path, "train", 10, units=UNITS).frames)
    assert "train.h5-units.npz" in cache_files(tmp_path)
    tiny_events.make(tmp_path / "test.h5", spikes__units=[u + 4 for u in tiny_events.rows(seed=1)[1]], seed=1)
    for split in ("train", "test"):
        with pytest.raises(
            ValueError, match=r"test.h5 has spikes of units up to 15, .* only up to 11.* units, such as 16"
        ):
            datasets.folder(tmp_path, split, 10)
    assert datasets.folder(tmp_path, "test", 10, units=16).units == 16


def test_units_of_a_camera_folder_become_a_grid(root):
    """Units have the order (P, H, W). Flat and grid share one cache; pooled squares have another."""
    (flat, grid), squares = (
        [datasets.folder(root, "train", 5, units=12), datasets.folder(root, "train", 5, shape=(3, 2, 2))],
        datasets.folder(root, "train", Binning(5, pool=2), shape=(3, 2, 2)),
    )
    assert (grid.shape, grid.units, squares.shape) == ((3, 2, 2), 12, (3, 1, 1))
    np.testing.assert_array_equal(grid.frames, flat.frames.reshape(18, 5, 3, 2, 2))
    np.testing.assert_array_equal(grid.flat().frames, flat.frames)
    np.testing.assert_array_equal(squares.frames[..., 0, 0], grid.frames.sum((3, 4)))
    assert cache_files(root) == ["shd_train.h5-12-bins5.npz", "shd_train.h5-3x2x2-bins5-pool2.npz"]
    again = datasets.folder(root, "train", Binning(5, pool=2), shape=(3, 2, 2))
    np.testing.assert_array_equal(again.frames, squares.frames)
    assert datasets.folder(root, "train", 5, units=12, shape=(3, 4)).shape == (3, 4)


FOLDERS = [
    ({"units": 0}, r"units is 0, expected a whole number above 0"),
    ({"shape": 12}, r"shape is 12, expected the shape of the units, such as \(2, 34, 34\)"),
    ({"shape": (3, -4)}, r"shape is -4, expected a whole number above 0"),
    ({"shape": (3, 4), "units": 13}, r"units is 13 and shape is \(3, 4\), which has 12 units. Give one of them"),
    ({"shape": (3, 4), "bins": Binning(5, pool=2)}, r"pool is 2, which does not divide the height and width of the shape \[3, 4\]. Leave pool out"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "message"), FOLDERS, ids=[str(settings) for settings, _ in FOLDERS])
def test_invalid_shapes_of_a_folder_are_refused(root, settings, message):
    with pytest.raises(ValueError, match=message):
        datasets.folder(root, **settings)
    assert not (root / "otpe-cache").exists()


def test_bins_of_a_fixed_duration_are_padded(root):
    data = datasets.shd(root, "test", Binning(dt=0.05, binary=True, pool=70))
    batch = data.batch(0, 0, 6)
    assert batch.spikes.shape == (data.steps, 6, 10)
    assert int(data.lengths.max()) == data.steps > int(data.lengths.min())
    assert int((batch.spikes.sum(2) * ~batch.mask).sum()) == 0, "the padding is empty"


def test_the_second_start_reads_the_cache(root, monkeypatch):
    first = datasets.shd(root, "train")
    assert cache_files(root) == ["shd_train.h5-700-bins50.npz"]
    monkeypatch.setattr(hdf5, "read", lambda *_, **__: pytest.fail("read again"))
    again = datasets.shd(root, "train")
    for one, other in zip(
        (first.frames, first.labels, first.speakers), (again.frames, again.labels, again.speakers), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert again.names == first.names


def test_other_settings_have_other_caches(root):
    for bins in (
        10,
        Binning(10, binary=True),
        Binning(10, pool=2),
        Binning(10, remainder="drop"),
        Binning(dt=0.1),
        Binning(dt=0.1, steps=3),
    ):
        datasets.shd(root, "test", bins)
    datasets.shd(root, "test", 10, keep_empty=True)
    datasets.folder(root, "test", 10, units=np.int64(20))
    assert [name.removeprefix("shd_test.h5-").removesuffix(".npz") for name in cache_files(root)] == [
        "20-bins10", "700-bins10-binary", "700-bins10-drop", "700-bins10-empty", "700-bins10-pool2", "700-bins10",
        "700-dt0.1", "700-dt0.1x3",
    ]  # fmt: skip


def test_a_changed_file_is_read_anew(root):
    before = datasets.shd(root, "test")
    tiny_events.make(root / "shd_test.h5", seed=5)
    assert not np.array_equal(datasets.shd(root, "test").frames, before.frames)


@pytest.mark.parametrize(
    "damage",
    [lambda x: x[:-50], lambda x: x[:900] + bytes(40) + x[940:], lambda x: b""],
    ids=["cut", "overwritten", "empty"],
)
def test_a_damaged_cache_is_made_anew(root, damage):
    expected = datasets.shd(root, "test")
    cache = root / "otpe-cache" / "shd_test.h5-700-bins50.npz"
    cache.write_bytes(damage(cache.read_bytes()))
    with pytest.warns(UserWarning, match=r"shd_test.h5-700-bins50.npz cannot be read .* and is made anew"):
        np.testing.assert_array_equal(datasets.shd(root, "test").frames, expected.frames)
    np.testing.assert_array_equal(datasets.shd(root, "test").frames, expected.frames)


WRONG = {
    "no names": lambda x: x.pop("names"),
    "no labels": lambda x: x.pop("labels"),
    "fewer labels": lambda x: x.update(labels=x["labels"][1:]),
    "other labels": lambda x: x.update(labels=x["labels"] + 4),
    "labels below 0": lambda x: x.update(labels=x["labels"] - 4),
    "labels of another type": lambda x: x.update(labels=x["labels"].astype(np.int64)),
    "more speakers": lambda x: x.update(speakers=np.zeros(21, np.int32)),
    "names as numbers": lambda x: x.update(names=np.arange(4)),
    "fewer units": lambda x: x.update(frames=x["frames"][..., 1:]),
    "fewer steps": lambda x: x.update(frames=x["frames"][:, 1:]),
    "flat frames": lambda x: x.update(frames=x["frames"].reshape(-1)),
    "frames of another type": lambda x: x.update(frames=x["frames"].astype(np.float32)),
    "no lengths": lambda x: x.pop("lengths"),
    "long lengths": lambda x: x.update(lengths=x["lengths"] + 100),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_cache_whose_arrays_do_not_fit_is_made_anew(root, wrong, monkeypatch):
    """Even one with the correct stamp."""
    write, binning = cache.write, Binning(dt=0.1, steps=5, pool=70)
    monkeypatch.setattr(cache, "write", lambda *rest: (WRONG[wrong](rest[-1]), write(*rest)))
    monkeypatch.setattr(heidelberg, "_recordings", lambda arrays: None)
    heidelberg.load(root / "shd_test.h5", 700, binning)
    monkeypatch.undo()
    with pytest.warns(UserWarning, match=r"cannot be read \(.+\) and is made anew"):
        assert len(heidelberg.load(root / "shd_test.h5", 700, binning).labels) == 20
    assert len(heidelberg.load(root / "shd_test.h5", 700, binning).labels) == 20


def test_a_read_only_folder_is_read_without_a_cache(root, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("OTPE_CACHE", str(tmp_path_factory.mktemp("mine")))
    root.chmod(0o555)
    try:
        expected = datasets.shd(root, "test")
        monkeypatch.setattr(hdf5, "read", lambda *_, **__: pytest.fail("read again"))
        np.testing.assert_array_equal(datasets.shd(root, "test").frames, expected.frames)
        assert sorted(path.name for path in root.iterdir()) == ["shd_test.h5", "shd_train.h5"]
    finally:
        root.chmod(0o755)


def test_a_bad_file_leaves_no_cache_behind(root):
    content = (root / "shd_test.h5").read_bytes()
    (root / "shd_test.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"shd_test.h5 cannot be read"):
        datasets.shd(root, "test")
    with pytest.raises(ValueError, match="more than the time steps of recording"):
        datasets.folder(root, "train", 600_000, units=UNITS)
    assert sorted(path.name for path in root.iterdir()) == ["shd_test.h5", "shd_train.h5"]


def test_missing_files_and_folders_are_reported(tmp_path):
    with pytest.raises(
        FileNotFoundError,
        match=r"shd_train.h5 is not there, nor its .zip. Fetch it with `otpe data shd --root .* --download`",
    ):
        datasets.shd(tmp_path, "valid")
    with pytest.raises(FileNotFoundError, match=r"ssc_valid.h5 is not there, .*\(there is no such folder\)"):
        datasets.ssc(tmp_path / "none", "valid")
    with pytest.raises(FileNotFoundError, match=r"holds no train.h5, nor anything_train.h5"):
        datasets.folder(tmp_path, "valid", units=5)


BAD = [
    ({"split": "validation"}, r"split 'validation' is not known. Did you mean 'valid'\?"),
    ({"bins": 0}, r"bins is 0, expected a whole number above 0"),
    ({"bins": Binning(50, pool=9)}, r"pool is 9, which does not divide 700 units"),
    ({"validation": "random"}, r"validation 'random' is not known"),
    ({"validation": Holdout("first", 1.5)}, r"fraction is 1.5, expected a share between 0 and 1"),
    ({"validation": Holdout("stratified", 0.1, -1)}, r"seed is -1, expected a whole number"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=[str(s) for s, _ in BAD])
def test_bad_settings_are_refused(root, settings, message):
    with pytest.raises(ValueError, match=message):
        datasets.shd(root, **settings)
    assert not (root / "otpe-cache").exists()


# Downloads


@pytest.fixture
def server(tmp_path_factory, monkeypatch):
    """A local server in place of the official one, with small files of the same names."""
    shelf = tmp_path_factory.mktemp("server")
    for split in ("train", "test"):
        tiny_events.zipped(tiny_events.make(shelf / f"shd_{split}.h5"))
    handler = lambda *args: http.server.SimpleHTTPRequestHandler(*args, directory=str(shelf))  # noqa: E731
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        monkeypatch.setattr(download, "ADDRESS", f"http://127.0.0.1:{running.server_port}/")
        hashes = {
            split: hashlib.md5((shelf / f"shd_{split}.h5.zip").read_bytes()).hexdigest() for split in ("train", "test")
        }
        monkeypatch.setitem(download.SOURCES, "shd", download.Source("Spiking Heidelberg Digits", 700, hashes))
        yield shelf
        running.shutdown()


def test_download_fetches_only_the_files_needed(server, tmp_path):
    root = tmp_path / "new"
    data = datasets.shd(root, "train", 10, download=True)
    assert len(data) == 18
    assert (root / "shd_train.h5.zip").read_bytes() == (server / "shd_train.h5.zip").read_bytes()
    assert not (root / "shd_test.h5.zip").exists(), "only the file that is needed"
    (server / "shd_train.h5.zip").unlink()
    assert len(datasets.shd(root, "valid", 10, download=True)) == 2
    assert download.fetch("shd", "train", root) == root / "shd_train.h5.zip"


def test_a_damaged_download_is_refused_and_removed(server, tmp_path):
    content = bytearray((server / "shd_train.h5.zip").read_bytes())
    content[100] ^= 1
    (server / "shd_train.h5.zip").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"shd_train.h5.zip has another md5 than expected .* Nothing was kept. Try again"
    ):
        datasets.shd(tmp_path, download=True)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_download_says_what_to_do(server, tmp_path):
    (server / "shd_train.h5.zip").unlink()
    with pytest.raises(OSError, match=r"shd_train.h5.zip could not be fetched into .*404.* download it in a browser"):
        datasets.shd(tmp_path, download=True)
    assert list(tmp_path.iterdir()) == []


def test_existing_files_are_never_overwritten(server, tmp_path):
    """A user's file with the official name is used, but not called official and not replaced."""
    mine = tiny_events.zipped(tiny_events.make(tmp_path / "shd_train.h5", recordings=30))
    content = mine.read_bytes()
    assert len(datasets.shd(tmp_path, validation="none")) == 30
    assert download.is_official("shd", "train", tmp_path / "shd_train.h5") is None
    with pytest.raises(ValueError, match=r"is not the official archive"):
        datasets.shd(tmp_path, download=True)
    assert not download.is_official("shd", "train", mine)
    with pytest.raises(ValueError, match=r"is there, but is not the official archive: its md5 is \w+, expected \w+"):
        download.fetch("shd", "train", tmp_path)
    assert mine.read_bytes() == content


def test_a_download_does_not_replace_a_pipe_or_folder(server, tmp_path):
    """A pipe (which would make us wait) or a folder has the name of the file."""
    (tmp_path / "shd_train.h5.zip").mkdir()
    with pytest.raises(OSError, match=r"shd_train.h5.zip is there, but is no file. Move it away, or name another fol"):
        datasets.shd(tmp_path, download=True)


def test_offline_mode_refuses_to_download(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OTPE_OFFLINE", "1")
    with pytest.raises(OSError, match=r"Spiking Heidelberg Digits is not in .*, and OTPE_OFFLINE forbids downloads"):
        datasets.shd(tmp_path, download=True)
    assert list(tmp_path.iterdir()) == []


def test_without_pooch_the_error_says_how_to_install_it(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "find_spec", lambda name: None)
    with pytest.raises(
        OSError, match=r"downloading needs pooch, which is not installed. Use: pip install 'otpe\[data\]'"
    ):
        datasets.shd(tmp_path, download=True)


def test_the_hashes_are_those_published():
    """A typing error in a hash would refuse every valid file."""
    for source in download.SOURCES.values():
        assert all(len(md5) == 32 and int(md5, 16) for md5 in source.md5.values())
    assert download.SOURCES["shd"].md5["test"] == "1503a5064faa34311c398fb0a1ed0a6f"


# The real spoken digits, if they are available


@pytest.mark.skipif(heidelberg.find(REAL, "shd_test") is None, reason="set OTPE_SHD to a folder with shd_test.h5")
def test_real_recordings_of_spoken_digits_are_read():
    from tonic.transforms import ToFrame

    path = heidelberg.find(REAL, "shd_test")
    data = datasets.shd(REAL, "test", Binning(50, remainder="drop"))
    assert data.frames.shape == (len(data), 50, 700)
    assert len(data) >= 2264
    assert len(data.names) == 20
    assert data.names[0] == "zero"
    assert set(np.unique(data.labels)) == set(range(20))
    events = hdf5.read(path, 700)
    for i in range(0, len(data), 50):
        times, units = events.recording(i)
        packed = np.zeros(len(times), [("t", int), ("x", int), ("p", int)])
        packed["t"], packed["x"] = times * 1e6, units
        np.testing.assert_array_equal(data.frames[i], ToFrame(sensor_size=(700, 1, 1), n_time_bins=50)(packed)[:, 0])
    whole = datasets.shd(REAL, "test")
    assert int(np.asarray(whole.frames).sum(dtype=np.int64)) == events.starts[-1]
