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


def text(values: Any, digits: int = 3) -> str:
    """Mean ± σ."""
    values = np.asarray(values, float)
    return f"{mean(values):.{digits}f}" + (f" ± {std(values):.{digits}f}" if values.size > 1 else "")
