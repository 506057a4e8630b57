"""The page in a browser: it has no errors, is complete, fetches nothing, and fits on a phone."""

from sample_sections import CONTOURS, LINES, figure

from otpe.lab.paper.claims import CLAIMS
from otpe.lab.paper.evidence import VALIDATION
from otpe.lab.report.content import Sample
from otpe.lab.report.page import report

FIGURES = (
    "[...document.querySelectorAll('.panel svg')].map(x => x.getBoundingClientRect()).map(b => [b.width, b.height])"
)
DEAD_LINKS = """[...document.querySelectorAll('a[href^="#"]')].filter(a => !document.getElementById(a.hash.slice(1))).map(a => a.hash)"""
TWICE = """(() => { const ids = [...document.querySelectorAll('[id]')].map(x => x.id); return ids.filter((x, i) => ids.indexOf(x) < i); })()"""
HOVER = """(() => {
  const panel = document.querySelector('#study [data-hover]'), spot = JSON.parse(panel.dataset.hover).spots[1], svg = panel.querySelector('svg');
  svg.scrollIntoView();
  const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
  const at = {clientX: box.left + spot[1] * scale + 2, clientY: box.top + spot[2] * scale + 2, bubbles: true};
  svg.dispatchEvent(new PointerEvent('pointermove', at));
  const tip = document.getElementById('tip');
  return [tip.hidden, tip.textContent];
})()"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SCROLLS = (
    "[...document.querySelectorAll('.scroll')].map(box => [box.scrollWidth > box.clientWidth, box.tabIndex === 0])"
)
HIDDEN = """[...document.querySelectorAll('main td, main tbody th')]
  .filter(cell => !cell.closest('details:not([open])'))
  .filter(cell => { const box = cell.getBoundingClientRect(), around = cell.closest('.scroll');
    const at = box.right - around.getBoundingClientRect().left + around.scrollLeft;
    return !box.width || !box.height || at > around.scrollWidth + 1; }).map(cell => cell.textContent)"""
ROWS = "[...document.querySelectorAll('#four .panel')].map(x => Math.round(x.getBoundingClientRect().top))"
LIGHT_PAPER, DARK_PAPER = "rgb(255, 255, 255)", "rgb(21, 23, 27)"
PAPER = "getComputedStyle(document.body).backgroundColor"
OTHER_PAPER = f"document.getElementById('theme').click(), {PAPER}"


def test_the_page_in_a_browser(browser, runs, tmp_path):
    runs.study("study")
    runs.train("run", finished=False)
    runs.write("broken", section="{")
    address = report(runs.path, tmp_path / "report.html").resolve().as_uri()

    light, dark = ([{"name": "prefers-color-scheme", "value": value}] for value in ("light", "dark"))
    browser.open(address, width=1280, features=light)
    sizes = browser.evaluate(FIGURES)
    assert len(sizes) == 5 + 2
    assert all(width > 200 and height > 150 for width, height in sizes)
    assert browser.evaluate(DEAD_LINKS) == []
    assert browser.evaluate(TWICE) == []
    assert browser.evaluate(HOVER) == [False, "BPTTmini-batches 10\naccuracy 0.6 ± 0.02"]
    papers = [browser.evaluate(script) for script in (PAPER, OTHER_PAPER, OTHER_PAPER)]
    assert papers == [LIGHT_PAPER, DARK_PAPER, LIGHT_PAPER], "the button switches the theme, and back"
    browser.evaluate("localStorage.clear()")

    requests = [event["params"]["request"]["url"] for event in browser.messages("Network.requestWillBeSent")]
    assert requests[0] == address
    assert [url for url in requests[1:] if not url.startswith("data:")] == []
    assert browser.messages("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []

    for medium, width, paper in (("screen", 375, DARK_PAPER), ("print", 718, LIGHT_PAPER)):
        browser.open(address, width=width, height=700, features=dark, media=medium)
        assert browser.evaluate(PAPER) == paper
        assert browser.evaluate(OVERFLOW) == 0, "no horizontal scrolling on a phone, everything on paper"
        reached = browser.evaluate(SCROLLS)
        assert all(scrolls == by_keys for scrolls, by_keys in reached)
        assert any(scrolls for scrolls, _ in reached) == (medium == "screen"), (
            "wide tables scroll on screen, but not on paper"
        )
        assert all(width >= 300 for width, _ in browser.evaluate(FIGURES))
    assert browser.messages("Runtime.exceptionThrown", "Log.entryAdded") == []


def test_claims_and_four_panels_in_a_browser(browser, runs, tmp_path):
    runs.study("four", figures=[figure(LINES, LINES, LINES, LINES)])
    samples = [Sample(what=VALIDATION, rule=rule, values=[0.5, 0.6]) for rule in ("bptt", "otpe", "ostl")]
    runs.study("offline-t-randman", samples=samples, figures=[figure(CONTOURS, name="map")])
    address = report(runs.path, tmp_path / "report.html").resolve().as_uri()
    for width, theme in ((1280, "light"), (1280, "dark"), (375, "light"), (375, "dark")):
        browser.open(address, width=width, features=[{"name": "prefers-color-scheme", "value": theme}])
        assert browser.evaluate(OVERFLOW) == 0
        assert browser.evaluate(HIDDEN) == [], "every column can be reached"
        assert browser.evaluate(DEAD_LINKS) == []
        tops = browser.evaluate(ROWS)
        assert [tops.count(top) for top in sorted(set(tops))] == ([2, 2] if width == 1280 else [1] * 4)
        assert browser.messages("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded") == []
    assert browser.evaluate("document.querySelectorAll('#claims tbody tr').length") == len(CLAIMS)
