"""Mean and σ of what there is: NaN stands for a number that is missing."""

from typing import Any

import numpy as np


def mean(values: np.ndarray, axis: int | None = None) -> Any:
    """NaN of nothing."""
    known = np.isfinite(values)
    count = known.sum(axis)
    return np.where(count > 0, np.where(known, values, 0).sum(axis) / np.maximum(count, 1), np.nan)


def std(values: np.ndarray, axis: int | None = None) -> Any:
    """Of the population."""
    middle = mean(values, axis)
    around = middle if axis is None else np.expand_dims(middle, axis)
    return np.sqrt(mean((values - around) ** 2, axis))


def thinned(steps: np.ndarray, values: np.ndarray, most: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """At most so many points of a curve [K, ...]: means of neighbours, at the last step of each group."""
    together = -(-len(steps) // most)
    ends = np.arange(together - 1, len(steps) + together - 1, together).clip(max=len(steps) - 1)
    groups = np.split(values, ends[:-1] + 1)
    return steps[ends], np.stack([mean(group, 0) for group in groups])


def text(values: Any, digits: int = 3) -> str:
    """Mean ± σ."""
    values = np.asarray(values, float)
    return f"{mean(values):.{digits}f}" + (f" ± {std(values):.{digits}f}" if values.size > 1 else "")
