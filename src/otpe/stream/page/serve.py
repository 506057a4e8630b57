"""A page that shows a stream while it runs, from a small server of this process's own.

    live = Live([700, 512, 20])
    with serve(live, port=0) as server:         # 0: any port that is free
        print(server.url)

Only this machine is answered, unless another `host` is given. What a client does, or sends, or leaves out, never
reaches the thread that learns: it is counted, and nothing is printed.
"""

import errno
import ipaddress
import json
import os
import socket
import sys
import time
from collections import Counter
from contextlib import suppress
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from otpe import check
from otpe.stream.page.answers import Handler, page
from otpe.stream.page.live import Live

CONNECTIONS = 16  # at the same time
LONGEST = 15.0  # seconds after which any client is sent away, however it spends them
LINGER = 0.7  # seconds in which those who watch see how it ended
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # all addresses of this machine, and the one to look at


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


class Server(ThreadingHTTPServer):
    """Answers for the page and for the state of now. `counts`: what became of all connections."""

    daemon_threads, block_on_close = True, False  # a slow client holds nobody up
    allow_reuse_address = os.name == "posix"  # elsewhere it would take the port of one that is listening
    request_queue_size = CONNECTIONS

    def __init__(self, live: Live, host: str, port: int) -> None:
        self.live, self.host = live, host
        self.counts: Counter[str] = Counter()  # "served", "refused", "lost" on the way, "failed" by a fault of ours
        self.page, self.policy = page()
        self._lock, self._open = Lock(), dict[Any, float]()
        self._asked = float("-inf")  # when somebody wanted to know the state
        self._thread = Thread(target=self.serve_forever, args=(0.1,), name="otpe page", daemon=True)
        (self.address_family, *_), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        super().__init__((host, port), Handler)

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        host = EVERY.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def knows(self, host: str) -> bool:
        """A name of somebody else's that leads here is a trick to read this page from theirs."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in (*LOCAL, self.host.lower()):
                return True
            return self.host in EVERY and bool(ipaddress.ip_address(name))  # a number cannot be made to lead elsewhere
        except ValueError:
            return False

    def state(self, since: int) -> bytes:
        self._asked = time.monotonic()
        return json.dumps(self.live.now(since), separators=(",", ":"), allow_nan=False).encode()

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def close(self) -> None:
        """Those who watch see the end first."""
        self.live.end()
        if self._thread.is_alive() and time.monotonic() - self._asked < LINGER:
            time.sleep(LINGER)
        if self._thread.is_alive():
            self.shutdown()
        self.server_close()
        self._send_away(float("inf"))

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.live.end("Stopped." if kind is KeyboardInterrupt else f"Stopped by an error: {kind.__name__}.")
        self.close()

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer would ask the network for its own name, and wait
        self.server_name, self.server_port = self.host, self.port

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            room = len(self._open) < CONNECTIONS
            if room:
                self._open[request] = time.monotonic()
        if room:
            super().process_request(request, client_address)
        else:
            self.count("refused")
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        self._send_away(time.monotonic() - LONGEST)

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.count("lost" if isinstance(sys.exception(), OSError) else "failed")

    def _send_away(self, before: float) -> None:
        with self._lock:
            late = [request for request, since in self._open.items() if since < before]
        for request in late:
            with suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


def _refused(error: OSError, host: str, port: int) -> OSError:
    if error.errno == errno.EADDRINUSE:
        return OSError(f"port {port} of {host} is in use. Use --serve 0 for any port that is free, or name another.")
    if isinstance(error, PermissionError):
        return PermissionError(f"port {port} of {host} may not be used by you. Use --serve 0, or one above 1023.")
    return OSError(f"host is {host!r}, which is no address of this machine: {error.strerror}. Use 127.0.0.1.")
