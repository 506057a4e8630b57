"""Mean and σ of what there is: NaN stands for a number that is missing."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from otpe.lab.report.content import Against
from otpe.lab.report.palette import shown


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


def mean_text(values: Any, digits: int = 3) -> str:
    """Mean ± σ."""
    values = np.asarray(values, float)
    return f"{mean(values):.{digits}f}" + (f" ± {std(values):.{digits}f}" if values.size > 1 else "")


# --------------------
# Numbers as they are read.


MISSING = "–"
LONG = 500  # characters of an error
ROUNDED = 5e-4  # less is 0.000, or 0.0 points


def column(values: Sequence[Any]) -> list[str]:
    """The cells of a column, its numbers all with as many decimals."""
    known = [f"{value:.4g}" for value in values if isinstance(value, float) and math.isfinite(value)]
    decimals = max((len(text.partition(".")[2]) for text in known), default=0)
    form = ".4g" if any("e" in text for text in known) else f",.{decimals}f"
    return [_cell(value, form) for value in values]


def _cell(value: Any, form: str) -> str:
    if isinstance(value, float):
        return format(value, form).replace("-", "−") if math.isfinite(value) else "not a number"
    return shown(str(value))


def measured(value: float, spread: float, percent: bool) -> str:
    """A number with its σ, if it has one."""
    if not math.isfinite(value):
        return MISSING
    scale, digits = (100, 1) if percent else (1, 3)
    text = f"{scale * value:.{digits}f}" + (f" ± {scale * spread:.{digits}f}" if math.isfinite(spread) else "")
    return text.replace("-", "−") + (" %" if percent else "")


def difference(each: Against) -> str:
    if not math.isfinite(each.ours - each.paper):
        return MISSING
    apart = each.ours - each.paper
    text = f"{round(100 * apart, 1) + 0.0:+.1f} points" if each.percent else f"{round(apart, 3) + 0.0:+.3f}"  # no −0
    return text.replace("-", "−")


def sigmas(each: Against) -> float:
    """The difference, counted in σ of both together, or of the one that has one; NaN where neither has.

    The paper's numbers are rounded: what is no difference in the digits that are shown is none.
    """
    both = math.hypot(*(spread for spread in (each.spread, each.paper_spread) if math.isfinite(spread)))
    apart = abs(each.ours - each.paper)
    return (0.0 if apart < ROUNDED else apart / both) if both > 0 else math.nan


def largest(against: Sequence[Against]) -> Against | None:
    """What differs most: in σ where those are known, else as it is."""
    known = [each for each in against if math.isfinite(each.ours - each.paper)]
    counted = [each for each in known if math.isfinite(sigmas(each))]
    if counted:
        return max(counted, key=sigmas)
    return max(known, key=lambda each: abs(each.ours - each.paper), default=None)


def duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def error(found: Exception) -> str:
    """What went wrong, without a full stop. Of what a damaged file holds, which may be long, only the beginning."""
    if isinstance(found, KeyError):
        said = f"there is no {found.args[0]} in it"
    else:
        said = str(found) if isinstance(found, ValueError | OSError) else f"{type(found).__name__}: {found}"
    return (said if len(said) <= LONG else f"{said[:LONG]}…").rstrip(".")


def counted(how_many: int, what: str) -> str:
    return f"{how_many:,} {what}" + "s" * (how_many != 1)
