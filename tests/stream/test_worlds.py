"""Worlds that change: what changes, when, and what does not."""

from itertools import islice

import numpy as np
import pytest

import otpe
from otpe.stream import worlds
from otpe.stream.steps import Step


def sequences(labels, length=3, units=4):
    """A sequence for each label; unit u spikes u times."""
    for label in labels:
        for t in range(length):
            yield Step(np.arange(units, dtype=np.float32), label, 0.0, t == 0)


def labels_of(steps):
    return [step.label for step in steps]


def test_classes_swap_their_meaning_between_two_sequences():
    steps = worlds.changing(sequences([0, 1, 2, 0]), worlds.Swap(at=4, classes=(0, 1)))
    assert labels_of(steps) == [0] * 3 + [1] * 3 + [2] * 3 + [1] * 3, "in the middle of the second nothing changes"
    steps = worlds.changing(sequences([0, 1, 2]), worlds.Swap(at=0, classes=(0, 1, 2)))
    assert labels_of(steps) == [1] * 3 + [2] * 3 + [0] * 3


def test_changes_come_one_after_the_other():
    changes = worlds.Swap(at=6, classes=(0, 1)), worlds.Swap(at=3, classes=(1, 2))
    assert labels_of(worlds.changing(sequences([0, 1, 1]), *changes))[::3] == [0, 2, 2]
    assert labels_of(worlds.changing(sequences([0, 1, 0]), *changes))[::3] == [0, 2, 1]


def test_sensors_die_and_shift():
    found = [step.x.tolist() for step in worlds.changing(sequences([0, 0]), worlds.Die(at=3, units=(1, 3)))]
    assert found[::3] == [[0, 1, 2, 3], [0, 0, 2, 0]]
    found = [step.x.tolist() for step in worlds.changing(sequences([0, 0]), worlds.Shift(at=3, by=1))]
    assert found[::3] == [[0, 1, 2, 3], [3, 0, 1, 2]]
    dead = worlds.Die(at=0, share=0.25, seed=1).dead(100)
    assert len(dead) == 25
    assert np.array_equal(dead, worlds.Die(at=0, share=0.25, seed=1).dead(100)), "always the same"
    assert not np.array_equal(dead, worlds.Die(at=0, share=0.25, seed=2).dead(100))


def test_a_new_class_appears():
    given = [2, 0, 2, 1, 2]
    assert labels_of(worlds.changing(sequences(given), worlds.Appear(at=3, label=2)))[::3] == [0, 2, 1, 2]
    assert labels_of(worlds.changing(sequences(given), worlds.Appear(at=7, label=2)))[::3] == [0, 1], "counted as seen"


def test_what_was_given_stays_as_it_is():
    steps = list(sequences([0]))
    list(worlds.changing(steps, worlds.Die(at=0, units=(1,)), worlds.Shift(at=0, by=2)))
    assert steps[0].x.tolist() == [0, 1, 2, 3]


def test_an_endless_stream_of_samples():
    data = otpe.datasets.randman("time", classes=3, units=8, dims=1, alpha=2.0, steps=6)
    steps = list(islice(worlds.samples(data, seed=3, block=4), 6 * 6))
    first, second = data.batch(3, 0, 4), data.batch(3, 1, 4)
    spikes = np.concatenate([np.moveaxis(np.asarray(batch.spikes), 0, 1) for batch in (first, second)])[:6]
    np.testing.assert_array_equal([step.x for step in steps], spikes.reshape(36, 8))
    assert labels_of(steps)[::6] == [*np.asarray(first.labels), *np.asarray(second.labels)][:6]
    assert [step.reset for step in steps] == [i % 6 == 0 for i in range(36)]
    assert [step.time for step in steps] == list(range(36))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (worlds.Swap(at=-1, classes=(0, 1)), "at is -1, expected a whole number from 0"),
        (worlds.Swap(at=0, classes=(1,)), r"classes is \(1,\), expected two or more that swap, none twice"),
        (worlds.Swap(at=0, classes=(1, 1)), "none twice"),
        (worlds.Swap(at=0, classes=(1, -1)), "-1 stands for no label"),
        (worlds.Die(at=0), "share is 0 and units is empty, expected sensors that die"),
        (worlds.Die(at=0, share=2.0), "share is 2.0, expected a share from 0 to 1"),
    ],
)
def test_changes_that_mean_nothing(change, words):
    with pytest.raises(ValueError, match=words):
        worlds.changing([], change)
