"""Standard input that can be stopped while nothing comes, and that loses nothing it has read."""

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Queue

PIECE = 1 << 16  # bytes read at once, at most
WAIT = 0.1  # seconds, until it is asked again whether to stop
GRACE = 5.0  # seconds after a stop in which lines that were read before are still handed out
POSIX = os.name == "posix"  # elsewhere nothing can wait for a pipe with a limit


class Standard:
    """Lines, each as soon as it is there. A thread waits for them, since nothing can call back one that does.

    When it is to stop, the thread reads no more. The lines that it has read are still handed out, for `GRACE` seconds
    at most; `dropped` tells about the others.
    """

    def __init__(self) -> None:
        try:
            self._number = sys.stdin.fileno()
        except (AttributeError, ValueError, OSError):
            raise OSError("source is '-', but there is no standard input. Use: something | otpe stream -") from None
        self.stopping: Callable[[], bool] = lambda: False
        self._pieces: Queue[bytes | OSError] = Queue(maxsize=16)
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._over = False
        self._stopped_at: float | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def readline(self, limit: int) -> bytes:
        """The next line; a piece of it where it is longer; nothing at the end, or when it has stopped."""
        if self._stopped_at is None and self.stopping():
            self._stopped_at = time.monotonic()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE:
            return b""
        while not self._lines:
            if self._over:
                last, self._rest = self._rest, b""
                return last
            piece = self._next()
            if piece is None:
                return b""
            self._take(piece, limit)
        return self._lines.popleft()

    def dropped(self) -> str:
        """Stop. Lines that were read and not handed out, in a sentence; empty where there are none."""
        self.stopping = lambda: True
        with suppress(OSError):
            while piece := self._next():
                self._take(piece, sys.maxsize)
        lines = [*self._lines, *([self._rest] if self._rest else [])]
        if not lines:
            return ""
        first, cut = (
            lines[0].decode(errors="replace").strip()[:80],
            " The last one had not come whole." * bool(self._rest),
        )
        what = "1 line that had been read was" if len(lines) == 1 else f"{len(lines):,} lines that had been read were"
        return f"{what} dropped, from {first!r} on.{cut} "

    def _take(self, piece: bytes, limit: int) -> None:
        self._over = not piece
        *whole, self._rest = (self._rest + piece).split(b"\n")
        self._lines.extend(line + b"\n" for line in whole)
        if len(self._rest) >= limit:
            self._lines.append(self._rest)
            self._rest = b""

    def _next(self) -> bytes | None:
        """The next piece. None when it is to stop, and the thread has handed over what it has read."""
        if self._thread.ident is None:
            self._thread.start()
        while True:
            try:
                found = self._pieces.get(timeout=WAIT)
            except Empty:
                if self.stopping() and not (POSIX and self._thread.is_alive()):
                    return None
            else:
                if isinstance(found, OSError):
                    raise found
                return found

    def _read(self) -> None:
        """From the descriptor itself: what Python keeps for it is locked while a thread waits there, even at exit."""
        piece: bytes | OSError = b"-"
        while piece and isinstance(piece, bytes):
            try:
                if POSIX and not select.select([self._number], [], [], WAIT)[0]:
                    if self.stopping():
                        return
                    continue
                if self.stopping():
                    return
                piece = os.read(self._number, PIECE)
            except OSError as error:
                piece = error
            self._pieces.put(piece)
