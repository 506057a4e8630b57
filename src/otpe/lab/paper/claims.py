"""The claims of the paper, and whether the numbers of a reproduction support them. Imports no jax.

To add a claim, write a function that yields its checks, and add an entry to CLAIMS. A check is a number and a limit.
The verdict follows from the checks, as in verdicts.py; nobody writes it by hand.
"""

import math
from collections.abc import Iterator, Sequence

from otpe.lab.paper import evidence, published
from otpe.lab.paper.evidence import (
    ABOVE_BPTT,
    DISTANCE,
    KERNEL,
    MODEL,
    NONE,
    TEST,
    VALIDATION,
    Number,
    Numbers,
    minus,
)
from otpe.lab.paper.verdicts import (
    COARSER,
    ERRORS,
    OTHER_RECORDINGS,
    Check,
    Checks,
    Claim,
    Evidence,
    Judged,
    Sense,
    judge,
)  # fmt: skip
from otpe.lab.report import words
from otpe.lab.report.content import Section
from otpe.lab.report.palette import shown

RIVALS = ("ostl", "ottt")
OFFLINE_RULES = ("bptt", "otpe", "approx-otpe", "ostl", "ottt")
ONLINE_RULES = ("otpe", "approx-otpe", "f-otpe", "f-approx-otpe", "ostl", "ottt")
NEAR = 0.01  # accuracies that differ by less count as equal
PAPER_RANGE = 0.013  # of the rules' means on R-Randman
OVERHEAD = 1.25  # a ratio of times or bytes that counts as "about the same"
SIZES = tuple(f"{depth} layers of {width}" for depth, width in published.OFFLINE)
THREE_LAYERS = ("cosines-r-randman", "cosines-t-randman", "cosines-digits")
COSINES = (*THREE_LAYERS, "cosines-digits-5")
DATA = {"r-randman": "R-Randman", "t-randman": "T-Randman", "digits-5": "digits, 5 layers", "digits": "digits"}
TABLES = ("table-digits-offline", "table-digits-online")

# --------------------
# Parts of checks.


def ahead(of: Numbers, quantity: str, rule: str, rival: str) -> Number:
    """Return by how much a rule is above another. Both may be given as differences from BPTT, which vary less."""
    mine, other = of.get((quantity, rule), NONE), of.get((quantity, rival), NONE)
    if quantity == VALIDATION and not mine.values:
        if rival == "bptt" and (ABOVE_BPTT, rule) in of:
            return of[ABOVE_BPTT, rule]
        if {(ABOVE_BPTT, rule), (ABOVE_BPTT, rival)} <= {*of}:
            mine, other = of[ABOVE_BPTT, rule], of[ABOVE_BPTT, rival]
    return minus(mine, other)


def _above(of: Numbers, quantity: str, rules: Sequence[str], rivals: Sequence[str], about: str = "") -> Checks:
    """Each of these rules is above each of the others."""
    for rule in rules:
        for rival in rivals:
            number = ahead(of, quantity, rule, rival)
            yield Check(_pair(rule, rival, about), number, points="accuracy" in quantity)


def _pair(rule: str, rival: str, about: str) -> str:
    return f"{shown(rule)} minus {shown(rival)}" + f", {about}" * bool(about)


def _range(of: Numbers, quantity: str, rules: Sequence[str]) -> Checks:
    """The means of these rules are within the paper's range."""
    known = sorted((rule for rule in rules if (quantity, rule) in of), key=lambda rule: of[quantity, rule].mean)
    if len(known) > 1:
        number = ahead(of, quantity, known[-1], known[0])
        about = f"from {shown(known[0])}, the lowest, to {shown(known[-1])}, the highest"
        yield Check(about, number, "below", PAPER_RANGE, points=True)


def _each(found: Evidence, names: Sequence[str]) -> Iterator[tuple[str, Numbers]]:
    """Yield the sections that are there, with the names of their data."""
    for name in names:
        if name in found:
            yield next(data for key, data in DATA.items() if name.endswith(key)), found[name]


# --------------------
# Claims.


def t_randman(found: Evidence) -> Checks:
    for _, of in _each(found, ("offline-t-randman",)):
        yield from _above(of, VALIDATION, ("otpe", "approx-otpe"), RIVALS)


def t_randman_as_bptt(found: Evidence) -> Checks:
    for _, of in _each(found, ("offline-t-randman",)):
        for check in _above(of, VALIDATION, ("otpe", "approx-otpe"), ("bptt",)):
            yield check._replace(limit=-NEAR)


def r_randman(found: Evidence) -> Checks:
    for _, of in _each(found, ("offline-r-randman",)):
        yield from _range(of, VALIDATION, OFFLINE_RULES)


