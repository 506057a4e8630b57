"""The progress bar: loss, accuracy, steps per second, time left. Quiet when nobody is looking.

A terminal that has gone away is no reason to stop training: errors of writing to it are let pass.
"""

import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Any


class Bar:
    """Comes up at once, saying that programs are compiled; its clock runs from `begin` on."""

    def __init__(self, name: str, done: int, steps: int) -> None:
        self.name, self.tty, self.steps, self.bar = name, terminal(), steps, None
        if self.tty and find_spec("tqdm"):
            from tqdm import tqdm

            self.bar: Any = tqdm(
                initial=done, total=steps, desc=f"{name}, compiling", unit="step", dynamic_ncols=True, smoothing=0.1
            )

    def begin(self) -> None:
        if self.bar is not None:
            with suppress(OSError):
                self.bar.unpause()
                self.bar.set_description(self.name)

    def advance(self, step: int) -> None:
        if self.bar is not None:
            with suppress(OSError):
                self.bar.update(step - self.bar.n)

    def show(self, step: int, loss: float, accuracy: float) -> None:
        if self.bar is not None:
            with suppress(OSError):
                self.bar.set_postfix_str(f"loss {loss:.3f}, accuracy {accuracy:.3f}")
        elif self.tty:
            say(f"{step}/{self.steps}  loss {loss:.3f}, accuracy {accuracy:.3f}")

    def close(self) -> None:
        if self.bar is not None:
            with suppress(OSError):
                self.bar.close()


def terminal() -> bool:
    """Does somebody look at standard error? A process without one has None there."""
    return sys.stderr is not None and sys.stderr.isatty()


def say(text: str) -> None:
    """A line that does not tear a bar apart."""
    if sys.stderr is None:
        return
    with suppress(OSError):
        if find_spec("tqdm"):
            from tqdm import tqdm

            tqdm.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr, flush=True)


# --------------------
# One bar over many runs, in units of how long they take.


LOOKS = "{desc} {percentage:3.0f}%|{bar}| {elapsed} < {remaining}{postfix}"


class SharedBar:
    def __init__(self, weight: float) -> None:
        self.bar: Any = None
        if terminal() and find_spec("tqdm"):
            from tqdm import tqdm

            self.bar = tqdm(total=weight, bar_format=LOOKS, dynamic_ncols=True, smoothing=0.02, desc="compiling")

    def part(self, weight: float) -> "PartOfBar":
        return PartOfBar(self, weight)

    def advance(self, weight: float) -> None:
        if self.bar is not None:
            with suppress(OSError):
                self.bar.update(weight)

    def say(self, name: str, more: str = "") -> None:
        if self.bar is not None:
            with suppress(OSError):
                self.bar.set_description_str(name, refresh=False)
                self.bar.set_postfix_str(more)

    def close(self) -> None:
        if self.bar is not None:
            with suppress(OSError):
                self.bar.close()


class PartOfBar:
    """The bar of one run, as `otpe.lab.progress.Bar` is, but a part of the whole."""

    def __init__(self, whole: SharedBar, weight: float) -> None:
        self.whole, self.weight, self.share = whole, weight, 0.0
        self.name, self.steps = "", 1

    def named(self, name: str) -> Any:
        def bar(_: str, done: int, steps: int) -> "PartOfBar":
            self.name, self.steps = name, steps
            self.advance(done)
            return self

        return bar

    def begin(self) -> None:
        self.whole.say(self.name)

    def advance(self, step: int) -> None:
        share = step / self.steps
        self.whole.advance(self.weight * (share - self.share))
        self.share = share

    def show(self, step: int, loss: float, accuracy: float) -> None:
        self.whole.say(self.name, f"loss {loss:.3f}, accuracy {accuracy:.3f}")

    def close(self) -> None:
        pass

    def finish(self) -> None:
        self.whole.advance(self.weight * (1 - self.share))
        self.share = 1.0
