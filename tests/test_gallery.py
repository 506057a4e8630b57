"""Every example has a page and a picture, and the pages are those that make_gallery.py writes."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GALLERY = ROOT / "docs" / "gallery"
NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
MINUTE = 60


@pytest.fixture(scope="module")
def gallery():
    return runpy.run_path(str(ROOT / "docs" / "make_gallery.py"))


def test_the_pages_of_the_gallery_are_up_to_date(gallery):
    written = {path.name: path.read_text(encoding="utf-8") for path in GALLERY.glob("*.md")}
    assert written == gallery["pages"](), "an example has changed. Use: python docs/make_gallery.py --pages"
    assert set(written) == {"index.md", *(f"{name}.md" for name in NAMES)}


@pytest.mark.parametrize("name", NAMES)
def test_every_example_has_a_picture_and_an_output_and_takes_less_than_a_minute(gallery, name):
    picture = ROOT / "docs" / "figures" / "gallery" / f"{name}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 100_000, "pictures are small"
    assert f"![{gallery['docstring'](name)[0]}](../figures/gallery/{name}.png)" in (GALLERY / f"{name}.md").read_text()
    assert f"gallery/{name}.png" in (GALLERY / "index.md").read_text()
    assert (GALLERY / f"{name}.txt").read_text()
    assert gallery["seconds"]()[name] < MINUTE


@pytest.mark.parametrize("name", ["02_data", "05_landscape"])
def test_cheap_examples_run(name, tmp_path):
    steps = {"02_data": "100", "05_landscape": "25"}[name]
    more = ["--grid", "3"] if name == "05_landscape" else []
    command = [sys.executable, ROOT / "examples" / f"{name}.py", "--steps", steps, *more]
    done = subprocess.run([*command, "--figure", tmp_path / "picture.png"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
    assert (tmp_path / "picture.png").exists()


def test_no_example_uses_a_private_module():
    private = (
        "otpe.lab",
        "otpe.scan",
        "otpe.rulebook",
        "otpe.training",
        "otpe.analysis",
        "otpe.stream.",
        "otpe._front",
    )
    for name in NAMES:
        code = (ROOT / "examples" / f"{name}.py").read_text()
        assert [module for module in private if module in code] == [], name
