"""A small server, in this process, for a page that shows a stream while it runs.

    live = Live([700, 512, 20])
    with serve(live, port=0) as server:         # 0: any free port
        print(server.url)

It only answers this machine, unless another `host` is given. Clients cannot reach the thread that learns, and cannot
slow it down much: one thread serves all clients and measures its own CPU time. When its SHARE is used up, it sleeps.
The operating system then makes clients wait or sends them away, without any work in Python.
"""

import errno
import ipaddress
import json
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
LONGEST_REQUEST = 16_384  # bytes; a browser sends about 1,000, plus cookies that other programs set for this host
FIRST_LINE = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]")
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # hosts that mean all addresses of this machine, and one of them
REASONS = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
HEADERS = (
    "Server: otpe\r\nConnection: close\r\nCache-Control: no-store\r\nCross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
)

SHARE = 0.02  # of one CPU core: the server's limit in the long run
AHEAD = 0.005  # seconds of CPU time that it may use at once after a pause
TURN = 0.02  # seconds of sleep after each turn: it then serves all requests that came meanwhile
FRESH = 0.2  # seconds for which all clients get the same state
CONNECTIONS = 16  # that may wait at the same time
SILENCE = 5.0  # seconds after which a client that neither sends nor receives is disconnected
LONGEST = 15.0  # seconds after which any client is disconnected
LINGER = 0.7  # seconds in which watching clients can see how the stream ended


class Request(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]  # names in lower case


class Answer(NamedTuple):
    head: bytes
    content: bytes


