"""What a terminal shows while otpe works: progress bars, a live line, and messages.

Closing the terminal does not stop the work: errors when writing to it are ignored.
"""

import shutil
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

REFRESH = 0.2  # seconds between two drawings of a live line
CLEAR = "\r\x1b[K"
WEIGHTED = "{desc} {percentage:3.0f}%|{bar}| {elapsed} < {remaining}{postfix}"  # without counts


def terminal() -> bool:
    """Return whether standard error is a terminal. It is None for a process without one."""
    return sys.stderr is not None and sys.stderr.isatty()


def say(text: str) -> None:
    """Write a message to standard error, above a progress bar if there is one."""
    if sys.stderr is None:
        return
    with suppress(OSError):
        if find_spec("tqdm"):
            from tqdm import tqdm

            tqdm.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)


class Bar:
    """A progress bar. It is drawn only on a terminal, by tqdm. Without tqdm, `show` writes lines to the terminal."""

    def __init__(self, name: str, done: float, total: float, *, unit: str | None = "step") -> None:
        """Draw the bar of a job that has done `done` of `total`. Without a unit it shows a percentage only."""
        self.name, self.done, self.total, self.bar = name, done, total, None
        if terminal() and find_spec("tqdm"):
            from tqdm import tqdm

            looks: dict[str, Any] = {"unit": unit, "smoothing": 0.1}
            looks = looks if unit else {"bar_format": WEIGHTED, "smoothing": 0.02}
            text = f"{name}, compiling" if name else "compiling"
            self.bar: Any = tqdm(initial=done, total=total, desc=text, dynamic_ncols=True, **looks)

    def begin(self) -> None:
        """Start the clock: compilation is over."""
        self._draw("unpause")
        self.label(self.name)

    def advance(self, done: float) -> None:
        """Set how much is done."""
        self._draw("update", done - self.done)
        self.done = done

    def label(self, name: str, more: str = "") -> None:
        """Set the text before the bar, and the text behind it."""
        self._draw("set_description_str", name, False)
        self._draw("set_postfix_str", more)

    def show(self, step: int, loss: float, accuracy: float) -> None:
        """Show the numbers of an evaluation."""
        text = f"loss {loss:.3f}, accuracy {accuracy:.3f}"
        self.label(self.name, text)
        if self.bar is None and terminal():
            say(f"{step}/{self.total}  {text}")

    def close(self) -> None:
        self._draw("close")

    def _draw(self, method: str, *args: Any) -> None:
        if self.bar is not None:
            with suppress(OSError):
                getattr(self.bar, method)(*args)


class PartOfBar:
    """The progress of a run as a part of a bar over several runs. A run can use it in place of the class `Bar`."""

    def __init__(self, whole: Bar, name: str, weight: float) -> None:
        """`weight` is this run's part of the total of the whole bar."""
        self.whole, self.name, self.weight, self.start, self.total = whole, name, weight, whole.done, 1

    def __call__(self, name: str, done: int, total: int) -> "PartOfBar":
        self.total = total
        self.advance(done)
        return self

    def begin(self) -> None:
        self.whole.label(self.name)

    def advance(self, done: int) -> None:
        self.whole.advance(self.start + self.weight * done / self.total)

    def show(self, step: int, loss: float, accuracy: float) -> None:
        self.whole.label(self.name, f"loss {loss:.3f}, accuracy {accuracy:.3f}")

    def close(self) -> None:
        """Do nothing: the whole bar remains."""


class LiveLine:
    """A line on a terminal that is drawn again and again. For work without a known end."""

    def __init__(self) -> None:
        self.tty, self._shown, self._drawn = terminal(), False, 0.0

    @property
    def due(self) -> bool:
        """Whether it is time to draw the line again."""
        return self.tty and time.monotonic() - self._drawn >= REFRESH

    def draw(self, text: str) -> None:
        """Replace the line by this text, cut to the width of the terminal."""
        self._drawn, self._shown = time.monotonic(), True
        with suppress(OSError):
            print(f"{CLEAR}{text[: shutil.get_terminal_size().columns - 1]}", end="", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """Write a message that stays."""
        with suppress(OSError):
            if sys.stderr is not None:
                print(f"{CLEAR if self._shown else ''}{text}", file=sys.stderr, flush=True)
        self._shown = False

    def close(self) -> None:
        """End the line, which stays."""
        if self._shown:
            self._shown = False
            self.say("")
