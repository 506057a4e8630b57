"""Do the settings of a stream make sense, and which learner do they ask for?"""

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

from otpe import check
from otpe.datasets import Binning, randman
from otpe.datasets.heidelberg import ENDINGS
from otpe.datasets.registry import ENCODINGS
from otpe.lab.runs import build_network, check_settings, saved_weights
from otpe.lab.runs import custom as owned
from otpe.lab.runs.optimizers import OPTIMIZERS, check_optimizer
from otpe.lab.settings import StreamConfig, TrainConfig
from otpe.networks import Network
from otpe.rulebook import rule as named_rule
from otpe.stream import worlds
from otpe.stream.learner import StreamLearner
from otpe.stream.sources import iterate, lines, recordings
from otpe.stream.steps import Bad, Binner, Step

STANDARD = "-"
SLOPE = 10.0  # of the fast sigmoid. The paper's 25 learns worse where every step makes an update
TEXT = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson")
WORDS = {
    "randman": "t-randman and r-randman",
    "recordings": "recordings",
    "text": "files of events",
    "standard input": "standard input",
}
MOST, WINDOW = 2**31 - 1, 1_000_000  # of any number; of the window, which every checkpoint holds
EVENTS = ("text", "standard input")
DT = 0.01  # seconds of a time step of events, where nothing else is said
USED_BY = {
    **dict.fromkeys(("manifolds", "dims", "alpha", "time_steps"), ("randman",)),
    **dict.fromkeys(("bins", "shuffle", "epochs"), ("recordings",)),
    **dict.fromkeys(("form", "labels", "max_gap", "gap"), EVENTS),
    **dict.fromkeys(("dt", "binary", "pool", "on_bad"), ("recordings", *EVENTS)),
    "changes": ("randman", "recordings"),
}
NETWORK = tuple(name for name in build_network.NETWORK if not name.startswith("conv"))
LOSS = ("loss", "rate", "rate_weight")


def kind(config: StreamConfig) -> str:
    """Of the source."""
    given = config.source
    if not isinstance(given, str | Path) or not str(given):
        raise TypeError(f"source is {given!r}, expected t-randman, r-randman, a file, or - for standard input.")
    given, path = str(given), Path(given)
    if given in ENCODINGS:
        return "randman"
    if given == STANDARD:
        return "standard input"
    if os.path.isdir(path) or given.endswith(ENDINGS):
        return "recordings"
    if given.endswith(TEXT) or (os.path.exists(path) and config.form != "auto"):
        return "text"
    raise ValueError(
        f"source is {given!r}, expected t-randman, r-randman, a file in SHD's layout (.h5), a file of events (.csv or"
        " .jsonl, or any with form), or - for standard input."
    )


def checked(config: StreamConfig) -> None:
    """Do the settings make sense, and do they go together? Those of the network are asked when it is made."""
    check_settings.check_choices(config)
    which = kind(config)
    for field in fields(config):
        value, users = getattr(config, field.name), USED_BY.get(field.name, WORDS)
        if value != field.default and which not in users:
            listed = " and ".join(WORDS[user] for user in users)
            raise ValueError(f"{field.name} is {value!r}, which is of no use for {WORDS[which]}: it is for {listed}.")
    for name in ("units", "classes", "steps", "block"):
        value = getattr(config, name)
        if value is not None:
            check.count(name, value, MOST if name != "steps" else 2**63 - 1)
        elif name in ("units", "classes") and which != "randman":
            raise ValueError(
                f"{name} is not given, and {config.source} does not tell. Say how many there are: --{name}."
            )
    for name in ("checkpoint_seconds", "metrics_seconds"):
        check.number(name, getattr(config, name), "seconds, or 0 for every block", lambda x: x >= 0)
    check.count("window", config.window, WINDOW)
    check.whole("seed", config.seed, 2**32)
    check.whole("epochs", config.epochs, 2**31)
    named_rule(config.rule)
    shared = _as_train(config)
    check_optimizer(shared)
    check_settings.check_loss(shared)


def learner(config: StreamConfig, width: int, classes: int) -> StreamLearner:
    """Before its first step."""
    net, params = _network(config, width, classes)
    return StreamLearner(
        net,
        config.rule,
        OPTIMIZERS[config.optimizer].make(config.learning_rate),
        config.seed,
        params=params,
        loss=owned.NONE.loss_of(config),
        every=config.every,
        delay=config.delay,
        score_leak=1.0 if config.score_leak is None and kind(config) not in EVENTS else config.score_leak,
        decay=config.decay,
        limit=config.limit,
    )


