"""What the server of the live page is asked, and what it answers: the page, the state, or a refusal."""

import ipaddress
import re
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import urlsplit

from otpe import documents

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


def check(asked: Request, host: str, url: str) -> None:
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
    names = ("live.html", "live.css", "charts.js", "live.js")
    html, css, *parts = ((HERE / name).read_text(encoding="utf-8") for name in names)
    js = "".join(parts)
    policy = documents.policy(css, js, "connect-src 'self'", "frame-ancestors 'none'")
    return answer(200, "text/html", Template(html).substitute(css=css, js=js).encode(), policy)
