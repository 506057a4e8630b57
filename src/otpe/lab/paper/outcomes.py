"""What came out, in words: the first sentence of a section of the paper, and the number that decides a claim."""

import math
from collections.abc import Iterable, Sequence

from otpe.lab.paper import evidence
from otpe.lab.paper.claims import ONLINE_RULES, RIVALS, ahead, is_of_paper
from otpe.lab.paper.evidence import DISTANCE, KERNEL, MODEL, TEST, VALIDATION, Number, Numbers
from otpe.lab.paper.verdicts import Check, Judged
from otpe.lab.report import words
from otpe.lab.report.content import Section
from otpe.lab.report.palette import shown
from otpe.lab.report.words import MISSING, networks_text

RULES = ("bptt", *ONLINE_RULES)  # the paper's


def with_outcome(section: Section) -> Section:
    """Return a section of the paper whose lead begins with what came out. Comparisons of older ones get their n."""
    if not is_of_paper(section) or section.left_out is not None:
        return section
    return evidence.completed(section, outcome(section))


def outcome(section: Section) -> str:
    """Return a sentence with the main numbers of a section, or "" if it has none."""
    of = evidence.numbers(section)
    parts = (_accuracies(of), _table(of), _cosines(of), _distances(of), _slopes(of), _rates(of), _complexity(of))
    return next((text for text in parts if text), "")


def decisive(judged: Judged) -> str:
    """Return the number that decides a claim, as text."""
    return check_text(judged.decisive) if judged.decisive else MISSING


def check_text(check: Check) -> str:
    """Return text such as "OTPE minus OSTL: +4.9 ± 0.3 points, n = 12"."""
    signed = check.sense != "below" or not check.limit
    limit = f", limit {_plain(check.limit, check.points)}" if check.limit else ""
    return f"{check.about}: {number_text(check.number, check.points, signed)}{limit}"


def number_text(number: Number, points: bool, signed: bool = True) -> str:
    """Return a number with its standard error and n, or with the reason why there is no standard error."""
    if not math.isfinite(number.mean):
        return "no number"
    scale, digits = (100, 1) if points else (1, 3)
    text = f"{scale * number.mean:{'+' if signed else ''}.{digits}f}".replace("-", "−")
    unit = " points" * points
    if number.exact:
        return f"{text}{unit}, counted"
    n = f", {networks_text(number.n)}" if number.n else ""
    if math.isfinite(number.error):
        bound = "at most " * number.at_most
        return f"{text} ± {bound}{scale * number.error:.{digits}f}{unit}{n}"
    return f"{text}{unit}, no standard error{n}"


def _plain(value: float, points: bool) -> str:
    return f"{100 * value:g} points".replace("-", "−") if points else f"{value:g}"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _known(of: Numbers, quantity: str, rules: Sequence[str] = RULES) -> dict[str, Number]:
    """Return the numbers of these rules, the highest first."""
    found = {rule: of[quantity, rule] for rule in rules if (quantity, rule) in of}
    found = {rule: number for rule, number in found.items() if math.isfinite(number.mean)}
    return dict(sorted(found.items(), key=lambda item: -item[1].mean))


def _n(numbers: Iterable[Number]) -> str:
    """Return ", n = 4, few", or "" if n is not known."""
    n = min((number.n for number in numbers if number.n), default=None)
    return f", {networks_text(n)}" if n else ""


# --------------------
# Sentences.


def _accuracies(of: Numbers) -> str:
    found = _known(of, VALIDATION)
    if len(found) < 2:
        return ""
    best = next(iter(found))
    if "bptt" not in found:
        means = _listed(f"{shown(rule)} {100 * number.mean:.1f}" for rule, number in found.items())
        return f"Validation accuracy at the end, in percent: {means}{_n(found.values())}."
    gaps = {rule: ahead(of, VALIDATION, rule, "bptt") for rule in found if rule != "bptt"}
    texts = _listed(f"{shown(rule)} {_signed(gap)}" for rule, gap in gaps.items())
    return (
        f"{shown(best)} ends highest, with a validation accuracy of {100 * found[best].mean:.1f} %. Points above BPTT,"
        f" ± standard error: {texts}{_n(gaps.values())}."
    )


