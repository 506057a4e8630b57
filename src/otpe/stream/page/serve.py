"""What the server of the live page is asked, and what it answers: the page, the state, or a refusal."""

import errno
import ipaddress
import json
import os
import re
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, DefaultSelector
from threading import Event, Thread
from typing import NamedTuple
from urllib.parse import urlsplit

from otpe import check
from otpe.lab.report import documents
from otpe.stream.page.live_state import Live

HERE = Path(__file__).parent
MOST = 16_384  # bytes of a request; a browser sends about 1,000, and cookies of other programs on this machine
FIRST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]")
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # all addresses of this machine, and the one to look at
REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
HEADERS = (
    "Server: otpe\r\nConnection: close\r\nCache-Control: no-store\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
)
NOTHING = "default-src 'none'"


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  # names in small letters


class Answer(NamedTuple):
    code: int
    head: bytes
    content: bytes


class RefusedError(Exception):
    """Carries the answer."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.answer = answer(code, "text/plain", f"{why}\n".encode())


def request(heard: bytes) -> Request | None:
    """The request in these bytes, or None while its end is missing."""
    line, newline, rest = heard.replace(b"\r\n", b"\n").partition(b"\n")
    first = FIRST.fullmatch(line)
    if (newline and not first) or len(heard) > MOST:
        raise RefusedError(400, "This is no request that a browser would send.")
    head, end, _ = (b"\n" + rest).partition(b"\n\n")
    if not end or not first:
        return None
    pairs = [line.partition(":") for line in head.decode("latin-1").split("\n")]
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Request(first[1].decode(), first[2].decode("latin-1").partition("?")[0], headers)


def check_request(asked: Request, host: str, url: str) -> None:
    """RefusedError for a request that this server, which is reached at `url` and listens on `host`, does not answer."""
    if not knows(asked.headers.get("host", ""), host):
        raise RefusedError(403, f"This page is to be found at {url}, not by the name you used.")
    if from_another_site(asked):
        raise RefusedError(403, "Pages of other sites get no answer.")
    if asked.method not in ("GET", "HEAD"):
        raise RefusedError(405, "Only GET and HEAD.")
    if not asked.path.startswith("/"):
        raise RefusedError(400, "This is no address.")
    if asked.path not in ("/", "/now"):
        raise RefusedError(404, "There is only / and /now.")


def knows(name: str, host: str) -> bool:
    """Is this Host header one of our names? Another name that leads here is a trick to read this page from theirs."""
    try:
        found = urlsplit(f"//{name}").hostname or ""
        if found in (*LOCAL, host.lower()):
            return True
        return host in EVERY and bool(ipaddress.ip_address(found))  # a number cannot be made to lead elsewhere
    except ValueError:
        return False


def from_another_site(asked: Request) -> bool:
    """Did a page of another site send it, on its own? A link that somebody follows to this page is answered."""
    headers = asked.headers
    origin = headers.get("origin")
    if origin is not None and origin.partition("//")[2] != headers["host"]:
        return True
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) != ("navigate", "document")


def answer(code: int, kind: str, content: bytes, policy: str = NOTHING) -> Answer:
    allowed = "Allow: GET, HEAD\r\n" if code == 405 else ""
    about = f"Content-Type: {kind}; charset=utf-8\r\nContent-Length: {len(content)}\r\n{allowed}"
    head = f"HTTP/1.1 {code} {REASONS[code]}\r\n{about}Content-Security-Policy: {policy}\r\n{HEADERS}\r\n"
    return Answer(code, head.encode(), content)


def page() -> Answer:
    """One document, and a policy by which nothing else may run in it, and nobody but this server is asked."""
    directives = ("connect-src 'self'", "frame-ancestors 'none'")
    html, policy = documents.document(documents.environment(HERE), "live", *directives)
    return answer(200, "text/html", html.encode(), policy)


# --------------------
# A page that shows a stream while it runs, from a small server in this process.
#
#     live = Live([700, 512, 20])
#     with serve(live, port=0) as server:         # 0: any port that is free
#         print(server.url)
#
# Only this machine is answered, unless another `host` is given. Clients cannot reach the thread that learns, and cannot
# slow it much: one thread does all the serving and measures its own CPU time. When it has used up its SHARE, it sleeps,
# and the operating system keeps clients waiting or sends them away, without any work in Python.


SHARE = 0.02  # of one CPU core: the most that the server takes in the long run
AHEAD = 0.005  # seconds of CPU time that it may take at once after a pause
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
        self._page = page()
        self._state: Answer | None = None
        self._made = self._asked = float("-inf")  # when the state was made, and when somebody wanted to know it
        self._over = False  # was it the last one?
        self._open: set[Client] = set()
        self._stopping = Event()
        self._thread = Thread(target=self._serve, name="otpe page", daemon=True)
        self._listener = _listener(host, port)
        self.port: int = self._listener.getsockname()[1]
        name = EVERY.get(host, host)
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
        more = client.link.recv(MOST)
        if not more:
            raise ConnectionError("it went away before its request was whole")
        client.heard += more
        try:
            asked = request(client.heard)
            if asked is None:
                return
            check_request(asked, self.host, self.url)
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
            self._state = answer(200, "application/json", content)
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
