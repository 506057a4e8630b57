"""Ctrl-C, SIGTERM and SIGHUP: the running block ends, the state is saved, and the process exits."""

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

INTERRUPTED = 130  # the usual exit status of a program that Ctrl-C ended


class StoppedError(KeyboardInterrupt):
    """A run was asked to stop, and has saved its state."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.status = 128 + number  # the exit status of a process that the signal ends


class StopRequest:
    """A request to stop. `number` is the signal that arrived, None before one does."""

    number: int | None = None


@contextmanager
def caught() -> Iterator[StopRequest]:
    """Turn the first signal into a request to stop. A second one acts as usual. Only the main thread gets signals."""
    stop_request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop_request
        return
    before: dict[int, Any] = {}

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    def note(number: int, _: FrameType | None) -> None:
        stop_request.number = number
        for handler in before.values():
            if isinstance(handler, CtrlC):
                handler.pressed = True
        restore()
        with suppress(OSError, RuntimeError):  # the reader is gone, or the signal interrupted a print
            if sys.stderr is not None:
                print("\nStopping: this block of steps ends, then the state is saved.", file=sys.stderr, flush=True)

    for number in _to_save():
        before[number] = signal.signal(number, note)
    try:
        yield stop_request
    finally:
        restore()


def _to_save() -> list[int]:
    """Return the signals that end a process, without SIGHUP if nohup ignores it."""
    hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
    known = [signal.SIGINT, signal.SIGTERM]
    if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
        known.append(hang_up)
    return [
        number for number in known if signal.getsignal(number) is not None
    ]  # None: a handler that Python did not install


class CtrlC:
    """Ctrl-C in a command. The first raises KeyboardInterrupt, the second ends the process at once (`ends_process`).

    A KeyboardInterrupt can get lost: modules in C swallow it while they are imported, and so does Python in callbacks.
    So while `waiting`, as during imports, it is only recorded, and `check` raises it later. One that Python swallowed
    is raised again. At the end of a command, `pressed` says whether there was one.
    """

    def __init__(self, *, ends_process: bool) -> None:
        self.ends_process = ends_process
        self.pressed = False
        self.raised = False
        self.waiting = False
        self.over = False  # the command has done its work, so the process may end at any time
        self._again = self._leaving = False
        self._before: Any = None
        self._hook: Any = None

    def listen(self) -> None:
        """Install the handler, unless Ctrl-C is ignored or has another handler."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before, self._hook = signal.signal(signal.SIGINT, self), sys.unraisablehook
            sys.unraisablehook = self._swallowed

    def stop_listening(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            sys.unraisablehook, self._before = self._hook, None

    def check(self) -> None:
        """Stop waiting, and raise KeyboardInterrupt if Ctrl-C was pressed in the meantime."""
        self.waiting = False
        if self.pressed:
            self.raised = True
            raise KeyboardInterrupt

    def leave(self, status: int) -> NoReturn:
        """End the process now, without waiting for threads: they may compile for minutes, or abort at exit (XLA)."""
        if not self._leaving:  # on the second call do not flush: a pipe that nobody reads would block
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
        """Handle an exception that Python cannot raise, since it comes from a callback."""
        if not issubclass(found.exc_type, KeyboardInterrupt):
            self._hook(found)
        elif not self.over:
            self._again = True
            threading.Timer(0.01, _thread.interrupt_main).start()  # when the callback is over


def _end_children() -> None:
    """Kill the processes that this one started, if the system lists them. Elsewhere they end when their pipe closes."""
    for path in glob("/proc/self/task/*/children"):
        with suppress(OSError), open(path) as children:
            for child in children.read().split():
                os.kill(int(child), signal.SIGKILL)
