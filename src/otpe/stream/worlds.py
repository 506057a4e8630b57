"""Worlds that change under a learner: classes that swap their meaning, sensors that die or shift, a class that is new.

    steps = worlds.samples(otpe.datasets.randman("time"), seed=0)                 # an endless stream
    steps = worlds.changing(steps, worlds.Swap(at=50_000, classes=(0, 1)), worlds.Die(at=100_000, share=0.3))

A stream is any iterator of steps, so recorded files change in the same way: `changing(sources.recordings(...), ...)`.
All is decided by seeds: the same stream twice is the same stream.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import numpy as np

from otpe import check
from otpe.datasets import Dataset
from otpe.stream.programs import NO_LABEL
from otpe.stream.steps import Step


@dataclass(frozen=True)
class Swap:
    """From step `at` on, samples of one class have the label of the next of these, those of the last the first's."""

    at: int
    classes: tuple[int, ...]

    def __call__(self, step: Step) -> Step:
        if step.label not in self.classes:
            return step
        return step._replace(label=self.classes[(self.classes.index(step.label) + 1) % len(self.classes)])


@dataclass(frozen=True)
class Die:
    """From step `at` on, these units never spike again; by default a share of all of them, drawn by the seed."""

    at: int
    share: float = 0.0
    units: tuple[int, ...] = ()
    seed: int = 0

    def __call__(self, step: Step) -> Step:
        x = step.x.copy()
        x[self.dead(len(x))] = 0
        return step._replace(x=x)

    def dead(self, units: int) -> np.ndarray:
        return _dead(self, units)


@lru_cache(maxsize=64)  # it is asked at every step
def _dead(change: Die, units: int) -> np.ndarray:
    drawn = np.random.default_rng(change.seed).permutation(units)[: round(change.share * units)]
    return np.union1d(drawn, change.units).astype(int)


@dataclass(frozen=True)
class Shift:
    """From step `at` on, every unit stands where the one `by` places before it stood: a sensor that was moved."""

    at: int
    by: int

    def __call__(self, step: Step) -> Step:
        return step._replace(x=np.roll(step.x, self.by))


@dataclass(frozen=True)
class Appear:
    """Before step `at`, there is nothing of this class: its samples are left out."""

    at: int
    label: int


Change = Swap | Die | Shift | Appear


def samples(data: Dataset, seed: int = 0, block: int = 64) -> Iterator[Step]:
    """Sample after sample, for ever, each a sequence of its own; drawn in blocks."""
    check.count("block", block)
    time = count()
    for number in count():
        batch = data.batch(seed, number, block)
        spikes, labels = np.asarray(batch.spikes, np.float32), np.asarray(batch.labels)
        lengths = np.full(block, len(spikes)) if batch.lengths is None else np.asarray(batch.lengths)
        for i, label in enumerate(labels.tolist()):
            for t in range(int(lengths[i])):
                yield Step(spikes[t, i], label, float(next(time)), t == 0)


def changing(steps: Iterable[Step], *changes: Change) -> Iterator[Step]:
    """The stream with these changes. They count its own steps, and come into force between two sequences."""
    for change in changes:
        _check(change)
    return _changing(steps, sorted(changes, key=lambda change: change.at))


def _changing(steps: Iterable[Step], changes: Sequence[Change]) -> Iterator[Step]:
    taken, now, shown = 0, list[Change](), True
    for step in steps:
        if step.reset:
            now = [change for change in changes if change.at <= taken]
            hidden = {c.label for c in changes if isinstance(c, Appear) and c not in now}
            shown = step.label not in hidden
        if not shown:
            continue
        for change in now:
            step = step if isinstance(change, Appear) else change(step)
        taken += 1
        yield step


def _check(change: Change) -> None:
    check.whole("at", change.at, 2**63)
    if isinstance(change, Swap) and (len(change.classes) < 2 or len(set(change.classes)) < len(change.classes)):
        raise ValueError(f"classes is {change.classes!r}, expected two or more that swap, none twice, such as (0, 1).")
    if isinstance(change, Swap) and NO_LABEL in change.classes:
        raise ValueError(f"classes is {change.classes!r}, expected classes: {NO_LABEL} stands for no label.")
    if isinstance(change, Die):
        check.number("share", change.share, "a share from 0 to 1", lambda x: 0 <= x <= 1)
        if not change.share and not change.units:
            raise ValueError("share is 0 and units is empty, expected sensors that die: share=0.3, or units=(0, 1, 2).")
