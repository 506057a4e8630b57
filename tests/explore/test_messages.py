"""The error messages of `otpe data`."""

import re
from dataclasses import replace

import h5py
import pytest
from three_recordings import FOLDER, TIMES, UNITS, write
from tiny_events import zipped as pack

from otpe import cli
from otpe.datasets import frames as binned
from otpe.datasets.frames import Binning
from otpe.lab.explore import explore, reading, statistics
from otpe.lab.settings import DataConfig

BAD = [
    (["sdh"], r"dataset 'sdh' is not known. Did you mean 'shd'\? Expected one of: 't-randman'"),
    (["t-randman", "--root", "x"], r"root is 'x', but t-randman has no use for it: it is for shd, ssc and folder"),
    (["t-randman", "--bins", "3"], r"bins is 3, but t-randman has no use for it"),
    (["r-randman", "--verify"], r"verify is True, but r-randman has no use for it: it is for shd and ssc"),
    (["folder", "--download"], r"download is True, but folder has no use for it: it is for shd and ssc"),
    (["shd", "--seed", "3"], r"seed is 3, but shd has no use for it: it is for t-randman, r-randman and moving-shapes"),
    (["ssc", "--standardize", "fixed"], r"standardize is 'fixed', but ssc has no use for it"),
    (["shd", "--units", "70"], r"units is 70, but shd has no use for it: it is for folder\."),
    (["t-randman", "--keep-empty"], r"keep_empty is True, but t-randman has no use for it"),
    (["folder"], r"data/folder holds no .h5 file, nor a .h5.zip \(there is no such folder\).*with --root"),
    (["folder", "--units", "0"], r"units is 0, expected a whole number above 0"),
    (["folder", "--units", "8"], r"data/folder holds no .h5 file, nor a .h5.zip \(there is no such folder\).*with --root"),
    (["shd", "--bins", "5", "--dt", "0.1"], r"bins is 5 and dt is 0.1, expected one of them"),
    (["shd", "--bins", "0"], r"bins is 0, expected a whole number above 0"),
    (["shd", "--dt", "0"], r"dt is 0.0, expected seconds"),
    (["shd", "--steps", "5"], r"steps is 5 without dt"),
    (["shd", "--pool", "3"], r"pool is 3, which does not divide 700 units"),
    (["shd", "--samples", "0"], r"samples is 0, expected 1 to 64: their rasters are drawn on one page"),
    (["shd", "--samples", "65"], r"samples is 65, expected 1 to 64"),
    (["shd", "--bins", "9" * 20], r"9{20} time steps of 700 units are more than"),
    (["folder", "--units", "1000000007", "--pool", "2"], r"pool is 2, which does not divide 1000000007 units"),
    (["folder", "--shape", "2", "34", "33", "--pool", "2"], r"pool is 2, which does not divide the height and width of the shape \[2, 34, 33\]"),
    (["folder", "--shape", "2", "34", "34", "--units", "8"], r"units is 8 and shape is \(2, 34, 34\), which has 2312 units"),
    (["moving-shapes", "--root", "x"], r"root is 'x', but moving-shapes has no use for it: it is for shd, ssc and folder"),
    (["moving-shapes", "--size", "3"], r"size is 3, expected at least 12 pixels"),
    (["moving-shapes", "--noise", "-1"], r"noise is -1.0, expected a probability from 0 to 0.5"),
    (["moving-shapes", "--seed", "-1"], r"seed is -1, expected a whole number from 0 to 4,294,967,295"),
    (["shd", "--noise", "0.1"], r"noise is 0.1, but shd has no use for it: it is for moving-shapes"),
    (["t-randman", "--seed", "9" * 20], r"seed is 9{20}, expected a whole number from 0"),
    (["t-randman", "--seed", "-1"], r"seed is -1, expected a whole number from 0 to 4,294,967,295"),
    (["ssc"], r"data/ssc/ssc_train.h5.zip, data/ssc/ssc_valid.h5.zip, data/ssc/ssc_test.h5.zip: not there"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_refused_with_a_sentence(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explore, "run", lambda *_: pytest.fail("computed something"))
    assert cli.main(["data", *args]) == 2
    errors = capsys.readouterr().err
    assert re.search(message, errors)
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


DAMAGE = {
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:3000]), r"train.h5 cannot be read: .*cut short"),
    "not HDF5": (lambda path: path.write_bytes(b"hello"), r"train.h5 cannot be read: .*fetch it again, or repair it"),
    "no labels": (lambda path: _without(path, "labels"), r"train.h5 has no 'labels', but 'extra', 'spikes'"),
    "more units": (lambda path: write(path, units=[[0, 0, 1, 8], *UNITS[1:]]), r"a spike of unit 8, expected 0 to 7"),
    "too short": (lambda path: write(path, times=[[0.0] * 4, *TIMES[1:]]), r"bins is 2, more than the time steps of recording 0"),
}  # fmt: skip


