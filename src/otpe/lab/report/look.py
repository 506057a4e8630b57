"""What a rule is called in pictures and tables, and how its lines look: everywhere the same.

The colours are Okabe and Ito's, told apart by all eyes, the light ones darkened until they show on white as well as on
near-black. Variants with a leaky readout are dashed.
"""

from collections.abc import Iterable
from typing import NamedTuple

TEXT = "#000000"  # becomes the colour of the text, where a page is dark


class Look(NamedTuple):
    name: str
    colour: str
    marker: str
    dashed: bool = False


RULES = {
    "bptt": Look("BPTT", TEXT, "o"),
    "rtrl": Look("RTRL", "#8A8A8A", "P"),
    "ostl": Look("OSTL", "#0072B2", "s"),
    "ottt": Look("OTTT", "#2E9BD6", "v"),
    "otpe": Look("OTPE", "#D55E00", "D"),
    "approx-otpe": Look("Approx OTPE", "#C98500", "^"),
    "f-otpe": Look("F-OTPE", "#D55E00", "D", dashed=True),
    "f-approx-otpe": Look("F-Approx OTPE", "#C98500", "^", dashed=True),
    "deep-otpe": Look("Deep OTPE (ours)", "#009E73", "X"),
    "approx-deep-otpe": Look("Approx Deep OTPE (ours)", "#C2689B", "p"),
    "f-deep-otpe": Look("F-Deep OTPE (ours)", "#009E73", "X", dashed=True),
    "f-approx-deep-otpe": Look("F-Approx Deep OTPE (ours)", "#C2689B", "p", dashed=True),
}
OTHERS = tuple((look.colour, look.marker) for look in RULES.values() if not look.dashed)


def shown(name: str) -> str:
    """The name of a rule as it is shown; any other is shown as it is."""
    return RULES[name].name if name in RULES else name


def ours(name: str) -> bool:
    """Is it one of the depth-aware rules, which the paper does not have?"""
    return shown(name).endswith("(ours)")


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Of all the series of one figure: rules have their own, others share the colours that are left, in turn."""
    names = list(dict.fromkeys(names))
    taken = {RULES[name].colour for name in names if name in RULES}
    free = [other for other in OTHERS if other[0] not in taken] or list(OTHERS)
    others = [name for name in names if name not in RULES]
    found = {name: RULES[name] for name in names if name in RULES}
    for i, name in enumerate(others):
        found[name] = Look(name, *free[i % len(free)], dashed=i // len(free) % 2 == 1)
    return {name: found[name] for name in names}
