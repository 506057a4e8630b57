"""Worlds that change: what changes, when, and what stays."""

from itertools import islice

import numpy as np
import pytest
import tiny_events

import otpe
from otpe.stream import sources, worlds
from otpe.stream.time_steps import Step


def sequences(labels, length=3, units=4):
    """A sequence for each label; unit u spikes u times."""
    for label in labels:
        for t in range(length):
            yield Step(np.arange(units, dtype=np.float32), label, 0.0, t == 0)


def labels_of(steps):
    return [step.label for step in steps]


def test_classes_are_swapped_between_two_sequences():
    steps = worlds.changing(sequences([0, 1, 2, 0]), worlds.Swap(at=4, classes=(0, 1)))
    assert labels_of(steps) == [0] * 3 + [1] * 3 + [2] * 3 + [1] * 3, "nothing changes inside the second sequence"
    steps = worlds.changing(sequences([0, 1, 2]), worlds.Swap(at=0, classes=(0, 1, 2)))
    assert labels_of(steps) == [1] * 3 + [2] * 3 + [0] * 3


def test_several_changes_are_applied_in_order():
    changes = worlds.Swap(at=6, classes=(0, 1)), worlds.Swap(at=3, classes=(1, 2))
    assert labels_of(worlds.changing(sequences([0, 1, 1]), *changes))[::3] == [0, 2, 2]
    assert labels_of(worlds.changing(sequences([0, 1, 0]), *changes))[::3] == [0, 2, 1]


def test_sensors_die_and_shift():
    inputs = [step.x.tolist() for step in worlds.changing(sequences([0, 0]), worlds.Die(at=3, units=(1, 3)))]
    assert inputs[::3] == [[0, 1, 2, 3], [0, 0, 2, 0]]
    inputs = [step.x.tolist() for step in worlds.changing(sequences([0, 0]), worlds.Shift(at=3, by=1))]
    assert inputs[::3] == [[0, 1, 2, 3], [3, 0, 1, 2]]
    dead = worlds.Die(at=0, share=0.25, seed=1).dead(100)
    assert len(dead) == 25
    assert np.array_equal(dead, worlds.Die(at=0, share=0.25, seed=1).dead(100)), "the same sensors every time"
    assert not np.array_equal(dead, worlds.Die(at=0, share=0.25, seed=2).dead(100))


def test_a_new_class_appears():
    given = [2, 0, 2, 1, 2]
    assert labels_of(worlds.changing(sequences(given), worlds.Appear(at=3, label=2)))[::3] == [0, 2, 1, 2]
    assert labels_of(worlds.changing(sequences(given), worlds.Appear(at=7, label=2)))[::3] == [0, 1], (
        "the position counts only the steps that are shown"
    )


def test_the_given_stream_is_not_changed():
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
        (worlds.Die(at=0, units=(-1,)), "a number in units is -1, expected a whole number from 0"),
        (worlds.Shift(at=0, by=0), "by is 0, expected a whole number of places other than 0"),
        (worlds.Shift(at=0, by=1.5), "by is 1.5, expected a whole number of places"),
        (worlds.Appear(at=0, label=-1), "label is -1, expected a whole number from 0"),
    ],
)
def test_changes_without_effect_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        worlds.changing([], change)


def test_unknown_changes_and_units_are_refused():
    with pytest.raises(TypeError, match="a change is 'swap', expected Swap, Die, Shift or Appear"):
        worlds.changing([], "swap")
    with pytest.raises(ValueError, match="units has 4, expected 0 to 3: the stream has 4 units"):
        next(worlds.changing(sequences([0]), worlds.Die(at=0, units=(4,))))
    with pytest.raises(ValueError, match="block is 0, expected a whole number above 0"):
        worlds.samples(otpe.datasets.randman("time", classes=3, units=8, dims=1, steps=6), block=0)


def test_sensors_change_in_the_middle_of_a_sequence():
    inputs = [step.x.tolist() for step in worlds.changing(sequences([0]), worlds.Die(at=1, units=(3,)))]
    assert inputs == [[0, 1, 2, 3], [0, 1, 2, 0], [0, 1, 2, 0]]


def test_a_stream_without_sequences_changes_where_the_label_changes():
    def endless(labels):
        return (step._replace(reset=i == 0) for i, step in enumerate(sequences(labels)))

    steps = worlds.changing(endless([0, 1, 0, 1]), worlds.Swap(at=4, classes=(0, 1)))
    assert labels_of(steps)[::3] == [0, 1, 1, 0]
    steps = list(worlds.changing(endless([2, 0, 2]), worlds.Appear(at=1, label=2)))
    assert labels_of(steps)[::3] == [0, 2]
    assert [step.reset for step in steps] == [True] + [False] * 5, (
        "the reset is kept when the first step of a sequence is removed"
    )


def test_appear_uses_the_class_number_before_any_swap():
    changes = worlds.Swap(at=0, classes=(0, 1)), worlds.Appear(at=3, label=1)
    assert labels_of(worlds.changing(sequences([1, 0, 1]), *changes))[::3] == [1, 0]


def test_changes_apply_to_recorded_files(tmp_path):
    file = tiny_events.make(tmp_path / "tiny.h5", recordings=8)  # the classes are 0, 1, 2, 3, 0 and so on

    def steps(*changes):
        return list(worlds.changing(sources.recordings(file, tiny_events.UNITS, 5), *changes))

    whole = steps()
    del whole[15:20]  # removed because they come too early
    changed = steps(
        worlds.Appear(at=16, label=3),
        worlds.Swap(at=20, classes=(0, 1)),
        worlds.Die(at=25, share=0.5),
        worlds.Shift(at=30, by=2),
    )
    assert labels_of(whole)[::5] == [0, 1, 2, 0, 1, 2, 3]
    assert labels_of(changed)[::5] == [0, 1, 2, 0, 0, 2, 3]
    dead = worlds.Die(at=0, share=0.5).dead(tiny_events.UNITS)
    for i, (a, b) in enumerate(zip(whole, changed, strict=True)):
        x = np.where(np.isin(np.arange(tiny_events.UNITS), dead) & (i >= 25), 0, a.x)
        np.testing.assert_array_equal(b.x, np.roll(x, 2) if i >= 30 else x)