def _network(config: StreamConfig, width: int, classes: int) -> tuple[Network, Any]:
    """The network, and weights where there are any."""
    if config.start is None:
        return build_network.network(_as_train(config), width, classes), None
    for name in NETWORK:
        if getattr(config, name) != getattr(StreamConfig, name):
            raise ValueError(
                f"{name} is {getattr(config, name)!r}, but the network is that of start, {config.start}. Leave {name}"
                " out, or start."
            )
    net, params = saved_weights.read_start(Path(config.start))
    inputs = net.layers[0].in_shape
    if inputs != (width,) or net.classes < classes:
        raise ValueError(
            f"start is {str(config.start)!r}, whose network takes {list(inputs)} inputs and has {net.classes} outputs,"
            f" but the stream has {width} and {classes} classes."
        )
    return net, params[0]


def _as_train(config: StreamConfig) -> TrainConfig:
    """What both verbs have, for what both ask of it."""
    shared = {name: getattr(config, name) for name in (*NETWORK, *LOSS, "optimizer", "learning_rate")}
    if config.slope is None and config.surrogate == "fast-sigmoid":
        shared["slope"] = SLOPE
    return TrainConfig(**shared)


# --------------------
# Standard input that can be stopped while nothing comes, and that loses nothing it has read.


PIECE = 1 << 16  # bytes read at once, at most
WAIT = 0.1  # seconds, until it is asked again whether to stop
GRACE = 5.0  # seconds after a stop in which lines that were read before are still handed out
POSIX = os.name == "posix"  # elsewhere nothing can wait for a pipe with a limit


class Standard:
    """Lines, each as soon as it is there. A thread waits for them, since nothing can call back one that does.

    When it is to stop, the thread reads no more. The lines that it has read are still handed out, for `GRACE` seconds
    at most; `dropped` tells about the others.
    """

    def __init__(self) -> None:
        try:
            self._number = sys.stdin.fileno()
        except (AttributeError, ValueError, OSError):
            raise OSError("source is '-', but there is no standard input. Use: something | otpe stream -") from None
        self.stopping: Callable[[], bool] = lambda: False
        self._pieces: Queue[bytes | OSError] = Queue(maxsize=16)
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._over = False
        self._stopped_at: float | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def readline(self, limit: int) -> bytes:
        """The next line; a piece of it where it is longer; nothing at the end, or when it has stopped."""
        if self._stopped_at is None and self.stopping():
            self._stopped_at = time.monotonic()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE:
            return b""
        while not self._lines:
            if self._over:
                last, self._rest = self._rest, b""
                return last
            piece = self._next()
            if piece is None:
                return b""
            self._take(piece, limit)
        return self._lines.popleft()

    def dropped(self) -> str:
        """Stop. Lines that were read and not handed out, in a sentence; empty where there are none."""
        self.stopping = lambda: True
        with suppress(OSError):
            while piece := self._next():
                self._take(piece, sys.maxsize)
        lines = [*self._lines, *([self._rest] if self._rest else [])]
        if not lines:
            return ""
        first, cut = (
            lines[0].decode(errors="replace").strip()[:80],
            " The last one had not come whole." * bool(self._rest),
        )
        what = "1 line that had been read was" if len(lines) == 1 else f"{len(lines):,} lines that had been read were"
        return f"{what} dropped, from {first!r} on.{cut} "

    def _take(self, piece: bytes, limit: int) -> None:
        self._over = not piece
        *whole, self._rest = (self._rest + piece).split(b"\n")
        self._lines.extend(line + b"\n" for line in whole)
        if len(self._rest) >= limit:
            self._lines.append(self._rest)
            self._rest = b""

    def _next(self) -> bytes | None:
        """The next piece. None when it is to stop, and the thread has handed over what it has read."""
        if self._thread.ident is None:
            self._thread.start()
        while True:
            try:
                found = self._pieces.get(timeout=WAIT)
            except Empty:
                if self.stopping() and not (POSIX and self._thread.is_alive()):
                    return None
            else:
                if isinstance(found, OSError):
                    raise found
                return found

    def _read(self) -> None:
        """From the descriptor itself: what Python keeps for it is locked while a thread waits there, even at exit."""
        piece: bytes | OSError = b"-"
        while piece and isinstance(piece, bytes):
            try:
                if POSIX and not select.select([self._number], [], [], WAIT)[0]:
                    if self.stopping():
                        return
                    continue
                if self.stopping():
                    return
                piece = os.read(self._number, PIECE)
            except OSError as error:
                piece = error
            self._pieces.put(piece)


# --------------------
# Opens the source that settings name: randman, recordings, a file of events, standard input.


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
    which, bad = kind(config), Bad(config.on_bad, log)
    if which == "randman":
        found = _randman(config, bad)
    elif which == "recordings":
        found = _recordings(config, bad)
    else:
        return _events(config, which, bad)
    changed = worlds.parsed_change(config.changes, classes=found.classes, seed=config.seed)
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
        DT if config.dt is None else config.dt,
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