def digits(found: Evidence) -> Checks:
    for _, of in _each(found, ("offline-digits",)):
        yield from _above(of, VALIDATION, ("otpe", "approx-otpe"), RIVALS)


def cosines_of_hidden_layers(found: Evidence) -> Checks:
    for data, of in _each(found, COSINES):
        for layer in evidence.hidden_layers(of):
            yield from _above(of, f"{KERNEL}, {layer}", ("otpe",), RIVALS, f"{layer}, {data}")


def cosines_fall(found: Evidence) -> Checks:
    for data, of in _each(found, THREE_LAYERS):
        for layer, limit in (("H2", 0.6), ("H1", 0.4)):
            for rule in RIVALS:
                number = of.get((f"{KERNEL}, {layer}", rule), NONE)
                yield Check(f"{shown(rule)}, {layer}, {data}", number, "below", limit)


def approx_is_near(found: Evidence) -> Checks:
    for data, of in _each(found, COSINES):
        for layer in evidence.hidden_layers(of):
            rules = ("approx-otpe", "otpe", *RIVALS)
            approx, otpe, *others = (of.get((f"{KERNEL}, {layer}", rule), NONE) for rule in rules)
            best = max(others, key=lambda number: words.or_lowest(number.mean))
            middle = Number((otpe.mean + best.mean) / 2, math.hypot(otpe.error, best.error) / 2, otpe.n)
            if otpe.values and best.values:
                both = zip(otpe.values, best.values, strict=True)
                middle = evidence.of_values([(a + b) / 2 for a, b in both])
            about = f"Approx OTPE minus the mean of OTPE and the better of OSTL and OTTT, {layer}, {data}"
            yield Check(about, minus(approx, middle))


def whole_model(found: Evidence) -> Checks:
    for data, of in _each(found, THREE_LAYERS):
        yield from _above(of, MODEL, ("otpe",), ("approx-otpe", *RIVALS), data)


def landscapes(found: Evidence) -> Checks:
    for data, of in _each(found, ("landscape-r-randman", "landscape-t-randman")):
        for rule in ("otpe", "approx-otpe"):
            for rival in RIVALS:
                mine, other = of.get((DISTANCE, rule), NONE), of.get((DISTANCE, rival), NONE)
                yield Check(f"distance of {_pair(rival, rule, data)}", minus(other, mine))


def _table(found: Evidence, name: str) -> Checks:
    for size in SIZES if name in found else ():
        yield from _above(found[name], f"{TEST}, {size}", ("otpe",), RIVALS, size)


def table_numbers(found: Evidence) -> Checks:
    for name, theirs in zip(TABLES, (published.OFFLINE, published.ONLINE), strict=True):
        for (depth, width), rules in theirs.items() if name in found else ():
            size, mode = f"{depth} layers of {width}", name.rpartition("-")[2]
            for rule, paper in rules.items():
                number = Number(paper.mean, paper.std / math.sqrt(published.NETWORKS), published.NETWORKS)
                apart = minus(found[name].get((f"{TEST}, {size}", rule), NONE), number)
                yield Check(f"{shown(rule)}, {size}, {mode}, ours minus the paper's", apart, "equal", points=True)


def depth(found: Evidence) -> Checks:
    wide, deep = (f"{TEST}, {size}" for size in ("3 layers of 512", "5 layers of 512"))
    for name in TABLES:
        of, mode = found.get(name, {}), name.rpartition("-")[2]
        for rule in ("otpe", "approx-otpe", *RIVALS) if of else ():
            gain = minus(of.get((deep, rule), NONE), of.get((wide, rule), NONE))
            sense: Sense = "below" if rule in RIVALS else "above"
            yield Check(f"{shown(rule)}, 5 layers minus 3, {mode}", gain, sense, points=True)


def online_above_offline(found: Evidence) -> Checks:
    if not {*TABLES} <= {*found}:
        return
    offline, online = (found[name] for name in TABLES)
    for size in SIZES:
        for rule in ("otpe", "approx-otpe", *RIVALS):
            pair = (each.get((f"{TEST}, {size}", rule), NONE)._replace(values=()) for each in (online, offline))
            yield Check(f"{shown(rule)}, online minus offline, {size}", minus(*pair), points=True)


def online_t_randman(found: Evidence) -> Checks:
    for _, of in _each(found, ("online-t-randman",)):
        yield from _above(of, VALIDATION, ONLINE_RULES[:4], RIVALS)


def online_digits(found: Evidence) -> Checks:
    for data, of in _each(found, ("online-digits", "online-digits-5")):
        yield from _above(of, VALIDATION, ONLINE_RULES[:4], RIVALS, data)


