"""A page that shows a stream while it runs, from a small server in this process.

    live = Live([700, 512, 20])
    with serve(live, port=0) as server:         # 0: any port that is free
        print(server.url)

Only this machine is answered, unless another `host` is given. Clients cannot reach the thread that learns, and cannot
slow it much: one thread does all the serving and measures its own CPU time. When it has used up its SHARE, it sleeps,
and the operating system keeps clients waiting or sends them away, without any work in Python.
"""

import errno
import json
import os
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, DefaultSelector
from threading import Event, Thread

from otpe import check
from otpe.stream.page import answers
from otpe.stream.page.answers import Answer, RefusedError
from otpe.stream.page.live import Live

SHARE = 0.02  # of one CPU core: the most that the server takes in the long run
AHEAD = 0.01  # seconds of CPU time that it may take at once after a pause
TURN = 0.02  # seconds it sleeps after each look at its clients: work comes in few pieces
FRESH = 0.2  # seconds for which all clients get the same state
CONNECTIONS = 16  # that may wait at the same time
SILENCE = 5.0  # seconds after which a client that neither sends nor takes anything is sent away
LONGEST = 15.0  # seconds after which any client is sent away, however it spends them
LINGER = 0.7  # seconds in which those who watch see how it ended


def serve(live: Live, *, host: str = "127.0.0.1", port: int = 0) -> "Server":
    """The server, with its port taken; it answers inside a `with`. `port`: 0 for any that is free."""
    if not isinstance(live, Live):
        raise TypeError(f"live is a {type(live).__name__}, expected a Live, which the stream is told to.")
    if not isinstance(host, str) or not host:
        raise ValueError(f"host is {host!r}, expected an address of this machine, such as '127.0.0.1'.")
    port = check.whole("port", port, 2**16)
    try:
        return Server(live, host, port)
    except OSError as error:
        raise _refused(error, host, port) from None
    except UnicodeError:
        raise ValueError(f"host is {host!r}, expected an address of this machine, such as '127.0.0.1'.") from None


@dataclass(eq=False)
class Client:
    """A connection: its request comes in, then its answer goes out."""

    link: socket.socket
    since: float
    moved: float  # when it last sent or took something
    heard: bytes = b""
    rest: memoryview | None = None  # of the answer


class Budget:
    """CPU time of the calling thread: SHARE seconds are earned per second, at most AHEAD of them are saved."""

    def __init__(self) -> None:
        self.at, self.spent, self.saved = time.monotonic(), time.thread_time(), AHEAD

    def pause(self) -> float:
        """Seconds to sleep now, so that what was spent is earned."""
        now, spent = time.monotonic(), time.thread_time()
        self.saved = min(AHEAD, self.saved + SHARE * (now - self.at)) - (spent - self.spent)
        self.at, self.spent = now, spent
        return max(TURN, -self.saved / SHARE)


