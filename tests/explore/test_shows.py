"""The output of `otpe data`: figures and the table."""

import io
from dataclasses import replace

import numpy as np
import pytest
from three_recordings import FOLDER, write
from tiny_events import zipped as pack

from otpe.datasets.events import Events
from otpe.lab.explore import reading, statistics


def test_samples_are_of_different_classes():
    from otpe.lab.explore.pictures import chosen

    labels = np.array([2, 0, 0, 1, 2, 4, 0])
    assert chosen(labels, 4) == [1, 3, 0, 5]
    assert chosen(labels, 2) == [1, 5], "evenly spaced classes"
    assert chosen(labels, 5) == [1, 2, 3, 0, 5], "then second recordings"
    assert chosen(labels, 50) == [1, 2, 6, 3, 0, 4, 5], "all recordings"


def test_the_figures_show_the_recordings(tmp_path):
    from otpe.lab.explore import pictures

    write(tmp_path / "train.h5")
    config = replace(FOLDER, root=tmp_path, bins=2)
    (split,) = reading.read(config)
    summarised = statistics.summary(config, [split])
    figure = pictures._rasters(split, summarised, 8)
    assert [panel.get_title() for panel in figure.axes] == ["null, speaker 4", "null, speaker 4", "zwei, speaker 5"]
    np.testing.assert_allclose(figure.axes[2].lines[0].get_xydata(), [[0.2, 3], [1.2, 3]], rtol=1e-3)
    heat, bars, _ = pictures._rates(split, summarised).axes
    assert heat.images[0].get_array()[0].tolist() == [1.5, 0.5, 0, 0, 0, 0, 0.5, 1]
    assert [text.get_text() for text in bars.texts] == ["4", "none", "2"]
    assert [label.get_text() for label in heat.get_yticklabels()] == ["null", "eins", "zwei"]


ODD = ("$\\wrong$", "two", "a" * 30), ["$\\wrong$", "two", "a" * 19 + "…"]
MANY = tuple(map(str, range(61))), ["0", "20", "40", "60"]


@pytest.mark.parametrize(("names", "shown"), [ODD, MANY], ids=["odd", "many"])
def test_unprintable_names_are_escaped_in_figures(names, shown):
    from otpe.lab.explore import pictures

    events = Events(np.array([0.0, 1.0]), np.array([0, 1]), np.array([0, 2]), np.array([2], np.int32), None, names)
    split = reading.Split("train", None, events, (2,), None)
    summarised = {"title": "my $data", "time_unit": "seconds"}
    figure = pictures._rates(split, summarised)
    figure.savefig(io.BytesIO())
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert set(shown) <= set(labels)
    assert len(labels) < 10
    pictures._rasters(split, summarised, 1).savefig(io.BytesIO())


def test_the_table_has_the_measured_values(tmp_path):
    write(tmp_path / "train.h5")
    write(tmp_path / "test.h5", speakers=None)
    config = replace(FOLDER, root=tmp_path, dt=0.1, steps=4, binary=True, pool=2)
    lines = statistics.text_summary(statistics.summary(config, reading.read(config))).splitlines()
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
    text = statistics.text_summary(statistics.summary(config, reading.read(config)))
    assert text.count("Recordings of each class") == 2


def test_files_of_a_folder_are_listed(tmp_path):
    from otpe.lab.explore.reading import sources

    for name in ("b_test.h5", "a-train.h5", "other.h5", "one_valid.h5", "two_valid.h5"):
        write(tmp_path / name)
    pack(write(tmp_path / "other.hdf5"))
    names = {source.split: source.path.name for source in sources(replace(FOLDER, root=tmp_path))}
    assert names == {
        "train": "a-train.h5",
        "test": "b_test.h5",
        "one_valid": "one_valid.h5",
        "other": "other.h5",
        "two_valid": "two_valid.h5",
    }
    assert list(names)[:2] == ["train", "test"]
