"""`otpe stream --serve`: the page is available while the stream runs. A port in use is reported before the start."""

import json
import re
import socket
import urllib.request

import pytest
from tiny_streams import CLASSES, NET, SHAPE, UNITS, Pressed, config, events, made_up_randman

from otpe import cli
from otpe.stream import session as streaming
from otpe.stream import sources
from otpe.stream.page import serve
from otpe.stream.session import run


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("".join(events()) + "garbage\n")
    return path


class Looking:
    """A watcher that requests the page at the end of each block."""

    def __init__(self, line):
        self.line, self.seen = line, []

    def __call__(self, *_):
        url = re.search(r"Watch it at (http\S+)", "\n".join(self.line)).group(1)
        with urllib.request.urlopen(f"{url}now") as answer:
            self.seen.append(json.load(answer))


@pytest.fixture
def messages(monkeypatch):
    """Record the messages during the stream."""
    recorded = []
    monkeypatch.setattr("otpe.lab.progress.LiveLine.say", lambda self, text: recorded.append(text))
    return recorded


def test_the_page_shows_the_stream_while_it_runs(file, tmp_path, messages, monkeypatch):
    for name, value in {"FRESH": 0.0, "TURN": 0.0, "SHARE": 1.0}.items():  # the page is requested after every block
        monkeypatch.setattr(serve, name, value)
    prepared = streaming.prepared(config(file, tmp_path / "run", serve=0))
    looking = Looking(messages)
    prepared.watchers.append(looking)
    result, live = prepared(), prepared.page.live
    assert [now["score"]["steps"] for now in looking.seen[:5]] == [0, 4, 8, 12, 16], (
        "every block except the current one"
    )
    assert looking.seen[-1]["title"] == f"{file}, otpe"
    assert [size for _, size, _ in looking.seen[-1]["rates"]] == [UNITS, 6, CLASSES]
    last = live.now()
    assert last["score"]["steps"] == result.place.steps
    assert last["why"] == "The stream is over."
    assert sum(last["skipped"].values()) == sum(result.place.skipped.values()) == 1
    with pytest.raises(OSError, match="refused"):  # the server has stopped
        Looking(messages)()


def test_the_page_shows_how_the_stream_was_stopped(file, tmp_path):
    prepared = streaming.prepared(config(file, tmp_path / "run", serve=0))
    prepared.watchers.append(Pressed(3))
    with pytest.raises(KeyboardInterrupt):
        prepared()
    assert "The stream was stopped: stopped after step 12" in prepared.page.live.now()["why"]


def test_a_port_in_use_is_reported_before_the_stream_starts(file, tmp_path, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["stream", str(file), *SHAPE, *NET, "--out", str(tmp_path / "run"), "--serve", port]) == 2
    assert re.search(rf"port {port} .*--serve 0", capsys.readouterr().err, re.DOTALL)
    assert not (tmp_path / "run").exists()


def test_the_port_is_released_when_the_stream_cannot_start(file, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "letter.txt").write_text("mine")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for _ in range(2):
        with pytest.raises(FileExistsError, match=r"run"):
            run(config(file, tmp_path / "run", serve=port))


def test_a_stream_can_be_resumed_with_a_page(file, tmp_path, messages):
    with pytest.raises(KeyboardInterrupt):
        run(config(file, tmp_path / "run"), [Pressed(3)])
    run(config(file, tmp_path / "run", resume=True, serve=0))
    assert any("Watch it at" in text for text in messages)


def test_a_stream_with_late_labels(file, tmp_path):
    late = run(config(file, tmp_path / "late", delay=5, steps=60)).learner
    assert late.delay == 5
    assert late.steps == 60


def test_the_page_knows_the_changes_of_the_world(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "randman", made_up_randman)
    changes = ("die@40:0.3", "swap@20:0,1")
    prepared = streaming.prepared(config("t-randman", tmp_path / "run", serve=0, steps=60, changes=changes))
    live = prepared.page.live
    prepared()
    assert live.now()["changes"] == [(20, "swap 0,1"), (40, "die 0.3")]