class RefusedError(Exception):
    """The request gets this answer instead of content."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.answer = answer(code, "text/plain", f"{why}\n".encode())


def request(received: bytes) -> Request | None:
    """Return the request in these bytes, or None if its end is missing."""
    line, newline, rest = received.replace(b"\r\n", b"\n").partition(b"\n")
    first = FIRST_LINE.fullmatch(line)
    if (newline and not first) or len(received) > LONGEST_REQUEST:
        raise RefusedError(400, "This is no request that a browser would send.")
    head, end, _ = (b"\n" + rest).partition(b"\n\n")
    if not end or not first:
        return None
    pairs = [line.partition(":") for line in head.decode("latin-1").split("\n")]
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    return Request(first[1].decode(), first[2].decode("latin-1").partition("?")[0], headers)


def check_request(asked: Request, host: str, url: str) -> None:
    """Raise RefusedError for a request that this server does not answer. It listens on `host`. Its page is `url`."""
    if not is_own_name(asked.headers.get("host", ""), host):
        raise RefusedError(403, f"Open this page at {url}. It does not answer under the name you used.")
    if from_another_site(asked):
        raise RefusedError(403, "Pages of other sites get no answer.")
    if asked.method not in ("GET", "HEAD"):
        raise RefusedError(405, "Only GET and HEAD.")
    if not asked.path.startswith("/"):
        raise RefusedError(400, "This is no address.")
    if asked.path not in ("/", "/now"):
        raise RefusedError(404, "There is only / and /now.")


def is_own_name(name: str, host: str) -> bool:
    """Return whether a Host header names this server. With another name, a foreign site could read the page."""
    try:
        found = urlsplit(f"//{name}").hostname or ""
        if found in (*LOCAL, host.lower()):
            return True
        # A foreign site could make its name lead to this machine. With a numeric address that is not possible.
        return host in EVERY and bool(ipaddress.ip_address(found))
    except ValueError:
        return False


def from_another_site(asked: Request) -> bool:
    """Return whether a page of another site sent this by itself. A link from there to this page may be followed."""
    headers = asked.headers
    origin = headers.get("origin")
    if origin is not None and origin.partition("//")[2] != headers["host"]:
        return True
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) != ("navigate", "document")


def answer(code: int, kind: str, content: bytes, policy: str = "default-src 'none'") -> Answer:
    allowed = "Allow: GET, HEAD\r\n" if code == 405 else ""
    about = f"Content-Type: {kind}; charset=utf-8\r\nContent-Length: {len(content)}\r\n{allowed}"
    head = f"HTTP/1.1 {code} {REASONS[code]}\r\n{about}Content-Security-Policy: {policy}\r\n{HEADERS}\r\n"
    return Answer(head.encode(), content)


def page() -> Answer:
    """Return the page: one document that runs nothing else, and sends requests to this server only."""
    directives = ("connect-src 'self'", "frame-ancestors 'none'")
    html, policy = documents.document(documents.environment(HERE), "live", *directives)
    return answer(200, "text/html", html.encode(), policy)


def serve(live: Live, *, host: str = "127.0.0.1", port: int = 0) -> "Server":
    """Return the server. It has taken its port, and answers inside a `with` block. `port`: 0 for any free one."""
    if not isinstance(live, Live):
        raise TypeError(f"live is a {type(live).__name__}, expected a Live, which collects what the page shows.")
    wrong_host = f"host is {host!r}, expected an address of this machine, such as '127.0.0.1'."
    if not isinstance(host, str) or not host:
        raise ValueError(wrong_host)
    port = check.whole("port", port, 2**16)
    try:
        return Server(live, host, port)
    except UnicodeError:
        raise ValueError(wrong_host) from None
    except PermissionError:
        advice = "Use --serve 0, or one above 1023."
        raise PermissionError(f"port {port} of {host} may not be used by you. {advice}") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            advice = "Use --serve 0 for any port that is free, or name another."
            raise OSError(f"port {port} of {host} is in use. {advice}") from None
        why = f"which is no address of this machine: {error.strerror}"
        raise OSError(f"host is {host!r}, {why}. Use 127.0.0.1.") from None


@dataclass(eq=False)
class Client:
    """A connection. First its request is received, then its answer is sent."""

    link: socket.socket
    since: float
    active: float  # when it last sent or received something
    received: bytes = b""
    rest: memoryview | None = None  # of the answer


class Budget:
    """CPU time of the calling thread. It earns SHARE seconds per second, and saves at most AHEAD of them."""

    def __init__(self) -> None:
        self.at, self.spent, self.saved = time.monotonic(), time.thread_time(), AHEAD

    def pause(self) -> float:
        """Return the seconds to sleep now, until what was spent is earned."""
        now, spent = time.monotonic(), time.thread_time()
        self.saved = min(AHEAD, self.saved + SHARE * (now - self.at)) - (spent - self.spent)
        self.at, self.spent = now, spent
        return max(TURN, -self.saved / SHARE)


class Server:
    """Sends the page and its state.

    `counts`: the number of connections that were "served", "refused", "lost" on the way, or "failed" by an error here.
    `cpu_seconds`: CPU time that the serving thread has used.
    """

    def __init__(self, live: Live, host: str, port: int) -> None:
        self.live, self.host = live, host
        self.counts: Counter[str] = Counter()
        self.cpu_seconds = 0.0
        self._page = page()
        self._state: Answer | None = None
        self._made = self._asked = float("-inf")  # times of the state, and of the last request for it
        self._over = False  # whether it is the last state
        self._open: set[Client] = set()
        self._stopping = Event()
        self._thread = Thread(target=self._serve, name="otpe page", daemon=True)
        (family, *_), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        both = host == "::" and socket.has_dualstack_ipv6()
        self._listener = socket.create_server((host, port), family=family, backlog=CONNECTIONS, dualstack_ipv6=both)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        name = EVERY.get(host, host)
        self.url = f"http://{f'[{name}]' if ':' in name else name}:{self.port}/"

    def close(self) -> None:
        """End the stream, and stop. Clients that are watching see the end first."""
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
        with DefaultSelector() as selector:
            selector.register(self._listener, EVENT_READ)
            while not self._stopping.is_set():
                for key, _ in selector.select(0.1):
                    if key.data is None:
                        self._accept(selector)
                    else:
                        self._continue(key.data, selector)
                now = time.monotonic()
                for client in [*self._open]:
                    if now - client.active > SILENCE or now - client.since > LONGEST:
                        self._disconnect(client, selector, "lost")
                self.cpu_seconds = time.thread_time()
                self._stopping.wait(budget.pause())
            for client in [*self._open]:
                self._disconnect(client, selector)

    def _accept(self, selector: BaseSelector) -> None:
        for _ in range(CONNECTIONS):
            try:
                link, _ = self._listener.accept()
            except OSError:  # no client is waiting, or it has gone already
                return
            link.setblocking(False)
            client = Client(link, time.monotonic(), time.monotonic())
            self._open.add(client)
            self._continue(client, selector)  # most requests have arrived already, and get their answers at once
            if client in self._open and len(self._open) > CONNECTIONS:
                self._disconnect(client, selector, "refused")
            elif client in self._open:
                selector.register(link, EVENT_READ if client.rest is None else EVENT_WRITE, client)

    def _continue(self, client: Client, selector: BaseSelector) -> None:
        """Receive and send as much as is possible without waiting."""
        try:
            if client.rest is None:
                self._receive(client, selector)
            if client.rest is not None:
                client.rest = client.rest[client.link.send(client.rest) :]
            client.active = time.monotonic()
            if client.rest is not None and not client.rest:
                self._disconnect(client, selector)
        except BlockingIOError:
            pass
        except OSError:
            self._disconnect(client, selector, "lost")
        except Exception:  # an error here costs one connection
            self._disconnect(client, selector, "failed")

    def _receive(self, client: Client, selector: BaseSelector) -> None:
        more = client.link.recv(LONGEST_REQUEST)
        if not more:
            raise ConnectionError("the client has gone before its request was complete")
        client.received += more
        try:
            asked = request(client.received)
            if asked is None:
                return
            check_request(asked, self.host, self.url)
            found = self._page if asked.path == "/" else self._now()
            whole = found.head if asked.method == "HEAD" else found.head + found.content
            self.counts["served"] += 1
        except RefusedError as error:
            whole = b"".join(error.answer)
            self.counts["refused"] += 1
        client.rest = memoryview(whole)
        with suppress(KeyError):  # a client that was just accepted is not registered yet
            selector.modify(client.link, EVENT_WRITE, client)

    def _now(self) -> Answer:
        """Return the state. It is computed at most once in FRESH seconds, and once more at the end."""
        self._asked, over = time.monotonic(), self.live.over
        if self._state is None or self._asked - self._made >= FRESH or over != self._over:
            content = json.dumps(self.live.now(), separators=(",", ":"), allow_nan=False).encode()
            self._state = answer(200, "application/json", content)
            self._made, self._over = self._asked, over
        return self._state

    def _disconnect(self, client: Client, selector: BaseSelector, why: str | None = None) -> None:
        if why is not None:
            self.counts[why] += 1
        self._open.discard(client)
        with suppress(KeyError):
            selector.unregister(client.link)
        client.link.close()
