"""Changes of a world in words, as the command line has them: swap@50000:0,1."""

from collections.abc import Iterable

from otpe import check
from otpe.stream.worlds import Appear, Change, Die, Shift, Swap

EXAMPLES = {
    "swap": "swap@50000:0,1, classes that swap their meaning at this step",
    "die": "die@50000:0.3, the share of the units that die at this step",
    "shift": "shift@50000:5, by how many places units shift at this step",
    "appear": "appear@50000:9, a class of which nothing comes before this step",
}


def parsed(texts: Iterable[str], *, classes: int, seed: int) -> tuple[Change, ...]:
    """In the order given. Whether a change makes sense by itself, `worlds.changing` asks."""
    found = tuple(_one(text, classes, seed) for text in texts)
    if len({change.label for change in found if isinstance(change, Appear) and change.at > 0}) == classes:
        raise ValueError(
            f"changes let all of the {classes} classes appear later, so that nothing would ever come. Leave one out."
        )
    return found


def _one(text: str, classes: int, seed: int) -> Change:
    what, _, rest = text.partition("@")
    check.one_of("change", what, EXAMPLES)
    at, _, how = rest.partition(":")
    try:
        change = _made(what, int(at), how, seed)
    except ValueError:
        raise ValueError(f"change is {text!r}, expected such as {EXAMPLES[what]}.") from None
    named = change.classes if isinstance(change, Swap) else (change.label,) if isinstance(change, Appear) else ()
    for label in named:
        if not 0 <= label < classes:
            raise ValueError(f"change is {text!r}, but there is no class {label}: they run from 0 to {classes - 1}.")
    return change


def _made(what: str, at: int, how: str, seed: int) -> Change:
    if what == "swap":
        return Swap(at, tuple(map(int, how.split(","))))
    if what == "die":
        return Die(at, share=float(how), seed=seed)
    return Shift(at, int(how)) if what == "shift" else Appear(at, int(how))
