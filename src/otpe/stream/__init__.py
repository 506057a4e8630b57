"""Learning from endless streams, one time step at a time: sources, worlds that change, accuracy, and a live page.

    from otpe.stream import Binner, evaluate, iterate

    steps = iterate(events, Binner(700, dt=0.01, classes=20))     # events (seconds, unit, label) to time steps
    score = evaluate(learner, steps, window=1000)                 # predict each step, then learn from it
    print(score.accuracy, score.window_accuracy)

The learner is `otpe.StreamLearner`. The command is `otpe stream`.
"""

# learner.py       `otpe.StreamLearner`
# inputs.py        checks of its input; steps that wait for their label
# programs.py      the programs that it runs on the device
# cell.py          its state on the device, replaced as a whole
#
# time_steps.py    events to time steps, and what to do with unusable input
# text_input.py    events from CSV and JSON lines; standard input
# sources.py       where steps come from: recordings, text, Python
# worlds.py        worlds that change
#
# prequential.py   predict, then learn; accuracy along a stream
#
# source_kinds.py  the kinds of sources, and the settings that they use
# setup.py         checks of the settings of `otpe stream`, and its learner
# session.py       `otpe stream` from its source to its result
# stream_state.py  the state of a stream, in checkpoints and as metrics
# page/            a page to watch in a browser

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otpe.stream import worlds
    from otpe.stream.page.live_state import Live
    from otpe.stream.page.serve import Server, serve
    from otpe.stream.prequential import Block, Prequential, blocks, evaluate
    from otpe.stream.session import StreamResult, run
    from otpe.stream.sources import iterate, recordings
    from otpe.stream.text_input import lines
    from otpe.stream.time_steps import Binner, Event, Step
else:
    # Names are imported on first use: modules of this package import each other, and the learner needs few of them.
    from importlib import import_module

    HOMES = {
        "page.live_state": ("Live",),
        "page.serve": ("Server", "serve"),
        "prequential": ("Block", "Prequential", "blocks", "evaluate"),
        "session": ("StreamResult", "run"),
        "sources": ("iterate", "recordings"),
        "text_input": ("lines",),
        "time_steps": ("Binner", "Event", "Step"),
    }

    def __getattr__(name: str) -> Any:
        home = next((module for module, names in HOMES.items() if name in names), None)
        if home is None and name not in __all__:
            raise AttributeError(f"module 'otpe.stream' has no attribute {name!r}")
        if home is None:
            return import_module(f"otpe.stream.{name}")
        globals()[name] = getattr(import_module(f"otpe.stream.{home}"), name)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Binner", "Block", "Event", "Live", "Prequential", "Server", "Step", "StreamResult", "blocks", "evaluate",
    "iterate", "lines", "recordings", "run", "serve", "worlds",
]  # fmt: skip
