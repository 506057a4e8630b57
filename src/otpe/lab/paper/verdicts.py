"""How a verdict on a claim is found: checks of numbers against limits, by their standard errors. Imports no jax."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from otpe.lab.paper.evidence import Number, Numbers
from otpe.lab.report import words
from otpe.lab.report.content import Section

ERRORS = 2  # standard errors that a difference must exceed
MADE_SMALL, COARSER, OTHER_RECORDINGS = "made small", "coarser", "other recordings"  # in Section.apart

Verdict = Literal["holds", "partly", "does not hold", "unclear", "not comparable", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
Sense = Literal["above", "below", "equal"]
Outcome = Literal["passes", "unclear", "fails"]
Evidence = Mapping[str, Numbers]  # by the name of the section


class Check(NamedTuple):
    """A number that must be above or below a limit by 2 standard errors, or within 2 standard errors of it."""

    about: str
    number: Number
    sense: Sense = "above"
    limit: float = 0.0
    points: bool = False  # shown as percentage points

    @property
    def distance(self) -> float:
        """How far the number is on the right side of the limit. Negative: on the wrong side. NaN: not known."""
        beyond = self.number.mean - self.limit
        return {"above": beyond, "below": -beyond, "equal": -abs(beyond)}[self.sense]

    @property
    def in_errors(self) -> float:
        """The distance in standard errors. It is ±∞ without one, and −∞ if the distance is not known."""
        if math.isnan(self.distance):
            return -math.inf
        if self.number.error > 0:
            return self.distance / self.number.error
        return math.copysign(math.inf, self.distance) if self.distance else 0.0

    @property
    def outcome(self) -> Outcome:
        if self.sense == "equal":
            return "passes" if self.in_errors >= -ERRORS else "fails"
        return "passes" if self.in_errors > ERRORS else "fails" if self.in_errors < -ERRORS else "unclear"

    @property
    def certain(self) -> bool:
        """Does it rest on a standard error, or on counting?"""
        return self.number.exact or math.isfinite(self.number.error)


Checks = Iterator[Check]


@dataclass(frozen=True, kw_only=True)
class Claim:
    name: str
    text: str
    where: str  # in the paper
    sections: Sequence[str]  # that have its numbers
    criterion: str
    checks: Callable[[Evidence], Checks]
    spoiled_by: Sequence[str] = ()  # what makes its numbers incomparable


class Judged(NamedTuple):
    """A claim with its verdict."""

    claim: Claim
    verdict: Verdict
    checks: list[Check]
    sections: list[str]  # that were there
    missing: list[str]
    apart: list[str]  # what differs from the paper in these sections

    @property
    def decisive(self) -> Check | None:
        """The check that is nearest to its limit, or furthest on the wrong side."""
        return min(self.checks, key=lambda check: (check.in_errors, words.or_lowest(check.distance)), default=None)

    @property
    def passed(self) -> int:
        return sum(check.outcome == "passes" for check in self.checks)


def judge(claim: Claim, found: Evidence, there: Mapping[str, Section]) -> Judged:
    mine = [name for name in claim.sections if name in there]
    missing = [name for name in claim.sections if name not in there]
    apart = list(dict.fromkeys(text for name in mine for text in there[name].apart or ()))
    checks = [check for check in claim.checks(found) if mine]
    return Judged(claim, _verdict(claim, checks, missing, apart), checks, mine, missing, apart)


def _verdict(claim: Claim, checks: Sequence[Check], missing: Sequence[str], apart: Sequence[str]) -> Verdict:
    if not checks:
        return "not run"
    if {*apart} & {MADE_SMALL, *claim.spoiled_by}:
        return "not comparable"
    outcomes = {check.outcome for check in checks}
    if "fails" in outcomes and "passes" not in outcomes:
        return "does not hold"
    if "passes" not in outcomes:
        return "unclear"
    sure = all(check.certain for check in checks) and not missing
    return "holds" if outcomes == {"passes"} and sure else "partly"
