"""`otpe stream`: a stream from its source to the learner and its score, with metrics, checkpoints and a clean stop.

result = run(otpe.StreamConfig(source="events.csv", units=700, classes=20, dt=0.01))
result.score.window_accuracy, result.learner
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from otpe import files
from otpe.lab import progress, signals, verbs
from otpe.lab.records import FORMAT, upgraded
from otpe.lab.report.content import to_json
from otpe.lab.report.sections import of_stream
from otpe.lab.runs import check_settings, checkpoint, folder, guards
from otpe.lab.runs.folder import Folder
from otpe.lab.settings import FREE_OF_STREAM, StreamConfig
from otpe.stream import display, saved, setup
from otpe.stream.learner import NotFiniteError, StreamLearner
from otpe.stream.page.live_state import Live
from otpe.stream.page.serve import Server, serve
from otpe.stream.prequential import Block, Prequential, blocks
from otpe.stream.saved import Place, Saved
from otpe.stream.sources import DT, EVENTS, BrokenError, Source, open_source

PATIENCE = 1000  # steps between two looks for layers that are silent
Watcher = Callable[[Block, Prequential, float], object]


class Streamed(NamedTuple):
    """What comes out."""

    learner: StreamLearner
    score: Prequential
    place: Place  # steps, seconds, what was skipped
    folder: Path


def run(config: StreamConfig, watchers: Iterable[Watcher] = ()) -> Streamed:
    """Learn from the stream that the settings name, until it ends; everything about the run is in its folder.

    Args:
      config: the settings.
      watchers: each is called after every block of steps, with the block, the score until then, and the seconds that
        the block took.

    Raises:
      ValueError, TypeError, OSError: bad input, with a sentence that says what to do.
      BrokenError (an OSError): the stream cannot be read on; the state was saved before.
      FloatingPointError: weights are not finite any more; the last checkpoint is sound.
      KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP came; the state was saved before.
    """
    prepared_run = prepared(config)
    prepared_run.watchers += watchers
    return prepared_run()


def prepared(config: StreamConfig) -> "Run":
    """Check everything, open the source, and make or open the folder. All bad input is told here."""
    if not isinstance(config, StreamConfig):
        raise TypeError(f"config is a {type(config).__name__}, expected otpe.StreamConfig(source=..., ...).")
    config = check_settings.plain(cast(Any, config))
    setup.checked(config)
    line = progress.LiveLine()
    source = open_source(config, lambda text: line.say(f"otpe: warning: {text}"))
    try:
        learner = setup.learner(config, source.width, source.classes)
        start = Saved(learner, Prequential(learner.net.classes, config.window), Place(), saved.Meter(), {})
        page = None if config.serve is None else _page(config, source, learner)
    except BaseException:
        source.close()
        raise
    try:
        mine = {**folder.identity(config, FREE_OF_STREAM), "source_kind": source.kind}
        name = "input" if source.standard else Path(config.source).stem
        opened = folder.opened(config, ["stream", name, learner.rule.name], mine, kind="stream")
    except BaseException:
        _closed(source, page)
        raise
    try:
        files.make_folder(opened.checkpoints)
        files.remove_partial(opened.checkpoints)
        newest = checkpoint.newest(opened.checkpoints)
        if newest is not None:
            start = saved.load(newest)
            folder.check_same(str(newest), {**folder.plain(StreamConfig()), **upgraded(start.identity)}, mine)
    except BaseException:
        _closed(source, page, opened)
        raise
    return Run(config, source, start.learner, start.score, start.place, start.meter, opened, mine, line, page)


def _page(config: StreamConfig, source: Source, learner: StreamLearner) -> Server:
    """Its port is taken at once, so that one in use is told before anything begins."""
    dt = config.dt or (DT if source.kind in EVENTS else None)
    sizes = [prod(learner.net.layers[0].in_shape), *(prod(layer.out_shape) for layer in learner.net.layers)]
    title = f"{config.source}, {'frozen' if config.frozen else learner.rule.name}"
    live = Live(sizes, dt=dt, title=title, learner_bytes=learner.bytes, skipped=source.bad.skipped)
    return serve(live, host=config.host, port=config.serve or 0)


def _closed(*opened: Any) -> None:
    for each in opened:
        if each is not None:
            each.close()


@dataclass
class Run:
    """A stream that was found in order. Calling it learns from it."""

    config: StreamConfig
    source: Source
    learner: StreamLearner
    score: Prequential
    place: Place
    meter: saved.Meter
    folder: Folder
    identity: dict[str, Any]
    line: progress.LiveLine
    page: Server | None = None
    watchers: list[Watcher] = field(default_factory=list)
    told: int = 0  # the step of the last line of metrics, or where this process began

    def __post_init__(self) -> None:
        names = guards.watched(self.learner.net)
        self.looked = self.place.steps
        self.guard = guards.RateGuard(names, lambda text: self.line.say(f"otpe: warning: {text}"))

    def __call__(self) -> Streamed:
        try:
            if not self.finished:
                for note in self.folder.go_on(self.place.steps, measured=self.place.measured > 0):
                    self.line.say(f"otpe: warning: {note}")
                for name in ("result.json", "section.json"):
                    (self.folder.path / name).unlink(missing_ok=True)
                with signals.caught() as wish, self._shown():
                    self._stream(wish)
            return Streamed(self.learner, self.score, self.place, self.folder.path)
        finally:
            _closed(self.line, self.source, self.folder, self.page)

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """In a browser, if that was asked for."""
        if self.page is None:
            yield
            return
        with self.page as page:
            self.line.say(f"Watch it at {page.url}")
            self.watchers.append(page.live)
            try:
                yield
            except BaseException as error:
                page.live.end(f"The stream was stopped: {error}")
                raise
            page.live.end()

    @property
    def finished(self) -> bool:
        """Standard input may bring more another time, if there was no end set."""
        found = (self.folder.path / "result.json").exists()
        return found and (self.source.standard is None or self.place.steps == self.config.steps)

    def _stream(self, wish: signals.Wish) -> None:
        config, standard = self.config, self.source.standard
        if standard is not None:
            standard.stopping = lambda: wish.number is not None
        if self.place.steps:
            self._go_on(wish)
        self.told = self.place.steps
        size = config.block or (128 if standard is None else 1)
        left = None if config.steps is None else config.steps - self.place.steps
        began = time.monotonic() - self.place.seconds
        saved_at = told_at = time.monotonic()
        taken = blocks(self.learner, islice(self.source, left), self.score, size=size, learn=not config.frozen)
        try:
            for block in taken:
                self._take(block)
                now = time.monotonic()
                self.place.seconds = now - began
                if now - told_at >= config.metrics_seconds:
                    self._tell()
                    told_at = now
                if self.line.due:
                    self.line.draw(self._words(self._measured()))
                if now - saved_at >= config.checkpoint_seconds:
                    self._save()
                    saved_at = time.monotonic()
                if wish.number is not None and standard is None:  # which ends by itself, with what it has read
                    break
        except NotFiniteError as error:
            raise saved.not_finite(self.folder.checkpoints, error.step) from None
        except BrokenError as error:
            self._tell_and_save()
            dropped = "" if standard is None else standard.dropped()
            raise BrokenError(f"{self._where()}: {str(error).rstrip('.')}. {dropped}{self._how_to_go_on()}") from None
        if wish.number is not None and self.place.steps != config.steps:
            self._tell_and_save()
            dropped = "" if standard is None else standard.dropped()
            stopped = f"stopped {self._where()}, and saved. {dropped}{self._how_to_go_on()}"
            raise signals.StoppedError(wish.number, stopped)
        self._finish()

    def _take(self, block: Block) -> None:
        seconds = time.perf_counter() - self.source.ready
        self.place.moved(block.steps)
        self.place.skipped = dict(self.source.bad.skipped)
        self.meter.add(block, seconds)
        for watch in self.watchers:
            watch(block, self.score, seconds)

    def _go_on(self, wish: signals.Wish) -> None:
        steps = self.place.steps
        if self.source.standard is not None:
            self.source.bad.skipped |= self.place.skipped
            self.line.say(f"Going on after step {steps:,}, with what comes on standard input from now on.")
            return
        self.line.say(f"Going on after step {steps:,}: the source is read again up to there.")
        if not saved.read_again(self.source, self.place, lambda: wish.number is not None):
            raise signals.StoppedError(wish.number or 0, f"stopped {self._where()} as before. {self._how_to_go_on()}")

    def _measured(self) -> dict[str, Any]:
        return display.counts(self.score, self.place) | self.meter.line()

    def _tell(self, *, last: bool = False) -> None:
        found = self._measured()
        self.folder.add(found)
        self.told = self.place.measured = self.place.steps
        if last or self.told - self.looked >= PATIENCE:
            self.looked = self.told
            self.guard.look(self.told, np.array([found["rates"]]), last=last)
        if not self.line.tty:
            self.line.say(self._words(found))

    def _words(self, found: dict[str, Any]) -> str:
        return display.words(found, self.config.window)

    def _save(self) -> None:
        self.folder.settle()
        saved.save(self.folder.checkpoints, Saved(self.learner, self.score, self.place, self.meter, self.identity))

    def _tell_and_save(self, *, last: bool = False) -> None:
        if self.place.steps != self.told:
            self._tell(last=last)
        self._save()

    def _finish(self) -> None:
        self.score.reset()
        self._tell_and_save(last=True)
        found = display.counts(self.score, self.place)
        speed = {"steps_per_second": round(self.place.steps / max(self.place.seconds, 1e-9), 1)}
        found = {"format": FORMAT, "rule": self.learner.rule.name, **found, **speed}
        path = self.folder.path
        told = of_stream(path.name, folder.read_settings(StreamConfig, path), found, self.score)
        files.write_atomically(path / "section.json", to_json(told))
        self.folder.write_result(found)

    def _where(self) -> str:
        return f"after step {self.place.steps:,}"

    def _how_to_go_on(self) -> str:
        return f"Go on with: otpe stream --resume --out {self.folder.path} (in Python: resume=True)"


# --------------------
# `otpe stream`.


def prepare(config: StreamConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    run = prepared(config)
    return lambda: _stream(run)


def stored(args: Sequence[str]) -> StreamConfig | None:
    """With --resume, the settings that are not given are those of the run in the folder."""
    return verbs.stored(StreamConfig, args)


def _stream(run: Run) -> int:
    config, (learner, score, place, path) = run.config, run()
    skipped = ", ".join(f"{kind} {count:,}" for kind, count in place.skipped.items())
    doing = "frozen" if config.frozen else learner.rule.name
    print(f"{config.source}, {doing}, {place.steps:,} time steps, {score.labelled:,} of them with a label")
    print(f"  accuracy             {_share(score.accuracy)}  (all steps; silence is wrong)")
    print(f"  over the window      {_share(score.window_accuracy)}  (the last {score.window:,})")
    print(f"  of sequences         {_share(score.sequence_accuracy)}  ({score.sequences:,}, at their last step)")
    if skipped:
        print(f"  skipped              {sum(place.skipped.values()):,}  ({skipped})")
    print(f"  {place.steps / max(place.seconds, 1e-9):,.3g} time steps per second, {place.seconds:.3g} s in all")
    print(f"Run folder: {path}")
    return 0


def _share(value: float) -> str:
    return f"{value:.3f}" if value == value else "no labels came"
