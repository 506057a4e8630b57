"""Means that skip missing values, and numbers as text. NaN stands for a missing number."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from otpe.lab.report.content import Against
from otpe.lab.report.palette import shown

MISSING = "–"
NO_MATPLOTLIB = "needs matplotlib, which is not installed. Use: pip install 'otpe[plot]'"
FEW = 5  # a mean of fewer networks is called one of few
LONGEST_ERROR = 500  # characters
ROUNDED = 5e-4  # a smaller difference is shown as 0.000, or as 0.0 points


def mean(values: np.ndarray, axis: int | None = None) -> Any:
    """Return the mean of the values that are not missing, NaN if all are."""
    return np.ma.filled(np.ma.masked_invalid(values).mean(axis), np.nan)


def std(values: np.ndarray, axis: int | None = None) -> Any:
    """Return the sample standard deviation (n − 1) of the values that are not missing, NaN for a single one."""
    known = np.ma.masked_invalid(values)
    several = known.count(axis) > 1
    return np.where(several, np.ma.filled(known.var(axis, ddof=1), np.nan), np.nan)[()] ** 0.5


def thinned(steps: np.ndarray, values: np.ndarray, most: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Return a curve [K, ...] with at most `most` points: means of neighbours, at the last step of each group."""
    together = -(-len(steps) // most)
    ends = np.arange(together - 1, len(steps) + together - 1, together).clip(max=len(steps) - 1)
    groups = np.split(values, ends[:-1] + 1)
    return steps[ends], np.stack([mean(group, 0) for group in groups])


def mean_text(values: Any, digits: int = 3) -> str:
    """Return text such as "0.912 ± 0.004": mean and sample standard deviation."""
    values = np.asarray(values, float)
    return f"{mean(values):.{digits}f}" + (f" ± {std(values):.{digits}f}" if np.isfinite(values).sum() > 1 else "")


def column(values: Sequence[Any]) -> list[str]:
    """Return the cells of a column as text. All its numbers have the same number of decimals."""
    known = [f"{value:.4g}" for value in values if isinstance(value, float) and math.isfinite(value)]
    decimals = max((len(text.partition(".")[2]) for text in known), default=0)
    form = ".4g" if any("e" in text for text in known) else f",.{decimals}f"

    def cell(value: Any) -> str:
        if isinstance(value, float):
            return format(value, form).replace("-", "−") if math.isfinite(value) else "not a number"
        return shown(str(value))

    return [cell(value) for value in values]


def networks_text(n: int) -> str:
    """Return text such as "n = 12", which is not broken into two lines. A small n is called few."""
    return f"n\u00a0=\u00a0{n}" + (", a single one" if n == 1 else ", few" if n < FEW else "")


def measured(value: float, spread: float, percent: bool) -> str:
    """Return a number with its standard deviation, if it has one."""
    if not math.isfinite(value):
        return MISSING
    scale, digits = (100, 1) if percent else (1, 3)
    text = f"{scale * value:.{digits}f}" + (f" ± {scale * spread:.{digits}f}" if math.isfinite(spread) else "")
    return text.replace("-", "−") + (" %" if percent else "")


def difference(each: Against) -> str:
    """Return the difference, our number minus the paper's, as text."""
    apart = each.ours - each.paper
    if not math.isfinite(apart):
        return MISSING
    text = f"{round(100 * apart, 1) + 0.0:+.1f} points" if each.percent else f"{round(apart, 3) + 0.0:+.3f}"  # no −0
    return text.replace("-", "−")


def standard_error(each: Against) -> float:
    """Return the standard error of the difference: of both means, or of the one that has n and a spread. Else NaN."""
    parts = [
        spread / math.sqrt(n)
        for spread, n in ((each.spread, each.n), (each.paper_spread, each.paper_n))
        if n and math.isfinite(spread)
    ]
    return math.hypot(*parts) if parts else math.nan


def in_errors(each: Against) -> float:
    """Return the difference in standard errors. NaN without one.

    The paper's numbers are rounded: a difference that is not visible in the digits shown counts as none.
    """
    error, apart = standard_error(each), abs(each.ours - each.paper)
    return (0.0 if apart < ROUNDED else apart / error) if error > 0 else math.nan


def in_errors_text(each: Against) -> str:
    return f"{in_errors(each):.1f}" if math.isfinite(in_errors(each)) else MISSING


def largest(against: Sequence[Against]) -> Against | None:
    """Return the largest difference: in standard errors where they are known, otherwise in absolute numbers."""
    known = [each for each in against if math.isfinite(each.ours - each.paper)]
    counted = [each for each in known if math.isfinite(in_errors(each))]
    if counted:
        return max(counted, key=in_errors)
    return max(known, key=lambda each: abs(each.ours - each.paper), default=None)


def largest_text(against: Sequence[Against]) -> str:
    most = largest(against)
    if most is None:
        return MISSING
    counted = "no standard error" if math.isnan(in_errors(most)) else f"{in_errors(most):.1f} standard errors"
    return f"{difference(most)} ({counted}): {shown(most.rule)}, {most.what}"


def value(given: Any) -> str:
    """Return a setting, or a fact about the machine, as text."""
    if isinstance(given, dict):
        return ", ".join(f"{name} {value(each)}" for name, each in given.items())
    if isinstance(given, list | tuple):
        return " ".join(map(value, given)) or "none"
    if given is None or isinstance(given, bool):  # 0 and 1 are equal to False and True, but are numbers
        return {None: "none", True: "yes", False: "no"}[given]
    return str(given)


def duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return MISSING
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def error(found: Exception) -> str:
    """Return what went wrong, without a full stop. The content of a damaged file may be long, so it is cut."""
    if isinstance(found, KeyError):
        text = f"there is no {found.args[0]} in it"
    else:
        text = str(found) if isinstance(found, ValueError | OSError) else f"{type(found).__name__}: {found}"
    return (text if len(text) <= LONGEST_ERROR else f"{text[:LONGEST_ERROR]}…").rstrip(".")


def counted(how_many: int, what: str) -> str:
    return f"{how_many:,} {what}" + "s" * (how_many != 1)


def or_lowest(value: float) -> float:
    """Return the value, or −∞ if it is missing."""
    return -math.inf if math.isnan(value) else value
