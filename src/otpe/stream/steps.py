"""One time step of a stream, and what becomes of input that cannot be used."""

from collections.abc import Callable
from math import nan
from typing import Any, Literal, NamedTuple

import numpy as np

from otpe import check
from otpe.stream.programs import NO_LABEL

OnBad = Literal["raise", "skip"]
ADVICE = "Repair the source, or leave the like of it out with on_bad='skip'."


class Step(NamedTuple):
    """What a learner is given at once."""

    x: np.ndarray  # [units] float32, how often each spiked
    label: int = NO_LABEL
    time: float = 0.0  # seconds at which it begins
    reset: bool = False  # a new sequence begins with it


class Bad:
    """Input that cannot be used: an error, or a skip that is counted by kind, and logged once for each kind."""

    def __init__(self, on_bad: OnBad = "raise", log: Callable[[str], object] | None = None) -> None:
        check.one_of("on_bad", on_bad, ("raise", "skip"))
        self.on_bad: OnBad = on_bad
        self.skipped: dict[str, int] = {}
        self.log = log

    @classmethod
    def of(cls, given: "OnBad | Bad", log: Callable[[str], object] | None) -> "Bad":
        """One may be shared, so that all that is skipped on the way of a stream is counted together."""
        return given if isinstance(given, Bad) else cls(given, log)

    def found(self, kind: str, message: str, on_bad: OnBad | None = None, advice: str = ADVICE) -> None:
        """`on_bad`: what this kind calls for, where that differs. Whoever skips already needs no advice to do so."""
        if (on_bad or self.on_bad) == "raise":
            raise ValueError(f"{message} {advice}")
        if kind not in self.skipped and self.log is not None:
            self.log(f"Skipped: {message} Others like it are counted.")
        self.skipped[kind] = self.skipped.get(kind, 0) + 1


def seconds(given: Any) -> float:
    """NaN for what is no number."""
    if type(given) is float:
        return given
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        return nan
    try:
        return float(given)
    except OverflowError:  # a whole number larger than any float
        return nan


def whole(given: Any) -> int:
    """The number, if it is whole, even where its type is not; −2, which nothing may be, for anything else."""
    if type(given) is int or isinstance(given, np.integer):
        return int(given)
    real = isinstance(given, float | np.floating)
    return int(given) if real and float(given).is_integer() else -2
