"""Standard input that can be stopped while nothing comes."""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, Queue

PIECE = 1 << 16  # bytes read at once, at most
WAIT = 0.1  # seconds, until it is asked again whether to stop


class Standard:
    """Lines, each as soon as it is there. A thread waits for them, since nothing can call back one that does."""

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
        self._thread = threading.Thread(target=self._read, daemon=True)

    def readline(self, limit: int) -> bytes:
        """The next line; a piece of it where it is longer; nothing at the end, or when it is to stop."""
        while not self._lines:
            if self._over:
                last, self._rest = self._rest, b""
                return last
            piece = self._next()
            if piece is None:
                return b""
            self._over = not piece
            *whole, self._rest = (self._rest + piece).split(b"\n")
            self._lines.extend(line + b"\n" for line in whole)
            if len(self._rest) >= limit:
                self._lines.append(self._rest)
                self._rest = b""
        return self._lines.popleft()

    def _next(self) -> bytes | None:
        if self._thread.ident is None:
            self._thread.start()
        while not self.stopping():
            try:
                found = self._pieces.get(timeout=WAIT)
            except Empty:
                continue
            if isinstance(found, OSError):
                raise found
            return found
        return None

    def _read(self) -> None:
        """From the descriptor itself: what Python keeps for it is locked while a thread waits there, even at exit."""
        piece: bytes | OSError = b"-"
        while piece and isinstance(piece, bytes):
            try:
                piece = os.read(self._number, PIECE)
            except OSError as error:
                piece = error
            self._pieces.put(piece)
