"""Ctrl-C and SIGTERM: the block that is running ends, the state is saved, and the process leaves."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any


class StoppedError(KeyboardInterrupt):
    """A run that was asked to stop, after it has saved its state."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.status = 128 + number  # what a process that the signal ended exits with


class Wish:
    """To stop, as soon as a signal has come."""

    number: int | None = None


@contextmanager
def caught() -> Iterator[Wish]:
    """Signals become a wish; a second one acts as it always does. Only the main thread is told of any."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before: dict[int, Any] = {}

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    def note(number: int, _: FrameType | None) -> None:
        wish.number = number
        restore()
        with suppress(OSError, RuntimeError):  # nobody reads any more, or something was being printed just now
            print("\nStopping: this block of steps ends, then the state is saved.", file=sys.stderr, flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, note)
    try:
        yield wish
    finally:
        restore()
