"""`otpe data`: what it counts, what it writes, and what it says when it cannot."""

import io
import json
import os
import re
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from otpe import cli
from otpe.datasets import fetch, randman
from otpe.datasets import frames as binned
from otpe.datasets.events import Events
from otpe.datasets.frames import Binning, frames
from otpe.explore import reading, report, run, settings, summary
from otpe.explore.config import DataConfig

FOLDER = DataConfig("folder", units=8)
TIMES = [[0.0, 0.1, 0.1, 0.5], [0.2, 1.2], [0.0, 0.25, 0.5]]
UNITS = [[0, 0, 1, 7], [3, 3], [0, 6, 7]]


def write(path, *, times=TIMES, units=UNITS, labels=(0, 2, 0), speakers=(4, 5, 4), names=("null", "eins", "zwei")):
    """A file in SHD's layout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, kind, values in (("times", np.float16, times), ("units", np.uint16, units)):
            dataset = file.create_dataset(f"spikes/{name}", (len(values),), h5py.vlen_dtype(kind))
            for i, row in enumerate(values):
                dataset[i] = np.array(row, kind)
        file["labels"] = np.array(labels)
        if speakers is not None:
            file["extra/speaker"] = np.array(speakers)
        if names is not None:
            file["extra/keys"] = [name.encode() for name in names]
    return path


def pack(path):
    """The zip archive in place of the file."""
    with zipfile.ZipFile(f"{path}.zip", "w") as archive:
        archive.write(path, path.name)
    path.unlink()
    return Path(f"{path}.zip")


def read(folder, name="folder-001"):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture
def plain(monkeypatch):
    """No pictures, which take time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def tiny_randman(monkeypatch, tmp_path):
    """Manifolds whose tables are made at once."""
    monkeypatch.setenv("OTPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        reading, "randman", lambda *a, **k: randman(*a, **k, classes=3, units=6, dims=1, steps=7, alpha=3, points=50)
    )
    for module in (reading, summary):
        monkeypatch.setattr(module, "BATCH", 20)
        monkeypatch.setattr(module, "BATCHES", 3)


# What it counts


