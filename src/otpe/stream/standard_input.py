"""Standard input that can be stopped while nothing arrives, and that loses nothing it has read."""

import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Queue

PIECE = 1 << 16  # the most bytes that are read at once
WAIT = 0.1  # seconds between two calls of `stopping`
GRACE = 5.0  # seconds after a stop in which lines that were read before are still returned
POSIX = os.name == "posix"  # other systems cannot wait for a pipe with a time limit


class StandardInput:
    """Lines of standard input, each as soon as it has arrived. A thread reads them, since nothing can cancel a read.

    Set `stopping` to a function that says when to stop. The thread then reads no more. Lines that it has read are still
    returned, for at most `GRACE` seconds. `dropped` describes the others.
    """

    def __init__(self) -> None:
        try:
            self._descriptor = sys.stdin.fileno()
        except (AttributeError, ValueError, OSError):
            raise OSError("source is '-', but there is no standard input. Use: something | otpe stream -") from None
        self.stopping: Callable[[], bool] = lambda: False
        self._pieces: Queue[bytes | OSError] = Queue(maxsize=16)
        self._lines: deque[bytes] = deque()
        self._incomplete = b""  # the beginning of a line
        self._ended = False
        self._stopped_at: float | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def readline(self, limit: int) -> bytes:
        """Return the next line, or a part of it if it is longer than `limit`. Empty at the end and after a stop."""
        if self._stopped_at is None and self.stopping():
            self._stopped_at = time.monotonic()
        if self._stopped_at is not None and time.monotonic() - self._stopped_at > GRACE:
            return b""
        while not self._lines:
            if self._ended:
                last, self._incomplete = self._incomplete, b""
                return last
            piece = self._next_piece()
            if piece is None:
                return b""
            self._split(piece, limit)
        return self._lines.popleft()

    def dropped(self) -> str:
        """Stop, and return a sentence about lines that were read and not returned. Empty if there are none."""
        self.stopping = lambda: True
        with suppress(OSError):
            while piece := self._next_piece():
                self._split(piece, sys.maxsize)
        lines = [*self._lines, *([self._incomplete] if self._incomplete else [])]
        if not lines:
            return ""
        first = lines[0].decode(errors="replace").strip()[:80]
        cut = " The last one had not come whole." if self._incomplete else ""
        what = "1 line that had been read was" if len(lines) == 1 else f"{len(lines):,} lines that had been read were"
        return f"{what} dropped, from {first!r} on.{cut} "

    def _split(self, piece: bytes, limit: int) -> None:
        """Add a piece to the lines. An empty piece is the end of the input."""
        self._ended = not piece
        *complete, self._incomplete = (self._incomplete + piece).split(b"\n")
        self._lines.extend(line + b"\n" for line in complete)
        if len(self._incomplete) >= limit:
            self._lines.append(self._incomplete)
            self._incomplete = b""

    def _next_piece(self) -> bytes | None:
        """Return the next piece. None after a stop, when all that the thread has read was returned."""
        if self._thread.ident is None:
            self._thread.start()
        while True:
            try:
                piece = self._pieces.get(timeout=WAIT)
            except Empty:
                if self.stopping() and not (POSIX and self._thread.is_alive()):
                    return None
            else:
                if isinstance(piece, OSError):
                    raise piece
                return piece

    def _read(self) -> None:
        """Read from the descriptor: Python's own buffer would stay locked while a thread waits there, even at exit."""
        piece: bytes | OSError = b"-"
        while piece and isinstance(piece, bytes):
            try:
                arrived = not POSIX or select.select([self._descriptor], [], [], WAIT)[0]
                if self.stopping():
                    return
                if not arrived:
                    continue
                piece = os.read(self._descriptor, PIECE)
            except OSError as error:
                piece = error
            self._pieces.put(piece)