class Server:
    """Answers for the page and for the state.

    `counts`: what became of connections: "served", "refused", "lost" on the way, "failed" by a fault of ours.
    `cpu_seconds`: CPU time that the serving thread has used.
    """

    def __init__(self, live: Live, host: str, port: int) -> None:
        self.live, self.host = live, host
        self.counts: Counter[str] = Counter()
        self.cpu_seconds = 0.0
        self._page = answers.page()
        self._state: Answer | None = None
        self._made = self._asked = float("-inf")  # when the state was made, and when somebody wanted to know it
        self._over = False  # was it the last one?
        self._open: set[Client] = set()
        self._stopping = Event()
        self._thread = Thread(target=self._serve, name="otpe page", daemon=True)
        self._listener = _listener(host, port)
        self.port: int = self._listener.getsockname()[1]
        name = answers.EVERY.get(host, host)
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{self.port}/"

    def close(self) -> None:
        """Those who watch see the end first."""
        self.live.end()
        if self._thread.is_alive() and time.monotonic() - self._asked < LINGER:
            time.sleep(LINGER)
        self._stop()

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.live.end("Stopped." if kind is KeyboardInterrupt else f"Stopped by an error: {kind.__name__}.")
        self.close()

    def _stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self._listener.close()

    def _serve(self) -> None:
        budget = Budget()
        with DefaultSelector() as watched:
            watched.register(self._listener, EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in watched.select(0.1):
                    if key.data is None:
                        self._accept(watched)
                    else:
                        self._go_on(key.data, watched)
                self._send_away(watched)
                self.cpu_seconds = time.thread_time()
                self._stopping.wait(budget.pause())
            for client in [*self._open]:
                self._drop(client, watched)

    def _accept(self, watched: BaseSelector) -> None:
        for _ in range(CONNECTIONS):
            try:
                link, _ = self._listener.accept()
            except OSError:  # nobody waits any more, or has gone already
                return
            link.setblocking(False)
            client = Client(link, time.monotonic(), time.monotonic())
            self._open.add(client)
            self._go_on(client, watched)  # most requests are there already, and their answers leave at once
            if client not in self._open:
                continue
            if len(self._open) > CONNECTIONS:
                self._drop(client, watched, "refused")
            else:
                watched.register(link, EVENT_READ if client.rest is None else EVENT_WRITE, client)

    def _go_on(self, client: Client, watched: BaseSelector) -> None:
        """As far as it can without waiting."""
        try:
            if client.rest is None:
                self._hear(client, watched)
            if client.rest is not None:
                client.rest = client.rest[client.link.send(client.rest) :]
            client.moved = time.monotonic()
            if client.rest is not None and not client.rest:
                self._drop(client, watched)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client, watched, "lost")
        except Exception:  # a fault of ours costs one connection
            self._drop(client, watched, "failed")

    def _hear(self, client: Client, watched: BaseSelector) -> None:
        more = client.link.recv(answers.MOST)
        if not more:
            raise ConnectionError("it went away before its request was whole")
        client.heard += more
        try:
            asked = answers.request(client.heard)
            if asked is None:
                return
            answers.check(asked, self.host, self.url)
            found = self._page if asked.path == "/" else self._now()
            whole = found.head if asked.method == "HEAD" else found.head + found.content
            self.counts["served"] += 1
        except RefusedError as error:
            whole = error.answer.head + error.answer.content
            self.counts["refused"] += 1
        client.rest = memoryview(whole)
        with suppress(KeyError):  # it was not there yet when it was accepted
            watched.modify(client.link, EVENT_WRITE, client)

    def _now(self) -> Answer:
        """The state, made at most once in FRESH seconds, and once more at the end."""
        self._asked, over = time.monotonic(), self.live.over
        if self._state is None or self._asked - self._made >= FRESH or over != self._over:
            content = json.dumps(self.live.now(), separators=(",", ":"), allow_nan=False).encode()
            self._state = answers.answer(200, "application/json", content)
            self._made, self._over = self._asked, over
        return self._state

    def _send_away(self, watched: BaseSelector) -> None:
        now = time.monotonic()
        for client in [*self._open]:
            if now - client.moved > SILENCE or now - client.since > LONGEST:
                self._drop(client, watched, "lost")

    def _drop(self, client: Client, watched: BaseSelector, why: str | None = None) -> None:
        if why is not None:
            self.counts[why] += 1
        self._open.discard(client)
        with suppress(KeyError):
            watched.unregister(client.link)
        client.link.close()


def _listener(host: str, port: int) -> socket.socket:
    (family, *_), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would take the port of one that is listening
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(CONNECTIONS)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def _refused(error: OSError, host: str, port: int) -> OSError:
    if error.errno == errno.EADDRINUSE:
        return OSError(f"port {port} of {host} is in use. Use --serve 0 for any port that is free, or name another.")
    if isinstance(error, PermissionError):
        return PermissionError(f"port {port} of {host} may not be used by you. Use --serve 0, or one above 1023.")
    return OSError(f"host is {host!r}, which is no address of this machine: {error.strerror}. Use 127.0.0.1.")
