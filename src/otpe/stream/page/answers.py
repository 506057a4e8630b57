"""What the server of the live page says to whom: the page, the state of now, or a refusal."""

from base64 import b64encode
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from otpe.stream.page.serve import Server

HERE = Path(__file__).parent
SILENCE = 5.0  # seconds after which a client that says nothing is sent away
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
NO_HTML = "default-src 'none'"


class Handler(BaseHTTPRequestHandler):
    """Knows two addresses: / is the page, and /now what is to be shown on it."""

    server: "Server"  # type: ignore[assignment]
    timeout = SILENCE

    def do_GET(self) -> None:
        if not self.server.knows(self.headers.get("Host", "")):
            return self._refuse(403, f"This page is to be found at {self.server.url}, not by the name you used.")
        try:
            asked = urlsplit(self.path)
            since = parse_qs(asked.query).get("since", ["0"])[-1]
        except ValueError:
            return self._refuse(400, "This is no address.")
        if asked.path == "/":
            self._send(200, "text/html", self.server.page, self.server.policy)
        elif asked.path != "/now":
            return self._refuse(404, "There is only / and /now.")
        elif not (since.isascii() and since.isdigit() and len(since) < 19):
            return self._refuse(400, "since is not a number: expected the first time step that is wanted.")
        else:
            self._send(200, "application/json", self.server.state(int(since)))
        self.server.count("served")

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class finds wrong, by itself."""
        self.close_connection = True
        if code == 501:
            return self._refuse(405, "Only GET and HEAD.")
        self._refuse(code, "This is no request that a browser would send.")

    def version_string(self) -> str:
        return "otpe"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    def log_error(self, format: str, *args: Any) -> None:
        """The base class says so when a client was silent for too long."""
        self.server.count("lost")

    def _refuse(self, code: int, why: str) -> None:
        self.server.count("refused")
        self._send(code, "text/plain", f"{why}\n".encode())

    def _send(self, code: int, kind: str, content: bytes, policy: str = NO_HTML) -> None:
        self.send_response(code)
        allowed = {"Allow": "GET, HEAD"} if code == 405 else {}
        about = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in {**about, **allowed, "Content-Security-Policy": policy, **HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def page() -> tuple[bytes, str]:
    """One document, and a policy by which nothing else may run in it, and nobody but this server is asked."""
    names = ("live.html", "live.css", "charts.js", "live.js")
    html, css, *parts = ((HERE / name).read_text(encoding="utf-8") for name in names)
    js = "".join(parts)
    hashes = [f"'sha256-{b64encode(sha256(part.encode()).digest()).decode()}'" for part in (css, js)]
    policy = (
        f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; connect-src 'self'; img-src data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Template(html).substitute(css=css, js=js).encode(), policy
