"""Files with any content: the report shows the other runs and names the damaged file."""

import copy
import json
import os
import random
import re
from dataclasses import replace
from urllib.parse import quote

import pytest
from sample_sections import LINES, figure, section

from otpe import cli
from otpe.lab.report import finder
from otpe.lab.report.content import Table, from_json, to_json
from otpe.lab.report.page import report

MOST = 40  # changes per file; more changes find more errors and take longer
DEEP = object()
GONE = object()
WRONG = (
    GONE,
    DEEP,
    None,
    True,
    -1,
    10**400,
    float("inf"),
    "",
    "\ud800\0<b>",
    "n" * 10_000,
    [],
    [None],
    {},
    {"kind": "Section"},
)


def places(value, at=()):
    """Yield the place of every value. Of lists, only the first two and the last entry count."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    few = [(name, x) for name, x in inside if not isinstance(name, int) or name in (0, 1, len(value) - 1)]
    return [place for name, x in few for place in ((*at, name), *places(x, (*at, name)))]


def changed(value, place, wrong):
    """Return JSON with another value at this place."""
    value = copy.deepcopy(value)
    inside = value
    for name in place[:-1]:
        inside = inside[name]
    if wrong is GONE:
        del inside[place[-1]]
    else:
        inside[place[-1]] = "DEEP" if wrong is DEEP else wrong
    return json.dumps(value).replace('"DEEP"', "[" * 100_000 + "]" * 100_000)


@pytest.fixture
def quick(monkeypatch):
    """Draw nothing, and do not wait for the disk."""
    monkeypatch.setattr("otpe.lab.report.page.find_spec", lambda name: None)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def damaged(runs, name, file, tmp_path):
    """Return what the report says about the run with this file. A sound run is beside it."""
    assert report(runs.path, tmp_path / "page.html").exists()
    page = (tmp_path / "page.html").read_text()
    assert "The sound" in page
    results = {each.path.name: each for each in finder.search([runs.path])}
    assert results["sound"].state == "finished"
    (other,) = [each for key, each in results.items() if key != "sound"]
    if other.state == "damaged":
        assert file in other.note or "metrics.jsonl ends after" in other.note, "or the run asked for more steps"
        assert len(other.note) < 1000
    return other.state


CASES = [
    ("section.json", lambda runs: runs.study("odd")),
    ("config.json", lambda runs: runs.train("odd")),
    ("result.json", lambda runs: runs.train("odd")),
    ("metrics.jsonl", lambda runs: runs.train("odd", measured=(8,))),
    ("config.json", lambda runs: runs.comparison("odd")),
]


@pytest.mark.parametrize(("file", "make"), CASES, ids=["study", "run", "result", "metrics", "comparison"])
def test_a_damaged_file_does_not_hide_the_other_runs(runs, tmp_path, quick, file, make):
    runs.study("sound", figures=[])
    path = make(runs) / file
    sound = json.loads(path.read_text())
    changes = [(place, wrong) for place in places(sound) for wrong in WRONG]
    states = {}
    for place, wrong in [(places(sound)[-1], DEEP), *random.Random(0).sample(changes, min(MOST, len(changes)))]:
        path.write_text(changed(sound, place, wrong))
        state = damaged(runs, "odd", file, tmp_path)
        states.setdefault(state, []).append((place, wrong))
        assert state == "damaged" or wrong is not DEEP or file == "metrics.jsonl", (
            "in this file, the last line may be incomplete"
        )
    assert states["damaged"], states


@pytest.mark.parametrize("content", ["[" * 100_000, "[]", "", "\xff", '{"format": ' + "[" * 900 + "]" * 900 + "}"])
@pytest.mark.parametrize("file", ["section.json", "config.json", "result.json"])
def test_a_file_of_another_kind_counts_as_damaged(runs, tmp_path, quick, file, content):
    runs.study("sound", figures=[])
    path = runs.train("odd") / file
    path.write_bytes(content.encode("latin-1"))
    assert damaged(runs, "odd", file, tmp_path) in ("damaged", "other version")


def test_a_pipe_counts_as_damaged_without_waiting(runs, tmp_path, quick):
    runs.study("sound", figures=[])
    os.mkfifo(runs.write("odd") / "section.json")
    assert damaged(runs, "odd", "section.json", tmp_path) == "damaged"


def test_names_of_maximum_length_fit(runs, tmp_path, quick):
    long = [figure(LINES, name=250 * "f" + end) for end in ("a", "b")]
    tables = [Table(name=name, caption="", columns=["a"], rows=[["b"]]) for name in (125 * "é", "t", "t", "t--2", "T")]
    for end in ("a", "b"):
        runs.study(254 * "s" + end, figures=long, tables=tables)
    assert cli.main(["report", str(runs.path), "--out", str(tmp_path / "page.html")]) == 0
    written = [path.name for path in (tmp_path / "page-files").iterdir()]
    assert len(written) == 2 * (2 + 5)
    assert len({name.casefold() for name in written}) == len(written)
    assert max(len(name.encode()) for name in written) <= 255 - len(".12345678.partial")
    page = (tmp_path / "page.html").read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(set(ids)) == len(ids)
    links = {*re.findall(r'href="page-files/([^"]+)"', page)}
    assert links == {quote(name) for name in written}


def test_a_section_that_cannot_be_shown_counts_as_damaged(runs, tmp_path, capsys):
    runs.study("odd", figures=[], tables=[Table(name="t", caption="", columns=["a", "b"], rows=[["1", "2"], ["3"]])])
    assert cli.main(["report", str(runs.path), "--out", str(tmp_path / "page.html")]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("1 damaged\n")
    assert "odd: damaged. section.json cannot be shown: " in output.err
    assert "1 section: 1 damaged." in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lead": 5}, "lead of a Section is 5, expected str"),
        ({"figures": ["f"]}, r"figures of a Section is \['f'\], expected a list of Figure"),
        ({"seconds": "long"}, "seconds of a Section is 'long', expected float"),
        (
            {"figures": [figure(replace(LINES, y_range=(0,)))]},
            r"y_range of a Lines is \[0\], expected tuple or NoneType",
        ),
    ],
)
def test_sections_with_values_of_the_wrong_type_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        from_json(to_json(section(**change)))
