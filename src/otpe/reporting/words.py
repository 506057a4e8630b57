"""Numbers as they are read."""

import math
from collections.abc import Sequence
from typing import Any

from otpe.charts.kinds import Against
from otpe.charts.look import shown

MISSING = "–"


def number(value: Any) -> str:
    """Any cell of a table."""
    if isinstance(value, float):
        return plain(value) if math.isfinite(value) else "not a number"
    return shown(str(value))


def plain(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


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
    text = f"{100 * (each.ours - each.paper):+.1f} points" if each.percent else f"{each.ours - each.paper:+.3f}"
    return text.replace("-", "−")


def sigmas(each: Against) -> float:
    """The difference, counted in σ of both together; NaN where one has none."""
    both = math.hypot(each.spread, each.paper_spread)
    return abs(each.ours - each.paper) / both if both > 0 else math.nan


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


def counted(how_many: int, what: str) -> str:
    return f"{how_many:,} {what}" + "s" * (how_many != 1)
