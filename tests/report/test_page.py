"""The page: it shows everything found and the paper's numbers beside ours; it runs nothing and fetches nothing."""

import base64
import hashlib
import html
import inspect
import math
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from sample_sections import LINES, NAN, figure, section
from tiny_runs import fingerprints

from otpe import cli, files
from otpe.lab.report import documents, page, words
from otpe.lab.report.content import Against, Figure, Table, from_json, to_json
from otpe.lab.report.finder import Found
from otpe.lab.report.page import report
from otpe.lab.report.panels import Line, Lines


def page_text(tmp_path, *sections):
    return page.page("Results", [Found(tmp_path / each.name, "finished", each) for each in sections], tmp_path).html


def plain(text):
    """Return the text as a reader sees it."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def test_a_report_from_folders_to_the_page(runs, tmp_path, capsys):
    runs.study("a-study", figures=[figure(LINES)])
    runs.train("b-run", finished=False)
    runs.write("c-broken", section="{")
    out = tmp_path / "new" / "page.html"
    assert cli.main(["report", str(runs.path), "--out", str(out), "--title", "Mine & ours"]) == 0
    output = capsys.readouterr()
    assert f"1 finished, 1 unfinished, 1 damaged\nReport: {out}\n" in output.out
    assert f"otpe: {runs.path / 'c-broken'}: damaged. section.json is damaged" in output.err
    text = out.read_text()
    assert "<h1>Mine &amp; ours</h1>" in text
    assert plain(text).count("The a-study") == 3, "it is in the contents, the overview and its section"
    assert "not finished" in text
    links = re.findall(r'href="([^"#]+)"', text)
    assert len(links) == 3 + 1 + 3 + 1
    assert all((out.parent / link).is_file() for link in links if link != "data:,")
    before = fingerprints(out.parent)
    assert report(runs.path, out, "Mine & ours") == out
    assert fingerprints(out.parent) == before, "the bytes are reproducible"


def test_the_page_fetches_and_runs_nothing(tmp_path):
    evil = "<script>alert(1)</script>\"'&"
    odd = Figure(
        name="f<f", caption=evil, panels=[Lines(title=evil, x=evil, y=evil, lines=[Line(name=evil, x=[1], y=[1])])]
    )
    change = {key: evil for key in ("title", "lead", "where", "command")}
    table = Table(name="t", caption=evil, columns=[evil], rows=[[evil]])
    text = page_text(
        tmp_path,
        section(
            "x<y", figures=[odd], tables=[table], against=[Against(what=evil, rule=evil, paper=1, ours=1)], remarks=[evil],
            settings={evil: evil}, machine={evil: {evil: [evil]}}, **change,
        ),
    )  # fmt: skip
    assert "<script>alert" not in text
    assert text.count("<script>") == text.count("<style>") == 1
    assert not re.search(r"(src|href)=\"(https?:|//)", text)
    assert "http" not in re.sub(r"http-equiv|http://www.w3.org/2000/svg", "", text), "except the namespace of SVG"


def test_the_security_policy_allows_only_our_style_and_script(tmp_path):
    odd = section(
        figures=[*section().figures, figure(LINES, name='a "style=" of its own')], lead='A > B style="color:red"'
    )
    text = page_text(tmp_path, odd)
    (policy,) = re.findall('Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(part.split(" ", 1) for part in policy.split("; "))
    assert rules.pop("img-src") == "data:"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashed = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules.pop(rule) == f"'sha256-{hashed}'"
    assert {*rules.values()} == {"'none'"}
    tags = re.findall(r"<[a-zA-Z][^>]*>", text)
    assert sum(" class=" in tag for tag in tags) > 100, "the styles of matplotlib are present"
    attributes = [name for tag in tags for name in re.findall(r'\s([\w-]+)(?==["\w])', re.sub('"[^"]*"', '"', tag))]
    assert not [name for name in attributes if name == "style" or name.startswith("on")]


def test_styles_become_classes():
    body = '<p style="color: red">style="x" > 1</p><i style="color: red"></i><i class="a" data-x=" style=" style="--b:1px"/>'
    assert documents.without_styles(body) == (
        '<p class="s0">style="x" > 1</p><i class="s0"></i><i class="a s1" data-x=" style="/>',
        ".s0 { color: red }\n.s1 { --b:1px }\n",
    )
    assert (
        documents.without_styles('<p style="font-family: &#x27;A&quot; &amp; B&#x27;">')[1]
        == ".s0 { font-family: 'A\" & B' }\n"
    )


def test_the_page_shows_the_paper_beside_our_numbers(tmp_path):
    text = plain(page.part("against", section().against))
    assert "accuracy OTPE 90.0 ± 3.0 % n = 4, few 84.0 ± 4.0 % n = 4, few −6.0 points 2.4" in text
    assert "Deep OTPE (ours) – 95.0 % – –" in text
    assert "cosine OSTL 0.700 0.750 +0.050 –" in text
    assert page.part("against", []) == ""
    assert text.count("n = ") == 2, "a number without n has none"
    far = Against(what="w", rule="otpe", paper=1.0, ours=2.0, paper_spread=0.3, spread=0.4, n=4, paper_n=4)
    assert 'class="number far">4.0<' in page.part("against", [far])
    assert "far" not in page.part("against", [replace(far, ours=1.4)])
    overview = plain(page_text(tmp_path, section(figures=[])).split("</tbody>")[0])
    assert "Figure 2 b differs by −6.0 points −6.0 points (2.4 standard errors): OTPE, accuracy 83.4 s" in overview
    assert "Differences are our numbers minus the paper's." in overview
    assert "Differences" not in plain(page_text(tmp_path, section(figures=[], against=[]))), (
        "there is nothing to compare"
    )
    for percent in (True, False):
        assert words.difference(Against(what="", rule="", paper=0.5, ours=0.49999, percent=percent)).startswith("+0.0")


def test_differences_from_the_paper_are_in_the_overview(tmp_path):
    with_differences = section(figures=[], apart=["coarser", "other recordings <i>"])
    overview = page_text(tmp_path, with_differences).split("</tbody>")[0]
    assert '<span class="apart">coarser, other recordings &lt;i&gt;</span>' in overview
    assert from_json(to_json(with_differences)).apart == ["coarser", "other recordings <i>"]
    assert '"apart"' not in to_json(section()), "pages without differences are as before"


def test_left_out_items_are_not_called_finished(runs, tmp_path, capsys):
    bare = {"figures": [], "tables": [], "against": [], "seconds": NAN}
    path = runs.study("gone", left_out="Not run: there are no <recordings>.", **bare)
    out = tmp_path / "page.html"
    assert cli.main(["report", str(path), "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("1 left out\n")
    assert output.err == f"otpe: {path}: left out. Not run: there are no <recordings>.\n"
    text = out.read_text()
    assert "1 section: 1 left out." in text
    assert "finished" not in plain(text.split("</style>")[1].split("<script>")[0])
    assert '<p class="note">Not run: there are no &lt;recordings&gt;.</p>' in text
    assert '"left_out"' not in to_json(section()), "pages without differences are as before"


def test_differences_use_the_standard_errors_of_both_means():
    both = {"paper_spread": 0.3, "spread": 0.4}
    apart = Against(what="", rule="", paper=1, ours=2, **both, n=4, paper_n=9)
    assert words.in_errors(apart) == pytest.approx(1 / math.hypot(0.4 / 2, 0.3 / 3))
    assert words.in_errors(Against(what="", rule="", paper=1, ours=2, spread=0.5, n=25)) == pytest.approx(10), "ours"
    assert words.in_errors(Against(what="", rule="", paper=1, ours=2, **both, n=4)) == pytest.approx(5), "of known n"
    assert words.in_errors(Against(what="", rule="", paper=1, ours=0.999999, spread=1e-7, n=4)) == 0, "both are 1.000"
    for one, other in ((NAN, NAN), (NAN, 0.0), (0.0, 0.0)):
        without = Against(what="", rule="", paper=1, ours=2, paper_spread=one, spread=other, n=4, paper_n=4)
        assert math.isnan(words.in_errors(without))
    assert math.isnan(words.in_errors(Against(what="", rule="", paper=1, ours=2, **both))), "without n, no error"
    plainly = [Against(what="", rule=rule, paper=1, ours=ours) for rule, ours in (("a", 1.1), ("b", 0.7), ("c", NAN))]
    assert words.largest(plainly).rule == "b"
    counted = Against(what="", rule="d", paper=1, ours=1.01, paper_spread=0.1, spread=0.1, n=4, paper_n=4)
    assert words.largest([*plainly, counted]).rule == "d"
    assert words.largest([]) is None


def test_numbers_are_formatted_for_reading():
    assert words.column([0.5, 0.125, NAN, "deep-otpe", 7]) == [
        "0.500",
        "0.125",
        "not a number",
        "Deep OTPE (ours)",
        "7",
    ]
    assert words.column([1e-9, 2.0]) == ["1e−09", "2"]
    assert [words.duration(s) for s in (0.07, 83.4, 600, 7260, NAN)] == ["0.07 s", "83.4 s", "10 min", "2 h 1 min", "–"]


def test_missing_numbers_are_shown_as_missing(tmp_path):
    text = plain(page_text(tmp_path, section(figures=[figure(LINES)])))
    assert "1 value not a number, left as gaps: F-OTPE in “Accuracy”." in text
    assert "OSTL not a number" in text, "shown in the table"


def test_the_page_shows_command_settings_machine_and_remarks(tmp_path):
    text = page_text(tmp_path, section(figures=[]))
    (command,) = re.findall(r"<pre>(.*?)</pre>", text, re.DOTALL)
    assert re.sub(r"<[^>]+>", "", command) == "otpe compare --steps 10"
    shown = plain(text)
    assert "The manifolds are others." in shown
    assert "leak 0.9525741268224334 root none" in shown
    assert "device cpu: cpu versions otpe 0.1.0" in shown


def test_settings_that_are_0_or_1_are_numbers():
    given = {
        "seed": 0,
        "every": 1,
        "alpha": 1.0,
        "final": 0.0,
        "binary": False,
        "quick": True,
        "dt": None,
        "hidden": [1],
    }
    output = plain(page.part("facts", given)).split()
    assert " ".join(output) == "seed 0 every 1 alpha 1.0 final 0.0 binary no quick yes dt none hidden 1"


def test_a_figure_that_cannot_be_drawn_is_reported(tmp_path):
    odd = Figure(
        name="odd", caption="Odd.", panels=[Lines(title="", x="", y="", lines=[Line(name="otpe", x=[1, 2], y=[1])])]
    )
    text = plain(page_text(tmp_path, section(figures=[odd, figure(LINES)])))
    assert "This figure cannot be drawn: zip()" in text
    assert (tmp_path / "study-curves.svg").exists()


def test_a_section_that_cannot_be_shown_is_reported(tmp_path):
    text = plain(page_text(tmp_path, section("odd", figures=[], against=["no number"]), section("sound", figures=[])))
    assert "The odd damaged section.json cannot be shown: AttributeError" in text
    assert "The sound" in text


def test_without_matplotlib_there_are_no_figures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = plain(page_text(tmp_path, section()))
    assert "Pictures need matplotlib, which is not installed. Use: pip install 'otpe[plot]'" in text
    assert (tmp_path / "study-curves.csv").exists()


def test_ids_and_file_names_are_unique(tmp_path):
    double = section(figures=[], tables=[*section().tables, *section().tables])
    text = page_text(tmp_path, double, double)
    ids = re.findall(r' id="([^"]+)"', text + page_text(tmp_path / "own", section("overview", figures=[], tables=[])))
    own = {"top", "theme", "contents", "overview", "tip"}
    assert len(set(ids)) + len(own) == len(ids), "only ids of the page itself occur twice"
    assert "overview--2" in ids
    assert "The study (study)" in plain(text)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "study--2-test--2.csv",
        "study--2-test.csv",
        "study-test--2.csv",
        "study-test.csv",
    ]


def test_a_full_disk_leaves_the_older_page(runs, tmp_path, monkeypatch, capsys):
    runs.study("a", figures=[])
    out = tmp_path / "report.html"
    out.write_text("older")

    def full(path, content):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(files, "write_atomically", full)
    assert cli.main(["report", str(runs.path), "--out", str(out)]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_text() == "older"


BAD = [
    (["nowhere"], r"folder is 'nowhere', which is not there, expected a folder of runs"),
    ([], r"folder is 'runs', which is not there, expected a folder of runs"),
    (["empty"], r"folder is 'empty', which holds no runs"),
    (["sound", "--out", "empty"], r"out is 'empty', expected a file, such as empty/report.html"),
    (["sound", "--out", "page"], r"out is 'page', expected a file, such as page/report.html"),
    (["sound", "--out", "a-file/page.html"], r"out is 'a-file', which is a file, expected a folder"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) for args, _ in BAD])
def test_bad_input_is_refused_with_a_sentence(args, message, runs, tmp_path, monkeypatch, capsys):
    runs.study("../sound")
    runs.write("../empty")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("mine")
    runs.path.rmdir()
    assert cli.main(["report", *args]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file", "empty", "sound"]


def test_the_page_is_opened_on_request(runs, tmp_path, monkeypatch):
    runs.study("a", figures=[])
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    for option in ([], ["--open"]):
        cli.main(["report", str(runs.path), "--out", str(tmp_path / "page.html"), *option])
    assert opened == [(tmp_path / "page.html").as_uri()]


def test_the_function_has_the_defaults_of_the_command():
    from otpe.lab.settings import ReportConfig

    default, given = ReportConfig(), inspect.signature(report).parameters
    assert (given["folders"].default, given["out"].default, given["title"].default) == (
        str(*default.folders),
        str(default.out),
        default.title,
    )


def test_no_report_needs_jax_or_tyro(runs, tmp_path):
    runs.train("run")
    code = f"import sys; sys.modules['jax'] = sys.modules['tyro'] = None\nfrom otpe.lab.report.page import report\nreport({str(runs.path)!r}, {str(tmp_path / 'a.html')!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "a.html").exists()
