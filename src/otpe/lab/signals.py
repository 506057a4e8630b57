"""Ctrl-C, SIGTERM and SIGHUP: the block that is running ends, the state is saved, and the process leaves."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from types import FrameType
from typing import Any, NoReturn


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
        for handler in before.values():
            if isinstance(handler, CtrlC):
                handler.pressed = True
        restore()
        with suppress(OSError, RuntimeError):  # nobody reads any more, or something was being printed just now
            if sys.stderr is not None:
                print("\nStopping: this block of steps ends, then the state is saved.", file=sys.stderr, flush=True)

    for number in _to_save():
        before[number] = signal.signal(number, note)
    try:
        yield wish
    finally:
        restore()


def _to_save() -> list[int]:
    """The signals that end a process, but for SIGHUP where nohup has it ignored."""
    hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
    known = [signal.SIGINT, signal.SIGTERM]
    if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
        known.append(hang_up)
    return [number for number in known if signal.getsignal(number) is not None]  # None: a handler that is not Python's


class CtrlC:
    """Ctrl-C in a command. The first one is a KeyboardInterrupt, the second ends the process at once, if it is its own.

    A KeyboardInterrupt may be lost: modules in C swallow it while they are imported, and Python where it calls back.
    So while `waiting`, as for imports, it is only remembered, and `check` raises it; where Python has swallowed it, it
    is raised again; and `pressed` is there to look at in the end.
    """

    def __init__(self, *, ends_process: bool) -> None:
        self.ends_process = ends_process
        self.pressed = False
        self.raised = False
        self.waiting = False
        self.over = False  # has the command done its work, so that the process may end at any time?
        self._again = self._leaving = False
        self._before: Any = None
        self._hook: Any = None

    def listen(self) -> None:
        """From now on, where Ctrl-C is not ignored and nobody else listens."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before, self._hook = signal.signal(signal.SIGINT, self), sys.unraisablehook
            sys.unraisablehook = self._swallowed

    def stop_listening(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            sys.unraisablehook, self._before = self._hook, None

    def check(self) -> None:
        """Raise what was pressed while it was waited."""
        self.waiting = False
        if self.pressed:
            self.raised = True
            raise KeyboardInterrupt

    def leave(self, status: int) -> NoReturn:
        """End the process now. Threads are not waited for: they may compile for minutes, and XLA's abort at an exit."""
        if not self._leaving:  # else a pipe that nobody reads holds up what is flushed
            self._leaving = True
            _end_children()
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, RuntimeError, ValueError, AttributeError):
                    stream.flush()
        os._exit(status)

    def __call__(self, number: int, _: FrameType | None) -> None:
        again, self._again = self._again, False
        if self.ends_process and ((self.pressed and not again) or self.over):
            self.leave(128 + number)
        self.pressed = True
        if not self.waiting:
            self.raised = True
            raise KeyboardInterrupt

    def _swallowed(self, found: Any) -> None:
        """Called where Python cannot raise what a callback has raised."""
        if not issubclass(found.exc_type, KeyboardInterrupt):
            self._hook(found)
        elif not self.over:
            self._again = True
            threading.Timer(0.01, _thread.interrupt_main).start()  # when the callback is over


def _end_children() -> None:
    """Processes that this one has started, where the system lists them. Elsewhere they end when their pipe is gone."""
    for path in glob("/proc/self/task/*/children"):
        with suppress(OSError), open(path) as children:
            for child in children.read().split():
                os.kill(int(child), signal.SIGKILL)