def online_r_randman(found: Evidence) -> Checks:
    for _, of in _each(found, ("online-r-randman",)):
        yield from _range(of, VALIDATION, ONLINE_RULES)


def best_slope(found: Evidence) -> Checks:
    of = found.get("slopes-digits", {})
    searched = evidence.slopes(of)
    for size in dict.fromkeys(size for size, _ in searched if not size.endswith(" 128")):
        others = [slope for each, slope in searched if each == size and slope != "25"]
        number = {slope: of.get((f"{TEST}, {size}, slope {slope}", "bptt"), NONE) for slope in ("25", *others)}
        best = max(others, key=lambda slope: words.or_lowest(number[slope].mean), default=None)
        if best:
            gain = minus(number["25"], number[best])
            yield Check(f"BPTT, slope 25 minus slope {best}, {size}", gain, points=True)


def steep_slope(found: Evidence) -> Checks:
    of = found.get("slopes-digits", {})
    for size, slope in evidence.slopes(of):
        if slope == "50":
            yield from _above(of, f"{TEST}, {size}, slope {slope}", ("otpe",), RIVALS, size)


def learning_rates(found: Evidence) -> Checks:
    of = found.get("rates-digits", {})
    searched = evidence.rates(of)
    for size in dict.fromkeys(size for size, _ in searched):
        mine, *others = (
            max(
                (of.get((f"{TEST}, {size}, rate {rate}", rule), NONE) for each, rate in searched if each == size),
                key=lambda number: words.or_lowest(number.mean),
            )
            for rule in ("otpe", *RIVALS)
        )
        for rival, other in zip(RIVALS, others, strict=True):
            yield Check(_pair("otpe", rival, f"each at its best rate, {size}"), minus(mine, other), points=True)


THEORY = {  # exponents of what is kept, over n and over T
    "bptt": (1, 1), "ostl": (2, 0), "ottt": (1, 0), "otpe": (2, 0), "approx-otpe": (1, 0),
}  # fmt: skip
EXPONENT = 0.05  # a counted exponent may differ by this much: a network has small layers too


def kept(found: Evidence) -> Checks:
    of = found.get("complexity", {})
    for rule, exponents in THEORY.items() if of else ():
        for what, theory in zip(evidence.COUNTED, exponents, strict=True):
            number = of.get((what, rule), NONE)
            apart = number._replace(mean=abs(number.mean - theory))
            yield Check(f"{shown(rule)}, exponent of what is {what}, from {theory}", apart, "below", EXPONENT)


def overhead(found: Evidence) -> Checks:
    of = found.get("complexity", {})
    for what in (evidence.TIME, evidence.BYTES) if of else ():
        for rule, rival in (("otpe", "ostl"), ("approx-otpe", "ottt")):
            mine, other = of.get((what, rule), NONE), of.get((what, rival), NONE)
            ratio = Number(mine.mean / other.mean, mine.error, exact=mine.exact)
            yield Check(f"{shown(rule)} over {shown(rival)}, {what}", ratio, "below", OVERHEAD)


