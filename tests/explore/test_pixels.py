"""`otpe data` on grids of pixels: numbers and figures."""

import json
from dataclasses import replace

import matplotlib.colors
import numpy as np
import pytest
from three_recordings import FOLDER, read, write

from otpe import cli
from otpe.datasets import moving_shapes
from otpe.lab.explore import pictures, reading, statistics
from otpe.lab.settings import DataConfig

CAMERA = replace(FOLDER, units=None, shape=(2, 2, 2), bins=2)
BLUE, ORANGE = (matplotlib.colors.to_rgb(colour) for colour in (pictures.BLUE, pictures.ORANGE))


@pytest.fixture
def few(monkeypatch):
    for module in (reading, statistics):
        monkeypatch.setattr(module, "BATCH", 6)
        monkeypatch.setattr(module, "BATCHES", 2)


def test_moving_shapes_are_summarised_from_end_to_end(few, tmp_path, capsys):
    out = tmp_path / "out"
    args = ["--label", "shape", "--size", "12", "--noise", "0", "--seed", "3", "--samples", "2", "--out", str(out)]
    assert cli.main(["data", "moving-shapes", *args]) == 0
    output = capsys.readouterr().out
    assert "Moving shapes, told apart by shape" in output
    assert "12 × 12 pixels, background events 0; 2 mini-batches of 6 with seed 3" in output
    assert "frames [T, C, H, W]" in output
    assert "[50, 2, 12, 12]" in output
    (split,) = read(out, "moving-shapes-001")["splits"]
    spikes = [np.asarray(moving_shapes("shape", size=12, noise=0).batch(3, i, 6).spikes) for i in range(2)]
    assert split["spikes"] == sum(map(np.sum, spikes))
    assert (split["recordings"], split["frames"]["shape"], split["frames"]["units"]) == (12, [2, 12, 12], 288)
    assert split["frames"]["zeros"] == pytest.approx(1 - np.mean(spikes))
    for kind in ("frames", "rates"):
        assert (out / f"moving-shapes-001-{kind}.png").read_bytes().startswith(b"\x89PNG")


def test_the_samples_shown_are_those_of_training(few):
    (split,) = reading.read(DataConfig("moving-shapes", size=12, seed=3))
    batch = moving_shapes(size=12).batch(3, 1, 6)
    assert split.events.labels[6:].tolist() == batch.labels.tolist()
    steps, *place = np.nonzero(np.asarray(batch.spikes)[:, 4])
    np.testing.assert_array_equal(split.events.recording(10), [steps, np.ravel_multi_index(place, (2, 12, 12))])


def test_a_camera_folder_is_summarised_as_a_grid(tmp_path):
    """Three recordings of 8 units, as 2 × 2 pixels of two channels; unit 6 is the lower left pixel of channel 1."""
    write(tmp_path / "train.h5")
    (split,) = reading.read(replace(CAMERA, root=tmp_path))
    assert (split.shape, split.units, split.framed.shape) == ((2, 2, 2), 8, (2, 2, 2))
    counts = pictures.in_windows(split, 2, 2)  # units 0, 6 and 7 at 0, 0.25 and 0.5 s
    assert counts.tolist() == [[[[1, 0], [0, 0]], [[0, 0], [0, 0]]], [[[0, 0], [0, 0]], [[0, 0], [1, 1]]]]
    picture = pictures.strips(split, {2: "null"}, "title")
    images = [panel.images[0].get_array() for panel in picture.axes]
    assert len(images) == 2
    np.testing.assert_allclose(images[0], [[ORANGE, (1, 1, 1)], [(1, 1, 1)] * 2])
    np.testing.assert_allclose(images[1], [[(1, 1, 1)] * 2, [BLUE, BLUE]])
    (pooled,) = reading.read(replace(CAMERA, root=tmp_path, pool=2))
    summarised = statistics.summary(replace(CAMERA, root=tmp_path, pool=2), [pooled])
    assert pooled.framed.shape == (2, 1, 1)
    assert "2 × 2 pixels pooled into one" in statistics.text_summary(summarised)
    assert json.loads(json.dumps(summarised))["splits"][0]["frames"]["shape"] == [2, 1, 1]


def test_the_figure_has_a_map_per_class(tmp_path):
    write(tmp_path / "train.h5")
    (split,) = reading.read(replace(CAMERA, root=tmp_path))
    shown = pictures.maps(split, ["null", "eins", "zwei"], "title").axes[:3]
    assert [panel.get_title() for panel in shown] == ["null\n4", "eins\nnone", "zwei\n2"]
    np.testing.assert_array_equal(shown[0].images[0].get_array(), [[1.5, 0.5], [0.5, 1]])


def test_channels_other_than_two_are_no_polarities():
    one, three = np.zeros((1, 2, 2)), np.zeros((3, 2, 2))
    one[0, 0, 1] = three[2, 0, 1] = 5
    for counts in (one, three):
        np.testing.assert_allclose(pictures.colours(counts), [[(1, 1, 1), BLUE], [(1, 1, 1)] * 2])
    assert pictures.channels((2, 5, 3, 4)) == (10, 3, 4)
    assert pictures.channels((3, 4)) == (1, 3, 4)


def test_captions_are_of_the_samples_shown(few, tmp_path):
    (split,) = reading.read(DataConfig("moving-shapes", size=12))
    summarised = statistics.summary(DataConfig("moving-shapes", size=12), [split])
    drawn = pictures.draw(tmp_path / "x.json", split, summarised, 3)
    assert [path.name for path in drawn] == ["x-frames.png", "x-rates.png"]
