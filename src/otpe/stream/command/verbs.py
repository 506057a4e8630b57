"""`otpe stream`."""

from collections.abc import Callable, Sequence

from otpe.runs import verbs
from otpe.stream.command import run as stream
from otpe.stream.command.config import StreamConfig


def prepare(config: StreamConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    run = stream.prepared(config)
    return lambda: _stream(run)


def stored(args: Sequence[str]) -> StreamConfig | None:
    """With --resume, the settings that are not given are those of the run in the folder."""
    return verbs.stored(StreamConfig, args)


def _stream(run: stream.Run) -> int:
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
