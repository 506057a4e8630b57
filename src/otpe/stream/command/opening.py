"""Opens the source that settings name: randman, recordings, a file of events, standard input."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from otpe.datasets import Binning, randman
from otpe.datasets.named import ENCODINGS
from otpe.stream import worlds
from otpe.stream.command import asked, changes
from otpe.stream.command.config import StreamConfig
from otpe.stream.command.standard import Standard
from otpe.stream.events import Binner
from otpe.stream.sources import iterate, lines, recordings
from otpe.stream.steps import Bad, Step


class BrokenError(OSError):
    """A stream that cannot be read on."""


@dataclass
class Source:
    """Steps, which can be told from the time that is spent waiting for them."""

    name: str
    kind: str
    steps: Iterator[Step]
    width: int  # numbers in a step
    classes: int
    bad: Bad
    file: IO[bytes] | None = None
    standard: Standard | None = None
    ready: float = 0.0  # when the last step came

    def __iter__(self) -> Iterator[Step]:
        try:
            for step in self.steps:
                self.ready = time.perf_counter()
                yield step
        except (ValueError, OSError) as error:
            raise BrokenError(str(error)) from error
        finally:
            self.ready = time.perf_counter()

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def source(config: StreamConfig, log: Callable[[str], object]) -> Source:
    """Files are opened, and recordings read, at once: what is wrong with them is told here."""
    which, bad = asked.kind(config), Bad(config.on_bad, log)
    if which == "randman":
        found = _randman(config, bad)
    elif which == "recordings":
        found = _recordings(config, bad)
    else:
        return _events(config, which, bad)
    changed = changes.parsed(config.changes, classes=found.classes, seed=config.seed)
    found.steps = worlds.changing(found.steps, *changed)
    return found


def _randman(config: StreamConfig, bad: Bad) -> Source:
    data = randman(
        ENCODINGS[config.source],
        classes=config.classes or 10,
        units=config.units or 50,
        dims=config.dims,
        alpha=config.alpha,
        standardize="fixed",  # samples come one by one: there is no mini-batch to take extremes from
        steps=config.time_steps,
        seed=config.manifolds,
    )
    return Source(config.source, "randman", worlds.samples(data, config.seed), data.units, len(data.names), bad)


def _recordings(config: StreamConfig, bad: Bad) -> Source:
    units, classes = config.units or 0, config.classes or 0
    bins = 50 if config.bins is None and config.dt is None else config.bins
    binning = Binning(bins, config.dt, binary=config.binary, pool=config.pool)
    order: dict[str, Any] = {"shuffle": config.shuffle, "seed": config.seed, "epochs": config.epochs or None}
    width, steps = units // config.pool, recordings(config.source, units, binning, **order)
    return Source(
        config.source, "recordings", iterate(steps, units=width, classes=classes, on_bad=bad), width, classes, bad
    )


def _events(config: StreamConfig, which: str, bad: Bad) -> Source:
    classes = config.classes or 0
    binner = Binner(
        config.units or 0,
        asked.DT if config.dt is None else config.dt,
        classes=classes,
        binary=config.binary,
        pool=config.pool,
        labels=config.labels,
        max_gap=config.max_gap,
        on_bad=bad,
        gap=config.gap,
    )
    standard = Standard() if which == "standard input" else None
    file = _opened(Path(config.source)) if standard is None else None
    text: Any = standard or file
    steps = binner.steps(lines(text, config.form, on_bad=bad))
    return Source(config.source, which, steps, binner.width, classes, bad, file, standard)


def _opened(path: Path) -> IO[bytes]:
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path} is no plain file. Send what comes from it to standard input: otpe stream - < {path}")
    try:
        return path.open("rb")
    except OSError as error:
        raise OSError(f"{path} cannot be read: {error.strerror}. Name a file of events, such as events.csv.") from None
