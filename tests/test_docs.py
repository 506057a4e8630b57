"""The documents are true: their code runs, every rule has its page, and every link leads somewhere."""

import re
from pathlib import Path

import pytest

import otpe

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "CONTRIBUTING.md",
    *(ROOT / "src").rglob("*.md"),
]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]
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
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    missing = [link for link in links if not link.startswith("http") and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("rule", otpe.rules())
def test_every_rule_has_its_page(rule):
    text = (ROOT / "docs" / "rules" / f"{rule}.md").read_text()
    assert f'`rule="{rule}"`' in text
    assert all(section in text for section in SECTIONS)
    assert f"rules/{rule}.md" in (ROOT / "docs" / "README.md").read_text()
