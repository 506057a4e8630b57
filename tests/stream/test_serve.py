"""The server of the live page: its answers to browsers, and that other clients disturb nothing."""

import base64
import contextlib
import hashlib
import http.client
import json
import re
import socket
import struct
import threading
import time

import pytest
from made_up_blocks import block, feed

from otpe.stream.page import serve
from otpe.stream.page.live_state import Live
from otpe.stream.prequential import Prequential

SIZES = (6, 4, 3)


@pytest.fixture
def live():
    page = Live(SIZES)
    feed(page, Prequential(3), block(5))
    return page


@pytest.fixture
def server(live, monkeypatch):
    monkeypatch.setattr(serve, "LINGER", 0.0)
    with serve.serve(live) as running:
        yield running
    assert running.counts["failed"] == 0


def ask(server, path="/now", method="GET", **headers):
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    link.putrequest(method, path, skip_host=True)
    for name, value in {"Host": f"127.0.0.1:{server.port}", **headers}.items():
        if value is not None:
            link.putheader(name, value)
    link.endheaders()
    answer = link.getresponse()
    content = answer.read()
    link.close()
    return answer.status, dict(answer.getheaders()), content


def raw(server, content, wait=10.0):
    """Return the complete answer to these bytes."""
    received = b""
    with (
        contextlib.suppress(ConnectionError, TimeoutError),
        socket.create_connection(("127.0.0.1", server.port), wait) as link,
    ):
        link.sendall(content)
        while more := link.recv(65536):
            received += more
    return received


