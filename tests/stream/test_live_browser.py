"""The live page in a browser: it is complete, updates itself, says when it cannot, and asks no other server."""

import time

import pytest
from made_up_blocks import block, feed

from otpe.stream.page.live_state import Live
from otpe.stream.page.serve import serve
from otpe.stream.prequential import Prequential

SIZES = (700, 128, 5)
TEXT = "document.getElementById('{}').textContent"
FIGURES = """Object.entries({curve: 'recent', inputs: 'ink', outputs: 'band', course: 'whole'}).map(([id, name]) => {
  const canvas = document.getElementById(id), g = canvas.getContext('2d'), dot = new OffscreenCanvas(1, 1).getContext('2d');
  dot.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
  dot.fillRect(0, 0, 1, 1);
  const [colour] = new Uint32Array(dot.getImageData(0, 0, 1, 1).data.buffer);
  const pixels = new Uint32Array(g.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  return [id, canvas.clientWidth > 250, pixels.filter(pixel => pixel === colour).length > 100];
})"""
LABEL = "document.getElementById('{}').getAttribute('aria-label')"
HOVER = """(() => {
  const canvas = document.getElementById('curve'), box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: box.right - 15, clientY: box.top + 50}));
  return document.getElementById('curve-about').textContent;
})()"""
HIDE = "Object.defineProperty(document, 'hidden', {{configurable: true, value: {}}}), document.dispatchEvent(new Event('visibilitychange'))"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PAPER = "getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = ([{"name": "prefers-color-scheme", "value": value}] for value in ("light", "dark"))


def becomes(browser, script, value, seconds=20):
    end = time.monotonic() + seconds
    while (value_now := browser.evaluate(script)) != value and time.monotonic() < end:
        time.sleep(0.05)
    return value_now == value or value_now


def shows(browser, name, text):
    return becomes(browser, TEXT.format(name), text)


WIDTHS = "[...document.querySelectorAll('#rates i')].map(bar => bar.style.width)"
CELLS = "[...document.querySelectorAll('#confusions tr')].map(row => [...row.cells].map(cell => cell.textContent))"
CLIPPED = """[...document.querySelectorAll('.tiles > div, .panels > *, table, th, td, figcaption')]
  .filter(part => part.getBoundingClientRect().right > innerWidth || part.scrollWidth > part.clientWidth + 1)
  .map(part => part.id || part.textContent.slice(0, 30))"""
INK = """(() => {
  const canvas = document.getElementById('curve'), g = canvas.getContext('2d'), dot = new OffscreenCanvas(1, 1).getContext('2d');
  dot.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--NAME').trim();
  dot.fillRect(0, 0, 1, 1);
  const [colour] = new Uint32Array(dot.getImageData(0, 0, 1, 1).data.buffer);
  return new Uint32Array(g.getImageData(0, 0, canvas.width, canvas.height).data.buffer).filter(pixel => pixel === colour).length;
})()"""