def test_a_folder_from_end_to_end(tmp_path, monkeypatch, capsys):
    write(tmp_path / "in" / "my_test.h5", times=TIMES[:1], units=UNITS[:1], labels=[1], speakers=[9])
    pack(write(tmp_path / "in" / "my_train.h5"))
    out = tmp_path / "new" / "folder"
    args = ["data", "folder", "--root", str(tmp_path / "in"), "--units", "8", "--bins", "2", "--out", str(out)]
    assert cli.main(args) == 0
    said = capsys.readouterr()
    assert (out / "folder-001.txt").read_text() in said.out
    assert f"Reading {tmp_path / 'in' / 'my_train.h5.zip'}" in said.err
    for kind in ("rasters", "rates"):
        assert (out / f"folder-001-{kind}.png").read_bytes().startswith(b"\x89PNG")
        assert f"folder-001-{kind}.png" in said.out
    kept = (out / "folder-001.json").read_text()
    assert [split["name"] for split in json.loads(kept)["splits"]] == ["train", "test"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main([*args, "--bins", "1"]) == 0
    assert (out / "folder-001.json").read_text() == kept, "old numbers stay"
    assert read(out, "folder-002")["config"]["bins"] == 1
    assert not list(out.glob(".*")), "nothing half-written is left"
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["my_test.h5", "my_train.h5.zip"], (
        "data is left alone"
    )


def test_every_number_by_hand(tmp_path, plain):
    write(tmp_path / "train.h5")
    assert run.prepare(replace(FOLDER, root=tmp_path, out=tmp_path / "out", bins=2))() == 0
    (split,) = read(tmp_path / "out")["splits"]
    assert split == {
        "name": "train",
        "file": str(tmp_path / "train.h5"),
        "official": None,
        "recordings": 3,
        "classes": [
            {"name": "null", "recordings": 2, "mean_spikes": 3.5},
            {"name": "eins", "recordings": 0, "mean_spikes": None},
            {"name": "zwei", "recordings": 1, "mean_spikes": 2.0},
        ],
        "speakers": [4, 5],
        "spikes": 9,
        "spikes_per_recording": {"min": 2, "median": 3.0, "max": 4},
        "duration": {"min": 0.5, "median": 0.5, "max": float(np.float16(1.2)) - float(np.float16(0.2))},
        # entries not zero, of 2 × 8: units 0 (twice), 1 and 7; unit 3 in both steps; units 0, 6 and 7
        "frames": {
            "steps": 2, "units": 8, "steps_per_recording": None, "zeros": 1 - 8 / 48, "mean": 9 / 48,
            "mean_where_not_zero": 9 / 8, "largest": 2, "spikes_left_out": 0,
        },
    }  # fmt: skip


@pytest.mark.parametrize("at_once", [1, 1 << 25])
@pytest.mark.parametrize(
    "binning",
    [
        Binning(5), Binning(5, remainder="drop"), Binning(4, binary=True, pool=4), Binning(dt=0.1), Binning(dt=0.1, steps=4), Binning(dt=0.3, binary=True),
    ],
    ids=str,
)  # fmt: skip
def test_frames_are_counted_as_training_gets_them(binning, at_once, monkeypatch):
    monkeypatch.setattr(binned, "AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    starts = np.array([0, 30, 33, 33, 90])
    events = Events(rng.random(90), rng.integers(0, 8, 90), starts, np.zeros(4, np.int32), None, ("a",))
    whole = frames(events, 8, binning)
    found = reading._framed(events, 8, binning, "here")
    every = frames(events, 8, replace(binning, binary=False)).counts.sum()
    counts = whole.counts
    assert (found.steps, found.units) == counts.shape[1:]
    assert (found.nonzero, found.total, found.largest) == (np.count_nonzero(counts), counts.sum(), counts.max())
    assert found.left_out == 90 - every
    assert (found.lengths is None) == (whole.lengths is None)
    if whole.lengths is not None:
        assert found.lengths.tolist() == whole.lengths.tolist()


def test_mean_spikes_and_durations(monkeypatch):
    monkeypatch.setattr(summary, "AT_ONCE", 2)
    starts = np.array([0, 2, 2, 5])
    events = Events(
        np.array([3.0, 1.0, 2.0, 7.0, 4.0]),
        np.array([0, 1, 1, 1, 0], np.uint16),
        starts,
        np.array([2, 0, 2], np.int32),
        None,
        ("a", "b", "c"),
    )
    np.testing.assert_array_equal(summary.mean_spikes(events, 2), [[0, 0], [np.nan, np.nan], [1, 1.5]])
    assert summary.durations(events).tolist() == [2, 0, 5]


def test_recordings_without_spikes(tmp_path, plain, capsys):
    write(tmp_path / "train.h5", times=[[], [0.0, 1.0], []], units=[[], [1, 2], []])
    args = ["data", "folder", "--units", "8", "--root", str(tmp_path), "--out", str(tmp_path / "out"), "--bins", "2"]
    assert cli.main(args) == 2
    assert re.search(r"recording 0 has no spikes \(2 such recordings\)", capsys.readouterr().err)
    assert cli.main([*args, "--keep-empty"]) == 0
    (split,) = read(tmp_path / "out")["splits"]
    assert split["spikes_per_recording"] == {"min": 0, "median": 0.0, "max": 2}


def test_randman_from_end_to_end(tmp_path, tiny_randman, capsys):
    out = tmp_path / "out"
    assert (
        cli.main(["data", "t-randman", "--seed", "3", "--standardize", "fixed", "--samples", "2", "--out", str(out)])
        == 0
    )
    said = capsys.readouterr().out
    assert "manifolds of seed 3, values standardised by fixed extremes; 3 mini-batches of 20" in said
    assert "time steps, first to last spike" in said
    assert "Samples of each class" in said
    (split,) = read(out, "t-randman-001")["splits"]
    assert (split["recordings"], split["frames"]["steps"], split["frames"]["units"]) == (60, 7, 6)
    assert split["spikes_per_recording"] == {"min": 6, "median": 6.0, "max": 6}
    assert split["frames"]["mean"] == 1 / 7
    assert split["duration"]["max"] <= 6
    assert (out / "t-randman-001-rates.png").exists()


def test_randman_shows_the_batches_that_training_sees(tiny_randman):
    config = DataConfig("r-randman", seed=3)
    (split,) = reading.read(config)
    spikes, labels = reading.randman("rate", seed=3).batch(3, 1, 20)
    assert split.events.labels[20:40].tolist() == labels.tolist()
    step, unit = np.nonzero(np.asarray(spikes)[:, 5])
    np.testing.assert_array_equal(split.events.recording(25), [step, unit])
    assert "standardised by the extremes of each mini-batch, as the authors do" in summary.about(config)


# What it shows


def test_samples_are_of_different_classes():
    from otpe.explore.pictures import chosen

    labels = np.array([2, 0, 0, 1, 2, 4, 0])
    assert chosen(labels, 4) == [1, 3, 0, 5]
    assert chosen(labels, 2) == [1, 5], "classes evenly apart"
    assert chosen(labels, 5) == [1, 2, 3, 0, 5], "then second recordings"
    assert chosen(labels, 50) == [1, 2, 6, 3, 0, 4, 5], "all there are"


def test_the_pictures_show_what_was_read(tmp_path):
    from otpe.explore import pictures

    write(tmp_path / "train.h5")
    config = replace(FOLDER, root=tmp_path, bins=2)
    (split,) = reading.read(config)
    found = summary.summary(config, [split])
    figure = pictures._rasters(split, found, 8)
    assert [panel.get_title() for panel in figure.axes] == ["null, speaker 4", "null, speaker 4", "zwei, speaker 5"]
    np.testing.assert_allclose(figure.axes[2].lines[0].get_xydata(), [[0.2, 3], [1.2, 3]], rtol=1e-3)
    heat, bars, _ = pictures._rates(split, found).axes
    assert heat.images[0].get_array()[0].tolist() == [1.5, 0.5, 0, 0, 0, 0, 0.5, 1]
    assert [text.get_text() for text in bars.texts] == ["4", "none", "2"]
    assert [label.get_text() for label in heat.get_yticklabels()] == ["null", "eins", "zwei"]


ODD = ("$\\wrong$", "two", "a" * 30), ["$\\wrong$", "two", "a" * 19 + "…"]
MANY = tuple(map(str, range(61))), ["0", "20", "40", "60"]


@pytest.mark.parametrize(("names", "shown"), [ODD, MANY], ids=["odd", "many"])
def test_names_that_are_hard_to_draw(names, shown):
    from otpe.explore import pictures

    events = Events(np.array([0.0, 1.0]), np.array([0, 1]), np.array([0, 2]), np.array([2], np.int32), None, names)
    split = reading.Split("train", None, events, 2, None)
    found = {"title": "my $data", "time_unit": "seconds"}
    figure = pictures._rates(split, found)
    figure.savefig(io.BytesIO())
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert set(shown) <= set(labels)
    assert len(labels) < 10
    pictures._rasters(split, found, 1).savefig(io.BytesIO())


def test_the_table(tmp_path):
    write(tmp_path / "train.h5")
    write(tmp_path / "test.h5", speakers=None)
    config = replace(FOLDER, root=tmp_path, dt=0.1, steps=4, binary=True, pool=2)
    lines = report.text(summary.summary(config, reading.read(config))).splitlines()
    assert f"in {tmp_path}; frames: time steps of 0.1 s, 4 at most, zeros and ones, 2 units pooled into one" in lines
    for line in (
        "  file                                       train.h5                 test.h5",
        "  speakers                                          2                        ",
        "  spikes of each                            2 / 3 / 4               2 / 3 / 4",
        "  seconds, first to last spike  0.500 / 0.500 / 1.000   0.500 / 0.500 / 1.000",
        "  frames [T, N]                                [4, 4]                  [4, 4]",
        "  spikes left out of the frames                     3                       3",
        "      1  eins       0     0",
    ):
        assert line.split() in [other.split() for other in lines], line
    assert "official" not in "\n".join(lines)


def test_splits_with_other_classes_have_a_table_each(tmp_path):
    write(tmp_path / "train.h5")
    write(tmp_path / "test.h5", names=None)
    config = replace(FOLDER, root=tmp_path, bins=2)
    text = report.text(summary.summary(config, reading.read(config)))
    assert text.count("Recordings of each class") == 2


def test_files_of_a_folder(tmp_path):
    from otpe.explore.sources import sources

    for name in ("b_test.h5", "a-train.h5", "other.h5", "one_valid.h5", "two_valid.h5"):
        write(tmp_path / name)
    pack(write(tmp_path / "other.hdf5"))
    found = {source.split: source.path.name for source in sources(replace(FOLDER, root=tmp_path))}
    assert found == {
        "train": "a-train.h5",
        "test": "b_test.h5",
        "one_valid": "one_valid.h5",
        "other": "other.h5",
        "two_valid": "two_valid.h5",
    }
    assert list(found)[:2] == ["train", "test"]


# Official or not


@pytest.fixture
def archives(tmp_path, monkeypatch, plain):
    """SHD's archives as this test has them, and taken for official."""
    root = tmp_path / "shd"
    made = {split: pack(write(root / f"shd_{split}.h5")) for split in ("train", "test")}
    official = {split: fetch.md5(path) for split, path in made.items()}
    monkeypatch.setitem(fetch.SOURCES, "shd", fetch.SOURCES["shd"]._replace(md5=official))
    return root


def look(root, *args):
    return cli.main(["data", "shd", "--root", str(root), "--bins", "2", "--out", str(root.parent / "out"), *args])


def test_official_archives(archives, capsys):
    assert look(archives, "--verify") == 0
    said = capsys.readouterr().out
    assert re.search(r"official archive +yes +yes", said)
    assert said.startswith("Spiking Heidelberg Digits\n")
    assert "results" not in said


def test_another_archive_is_said_to_be_one_and_refused_when_asked(archives, capsys):
    (archives / "shd_test.h5.zip").unlink()
    other = pack(write(archives / "shd_test.h5", labels=(0, 0, 0)))
    assert look(archives) == 0
    said = capsys.readouterr().out
    assert re.search(r"official archive +yes +no", said)
    assert said.startswith("Spiking Heidelberg Digits (NOT the official archives)\n")
    assert "NOT OFFICIAL: shd_test.h5.zip. Results from these files are not SHD results." in said
    assert look(archives, "--verify", "--out", str(archives.parent / "none")) == 2
    said = capsys.readouterr().err
    found, expected = fetch.md5(other), fetch.SOURCES["shd"].md5["test"]
    assert f"{other} is not the official archive: its md5 is {found}, expected {expected}." in said
    assert f"`otpe data shd --root {archives} --download`, or leave out --verify" in said
    assert not (archives.parent / "none").exists()


def test_an_unpacked_file_cannot_be_verified(archives, capsys):
    packed = (archives / "shd_test.h5.zip").read_bytes()
    (archives / "shd_test.h5.zip").unlink()
    unpacked = write(archives / "shd_test.h5")
    assert look(archives) == 0
    said = capsys.readouterr().out
    assert re.search(r"official archive +yes +unknown", said)
    assert "Not known to be official: shd_test.h5. An md5 is known of the archives only" in said
    assert look(archives, "--verify") == 2
    said = capsys.readouterr().err
    assert f"{unpacked} cannot be verified: an md5 is known of the archive only, which is not there." in said
    assert f"`otpe data shd --root {archives} --download --verify`, or leave out --verify" in said
    (archives / "shd_test.h5.zip").write_bytes(packed)
    assert look(archives, "--verify") == 0, "the archive is what is read"


# Going online


@pytest.fixture
def server(monkeypatch):
    """What would be fetched, without going online."""
    asked = []

    def fetched(name, split, root):
        asked.append((name, split))
        return pack(write(root / f"{name}_{split}.h5"))

    monkeypatch.setattr(fetch, "fetch", fetched)
    return asked


def test_download_fetches_what_is_missing(archives, server, capsys):
    (archives / "shd_test.h5.zip").unlink()
    assert look(archives, "--download") == 0
    assert server == [("shd", "test")]
    assert "Fetching shd_test.h5.zip" in capsys.readouterr().err
    assert look(archives, "--download", "--offline") == 0, "all is there"
    assert len(server) == 1


def test_offline_never_fetches(archives, server, capsys):
    (archives / "shd_test.h5.zip").unlink()
    assert look(archives, "--download", "--offline") == 2
    said = capsys.readouterr().err
    assert f"{archives / 'shd_test.h5.zip'}: not there, and --offline forbids what --download asks for." in said
    assert not server


def test_nothing_is_fetched_unasked(tmp_path, server, capsys):
    assert look(tmp_path / "none") == 2
    said = capsys.readouterr().err
    for name in ("shd_train.h5.zip", "shd_test.h5.zip"):
        assert str(tmp_path / "none" / name) in said
    assert "not there, packed or unpacked (there is no such folder)" in said
    assert f"Fetch what is missing with `otpe data shd --root {tmp_path / 'none'} --download`" in said
    assert not server
    assert not list(tmp_path.iterdir())


def test_a_download_that_fails_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OTPE_OFFLINE", "1")
    assert look(tmp_path / "none", "--download") == 2
    assert "OTPE_OFFLINE forbids to fetch it" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


# Bad input

BAD = [
    (["sdh"], r"dataset 'sdh' is not known. Did you mean 'shd'\? Expected one of: 't-randman'"),
    (["t-randman", "--root", "x"], r"--root x is given, but t-randman has no use for it: it is for shd, ssc and folder"),
    (["t-randman", "--bins", "3"], r"--bins 3 is given, but t-randman has no use for it"),
    (["r-randman", "--verify"], r"--verify is given, but r-randman has no use for it: it is for shd and ssc"),
    (["folder", "--download"], r"--download is given, but folder has no use for it: it is for shd and ssc"),
    (["shd", "--seed", "3"], r"--seed 3 is given, but shd has no use for it: it is for t-randman and r-randman"),
    (["ssc", "--standardize", "fixed"], r"--standardize fixed is given, but ssc has no use for it"),
    (["shd", "--units", "70"], r"--units 70 is given, but shd has no use for it: it is for folder\."),
    (["t-randman", "--keep-empty"], r"--keep-empty is given, but t-randman has no use for it"),
    (["folder"], r"units is not given, and a folder does not tell. Say how many there are, such as --units 700"),
    (["folder", "--units", "0"], r"units is 0, expected a whole number above 0"),
    (["folder", "--units", "8"], r"data/folder holds no .h5 file, nor a .h5.zip \(there is no such folder\).*with --root"),
    (["shd", "--bins", "5", "--dt", "0.1"], r"bins is 5 and dt is 0.1, expected one of them"),
    (["shd", "--bins", "0"], r"bins is 0, expected a whole number above 0"),
    (["shd", "--dt", "0"], r"dt is 0.0, expected seconds"),
    (["shd", "--steps", "5"], r"steps is 5 without dt"),
    (["shd", "--pool", "3"], r"pool is 3, which does not divide 700 units"),
    (["shd", "--samples", "0"], r"samples is 0, expected 1 to 64: their rasters are drawn on one page"),
    (["shd", "--samples", "65"], r"samples is 65, expected 1 to 64"),
    (["t-randman", "--seed", "-1"], r"seed is -1, expected a whole number, 0 or above"),
    (["ssc"], r"data/ssc/ssc_train.h5.zip, data/ssc/ssc_valid.h5.zip, data/ssc/ssc_test.h5.zip: not there"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_gets_a_sentence(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "run", lambda *_: pytest.fail("computed something"))
    assert cli.main(["data", *args]) == 2
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert "Traceback" not in said
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
    said = capsys.readouterr().err
    assert re.search(message, said)
    assert "Traceback" not in said
    assert not out.exists()


def test_a_recording_is_named_also_behind_the_first_part(tmp_path, monkeypatch):
    monkeypatch.setattr(binned, "AT_ONCE", 1)
    write(tmp_path / "train.h5", times=[*TIMES[:2], [0.5] * 3])
    with pytest.raises(ValueError, match=r"bins is 2, more than the time steps of recording 2"):
        reading.read(replace(FOLDER, root=tmp_path, bins=2))


@pytest.mark.parametrize(
    ("binning", "steps"), [({"bins": 1 << 18}, 1 << 18), ({"dt": 1e-6}, 1_200_196)], ids=["bins", "dt"]
)
def test_frames_that_no_memory_holds(tmp_path, monkeypatch, binning, steps):
    monkeypatch.setattr(binned, "MOST", 1_000_000)
    write(tmp_path / "train.h5")
    message = f"{steps} time steps of 8 units are {8 * steps:,} numbers for each recording, expected 1,000,000 at most. Use fewer"
    with pytest.raises(ValueError, match=message):
        reading.read(replace(FOLDER, root=tmp_path, **binning))


def test_dt_takes_the_place_of_bins():
    assert settings.binning(DataConfig("shd")) == Binning(50)
    assert settings.binning(DataConfig("shd", dt=0.01)) == Binning(dt=0.01)


def test_without_matplotlib(tmp_path, plain, capsys):
    write(tmp_path / "train.h5")
    assert run.prepare(replace(FOLDER, root=tmp_path, bins=2, out=tmp_path / "out"))() == 0
    assert "needs matplotlib, which is not installed. Use: pip install 'otpe[plot]'" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["folder-001.json", "folder-001.txt"]


def test_a_bug_shows_itself(tmp_path, monkeypatch):
    def broken(*_):
        raise ValueError("a bug")

    write(tmp_path / "train.h5")
    monkeypatch.setattr(summary, "summary", broken)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(
            ["data", "folder", "--root", str(tmp_path), "--units", "8", "--bins", "2", "--out", str(tmp_path / "out")]
        )


# Real recordings


@pytest.mark.skipif(not Path(os.environ.get("OTPE_SHD", "none")).is_dir(), reason="OTPE_SHD names no folder")
def test_real_recordings(tmp_path, plain):
    """Of the folder that OTPE_SHD names, official or made anew."""
    assert run.prepare(DataConfig("shd", root=Path(os.environ["OTPE_SHD"]), out=tmp_path))() == 0
    train, test = read(tmp_path, "shd-001")["splits"]
    for split in (train, test):
        assert len(split["classes"]) == 20
        assert split["recordings"] == sum(each["recordings"] for each in split["classes"]) > 2000
        assert split["frames"]["spikes_left_out"] == 0
        assert 0.8 < split["frames"]["zeros"] < 0.99
    assert train["recordings"] > test["recordings"]
