"""`otpe stream`: from the source to the learner and its score, with metrics, checkpoints and a clean stop.

result = run(otpe.StreamConfig(source="events.csv", units=700, classes=20, dt=0.01))
result.score.window_accuracy, result.learner
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import InitVar, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from otpe import files
from otpe.lab import progress, signals
from otpe.lab.records import FORMAT, upgraded
from otpe.lab.report.content import to_json
from otpe.lab.report.sections import of_stream
from otpe.lab.runs import check_settings, checkpoint, folder, guards
from otpe.lab.runs.folder import Folder
from otpe.lab.settings import FREE_OF_STREAM, StreamConfig
from otpe.stream import setup, stream_state
from otpe.stream.learner import NotFiniteError, StreamLearner
from otpe.stream.page.live_state import Live
from otpe.stream.page.serve import Server, serve
from otpe.stream.prequential import Block, Prequential, blocks
from otpe.stream.programs import layer_sizes
from otpe.stream.sources import DT, EVENTS, BrokenError, Source, open_source
from otpe.stream.stream_state import Place, StreamState

PATIENCE = 1000  # steps between two checks for silent layers
Watcher = Callable[[Block, Prequential, float], object]


class StreamResult(NamedTuple):
    """The learner at the end, its score, its `place` (steps, seconds, skipped input) and the run folder."""

    learner: StreamLearner
    score: Prequential
    place: Place  # steps, seconds, what was skipped
    folder: Path


def run(config: StreamConfig, watchers: Iterable[Watcher] = ()) -> StreamResult:
    """Learn from the stream that the settings name, until it ends. Everything about the run goes to its folder.

    Args:
      config: the settings.
      watchers: each is called after every block of steps with the block, the score until then, and the duration of the
        block in seconds.

    Raises:
      ValueError, TypeError, OSError: bad input. The message says what to do.
      BrokenError (an OSError): the rest of the stream cannot be read. The state was saved before.
      FloatingPointError: weights are not finite any more. The last checkpoint is sound.
      KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP came. The state was saved before.
    """
    prepared_run = prepared(config)
    prepared_run.watchers += watchers
    return prepared_run()


def prepared(config: StreamConfig) -> "Run":
    """Check everything, open the source, and make or open the folder. Raises an error for any bad input."""
    if not isinstance(config, StreamConfig):
        raise TypeError(f"config is a {type(config).__name__}, expected otpe.StreamConfig(source=..., ...).")
    config = check_settings.plain(cast(Any, config))
    config = setup.with_start_data(config)
    setup.checked(config)
    line = progress.LiveLine()
    with ExitStack() as opened:  # closes everything after an error, or at the end of the run
        opened.callback(line.close)
        source = open_source(config, lambda text: line.say(f"otpe: warning: {text}"))
        opened.callback(source.close)
        learner = setup.learner(config, source.width, source.classes)
        page = None if config.serve is None else _page(config, source, learner)
        if page is not None:
            opened.callback(page.close)
        identity = {**folder.identity(config, FREE_OF_STREAM), "source_kind": source.kind}
        name = "input" if source.standard else Path(config.source).stem
        run_folder = folder.opened(config, ["stream", name, learner.rule.name], identity, kind="stream")
        opened.callback(run_folder.close)
        files.make_folder(run_folder.checkpoints)
        files.remove_partial(run_folder.checkpoints)
        newest = checkpoint.newest(run_folder.checkpoints)
        if newest is None:
            score = Prequential(learner.net.classes, config.window)
            state = StreamState(learner, score, Place(), stream_state.Meter(), identity)
        else:
            state = stream_state.load(newest)
            known = {**folder.plain(StreamConfig()), **upgraded(state.identity)}
            folder.check_same(str(newest), known, identity)
            state = state._replace(identity=identity)
        return Run(config, source, state, run_folder, line, page, opened.pop_all())


def _page(config: StreamConfig, source: Source, learner: StreamLearner) -> Server:
    """Return the server of the page. It takes its port now: a port in use is an error before the stream begins."""
    dt = config.dt or (DT if source.kind in EVENTS else None)
    title = f"{config.source}, {'frozen' if config.frozen else learner.rule.name}"
    sizes, skipped = layer_sizes(learner.net), source.bad.skipped
    changes = [_step_and_name(text) for text in config.changes]
    live = Live(sizes, dt=dt, title=title, learner_bytes=learner.bytes, skipped=skipped, changes=changes)
    return serve(live, host=config.host, port=config.serve or 0)


def _step_and_name(change: str) -> tuple[int, str]:
    """Return the step of a change and its short name: 50000 and "swap 0,1" for swap@50000:0,1."""
    kind, _, rest = change.partition("@")
    at, _, details = rest.partition(":")
    return int(at), f"{kind} {details}"


@dataclass
class Run:
    """A stream whose settings are checked and whose folder is open. Call it to learn."""

    config: StreamConfig
    source: Source
    state: InitVar[StreamState]
    folder: Folder
    line: progress.LiveLine
    page: Server | None
    opened: ExitStack
    watchers: list[Watcher] = field(default_factory=list)

    def __post_init__(self, state: StreamState) -> None:
        self.learner, self.score, self.place, self.meter, self.identity = state
        # Number of steps at the last line of metrics, and at the last check for silent layers.
        self.measured = self.checked = self.place.steps
        names = guards.watched(self.learner.net)
        self.guard = guards.RateGuard(names, lambda text: self.line.say(f"otpe: warning: {text}"))

    def __call__(self) -> StreamResult:
        with self.opened:
            if not self.finished:
                for note in self.folder.resume(self.place.steps, measured=self.place.measured > 0):
                    self.line.say(f"otpe: warning: {note}")
                for name in ("result.json", "section.json"):
                    (self.folder.path / name).unlink(missing_ok=True)
                with signals.caught() as stop_request, self._served():
                    self._stream(stop_request)
            return StreamResult(self.learner, self.score, self.place, self.folder.path)

    @contextmanager
    def _served(self) -> Iterator[None]:
        """Show the stream in a browser, if the settings say so."""
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
        """Whether the run has its result. Standard input may continue another time, unless `steps` were reached."""
        found = (self.folder.path / "result.json").exists()
        return found and (self.source.standard is None or self.place.steps == self.config.steps)

    def _stream(self, stop_request: signals.StopRequest) -> None:
        if self.source.standard is not None:
            self.source.standard.stopping = lambda: stop_request.number is not None
        try:
            if self.place.steps:
                self._find_place(stop_request)
            self._learn(stop_request)
        except NotFiniteError as error:
            raise stream_state.not_finite(self.folder.checkpoints, error.step) from None
        if stop_request.number is not None and self.place.steps != self.config.steps:
            self._measure_and_save()
            raise signals.StoppedError(
                stop_request.number, f"stopped {self._where()}, and saved. {self._how_to_go_on()}"
            )
        self.score.reset()
        self._measure_and_save(last=True)
        self._write_result()

    def _find_place(self, stop_request: signals.StopRequest) -> None:
        """Read the source again up to the place of the checkpoint. Standard input continues with what comes now."""
        steps = self.place.steps
        if self.source.standard is not None:
            self.source.bad.skipped |= self.place.skipped
            self.line.say(f"Going on after step {steps:,}, with what comes on standard input from now on.")
            return
        self.line.say(f"Going on after step {steps:,}: the source is read again up to there.")
        if not stream_state.read_again(self.source, self.place, lambda: stop_request.number is not None):
            raise signals.StoppedError(
                stop_request.number or 0, f"stopped {self._where()} as before. {self._how_to_go_on()}"
            )

    def _learn(self, stop_request: signals.StopRequest) -> None:
        """Learn until the stream ends or a signal comes."""
        config, standard = self.config, self.source.standard
        size = config.block or (128 if standard is None else 1)
        left = None if config.steps is None else config.steps - self.place.steps
        began = time.monotonic() - self.place.seconds
        saved_at = measured_at = time.monotonic()
        steps = islice(self.source, left)
        try:
            for block in blocks(self.learner, steps, self.score, size=size, learn=not config.frozen):
                self._take(block)
                now = time.monotonic()
                self.place.seconds = now - began
                if now - measured_at >= config.metrics_seconds:
                    self._measure()
                    measured_at = now
                if self.line.due:
                    self.line.draw(stream_state.as_text(self._metrics(), config.window))
                if now - saved_at >= config.checkpoint_seconds:
                    self._save()
                    saved_at = time.monotonic()
                # After a signal, standard input gives no more steps, so the loop ends by itself.
                if stop_request.number is not None and standard is None:
                    break
        except BrokenError as error:
            self._measure_and_save()
            raise BrokenError(f"{self._where()}: {str(error).rstrip('.')}. {self._how_to_go_on()}") from None

    def _take(self, block: Block) -> None:
        seconds = time.perf_counter() - self.source.ready
        self.place.advance(block.steps)
        self.place.skipped = dict(self.source.bad.skipped)
        self.meter.add(block, seconds)
        for watch in self.watchers:
            watch(block, self.score, seconds)

    def _metrics(self) -> dict[str, Any]:
        return stream_state.counts(self.score, self.place) | self.meter.numbers()

    def _measure(self, *, last: bool = False) -> None:
        """Write a line of metrics, and warn of silent layers."""
        metrics, steps = self._metrics(), self.place.steps
        self.folder.add(metrics)
        self.measured = self.place.measured = steps
        if last or steps - self.checked >= PATIENCE:
            self.checked = steps
            self.guard.look(steps, np.array([metrics["rates"]]), last=last)
        if not self.line.tty:
            self.line.say(stream_state.as_text(metrics, self.config.window))

    def _save(self) -> None:
        self.folder.flush()
        state = StreamState(self.learner, self.score, self.place, self.meter, self.identity)
        stream_state.save(self.folder.checkpoints, state)

    def _measure_and_save(self, *, last: bool = False) -> None:
        if self.place.steps != self.measured:
            self._measure(last=last)
        self._save()

    def _write_result(self) -> None:
        speed = round(self.place.steps / max(self.place.seconds, 1e-9), 1)
        numbers = stream_state.counts(self.score, self.place) | {"steps_per_second": speed}
        result, path = {"format": FORMAT, "rule": self.learner.rule.name, **numbers}, self.folder.path
        section = of_stream(path.name, folder.read_settings(StreamConfig, path), result, self.score)
        files.write_atomically(path / "section.json", to_json(section))
        self.folder.write_result(result)

    def _where(self) -> str:
        return f"after step {self.place.steps:,}"

    def _how_to_go_on(self) -> str:
        """Return the end of a message: lines that are lost, and the command to resume."""
        dropped = "" if self.source.standard is None else self.source.standard.dropped()
        return f"{dropped}Go on with: otpe stream --resume --out {self.folder.path} (in Python: resume=True)"


# The verb


def prepare(config: StreamConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    run = prepared(config)
    return lambda: _stream(run)


def _stream(run: Run) -> int:
    config, (learner, score, place, path) = run.config, run()
    skipped = ", ".join(f"{kind} {count:,}" for kind, count in place.skipped.items())
    doing = "frozen" if config.frozen else learner.rule.name
    print(f"{config.source}, {doing}, {place.steps:,} time steps, {score.labelled:,} of them with a label")
    window = min(score.labelled, score.window)
    print(f"  accuracy             {_share(score.accuracy)}  (all steps; silence is wrong), n = {score.labelled:,}")
    print(f"  over the window      {_share(score.window_accuracy)}  (the last {score.window:,}), n = {window:,}")
    print(f"  of sequences         {_share(score.sequence_accuracy)}  (at their last step), n = {score.sequences:,}")
    print(f"  chance level         {1 / score.classes:.3f}  (1 of {score.classes:,} classes)")
    if skipped:
        print(f"  skipped              {sum(place.skipped.values()):,}  ({skipped})")
    print(f"  {place.steps / max(place.seconds, 1e-9):,.3g} time steps per second, {place.seconds:.3g} s in all")
    print(f"Run folder: {path}")
    return 0


def _share(value: float) -> str:
    return f"{value:.3f}" if value == value else "no labels came"
