"""What `otpe data` counts and writes."""

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from three_recordings import FOLDER, TIMES, UNITS, read, write
from tiny_events import zipped as pack

from otpe import cli
from otpe.datasets import frames as binned
from otpe.datasets import manifolds
from otpe.datasets.events import Events
from otpe.datasets.frames import Binning, frames
from otpe.lab.explore import explore, reading, statistics
from otpe.lab.settings import DataConfig


def test_a_folder_is_summarised_from_end_to_end(tmp_path, monkeypatch, capsys):
    write(tmp_path / "in" / "my_test.h5", times=TIMES[:1], units=UNITS[:1], labels=[1], speakers=[9])
    pack(write(tmp_path / "in" / "my_train.h5"))
    out = tmp_path / "new" / "folder"
    args = ["data", "folder", "--root", str(tmp_path / "in"), "--units", "8", "--bins", "2", "--out", str(out)]
    assert cli.main(args) == 0
    output = capsys.readouterr()
    assert (out / "folder-001.txt").read_text() in output.out
    assert f"Reading {tmp_path / 'in' / 'my_train.h5.zip'}" in output.err
    for kind in ("rasters", "rates"):
        assert (out / f"folder-001-{kind}.png").read_bytes().startswith(b"\x89PNG")
        assert f"folder-001-{kind}.png" in output.out
    first = (out / "folder-001.json").read_text()
    assert [split["name"] for split in json.loads(first)["splits"]] == ["train", "test"]
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert cli.main([*args, "--bins", "1"]) == 0
    assert (out / "folder-001.json").read_text() == first, "earlier results stay"
    assert read(out, "folder-002")["config"]["bins"] == 1
    assert not list(out.glob(".*")), "no half-written file remains"
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == ["my_test.h5", "my_train.h5.zip"], (
        "the data folder is unchanged"
    )


def test_every_number_equals_a_count_by_hand(tmp_path, plain):
    write(tmp_path / "train.h5")
    assert explore.prepare(replace(FOLDER, root=tmp_path, out=tmp_path / "out", bins=2))() == 0
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
        # non-zero entries of 2 × 8: units 0 (twice), 1 and 7; unit 3 in both steps; units 0, 6 and 7
        "frames": {
            "steps": 2, "units": 8, "shape": [8], "steps_per_recording": None, "zeros": 1 - 8 / 48, "mean": 9 / 48,
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
    read_frames = reading._framed(events, 8, binning, "here")
    every = frames(events, 8, replace(binning, binary=False)).counts.sum()
    counts = whole.counts
    assert (read_frames.steps, read_frames.units) == counts.shape[1:]
    assert (read_frames.nonzero, read_frames.total, read_frames.largest) == (
        np.count_nonzero(counts),
        counts.sum(),
        counts.max(),
    )
    assert read_frames.left_out == 90 - every
    assert (read_frames.lengths is None) == (whole.lengths is None)
    if whole.lengths is not None:
        assert read_frames.lengths.tolist() == whole.lengths.tolist()


def test_mean_spikes_and_durations_equal_a_count_by_hand(monkeypatch):
    monkeypatch.setattr(statistics, "AT_ONCE", 2)
    starts = np.array([0, 2, 2, 5])
    events = Events(
        np.array([3.0, 1.0, 2.0, 7.0, 4.0]),
        np.array([0, 1, 1, 1, 0], np.uint16),
        starts,
        np.array([2, 0, 2], np.int32),
        None,
        ("a", "b", "c"),
    )
    np.testing.assert_array_equal(statistics.mean_spikes(events, 2), [[0, 0], [np.nan, np.nan], [1, 1.5]])
    assert statistics.durations(events).tolist() == [2, 0, 5]


def test_recordings_without_spikes_need_keep_empty(tmp_path, plain, capsys):
    write(tmp_path / "train.h5", times=[[], [0.0, 1.0], []], units=[[], [1, 2], []])
    args = ["data", "folder", "--units", "8", "--root", str(tmp_path), "--out", str(tmp_path / "out"), "--bins", "2"]
    assert cli.main(args) == 2
    assert re.search(r"recording 0 has no spikes \(2 such recordings\)", capsys.readouterr().err)
    assert cli.main([*args, "--keep-empty"]) == 0
    (split,) = read(tmp_path / "out")["splits"]
    assert split["spikes_per_recording"] == {"min": 0, "median": 0.0, "max": 2}


def test_randman_is_summarised_from_end_to_end(tmp_path, tiny_randman, capsys):
    out = tmp_path / "out"
    assert (
        cli.main(["data", "t-randman", "--seed", "3", "--standardize", "fixed", "--samples", "2", "--out", str(out)])
        == 0
    )
    output = capsys.readouterr().out
    assert "manifolds of seed 3, values scaled to a fixed range; 3 mini-batches of 20" in output
    assert "time steps, first to last spike" in output
    assert "Samples of each class" in output
    (split,) = read(out, "t-randman-001")["splits"]
    assert (split["recordings"], split["frames"]["steps"], split["frames"]["units"]) == (60, 7, 6)
    assert split["spikes_per_recording"] == {"min": 6, "median": 6.0, "max": 6}
    assert split["frames"]["mean"] == 1 / 7
    assert split["duration"]["max"] <= 6
    assert (out / "t-randman-001-rates.png").exists()


def test_randman_shows_the_batches_that_training_sees(tiny_randman):
    config = DataConfig("r-randman", seed=3)
    (split,) = reading.read(config)
    spikes, labels = manifolds.randman("rate", seed=3).batch(3, 1, 20)
    assert split.events.labels[20:40].tolist() == labels.tolist()
    step, unit = np.nonzero(np.asarray(spikes)[:, 5])
    np.testing.assert_array_equal(split.events.recording(25), [step, unit])
    assert "scaled to the range of each mini-batch, as in the authors' code" in statistics.about(config)


@pytest.mark.skipif(not Path(os.environ.get("OTPE_SHD", "none")).is_dir(), reason="OTPE_SHD names no folder")
def test_real_recordings_are_summarised(tmp_path, plain):
    """Recordings in the folder that OTPE_SHD names, official or regenerated."""
    assert explore.prepare(DataConfig("shd", root=Path(os.environ["OTPE_SHD"]), out=tmp_path))() == 0
    train, test = read(tmp_path, "shd-001")["splits"]
    for split in (train, test):
        assert len(split["classes"]) == 20
        assert split["recordings"] == sum(each["recordings"] for each in split["classes"]) > 2000
        assert split["frames"]["spikes_left_out"] == 0
        assert 0.8 < split["frames"]["zeros"] < 0.99
    assert train["recordings"] > test["recordings"]