def _without(path, name):
    with h5py.File(path, "a") as file:
        del file[name]


@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_files_get_a_sentence_and_nothing_is_written(kind, tmp_path, capsys):
    damage, message = DAMAGE[kind]
    write(tmp_path / "test.h5")
    damage(write(tmp_path / "train.h5"))
    out = tmp_path / "out"
    assert cli.main(["data", "folder", "--root", str(tmp_path), "--units", "8", "--bins", "2", "--out", str(out)]) == 2
    errors = capsys.readouterr().err
    assert re.search(message, errors)
    assert "Traceback" not in errors
    assert not out.exists()


def test_a_zip_of_any_name_is_a_file_of_the_folder(tmp_path):
    pack(write(tmp_path / "my_train.h5")).rename(tmp_path / "my_train.zip")
    found = reading.sources(replace(FOLDER, root=tmp_path))
    assert [(source.split, source.path.name) for source in found] == [("train", "my_train.zip")]
    assert len(reading.read(replace(FOLDER, root=tmp_path, bins=2))[0].events) == len(TIMES)
    pack(write(tmp_path / "my_train.h5"))
    with pytest.raises(ValueError, match=r"2 archives of my_train: my_train.h5.zip, my_train.zip. Expected one: move"):
        reading.sources(replace(FOLDER, root=tmp_path))


def test_an_error_names_recordings_after_the_first_part_too(tmp_path, monkeypatch):
    monkeypatch.setattr(binned, "AT_ONCE", 1)
    write(tmp_path / "train.h5", times=[*TIMES[:2], [0.5] * 3])
    with pytest.raises(ValueError, match=r"bins is 2, more than the time steps of recording 2"):
        reading.read(replace(FOLDER, root=tmp_path, bins=2))


def test_dt_replaces_bins():
    assert reading.binning(DataConfig("shd")) == Binning(50)
    assert reading.binning(DataConfig("shd", dt=0.01)) == Binning(dt=0.01)


def test_out_is_checked_before_anything_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reading, "read", lambda *_: pytest.fail("read something"))
    (tmp_path / "file").write_text("mine")
    assert cli.main(["data", "folder", "--units", "8", "--out", str(tmp_path / "file")]) == 2
    assert "which is a file, expected a folder" in capsys.readouterr().err


def test_a_full_disk_is_reported_with_a_sentence(tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    write(tmp_path / "train.h5")
    monkeypatch.setattr("otpe.files.write_atomically", full)
    assert (
        cli.main(
            ["data", "folder", "--root", str(tmp_path), "--units", "8", "--bins", "2", "--out", str(tmp_path / "out")]
        )
        == 1
    )
    assert "otpe: [Errno 28] No space left on device. What was written until then is kept." in capsys.readouterr().err


def test_without_matplotlib_there_are_no_figures(tmp_path, plain, capsys):
    write(tmp_path / "train.h5")
    assert explore.prepare(replace(FOLDER, root=tmp_path, bins=2, out=tmp_path / "out"))() == 0
    assert "needs matplotlib, which is not installed. Use: pip install 'otpe[plot]'" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["folder-001.json", "folder-001.txt"]


def test_a_bug_is_shown_with_its_traceback(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("a bug")

    write(tmp_path / "train.h5")
    monkeypatch.setattr(statistics, "summary", broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(
            ["data", "folder", "--root", str(tmp_path), "--units", "8", "--bins", "2", "--out", str(tmp_path / "out")]
        )
