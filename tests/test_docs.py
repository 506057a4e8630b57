"""The documents are correct: their code runs, every rule has its page, and every link has a target."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import otpe
from otpe import cli
from otpe.lab.paper.items import ITEMS

ROOT = Path(__file__).parent.parent
MADE = (ROOT / "docs" / "changelog.md",)  # by a build of the site, as is reference/api
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page not in MADE and "api" not in page.parts),
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "src").rglob("*.md"),
]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]
GENERATOR = ROOT / "docs" / "make_cli_reference.py"
WITHOUT_JAX = f"""
import runpy, sys
sys.modules["jax"] = None
print(runpy.run_path({str(GENERATOR)!r})["reference"](), end="")
"""
SECTIONS = ("**Idea.**", "**Dropped.**", "**Exact when.**", "**Cost.**", "**Reference.**")


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", WITH_CODE, ids=name)
def test_code_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {"__name__": "documentation"})


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    """Links to the API reference are for test_site.py: a build of the site makes these pages."""
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    targets = [(page.parent / link).resolve() for link in links if not link.startswith("http")]
    api = ROOT / "docs" / "reference" / "api"
    assert [target for target in targets if api not in target.parents and not target.exists()] == []


@pytest.mark.parametrize("rule", otpe.rules())
def test_every_rule_has_its_page(rule):
    text = (ROOT / "docs" / "concepts" / "rules" / f"{rule}.md").read_text()
    assert f'`rule="{rule}"`' in text
    assert all(section in text for section in SECTIONS)


def test_the_index_leads_to_the_page_of_every_rule():
    assert {page.stem for page in (ROOT / "docs" / "concepts" / "rules").iterdir()} == set(otpe.rules())
    assert "\nrules/*\n" in (ROOT / "docs" / "concepts" / "rules.md").read_text(), "the index lists the folder"


def test_the_cli_reference_is_up_to_date():
    command = [sys.executable, "-X", "utf8", "-c", WITHOUT_JAX]
    generated = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert page == generated, "the settings have changed. Use: python docs/make_cli_reference.py"


@pytest.mark.parametrize("verb", cli.VERBS)
def test_the_cli_reference_has_the_options_of_the_help(verb, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        cli.main([verb, "--help"])
    shown = re.findall(r"^\W*?(--[a-z][a-z-]*)", capsys.readouterr().out, re.MULTILINE)
    section = (
        (ROOT / "docs" / "reference" / "cli.md")
        .read_text(encoding="utf-8")
        .split(f"## otpe {verb}\n")[1]
        .split("\n## ")[0]
    )
    assert re.findall(r"^\| `(--[a-z-]+)`", section, re.MULTILINE) == shown


def test_reproduce_md_lists_the_items_of_the_command():
    page = (ROOT / "docs" / "how-to" / "reproduce-the-paper.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([a-z0-9-]+)` \| (.+) \| (.+) \|$", page.split("## Items")[1].split("\n## ")[0], re.MULTILINE
    )
    assert rows == [(name, item.where, item.title) for name, item in ITEMS.items()]
