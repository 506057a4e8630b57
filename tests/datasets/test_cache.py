"""Caches: only valid files of this user are read. Any other file means that the cache is made anew."""

import io
import json
import os
import pickle
import tempfile
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

from otpe.datasets import cache, manifolds

STAMP = {"tables": 1}
ARRAYS = {"x": np.arange(3), "names": np.array(["a", "bc"])}
KIND = {"shape": [3], "dtype": "<i8"}


@pytest.fixture
def entry(tmp_path):
    return cache.write(tmp_path, "entry", STAMP, ARRAYS)


def read(entry):
    return cache.read(entry.parent, "entry", STAMP)


def refused(entry):
    with pytest.warns(UserWarning, match=rf"The cache {entry} cannot be read \(.+\) and is made anew"):
        return read(entry) is None


def assert_made_anew(entry):
    assert cache.write(entry.parent, "entry", STAMP, ARRAYS) == entry
    for name, array in read(entry).items():
        np.testing.assert_array_equal(array, ARRAYS[name])


def about(**arrays):
    return json.dumps({"stamp": STAMP, "arrays": arrays})


def member(array, **options):
    content = io.BytesIO()
    np.save(content, array, **options)
    return content.getvalue()


def header(text):
    """An array file with this header text and three numbers."""
    return np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text.encode() + bytes(24)


