"""Percentiles of measured durations, as `otpe bench`, `otpe stream` and the live page report them."""

from collections.abc import Sequence

import numpy as np


def percentiles(values: Sequence[float] | np.ndarray, *which: float) -> list[float]:
    """Return these percentiles of the values: `percentiles(seconds, 50, 99)` is the median and the 99th percentile."""
    return np.percentile(np.asarray(values, float), which).tolist()
