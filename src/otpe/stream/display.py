"""What is shown while a stream runs: accuracy, speed, latency, spike rates, what was skipped."""

import math
import shutil
import sys
import time
from contextlib import suppress
from typing import Any

from otpe.lab.progress import terminal
from otpe.stream.prequential import Prequential
from otpe.stream.saved import Place

REFRESH = 0.2  # seconds between two looks of a live line
CLEAR = "\r\x1b[K"


def counts(score: Prequential, place: Place) -> dict[str, Any]:
    """What does not depend on the machine, but for the seconds."""
    return {
        "step": place.steps,
        "labelled": score.labelled,
        "accuracy": _known(score.accuracy),
        "window_accuracy": _known(score.window_accuracy),
        "sequences": score.sequences,
        "sequence_accuracy": _known(score.sequence_accuracy),
        "skipped": dict(place.skipped),
        "seconds": round(place.seconds, 3),
    }


def words(line: dict[str, Any], window: int) -> str:
    """In one line to read."""
    share = {name: "–" if line[name] is None else f"{line[name]:.3f}" for name in ("window_accuracy", "accuracy")}
    p50, p99 = line["latency_ms"]
    skipped = sum(line["skipped"].values())
    return (
        f"step {line['step']:,}  accuracy {share['window_accuracy']} (last {window:,}), {share['accuracy']} (all) "
        f" {line['steps_per_second']:,.0f} steps/s  latency {p50:.3g}/{p99:.3g} ms (p50/p99) "
        f" rates {' '.join(f'{rate:.3f}' for rate in line['rates'])}{f'  skipped {skipped:,}' if skipped else ''}"
    )


def _known(share: float) -> float | None:
    return None if math.isnan(share) else share  # JSON has no NaN


class Line:
    """One live line on a terminal, plain ones elsewhere. A terminal that has gone away is no reason to stop."""

    def __init__(self) -> None:
        self.tty, self._shown, self._drawn = terminal(), False, 0.0

    @property
    def due(self) -> bool:
        """Is it time to draw the live line anew?"""
        return self.tty and time.monotonic() - self._drawn >= REFRESH

    def draw(self, text: str) -> None:
        """The live line."""
        self._drawn, self._shown = time.monotonic(), True
        with suppress(OSError):
            print(f"{CLEAR}{text[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        with suppress(OSError):
            if sys.stderr is not None:
                print(f"{CLEAR if self._shown else ''}{text}", file=sys.stderr, flush=True)
        self._shown = False

    def close(self) -> None:
        if self._shown:
            self._shown = False
            self.say("")
