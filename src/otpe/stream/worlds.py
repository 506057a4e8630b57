"""Worlds that change: classes swap their meaning, sensors die or shift, a class is new.

    from otpe.stream import worlds

    steps = worlds.samples(otpe.datasets.randman("time"), seed=0)                 # an endless stream
    steps = worlds.changing(steps, worlds.Swap(at=50_000, classes=(0, 1)), worlds.Die(at=100_000, share=0.3))

Any iterator of steps can change in this way, also recorded files:
`worlds.changing(otpe.stream.recordings(...), ...)`. Seeds decide everything, so the same call always
gives the same stream.

`at` counts the steps of the changed stream. Sensors change at exactly that step. Classes change with the next sample:
where a sequence begins, or where the label differs from that of the step before.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np

from otpe import check, memory
from otpe.datasets import Dataset
from otpe.stream.programs import NO_LABEL
from otpe.stream.time_steps import Step

__all__ = ["Appear", "Die", "Shift", "Swap", "changing", "samples"]

LATEST = 2**63  # steps


@dataclass(frozen=True)
class Swap:
    """From step `at` on, each of these classes gets the label of the next one, and the last gets that of the first."""

    at: int
    classes: tuple[int, ...]

    def __call__(self, step: Step) -> Step:
        if step.label not in self.classes:
            return step
        return step._replace(label=self.classes[(self.classes.index(step.label) + 1) % len(self.classes)])


@dataclass(frozen=True)
class Die:
    """From step `at` on, these units never spike: a share of all units, drawn by the seed, and the given units."""

    at: int
    share: float = 0.0
    units: tuple[int, ...] = ()
    seed: int = 0

    def __call__(self, step: Step) -> Step:
        x = step.x.copy()
        x[self.dead(len(x))] = 0
        return step._replace(x=x)

    def dead(self, units: int) -> np.ndarray:
        """Return the numbers of the dead units, given the number of all units."""
        return _dead(self, units)


@dataclass(frozen=True)
class Shift:
    """From step `at` on, the spikes of each unit come `by` units further on: a sensor was moved."""

    at: int
    by: int

    def __call__(self, step: Step) -> Step:
        return step._replace(x=np.roll(step.x, self.by))


@dataclass(frozen=True)
class Appear:
    """Before step `at`, samples of this class (its name before any swap) are left out."""

    at: int
    label: int


Change = Swap | Die | Shift | Appear


def samples(data: Dataset, seed: int = 0, block: int = 64) -> Iterator[Step]:
    """Return the steps of one sample after another, without end. Each is a sequence. They are drawn in blocks."""
    seed, block = check.whole("seed", seed, 2**32), check.count("block", block)
    given = {"time_steps": data.steps, "units": data.units, "block": block}
    memory.check_fits("the samples that are drawn at once", 4 * block * data.steps * data.units, given, memory.host())
    return _samples(data, seed, block)


def _samples(data: Dataset, seed: int, block: int) -> Iterator[Step]:
    time = count()
    for number in count():
        batch = data.batch(seed, number, block)
        spikes, labels = np.asarray(batch.spikes, np.float32), np.asarray(batch.labels)
        lengths = np.full(block, len(spikes)) if batch.lengths is None else np.asarray(batch.lengths)
        for i, label in enumerate(labels.tolist()):
            for t in range(int(lengths[i])):
                yield Step(spikes[t, i], label, float(next(time)), t == 0)


def changing(steps: Iterable[Step], *changes: Change) -> Iterator[Step]:
    """Return the stream with these changes, applied in the order of their steps."""
    for change in changes:
        _check(change)
    return _changing(steps, sorted(changes, key=lambda change: change.at))


def _changing(steps: Iterable[Step], changes: Sequence[Change]) -> Iterator[Step]:
    taken = began = 0  # number of steps so far, and at the start of the present sample
    label, reset = NO_LABEL, False
    for step in steps:
        if step.reset or step.label != label:
            began = taken
        label, reset = step.label, reset or step.reset
        if any(isinstance(change, Appear) and change.label == label and change.at > began for change in changes):
            continue
        step, reset = step._replace(reset=reset), False  # it begins a sequence whose first steps were left out
        for change in changes:
            since = began if isinstance(change, Swap) else taken
            if change.at <= since and not isinstance(change, Appear):
                step = change(step)
        taken += 1
        yield step


@lru_cache(maxsize=64)  # it is called at every step
def _dead(change: Die, units: int) -> np.ndarray:
    drawn = np.random.default_rng(change.seed).permutation(units)[: round(change.share * units)]
    if change.units and max(change.units) >= units:
        raise ValueError(f"units has {max(change.units)}, expected 0 to {units - 1}: the stream has {units} units.")
    dead = np.union1d(drawn, change.units).astype(int)
    dead.flags.writeable = False
    return dead


def _check(change: Change) -> None:
    if not isinstance(change, Change):
        raise TypeError(f"a change is {change!r}, expected Swap, Die, Shift or Appear of otpe.stream.worlds.")
    check.whole("at", change.at, LATEST)
    match change:
        case Swap(classes=classes):
            if len(classes) < 2 or len(set(classes)) < len(classes):
                raise ValueError(f"classes is {classes!r}, expected two or more that swap, none twice, such as (0, 1).")
            if NO_LABEL in classes:
                raise ValueError(f"classes is {classes!r}, expected classes: {NO_LABEL} stands for no label.")
        case Die(share=share, units=units):
            check.number("share", share, "a share from 0 to 1", lambda x: 0 <= x <= 1)
            for unit in units:
                check.whole("a number in units", unit, LATEST)
            if not share and not units:
                raise ValueError(
                    "share is 0 and units is empty, expected sensors that die: share=0.3, or units=(0, 1, 2)."
                )
        case Shift(by=by):
            if not isinstance(by, int | np.integer) or not by:
                raise ValueError(f"by is {by!r}, expected a whole number of places other than 0, such as 5 or -5.")
        case Appear(label=label):
            check.whole("label", label, LATEST)


# Changes as text, for the command line: swap@50000:0,1


EXAMPLES = {
    "swap": "swap@50000:0,1, classes that swap their meaning at this step",
    "die": "die@50000:0.3, the share of the units that die at this step",
    "shift": "shift@50000:5, by how many places units shift at this step",
    "appear": "appear@50000:9, a class of which nothing comes before this step",
}
MAKERS: dict[str, Callable[[int, str, int], Change]] = {  # of the step, the text after it, and a seed
    "swap": lambda at, text, _: Swap(at, tuple(map(int, text.split(",")))),
    "die": lambda at, text, seed: Die(at, share=float(text), seed=seed),
    "shift": lambda at, text, _: Shift(at, int(text)),
    "appear": lambda at, text, _: Appear(at, int(text)),
}


def parsed_change(texts: Iterable[str], *, classes: int, seed: int) -> tuple[Change, ...]:
    """Return the changes in the same order. `changing` checks each change by itself."""
    changes = tuple(_parsed(text, classes, seed) for text in texts)
    if len({change.label for change in changes if isinstance(change, Appear) and change.at > 0}) == classes:
        raise ValueError(
            f"changes has an appear for each of the {classes} classes, so no step would ever come. Leave one out."
        )
    return changes


def _parsed(text: str, classes: int, seed: int) -> Change:
    kind, _, rest = text.partition("@")
    check.one_of("change", kind, EXAMPLES)
    at, _, details = rest.partition(":")
    try:
        change = MAKERS[kind](int(at), details, seed)
    except ValueError:
        raise ValueError(f"change is {text!r}, expected such as {EXAMPLES[kind]}.") from None
    labels = change.classes if isinstance(change, Swap) else (change.label,) if isinstance(change, Appear) else ()
    for label in labels:
        if not 0 <= label < classes:
            raise ValueError(f"change is {text!r}, but there is no class {label}: they run from 0 to {classes - 1}.")
    return change