def until(true, seconds=5.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


def test_the_server_sends_the_page_and_the_current_state(server, live):
    status, headers, page = ask(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b'<canvas id="curve"' in page
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.DOTALL)
        hashed = base64.b64encode(hashlib.sha256(content).digest()).decode()
        assert policy[rule] == f"'sha256-{hashed}'", "no other script or style is allowed"
    assert not re.search(rb"https?:|//[a-z]|@import|url\(", page), "nothing is fetched from elsewhere"

    status, headers, content = ask(server, "/now")
    assert (status, headers["Content-Type"], headers["Cache-Control"]) == (
        200,
        "application/json; charset=utf-8",
        "no-store",
    )
    now = json.loads(content)
    assert (now["score"]["steps"], len(now["raster"]["inputs"])) == (5, 5)
    assert until(lambda: server.counts == {"served": 2})
    assert server.url == f"http://127.0.0.1:{server.port}/"


def test_head_sends_the_headers_of_get(server):
    status, headers, content = ask(server, "/", "HEAD")
    assert (status, content) == (200, b"")
    assert headers["Content-Length"] == str(len(ask(server, "/")[2]))
    assert raw(server, b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").endswith(b"\r\n\r\n"), "nothing after the headers"


REFUSED = [
    (405, {"method": "POST"}, "Only GET and HEAD."),
    (405, {"method": "DELETE", "path": "/"}, "Only GET and HEAD."),
    (404, {"path": "/live.py"}, "There is only / and /now."),
    (404, {"path": "/../../etc/passwd"}, "There is only / and /now."),
    (400, {"path": "http://[x"}, "This is no address."),
    (403, {"Host": "evil.example"}, "Open this page at http://127.0.0.1:"),
    (403, {"Host": "127.0.0.1.evil.example"}, "Open this page at"),
    (403, {"Host": "192.168.1.5"}, "Open this page at"),
    (403, {"Host": "["}, "Open this page at"),
    (403, {"Host": None}, "Open this page at"),
    (403, {"Origin": "http://evil.example"}, "Pages of other sites get no answer."),
    (403, {"Origin": "null"}, "Pages of other sites get no answer."),
    (403, {"Origin": "http://127.0.0.1:1"}, "Pages of other sites get no answer."),
    (403, {"Sec-Fetch-Site": "cross-site"}, "Pages of other sites get no answer."),
    (403, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, "Pages of other sites get no answer."),
    (403, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, "Pages of other"),
]


@pytest.mark.parametrize(("status", "request_", "reason"), REFUSED, ids=[str(each[:2])[:50] for each in REFUSED])
def test_invalid_requests_are_refused(server, status, request_, reason):
    answered, headers, content = ask(server, **request_)
    assert answered == status
    assert content.decode().startswith(reason)
    assert headers["Content-Security-Policy"] == "default-src 'none'"
    assert headers.get("Allow") == ("GET, HEAD" if status == 405 else None)
    assert until(lambda: server.counts == {"refused": 1})


def test_requests_of_our_page_and_links_to_it_are_answered(server):
    own = f"localhost:{server.port}"
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for headers in ({"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": f"http://{own}"}, link):
        assert ask(server, **{"Host": own, **headers})[0] == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:80", "[::1]:8000"])
def test_every_local_host_name_is_answered(server, host):
    assert ask(server, Host=host)[0] == 200


def test_on_all_addresses_any_ip_address_is_answered_but_no_other_name(live, monkeypatch):
    monkeypatch.setattr(serve, "LINGER", 0.0)
    with serve.serve(live, host="0.0.0.0") as server:
        for status, names in {
            200: ("10.0.0.7:8000", "[fe80::1]", "localhost"),
            403: ("evil.example", "", "10.0.0"),
        }.items():
            assert [ask(server, Host=name)[0] for name in names] == [status] * 3
        assert server.url == f"http://127.0.0.1:{server.port}/"


GARBAGE = {
    "zeros": b"\0" * 100 + b"\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\n",
    "one word": b"GET\r\n\r\n",
    "four words": b"GET / now HTTP/1.1\r\n\r\n",
    "a version of the future": b"GET / HTTP/9.9\r\n\r\n",
    "no version": b"GET / HTTP/x\r\n\r\n",
    "a long address": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    "a long header": b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"A: a\r\n" * 300 + b"\r\n",
    "no header": b"GET / HTTP/1.1\r\n:::\r\n\r\n",
    "half a request": None,
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_garbage_requests_are_refused(server, content, capfd):
    if content is None:
        with socket.create_connection(("127.0.0.1", server.port)) as link:
            link.sendall(b"GET /no")
    else:
        assert b" 200 " not in raw(server, content)
    assert until(lambda: sum(server.counts.values()) == 1)
    assert ask(server)[0] == 200
    assert capfd.readouterr() == ("", "")


def test_clients_that_disconnect_do_no_harm(server, capfd):
    for request in (b"", b"GET /now HTTP/1.1\r\nHost: localhost\r\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        link = socket.create_connection(("127.0.0.1", server.port))
        link.sendall(request)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()  # close with a reset, without a goodbye
    assert ask(server)[0] == 200
    assert until(lambda: not server._open)
    assert capfd.readouterr() == ("", "")


def sent_away(link):
    try:
        link.sendall(b"A")
    except ConnectionError:
        return True
    return False


def test_slow_clients_are_disconnected(live, monkeypatch, capfd):
    assert serve.SILENCE <= serve.LONGEST <= 30
    monkeypatch.setattr(serve, "LINGER", 0.0)
    monkeypatch.setattr(serve, "LONGEST", 0.5)
    monkeypatch.setattr(serve, "SILENCE", 0.2)
    with serve.serve(live) as server:
        assert raw(server, b"GET /now HT") == b"", "a client that stops sending"
        assert until(lambda: server.counts == {"lost": 1})
        with socket.create_connection(("127.0.0.1", server.port), 5) as link:
            assert until(lambda: sent_away(link)), "a client that keeps sending a few bytes"
        assert until(lambda: not server._open)
    assert capfd.readouterr() == ("", "")


def test_a_request_in_pieces_is_answered(server):
    with socket.create_connection(("127.0.0.1", server.port), 5) as link:
        for piece in (b"GET /now HT", b"TP/1.1\r\nHost: localhost\r\n", b"\r\n"):
            link.sendall(piece)
            time.sleep(0.05)
        assert link.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_slow_reader_gets_the_whole_answer_without_delaying_others(server):
    content = b"x" * 20_000_000
    server._page = serve.answer(200, "text/html", content)
    with socket.create_connection(("127.0.0.1", server.port), 5) as link:
        link.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(serve.CONNECTIONS - 2)]
        assert until(lambda: len(server._open) == serve.CONNECTIONS - 1)
        assert ask(server)[0] == 200
        received = b"".join(iter(lambda: link.recv(2**20), b""))
    assert received.endswith(content)
    for each in idle:
        each.close()


def test_the_number_of_connections_is_limited(server):
    links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(serve.CONNECTIONS)]
    assert until(lambda: len(server._open) == serve.CONNECTIONS)
    assert raw(server, b"") == raw(server, b"GET / HT") == b"", "at once, not after SILENCE"
    assert server.counts["refused"] == 2
    assert ask(server)[0] == 200, "requests that need no waiting are answered"
    for link in links:
        link.close()
    assert until(lambda: not server._open)
    assert ask(server)[0] == 200


ASKED = [b"GET /now HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /x HTTP/1.1\r\nHost: evil\r\n\r\n", b"POST\r\n", b""]


def test_any_number_of_clients_takes_a_small_share_of_the_time(server, monkeypatch):
    monkeypatch.setattr(serve, "FRESH", 0.0)  # no answer is cached
    end = time.monotonic() + 0.8

    def loop(content):
        while time.monotonic() < end:
            if content:
                raw(server, content, 1)
            else:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", server.port), 1).close()

    began, before = time.monotonic(), server.cpu_seconds
    threads = [threading.Thread(target=loop, args=(content,), daemon=True) for content in 3 * ASKED]
    for each in threads:
        each.start()
    while time.monotonic() < end:
        time.sleep(0.01)
    spent, passed = server.cpu_seconds - before, time.monotonic() - began
    assert spent > 0.003, "the server must have worked"
    assert spent < 0.02 * passed + 0.005 + 0.015, "a fiftieth, the time saved before, and one check of all clients"
    for each in threads:
        each.join(5)
    assert ask(server)[0] == 200


def test_clients_share_a_cached_state_until_it_expires(server, live, monkeypatch):
    calls, now = [], live.now
    monkeypatch.setattr(serve, "FRESH", 60.0)
    monkeypatch.setattr(live, "now", lambda: calls.append(1) or now())
    for _ in range(4):
        assert json.loads(ask(server)[2])["state"] == "running"
    assert len(calls) == 1
    live.end()
    assert [json.loads(ask(server)[2])["state"] for _ in range(2)] == ["over", "over"]
    assert len(calls) == 2
    monkeypatch.setattr(serve, "FRESH", 0.0)
    ask(server)
    assert len(calls) == 3


def test_an_internal_error_ends_one_connection_only(live, monkeypatch, capfd):
    monkeypatch.setattr(serve, "LINGER", 0.0)
    monkeypatch.setattr(live, "now", fails(ZeroDivisionError))
    with serve.serve(live) as server:
        assert raw(server, ASKED[0]) == b""
        assert ask(server, "/")[0] == 200
        assert until(lambda: server.counts == {"failed": 1, "served": 1})
    assert capfd.readouterr() == ("", "")


def test_a_port_in_use_is_refused_with_a_sentence(server, live):
    with pytest.raises(
        OSError,
        match=rf"port {server.port} of 127.0.0.1 is in use. Use --serve 0 for any port that is free, or name another.",
    ):
        serve.serve(live, port=server.port)
    assert ask(server)[0] == 200


def fails(error):
    def server(*_):
        raise error

    return server


def test_a_privileged_port_is_refused_with_a_sentence(live, monkeypatch):
    monkeypatch.setattr(serve, "Server", fails(PermissionError(13, "Permission denied")))
    with pytest.raises(
        PermissionError, match=r"port 80 of 127.0.0.1 may not be used by you. Use --serve 0, or one above 1023."
    ):
        serve.serve(live, port=80)


BAD = [
    ({"port": 65536}, "port is 65536, expected a whole number from 0 to 65,535"),
    ({"port": "80"}, "port is '80', expected a whole number"),
    ({"host": ""}, "host is '', expected an address of this machine, such as '127.0.0.1'"),
    ({"host": "a" * 70}, "expected an address of this machine, such as '127.0.0.1'"),
    ({"host": "192.0.2.1"}, "host is '192.0.2.1', which is no address of this machine: .*. Use 127.0.0.1."),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=[message[:30] for _, message in BAD])
def test_the_error_messages(live, given, message):
    with pytest.raises((ValueError, OSError), match=message):
        serve.serve(live, **given)


def test_an_object_that_is_no_live_is_refused():
    with pytest.raises(TypeError, match="live is a dict, expected a Live, which collects"):
        serve.serve({})


def test_clients_see_the_end_of_the_stream(live):
    seen = []
    with serve.serve(live) as server:
        ask(server)

        def watch():
            while seen[-1:] != ["over"]:
                seen.append(json.loads(ask(server)[2])["state"])
                time.sleep(0.05)

        watcher = threading.Thread(target=watch)
        watcher.start()
    watcher.join(5)
    assert seen[-1] == "over"
    with pytest.raises(ConnectionError):
        ask(server)


@pytest.mark.parametrize(
    ("error", "reason"), [(KeyboardInterrupt, "Stopped."), (OSError, "Stopped by an error: OSError.")]
)
def test_the_page_says_why_the_stream_ended(live, error, reason):
    with pytest.raises(error), serve.serve(live):
        raise error
    assert live.now()["why"] == reason


def test_an_unused_server_releases_its_port(live):
    server = serve.serve(live)
    server.close()
    serve.serve(live, port=server.port).close()
