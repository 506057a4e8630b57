"""One bar over many runs, in units of how long they take."""

from contextlib import suppress
from importlib.util import find_spec
from typing import Any

from otpe.runs.progress import terminal

LOOKS = "{desc} {percentage:3.0f}%|{bar}| {elapsed} < {remaining}{postfix}"


class Whole:
    def __init__(self, weight: float) -> None:
        self.bar: Any = None
        if terminal() and find_spec("tqdm"):
            from tqdm import tqdm

            self.bar = tqdm(total=weight, bar_format=LOOKS, dynamic_ncols=True, smoothing=0.02, desc="compiling")

    def part(self, weight: float) -> "Part":
        return Part(self, weight)

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


class Part:
    """The bar of one run, as `otpe.runs.progress.Bar` is, but a part of the whole."""

    def __init__(self, whole: Whole, weight: float) -> None:
        self.whole, self.weight, self.share = whole, weight, 0.0
        self.name, self.steps = "", 1

    def named(self, name: str) -> Any:
        def bar(_: str, done: int, steps: int) -> "Part":
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
