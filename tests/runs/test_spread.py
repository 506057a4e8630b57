"""Mean and σ when numbers may be missing; curves with a limited number of points."""

import numpy as np
import pytest

from otpe.lab.report import words

NAN = np.nan


def test_missing_numbers_do_not_count():
    values = np.array([[1.0, NAN, 3.0], [NAN, NAN, 5.0]])
    np.testing.assert_array_equal(words.mean(values, 0), [1, NAN, 4])
    np.testing.assert_array_equal(words.std(values, 0), [NAN, NAN, 2**0.5])
    np.testing.assert_array_equal(words.mean(values, 1), [2, 5])
    assert words.mean(values) == 3
    assert words.std(values) == pytest.approx(2), "of a sample: √(8 / 2)"


def test_the_mean_of_nothing_is_nan_without_a_warning(recwarn):
    assert np.isnan(words.mean(np.array([NAN, np.inf])))
    assert np.isnan(words.std(np.array([])))
    assert not recwarn.list


def test_text_has_mean_and_standard_deviation():
    assert words.mean_text([0.25, 0.75]) == "0.500 ± 0.354"
    assert words.mean_text([0.25, NAN], 1) == "0.2", "a single number that is not missing has no σ"
    assert words.mean_text([0.25]) == "0.250", "a single number has no σ"


def test_a_long_curve_becomes_means_of_neighbours():
    steps, values = np.arange(10, 80, 10), np.array([[1.0, 0], [3, 0], [5, NAN], [7, 2], [9, NAN], [11, NAN], [20, 8]])
    at, means = words.thinned(steps, values, most=4)
    assert at.tolist() == [20, 40, 60, 70], "at the last step of each group"
    np.testing.assert_array_equal(means, [[2, 0], [6, 2], [10, NAN], [20, 8]])
    at, means = words.thinned(steps, values, most=3)
    assert at.tolist() == [30, 60, 70]
    np.testing.assert_array_equal(means[:, 0], [3, 9, 20])


@pytest.mark.parametrize("count", [1, 99, 100, 101, 199, 200, 1000])
def test_thinned_curves_have_at_most_the_given_number_of_points(count):
    steps = np.arange(1, count + 1)
    at, values = words.thinned(steps, steps.astype(float)[:, None])
    assert at[-1] == count
    assert len(at) == len(values) == len(set(at)) <= 100
    assert count > 100 or at.tolist() == steps.tolist()
