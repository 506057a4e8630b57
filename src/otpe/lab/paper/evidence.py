"""The numbers of the paper's sections, by quantity and rule, each with its standard error where there is one.

A section has `samples`: one value for each network. Sections from before had none: their means and standard deviations
are read from tables, figures and comparisons. Imports no jax.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from otpe.lab.paper import published
from otpe.lab.report.content import Against, Sample, Section, Table
from otpe.lab.report.palette import RULES
from otpe.lab.report.panels import Bars, Heat, Lines

VALIDATION, TEST = "validation accuracy at the end", "test accuracy"
ABOVE_BPTT = "validation accuracy above BPTT's"
KERNEL, MODEL = "kernel cosine", "cosine, whole model"
DISTANCE = "distance from BPTT's end"
COUNTED = ("kept over n", "kept over T")  # exponents: what is kept is counted, not measured
TIME, BYTES = "time at the largest n", "bytes kept at the largest n"

# Sections without samples do not say how many networks an online run has: the settings that its trials share do not
# include it. These are the numbers of `otpe reproduce`.
ONLINE_NETWORKS = {
    "online-r-randman": 4, "online-t-randman": 4, "online-digits": 4, "online-digits-5": 4, "table-digits-online": 4,
}  # fmt: skip
OLDER = (
    "An older version of otpe wrote this section. In its tables and figures, ± is the standard deviation of a"
    " population, with n instead of n − 1. Comparisons with the paper are converted."
)
CELL = re.compile(r"^[-−]?\d[\d.]*(?: ± [\d.]+)?")
RULE_OF = {look.name: rule for rule, look in RULES.items()}


class Number(NamedTuple):
    """A mean over n networks, and the standard error of this mean."""

    mean: float
    error: float = math.nan  # NaN: not known
    n: int | None = None
    values: tuple[float, ...] = ()  # of each network, if they are known
    at_most: bool = False  # the error is an upper bound
    exact: bool = False  # counted, so without error


NONE = Number(math.nan)
Numbers = dict[tuple[str, str], Number]  # by quantity and rule


def of_values(values: Sequence[float]) -> Number:
    """Return the mean of one value per network. Missing values are left out."""
    known = [value for value in values if math.isfinite(value)]
    mean = float(np.mean(known)) if known else math.nan
    error = float(np.std(known, ddof=1)) / math.sqrt(len(known)) if len(known) > 1 else math.nan
    return Number(mean, error, len(known), tuple(values))


def minus(a: Number, b: Number) -> Number:
    """Return a − b: network by network if both have the values of the same networks."""
    if len(a.values) == len(b.values) > 0:
        return of_values([x - y for x, y in zip(a.values, b.values, strict=True)])
    n = min((each.n for each in (a, b) if each.n is not None), default=None)
    error = math.hypot(a.error, b.error)
    return Number(a.mean - b.mean, error, n, at_most=a.at_most or b.at_most, exact=a.exact and b.exact)


def sample(what: str, rule: str, values: np.ndarray) -> Sample:
    """Return the values of a quantity, one for each network, for a section."""
    return Sample(what=what, rule=rule, values=np.asarray(values, float).ravel().tolist())


def networks(section: Section) -> int | None:
    """Return the number of networks behind each mean of an older section, or None if it is not known."""
    seeds = section.settings.get("seeds", ONLINE_NETWORKS.get(section.name))
    return seeds if isinstance(seeds, int) else None


def numbers(section: Section) -> Numbers:
    """Return all numbers of a section of the paper."""
    n = networks(section)
    found = {**_cosines(section, n), **_cells(section, n), **_maps(section, n), **_lines(section, n)}
    for each in section.against:
        if "cosine" not in each.what:  # their spread is also over the moments of training
            found[each.what, each.rule] = _of_against(each, n)
    found |= _complexity(section)
    return found | {(each.what, each.rule): of_values(each.values) for each in section.samples or ()}


def completed(section: Section, outcome: str = "") -> Section:
    """Return an older section whose comparisons have n and the sample standard deviation, and whose lead has `outcome`.

    Comparisons of cosines stay without n: their spread is over networks and over the moments of training. Newer
    sections are unchanged.
    """
    n = networks(section)

    def complete(each: Against) -> Against:
        if each.n is not None or n is None or "cosine" in each.what or not math.isfinite(each.spread):
            return each
        theirs = published.NETWORKS if math.isfinite(each.paper_spread) else None
        return replace(each, n=n, spread=_sample(each.spread, n), paper_n=theirs)

    older = section.samples is None and n is not None and n > 1
    remarks = [*section.remarks, *[OLDER] * (older and OLDER not in section.remarks)]
    lead = section.lead if outcome in section.lead else f"{outcome} {section.lead}"
    return replace(section, lead=lead, remarks=remarks, against=[complete(each) for each in section.against])


def _sample(spread: float, n: int) -> float:
    """Return the sample standard deviation from that of a population."""
    return spread * math.sqrt(n / (n - 1)) if n > 1 else math.nan


def _of_population(mean: float, spread: float, n: int | None) -> Number:
    if n is None or n < 2:
        return Number(mean, n=n)
    return Number(mean, _sample(spread, n) / math.sqrt(n), n)


def _of_against(each: Against, n: int | None) -> Number:
    if each.n is None:
        return _of_population(each.ours, each.spread, n)
    return Number(each.ours, each.spread / math.sqrt(each.n) if each.n > 1 else math.nan, each.n)


# --------------------
# Readers of tables and figures.


def _cells(section: Section, n: int | None) -> Numbers:
    """Read means from tables with cells such as "0.912 ± 0.004"."""
    columns = {"validation": VALIDATION, "test": TEST, "from BPTT's end": DISTANCE}
    found = {}
    for table in section.tables:
        if table.name not in ("accuracies", "ways"):
            continue
        for column, quantity in columns.items():
            for rule, cell in _column(table, column):
                mean, _, spread = cell.partition(" ± ")
                found[quantity, rule] = _of_population(float(mean), float(spread or "nan"), n)
    return found


def _column(table: Table, column: str) -> Iterator[tuple[str, str]]:
    """Yield the rules and the numbers in a column, as text."""
    if column in table.columns:
        at = list(table.columns).index(column)
        for row in table.rows:
            if number := CELL.match(str(row[at])):
                yield str(row[0]), number[0].replace("−", "-")


def _cosines(section: Section, n: int | None) -> Numbers:
    """Read cosines from the figures: means over training, and an upper bound of their standard errors.

    The spread of a mean over training is at most the mean of the spreads at each moment.
    """
    panels = {figure.name: figure.panels for figure in section.figures}
    means = [panel for panel in panels.get("layers", ()) if isinstance(panel, Bars) and panel.title == "kernels"]
    found = {}
    for panel in means:
        for bar in panel.bars:
            found |= {(f"{KERNEL}, {g}", bar.name): Number(v) for g, v in zip(panel.groups, bar.values, strict=True)}
    named = [(f"{KERNEL}, {panel.title}", panel) for panel in panels.get("over-training", ())]
    named += [(MODEL, panel) for panel in panels.get("model", ()) if panel.title == "whole model"]
    for quantity, panel in named:
        for line in panel.lines if isinstance(panel, Lines) else ():
            mean = found.get((quantity, line.name), Number(float(np.nanmean(line.y)))).mean
            bound = _of_population(mean, float(np.nanmean(line.spread or [math.nan])), n)
            found[quantity, line.name] = bound._replace(at_most=True)
    return found


def _maps(section: Section, n: int | None) -> Numbers:
    """Read the maps of the search over slopes. A title is such as "OTPE, 3 layers"."""
    found = {}
    for panel in (panel for figure in section.figures for panel in figure.panels if isinstance(panel, Heat)):
        title, _, layers = panel.title.partition(", ")
        if title not in RULE_OF or panel.y != "slope":
            continue
        spreads = panel.spread or [[math.nan] * len(panel.columns)] * len(panel.rows)
        for slope, means, spread in zip(panel.rows, panel.values, spreads, strict=True):
            for width, mean, around in zip(panel.columns, means, spread, strict=True):
                what = f"{TEST}, {layers} of {width}, slope {slope}"
                found[what, RULE_OF[title]] = _of_population(mean, around, n)
    return found


def _lines(section: Section, n: int | None) -> Numbers:
    """Read the panels of the search for learning rates. A title is such as "3 layers of 128"."""
    panels = [panel for figure in section.figures if figure.name == "rates" for panel in figure.panels]
    return {
        (f"{TEST}, {panel.title}, rate {rate:g}", line.name): _of_population(mean, spread, n)
        for panel in panels
        if isinstance(panel, Lines)
        for line in panel.lines
        for rate, mean, spread in zip(line.x, line.y, line.spread or [math.nan] * len(line.x), strict=True)
    }


def _complexity(section: Section) -> Numbers:
    """Read exponents such as "1.99 (2)", and what a network of the largest size needs."""
    found = {}
    for table in section.tables if section.name == "complexity" else ():
        for column in map(str, table.columns):
            quantity = column.partition(",")[0]
            for rule, cell in _column(table, column) if quantity in COUNTED else ():
                found[quantity, rule] = Number(float(cell), 0.0, exact=True)
    for name, quantity in (("time-offline", TIME), ("state-offline", BYTES)):
        for panel in (p for figure in section.figures if figure.name == name for p in figure.panels):
            for line in panel.lines if isinstance(panel, Lines) and panel.title == "over n" and panel.lines else ():
                exact = quantity == BYTES
                found[quantity, line.name] = Number(float(line.y[-1]), 0.0 if exact else math.nan, exact=exact)
    return found


def slopes(of: Numbers) -> list[tuple[str, str]]:
    """Return the sizes and slopes of a search over slopes, in order."""
    pattern = re.compile(rf"{TEST}, (\d+ layers of \d+), slope (\d+)")
    return list(dict.fromkeys((found[1], found[2]) for what, _ in of if (found := pattern.fullmatch(what))))


def rates(of: Numbers) -> list[tuple[str, str]]:
    """Return the sizes and learning rates of a search for learning rates, in order."""
    pattern = re.compile(rf"{TEST}, (\d+ layers of \d+), rate (.+)")
    return list(dict.fromkeys((found[1], found[2]) for what, _ in of if (found := pattern.fullmatch(what))))


def hidden_layers(of: Numbers) -> list[str]:
    """Return the names of the hidden layers that have cosines, such as H2 and H1."""
    return sorted({what.removeprefix(f"{KERNEL}, ") for what, _ in of if what.startswith(f"{KERNEL}, H")}, reverse=True)
