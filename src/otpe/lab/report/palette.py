"""The palette: every colour of charts and pages, and the name, colour and marker that each rule has everywhere.

The colours of lines can be told apart with and without deuteranopia and protanopia, and are visible on white as well as
on near-black; tests/charts/test_palette.py simulates this. Each rule takes the next colour, in the order of
`otpe.rules()`. A rule named "f-NAME" has a leaky readout. It has the colour of the rule NAME, and dashed lines.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import otpe

TEXT = "#000000"  # a page shows it in the colour of its text
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#808080"
LINES = (  # colour and marker
    (TEXT, "o"), ("#8A8A8A", "P"), ("#1257E8", "s"), ("#0C93B8", "v"), ("#D17B13", "D"), ("#935C4E", "^"),
    ("#6F9F4F", "X"), ("#C20B7D", "p"),
)  # fmt: skip
FURTHER_LINES = (("#7E6FD6", "h"), ("#009E73", "<"), ("#8F8A1E", ">"), ("#E0556B", "d"))  # of rules that are new
CELL_DARK, CELL_LIGHT = "#101010", "#FFFFFF"  # of the text in a heat map

LIGHT = {
    "paper": "#fff", "ink": "#1b1d21", "soft": "#62676f", "line": "#e2e4e8", "shade": "#f6f7f9", "accent": "#0b62a3",
    "good": "#1a7f4b", "warn": "#9a6200", "bad": "#b3261e", "edge": "rgb(0 0 0 / 22%)",
    "recent": ORANGE.lower(), "whole": BLUE.lower(), "band": "#cfe8da",
}  # fmt: skip
DARK = {
    "paper": "#15171b", "ink": "#e8e9ec", "soft": "#9ba1ab", "line": "#2e323a", "shade": "#1d2026", "accent": "#74b7ec",
    "good": "#5cc58f", "warn": "#e0ab4f", "bad": "#f28b82", "edge": "rgb(255 255 255 / 30%)",
    "recent": "#f08a3c", "whole": "#4fb0ea", "band": "#234636",
}  # fmt: skip


class Look(NamedTuple):
    """The look of one line, and its name in the legend."""

    name: str
    colour: str
    marker: str
    dashed: bool = False

    @property
    def css(self) -> str:
        return "currentColor" if self.colour == TEXT else self.colour


def _rule_names() -> list[str]:
    """Return `otpe.rules()`. Reads the registry as text, since importing it would import jax."""
    registry = Path(otpe.__file__).parent / "rulebook" / "named_rules.py"
    return re.findall(r'^ +Rule\("([\w-]+)"', registry.read_text(encoding="utf-8"), re.MULTILINE)


def _rule_looks(names: list[str]) -> dict[str, Look]:
    colours = (*LINES, *FURTHER_LINES)
    pairs = {name: name[2:] for name in names if name.startswith("f-") and name[2:] in names}
    order = {name: i for i, name in enumerate(name for name in names if name not in pairs)}
    found = {}
    for name in names:
        i = order[pairs.get(name, name)]
        found[name] = Look(_title(name), *colours[i % len(colours)], dashed=name in pairs or i >= len(colours))
    return found


def _title(rule: str) -> str:
    """Return text such as "F-Approx Deep OTPE (ours)". The depth-aware rules are not in the paper."""
    words = [word.title() if word in ("approx", "deep") else word.upper() for word in rule.split("-")]
    return " ".join(words).replace("F ", "F-", 1) + (" (ours)" if "deep" in rule else "")


RULES = _rule_looks(_rule_names())


def shown(name: str) -> str:
    """Return the title of a rule, and any other name unchanged."""
    return RULES[name].name if name in RULES else name


def ours(name: str) -> bool:
    """Return whether this is one of the depth-aware rules, which the paper does not have."""
    return shown(name).endswith("(ours)")


def looks(names: Iterable[str]) -> dict[str, Look]:
    """Return the look of every series of one figure. Rules have their own, others take the colours that are left."""
    names = list(dict.fromkeys(names))
    taken = {RULES[name].colour for name in names if name in RULES}
    free = [line for line in LINES if line[0] not in taken] or list(LINES)
    others = [name for name in names if name not in RULES]
    found = {name: Look(name, *free[i % len(free)], dashed=i // len(free) % 2 == 1) for i, name in enumerate(others)}
    return {name: RULES.get(name) or found[name] for name in names}