def _signed(gap: Number) -> str:
    error = f" ± {100 * gap.error:.1f}" if math.isfinite(gap.error) else ""
    return f"{100 * gap.mean:+.1f}{error}".replace("-", "−")


def _table(of: Numbers) -> str:
    """OTPE's lead in every size of the table of accuracies."""
    sizes = [what.partition(", ")[2] for what, rule in of if what.startswith(TEST) and rule == "otpe"]
    leads = {}
    for size in (size for size in sizes if size and "," not in size):
        rivals = _known(of, f"{TEST}, {size}", RIVALS)
        if rivals:
            leads[size] = ahead(of, f"{TEST}, {size}", "otpe", next(iter(rivals)))
    if not leads:
        return ""
    texts = _listed(f"{_signed(lead)} with {size}" for size, lead in leads.items())
    return (
        "Test accuracy of OTPE above the better of OSTL and OTTT, in points ± standard error:"
        f" {texts}{_n(leads.values())}."
    )


def _cosines(of: Numbers) -> str:
    found, whole = _known(of, f"{KERNEL}, H1"), _known(of, MODEL)
    if not found:
        return ""
    first, model = (
        _listed(f"{shown(rule)} {number.mean:.2f}" for rule, number in each.items()) for each in (found, whole)
    )
    return (
        f"Mean cosine to BPTT's gradient in the first hidden layer: {first}; over the whole model:"
        f" {model}{_n(found.values())}."
    )


def _distances(of: Numbers) -> str:
    found = _known(of, DISTANCE, [rule for rule in RULES if rule != "bptt"])
    if not found:
        return ""
    texts = _listed(f"{shown(rule)} {found[rule].mean:.1f}" for rule in reversed(found))
    return f"Distance of the final weights from BPTT's: {texts}{_n(found.values())}."


def _slopes(of: Numbers) -> str:
    searched = evidence.slopes(of)
    texts, all_numbers = [], []
    for rule in RULES:
        tests = {key: of.get((f"{TEST}, {key[0]}, slope {key[1]}", rule), evidence.NONE) for key in searched}
        best = max(tests, key=lambda key, tests=tests: words.or_lowest(tests[key].mean), default=None)
        if best and math.isfinite(tests[best].mean):
            texts.append(f"{shown(rule)} {100 * tests[best].mean:.1f} % (slope {best[1]}, {best[0]})")
            all_numbers.append(tests[best])
    return f"Best test accuracy of the search: {_listed(texts)}{_n(all_numbers)}." if texts else ""


def _rates(of: Numbers) -> str:
    searched, sentences, all_numbers = evidence.rates(of), [], []
    for size in dict.fromkeys(size for size, _ in searched):
        texts = []
        for rule in ("otpe", *RIVALS):
            tests = {
                rate: of.get((f"{TEST}, {size}, rate {rate}", rule), evidence.NONE)
                for each, rate in searched
                if each == size
            }
            best = max(tests, key=lambda rate, tests=tests: words.or_lowest(tests[rate].mean))
            if math.isfinite(tests[best].mean):
                texts.append(f"{shown(rule)} {100 * tests[best].mean:.1f} % at {best}")
                all_numbers.append(tests[best])
        if texts:
            sentences.append(f"{size}: {_listed(texts)}")
    return f"Best test accuracy and its learning rate, {'; '.join(sentences)}{_n(all_numbers)}." if sentences else ""


def _complexity(of: Numbers) -> str:
    texts = []
    for rule, rival in (("otpe", "ostl"), ("approx-otpe", "ottt")):
        ratios = [
            of[what, rule].mean / of[what, rival].mean
            for what in (evidence.TIME, evidence.BYTES)
            if (what, rule) in of and (what, rival) in of
        ]
        if len(ratios) == 2:
            texts.append(
                f"{shown(rule)} takes {ratios[0]:.2f} times {shown(rival)}'s time and {ratios[1]:.2f} times its bytes"
            )
    return f"At the largest n, {'; '.join(texts)}." if texts else ""