SOUND = member(ARRAYS["x"])
SHAPES = ([10**12], [10**30], [10**18, 0], [0, 10**30], [-1], [3, -2], [-3, -1], ["3"], [3.0], 3, None, [], "ab")
CRAFTED = {
    "a list": ("[]", SOUND),
    "null": ("null", SOUND),
    "not UTF-8": (b'{"stamp": "\xff"}', SOUND),
    "nothing": ("", SOUND),
    "empty": ("{}", SOUND),
    "deep": ("[" * 100_000, SOUND),
    "a deep stamp": ('{"stamp": ' + "[" * 900 + "]" * 900 + ', "arrays": {}}', None),
    "a long one": (" " * 3_000_000 + about(x=KIND), SOUND),
    "no arrays": (json.dumps({"stamp": STAMP}), SOUND),
    "a list of arrays": (json.dumps({"stamp": STAMP, "arrays": [KIND]}), SOUND),
    "no kind": (about(x=None), SOUND),
    "no shape": (about(x={"dtype": "<i8"}), SOUND),
    "no type": (about(x={"shape": [3]}), SOUND),
    **{f"shape {shape}": (about(x={"shape": shape, "dtype": "<i8"}), SOUND) for shape in SHAPES},
    **{
        f"type {dtype}": (about(x={"shape": [3], "dtype": dtype}), SOUND)
        for dtype in ("O", "|V8", "i4,i4", [["a", "<i8"]], "nonsense", None, 5, "<M8[s]", "<U1000000000", "|S0")
    },
    "no member": (about(x=KIND), None),
    "another shape": (about(x=KIND), member(np.arange(4))),
    "another type": (about(x=KIND), member(np.arange(3.0))),
    "objects": (about(x=KIND), member(np.array([1, {}, None], object), allow_pickle=True)),
    "a pickle": (about(x=KIND), pickle.dumps([1, 2, 3])),
    "a short one": (about(x=KIND), SOUND[:-5]),
    "no head": (about(x=KIND), b""),
    "a large head": (about(x=KIND), header(str({"descr": "<i8", "fortran_order": False, "shape": (10**15,)}))),
    "a wrong head": (about(x=KIND), header("[" * 5000)),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_entries_are_made_anew(entry, case):
    text, content = CRAFTED[case]
    with zipfile.ZipFile(entry, "w") as archive:
        archive.writestr("about.json", text)
        if content is not None:
            archive.writestr("x-0000.npy", content)
    if case == "a deep stamp":
        assert read(entry) is None, "the entry of other settings"
    else:
        assert refused(entry)
    assert_made_anew(entry)


def test_damaged_entries_are_made_anew(entry):
    good = entry.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        content = bytearray(good[: rng.integers(len(good))] if rng.random() < 0.3 else good)
        for _ in range(min(len(content), rng.integers(1, 9))):
            content[rng.integers(len(content))] = rng.integers(256)
        entry.write_bytes(content)
        with warnings.catch_warnings(action="ignore"):
            cached = read(entry)
        assert cached is None or all(np.array_equal(cached[name], ARRAYS[name]) for name in ARRAYS)
    assert_made_anew(entry)


@pytest.mark.parametrize("declared", [None, 80])
def test_a_member_is_not_unpacked_beyond_its_size(entry, declared):
    """64 MB in place of three numbers, with the true or a false size in the directory."""
    with zipfile.ZipFile(entry, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("about.json", about(x=KIND))
        archive.writestr("x-0000.npy", bytes(1 << 26))
        archive.getinfo("x-0000.npy").file_size = declared or 1 << 26
    tracemalloc.start()
    try:
        assert refused(entry)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_arrays_that_do_not_fit_are_made_anew(entry):
    for fit in (lambda _: False, lambda arrays: arrays["y"].size == 3):
        with pytest.warns(UserWarning, match=r"cannot be read \(.+\) and is made anew"):
            assert cache.read(entry.parent, "entry", STAMP, fit) is None
    assert cache.read(entry.parent, "entry", STAMP, lambda arrays: arrays["x"].size == 3)


def test_a_pipe_link_or_folder_instead_of_an_entry_is_not_used(entry, tmp_path):
    sound = entry.rename(tmp_path / "sound.npz")
    os.mkfifo(entry)
    assert refused(entry)
    assert_made_anew(entry)
    entry.unlink()
    entry.symlink_to(sound)
    before = sound.read_bytes()
    assert refused(entry)
    assert_made_anew(entry)
    assert sound.read_bytes() == before
    entry.unlink()
    entry.mkdir()
    assert refused(entry)
    with pytest.warns(UserWarning, match=rf"The cache {entry} cannot be written: Is a directory."):
        assert cache.write(tmp_path, "entry", STAMP, ARRAYS) is None


def test_a_missing_entry_is_none(tmp_path):
    assert cache.read(tmp_path / "none", "entry", STAMP) is None
    (tmp_path / "file").touch()
    assert cache.read(tmp_path / "file", "entry", STAMP) is None
    assert cache.read(None, "entry", STAMP) is None
    assert cache.write(None, "entry", STAMP, ARRAYS) is None


def test_an_entry_without_read_permission_is_made_anew(entry, monkeypatch):
    def denied(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.lstat", denied)
    assert refused(entry)


def belongs_to_another(path, monkeypatch):
    if os.getuid() == 0:
        os.chown(path, 54_321, -1)  # root's files are trusted
    monkeypatch.setattr(os, "getuid", lambda: 12_345)


def test_an_entry_of_another_user_is_neither_used_nor_replaced(entry, monkeypatch):
    belongs_to_another(entry, monkeypatch)
    before = entry.read_bytes()
    assert read(entry) is None
    with pytest.warns(UserWarning, match=rf"The cache {entry} cannot be written: another user's file is there."):
        assert cache.write(entry.parent, "entry", STAMP, ARRAYS) is None
    assert entry.read_bytes() == before


def test_an_entry_of_root_is_used(entry, monkeypatch):
    about = list(entry.stat())
    for user, trusted in ((12_345, True), (0, True), (54_321, False)):
        about[4] = user
        monkeypatch.setattr(os, "getuid", lambda: 12_345)
        assert cache._trusted(os.stat_result(about)) is trusted


# A user without a home folder, as in some containers


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    """Return the cache folder of such a user."""

    def homeless(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.expanduser", homeless)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"otpe-cache-{os.getuid()}"


def test_the_cache_of_a_user_without_a_home_is_temporary(temporary):
    assert cache.home() == temporary
    assert temporary.stat().st_mode & 0o777 == 0o700
    assert cache.home() == temporary, "also the second time"


def others_may_write(path, monkeypatch):
    path.mkdir()
    path.chmod(0o777)


def of_another_user(path, monkeypatch):
    path.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    path.rename(path.with_name("otpe-cache-12345"))


def linked(path, monkeypatch):
    path.with_name("mine").mkdir(mode=0o700)
    path.symlink_to(path.with_name("mine"))


def a_file(path, monkeypatch):
    path.touch()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (others_may_write, "others may write to it"),
        (of_another_user, "others may write to it"),
        (linked, "it is no folder"),
        (a_file, "File exists"),
    ],
)
def test_an_unsafe_temporary_folder_is_not_used(temporary, monkeypatch, change, reason):
    """Its name can be guessed, so another user may have created it."""
    change(temporary, monkeypatch)
    message = rf"/otpe-cache-\d+ is not used as a cache: {reason}. Set OTPE_CACHE to a folder of yours."
    with pytest.warns(UserWarning, match=message):
        assert manifolds.tables(12, 1, 2, 1, 3.0).shape == (1, 1, 8193, 2)
    assert not list(temporary.parent.rglob("*.npz"))


def test_without_a_temporary_folder_nothing_is_cached(temporary, monkeypatch):
    def none():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.warns(UserWarning, match=r"The temporary folder is not used as a cache: No usable temporary dir.* Set"):
        assert cache.home() is None
