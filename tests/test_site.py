"""The documentation site builds without a warning, and its pages need nothing but themselves."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag

import headless
import pytest

ROOT = Path(__file__).parent.parent
LOADS = re.compile(r"""<(?:script|img|iframe|source)[^>]*\bsrc=["']([^"']+)|<link[^>]*\bhref=["']([^"']+)""")
LINKS = re.compile(r"""<a\b[^>]*\bhref=["']([^"']+)""")
IDS = re.compile(r"""\b(?:id|name)=["']([^"']+)""")


def test_the_site_builds_and_its_links_lead_somewhere(tmp_path, request):
    """In one test, since a build takes half a minute. It is what `make docs` does: warnings are errors, tutorials are run."""
    html = tmp_path / "html"
    options = ["-W", "--keep-going", "-q", "-d", tmp_path / "trees"]
    command = [sys.executable, "-m", "sphinx", *options, ROOT / "docs", html]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

    pages = {path: path.read_text(encoding="utf-8") for path in html.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 40
    assert problems(pages) == []
    if headless.executable() is not None:
        check_in_browser(html, request.getfixturevalue("browser"))


def problems(pages):
    """Links without a target, and pages that load something from another host."""
    anchors, found = {path: set(IDS.findall(text)) for path, text in pages.items()}, []
    for path, text in pages.items():
        found += [f"{path.name} loads {a or b}" for a, b in LOADS.findall(text) if re.match(r"(?:https?:)?//", a or b)]
        for link in LINKS.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            file, anchor = urldefrag(unquote(link))
            target = (path.parent / file).resolve() if file else path
            if not target.exists() or (anchor and target in anchors and anchor not in anchors[target]):
                found.append(f"{path.name} links to {link}")
    return found


def check_in_browser(html, browser):
    for page in ("index", "tutorials/learning-online", "gallery/index", "reference/api/learning"):
        for width in (1280, 375):
            browser.open((html / f"{page}.html").as_uri(), width=width)
            assert browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    requests = [event["params"]["request"]["url"] for event in browser.messages("Network.requestWillBeSent")]
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert browser.messages("Runtime.exceptionThrown", "Log.entryAdded") == []


def test_an_undocumented_public_name_fails_the_build(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import make_api_reference as reference

    import otpe

    assert dict(reference.pages())
    monkeypatch.setattr(otpe.Rule, "__doc__", None)
    with pytest.raises(
        reference.UndocumentedError, match=r"Rule in otpe\.rulebook\.rule is public and has no docstring"
    ):
        dict(reference.pages())
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    monkeypatch.setattr(otpe._front, "__all__", [*otpe._front.__all__, "novelty"])
    with pytest.raises(reference.UndocumentedError, match="no page of the API reference has novelty"):
        dict(reference.pages())


def test_a_build_without_the_extra_says_what_is_missing():
    code = "import sys; sys.modules['myst_nb'] = None; import runpy; runpy.run_path('docs/conf.py')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install '.[docs]'" in done.stderr
    assert "Traceback" not in done.stderr