class Stream:
    """Its time advances only with its blocks, so that it does not seem to pause on a slow machine."""

    def __init__(self, title, steps, **more):
        self.time, self.score = 0.0, Prequential(5)
        about = {"dt": 0.01, "title": title, "names": ["a", "b", "c", "d", "<e>"], "skipped": {"late": 2}} | more
        self.live = Live(SIZES, clock=lambda: self.time, **about)
        for _ in range(steps // 4):
            self.feed(4)

    def feed(self, steps):
        self.time += 0.3
        feed(self.live, self.score, block(steps, sizes=SIZES, first=self.score.steps, right=0.9))


def test_the_live_page_in_a_browser(browser):
    stream = Stream("A stream & more", 64)
    with serve(stream.live) as server:
        browser.open(server.url, features=LIGHT)
        assert shows(browser, "state", "live") is True
        assert browser.evaluate(TEXT.format("title")) == "A stream & more"
        assert browser.evaluate(TEXT.format("recent")) == f"{stream.score.window_accuracy:.3f}"
        assert browser.evaluate(TEXT.format("skipped")) == "2late: 2"
        assert "one in 4 is shown" in browser.evaluate(TEXT.format("inputs-about"))
        assert browser.evaluate("document.querySelectorAll('#rates li').length") == 3
        assert browser.evaluate(HOVER).startswith("Step 64: window ")
        stream.feed(1000)
        assert shows(browser, "steps", "1,0641,064 with a label") is True, "it updates itself"
        figures = [[name, True, True] for name in ("curve", "inputs", "outputs", "course")]
        assert browser.evaluate(FIGURES) == figures

        browser.evaluate(HIDE.format("true"))
        time.sleep(0.4)
        requests = server.counts["served"]
        time.sleep(0.6)
        assert server.counts["served"] == requests, "a hidden page sends no requests"
        browser.evaluate(HIDE.format("false"))

        assert browser.evaluate(PAPER) == "rgb(255, 255, 255)"
        assert browser.evaluate(f"document.getElementById('theme').click(), {PAPER}") == "rgb(21, 23, 27)"
        browser.evaluate("localStorage.clear()")
        requests = [event["params"]["request"]["url"] for event in browser.messages("Network.requestWillBeSent")]
        assert requests[0] == server.url
        assert [url for url in requests if not url.startswith((server.url, "data:"))] == []
        assert browser.messages("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []

        browser.open(server.url, width=375, height=700, features=DARK)
        assert shows(browser, "state", "live") is True
        assert browser.evaluate(PAPER) == "rgb(21, 23, 27)"
        assert browser.evaluate(OVERFLOW) == 0, "no horizontal scrolling on a phone"
        assert browser.evaluate(FIGURES) == figures
        assert browser.messages("Runtime.exceptionThrown", "Log.entryAdded") == []
        stream.live.end("All steps are taken.")
    assert shows(browser, "state", "over") is True
    assert browser.evaluate(TEXT.format("why")) == "All steps are taken."


def test_the_page_says_when_its_stream_is_gone(browser):
    with serve(Stream("first", 64).live) as server:
        browser.open(server.url)
        assert shows(browser, "state", "live") is True
        server._stop()  # as if the server had been killed
        assert shows(browser, "state", "connection lost") is True
        assert "last numbers that came" in browser.evaluate(TEXT.format("why"))
        with serve(Stream("second", 20).live, port=server.port):
            assert shows(browser, "state", "live") is True
            assert browser.evaluate(TEXT.format("title")) == "second"
            assert becomes(browser, LABEL.format("inputs"), "Input spikes of the last 20 time steps") is True
            assert browser.messages("Runtime.exceptionThrown") == []


def test_changes_confusions_and_curves_with_enough_labels(browser):
    stream = Stream("changes", 40, changes=[(60, "swap 0,1"), (5000, "die 0.3")])
    with serve(stream.live) as server:
        browser.open(server.url, features=LIGHT)
        assert shows(browser, "curve-about", "The curves begin with 100 labels: 40 are there.") is True
        assert browser.evaluate(TEXT.format("changes")) == "To come: swap 0,1 at step 60; die 0.3 at step 5,000."
        assert browser.evaluate(TEXT.format("window")) == "last 1,000 labels, n = 40"
        assert browser.evaluate(INK.replace("NAME", "recent")) == 0, "no curve of 40 labels"
        assert browser.evaluate(INK.replace("NAME", "ink")) == 0, "no change yet"
        assert browser.evaluate(TEXT.format("sequences")) == "–none has ended"

        stream.score.reset()
        stream.feed(600)
        stream.time += 10
        stream.feed(4)
        assert shows(browser, "all", "whole stream, n = 644") is True
        assert browser.evaluate(INK.replace("NAME", "recent")) > 100
        assert browser.evaluate(INK.replace("NAME", "ink")) > 100, "a line at the change"
        changes = "Changes: swap 0,1 at step 60. To come: die 0.3 at step 5,000."
        assert browser.evaluate(TEXT.format("changes")) == changes
        assert browser.evaluate(TEXT.format("endings")) == "last ones, n = 1"
        names = {-1: "silent", **dict(enumerate(stream.live.names))}
        pairs = [[names[a], names[b], str(n), f"{100 * n / 644:.1f} %"] for a, b, n in stream.score.confusions(5)]
        assert browser.evaluate(CELLS) == pairs
        assert len(pairs) == 5
        rates = [rate for _, _, rate in stream.live.now()["rates"]]
        shown = [float(width.removesuffix("%")) for width in browser.evaluate(WIDTHS)]
        assert shown == pytest.approx([100 * rate for rate in rates], abs=0.02), "bars go from 0 to 1"

        for features in (LIGHT, DARK):
            browser.open(server.url, width=375, height=800, features=features)
            assert shows(browser, "all", "whole stream, n = 644") is True
            assert browser.evaluate(OVERFLOW) == 0
            assert browser.evaluate(CLIPPED) == []
            assert browser.evaluate(CELLS) == pairs
        assert browser.messages("Runtime.exceptionThrown", "Log.entryAdded") == []