MORE = f"each difference is more than {ERRORS} standard errors"
CLAIMS = (
    Claim(
        name="t-randman", where="Figure 2 b", sections=["offline-t-randman"], checks=t_randman, criterion=MORE,
        text="On T-Randman, OTPE and Approx OTPE end above OSTL and OTTT.",
    ),
    Claim(
        name="t-randman-bptt", where="Figure 2 b", sections=["offline-t-randman"], checks=t_randman_as_bptt,
        text="On T-Randman, OTPE and Approx OTPE are as accurate as BPTT.",
        criterion=f"neither is 1 point below BPTT, by more than {ERRORS} standard errors",
    ),
    Claim(
        name="r-randman", where="Figure 2 a", sections=["offline-r-randman"], checks=r_randman,
        text="On R-Randman, all rules are alike.",
        criterion=f"the range of the means is below the paper's, 1.3 points, by more than {ERRORS} standard errors",
    ),
    Claim(
        name="digits", where="Figure 2 c", sections=["offline-digits"], checks=digits, criterion=MORE,
        text="On spoken digits, OTPE and Approx OTPE validate above OSTL and OTTT.",
    ),
    Claim(
        name="cosines", where="Figures 3 and 13", sections=COSINES, checks=cosines_of_hidden_layers, criterion=MORE,
        text="In every hidden layer, OTPE's gradient is closer to BPTT's than OSTL's and OTTT's.",
    ),
    Claim(
        name="cosines-fall", where="Figure 3", sections=THREE_LAYERS, checks=cosines_fall,
        text="The cosines of OSTL and OTTT fall by 40 % in the second hidden layer and by 60 % in the first.",
        criterion=f"they are below 0.6 and 0.4 by more than {ERRORS} standard errors",
    ),
    Claim(
        name="approx", where="Figures 3 and 13", sections=COSINES, checks=approx_is_near,
        text="In every hidden layer, the cosine of Approx OTPE is near OTPE's.",
        criterion="it is nearer to OTPE's than to the better one of OSTL and OTTT, by more than"
        f" {ERRORS} standard errors",
    ),
    Claim(
        name="whole-model", where="Figure 4", sections=THREE_LAYERS, checks=whole_model, criterion=MORE,
        text="Over all parameters, OTPE has the highest cosine to BPTT's gradient.",
    ),
    Claim(
        name="landscapes", where="Figure 5", sections=["landscape-r-randman", "landscape-t-randman"],
        checks=landscapes, criterion=MORE,
        text="The paths of OTPE and Approx OTPE end nearer to BPTT's end than those of OSTL and OTTT.",
    ),
    Claim(
        name="table-offline", where="Table 2, offline", sections=TABLES[:1], criterion=MORE,
        checks=lambda found: _table(found, TABLES[0]),
        text="On spoken digits, offline, OTPE tests above OSTL and OTTT in every size.",
    ),
    Claim(
        name="table-online", where="Table 2, online", sections=TABLES[1:], criterion=MORE,
        checks=lambda found: _table(found, TABLES[1]),
        text="On spoken digits, online, OTPE tests above OSTL and OTTT in every size.",
    ),
    Claim(
        name="table-numbers", where="Table 2", sections=TABLES, checks=table_numbers,
        spoiled_by=(OTHER_RECORDINGS, COARSER), text="The accuracies of Table 2.",
        criterion=f"no difference from the paper is more than {ERRORS} standard errors of both means",
    ),
    Claim(
        name="depth", where="Table 2", sections=TABLES, checks=depth, criterion=MORE,
        text="With 5 layers of 512 instead of 3, OTPE and Approx OTPE become better, OSTL and OTTT worse.",
    ),
    Claim(
        name="online-offline", where="Table 2", sections=TABLES, checks=online_above_offline,
        spoiled_by=(COARSER,), criterion=MORE,
        text="On spoken digits, online training tests above offline training.",
    ),
    Claim(
        name="online-t-randman", where="Figure 6 b", sections=["online-t-randman"], checks=online_t_randman,
        text="Online on T-Randman, OTPE and its variants end above OSTL and OTTT.", criterion=MORE,
    ),
    Claim(
        name="online-digits", where="Figures 6 c and 12", sections=["online-digits", "online-digits-5"],
        checks=online_digits, criterion=MORE,
        text="Online on spoken digits, OTPE and its variants validate above OSTL and OTTT.",
    ),
    Claim(
        name="online-r-randman", where="Figure 6 a", sections=["online-r-randman"], checks=online_r_randman,
        text="Online on R-Randman, all rules are alike.",
        criterion=f"the range of the means is below 1.3 points, as offline, by more than {ERRORS} standard errors",
    ),
    Claim(
        name="best-slope", where="Figure 7", sections=["slopes-digits"], checks=best_slope, criterion=MORE,
        text="BPTT is best with slope 25, except with 128 units.",
    ),
    Claim(
        name="steep-slope", where="Figure 7", sections=["slopes-digits"], checks=steep_slope, criterion=MORE,
        text="With the steepest slope, OTPE tests above OSTL and OTTT in every size.",
    ),
    Claim(
        name="learning-rates", where="Figure 8", sections=["rates-digits"], checks=learning_rates, criterion=MORE,
        text="At the best learning rate of each rule, OTPE tests above OSTL and OTTT in every size.",
    ),
    Claim(
        name="kept", where="Table 1", sections=["complexity"], checks=kept,
        text="What a rule keeps grows as in Table 1.", criterion=f"counted exponents are within {EXPONENT} of theory",
    ),
    Claim(
        name="overhead", where="Table 1", sections=["complexity"], checks=overhead,
        text="OTPE costs about as much as OSTL, Approx OTPE about as much as OTTT.",
        criterion=f"each ratio of times and of bytes is below {OVERHEAD}",
    ),
)  # fmt: skip


def judged(sections: Sequence[Section]) -> list[Judged]:
    """Return every claim with its verdict, or nothing if no section is of the paper."""
    there = {each.name: each for each in sections if is_of_paper(each) and each.left_out is None}
    if not there:
        return []
    found = {name: evidence.numbers(section) for name, section in there.items()}
    return [judge(claim, found, there) for claim in CLAIMS]


def is_of_paper(section: Section) -> bool:
    return bool(section.where) and section.name in {name for claim in CLAIMS for name in claim.sections}
