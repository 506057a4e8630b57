"""The page says what came out: claims, labels, the best values, folded material, keys of legends."""

import re
from dataclasses import replace

import pytest
from sample_sections import CONTOURS, LINES, figure, section

from otpe.lab.paper.evidence import VALIDATION
from otpe.lab.report import cells, legend, page, palette
from otpe.lab.report.content import Against, Sample, Table
from otpe.lab.report.finder import Found


def page_text(tmp_path, *sections):
    return page.page("Results", [Found(tmp_path / each.name, "finished", each) for each in sections], tmp_path).html


def text_of(markup):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", markup))


def randman(name="offline-t-randman", otpe=(0.83, 0.84, 0.85), **change):
    rules = {
        "bptt": (0.82, 0.83, 0.84),
        "otpe": otpe,
        "approx-otpe": otpe,
        "ostl": (0.7, 0.71, 0.73),
        "ottt": (0.6, 0.61, 0.63),
    }
    samples = [Sample(what=VALIDATION, rule=rule, values=values) for rule, values in rules.items()]
    bare = {"figures": [], "tables": [], "against": [], "remarks": [], "lead": "Shown."}
    return section(name, samples=samples, **(bare | change))


def test_claims_are_on_top_with_verdict_number_criterion_and_link(tmp_path):
    text = page_text(tmp_path, randman())
    assert text.index('id="claims"') < text.index('id="overview"') < text.index('id="offline-t-randman"')
    (row,) = re.findall(r'<tr id="claim-t-randman">.*?</tr>', text, re.DOTALL)
    shown = text_of(row)
    assert "On T-Randman, OTPE and Approx OTPE end above OSTL and OTTT. holds" in shown
    assert "4 of 4: each difference is more than 2 standard errors" in shown
    assert re.search(r"(Approx )?OTPE minus OSTL: \+12\.7 ± 0\.3 points, n = 3, few", shown)
    assert 'href="#offline-t-randman"' in row
    missing = text_of(re.findall(r'<tr id="claim-r-randman">.*?</tr>', text, re.DOTALL)[0])
    assert "not run" in missing
    assert "offline-r-randman" in missing
    assert "2 hold" in text_of(text), "the lead counts the verdicts"


def test_the_verdict_on_the_page_follows_from_the_numbers(tmp_path):
    text = page_text(tmp_path, randman(otpe=(0.5, 0.51, 0.52)))
    row = text_of(re.findall(r'<tr id="claim-t-randman">.*?</tr>', text, re.DOTALL)[0])
    assert "does not hold" in row
    assert "−" in row


def test_pages_without_sections_of_the_paper_have_no_claims(tmp_path):
    text = page_text(tmp_path, section(figures=[]))
    assert 'id="claims"' not in text
    assert "Claims of the paper" not in text


ROW = Against(what="accuracy", rule="otpe", paper=0.8, ours=0.9, spread=0.02, n=4, percent=True)


@pytest.mark.parametrize(
    ("against", "kind", "text"),
    [
        ([ROW], "differs", "differs by +10.0 points"),
        ([replace(ROW, ours=0.81)], "agrees", "agrees with the paper"),
        ([replace(ROW, ours=0.81), replace(ROW, paper=1.0)], "differs", "differs by −10.0 points"),
        ([replace(ROW, n=None)], "differs", "differs by +10.0 points"),
        ([], "agrees", "2 of 2 claims hold"),
    ],
)
def test_the_label_of_a_section_says_what_came_out(tmp_path, against, kind, text):
    made = page_text(tmp_path, randman(against=against))
    assert made.count(f'<span class="state {kind}">{text}</span>') == 2, "in the overview and in the section"


def test_the_label_of_a_section_whose_claims_fail(tmp_path):
    made = page_text(tmp_path, randman(otpe=(0.5, 0.51, 0.52)))
    assert '<span class="state differs">0 of 2 claims hold</span>' in made
    small = page_text(tmp_path, randman(apart=["made small"]))
    assert '<span class="state incomparable">not comparable</span>' in small
    assert '<span class="state finished">finished</span>' in page_text(tmp_path, section(figures=[], against=[]))


def test_the_lead_says_what_came_out_first(tmp_path):
    (lead,) = re.findall(r'<p class="lead">(.*?)</p>', page_text(tmp_path, randman()).split('id="overview"')[1])
    assert lead.startswith(
        "OTPE ends highest, with a validation accuracy of 84.0 %. Points above BPTT, ± standard error:"
    )
    assert lead.endswith("Shown.")


def table(columns, *rows):
    return Table(name="t", caption="", columns=columns, rows=rows)


def best(given):
    return {(str(given.rows[i][0]), str(given.columns[j])) for i, j in cells.best_cells(given)}


def test_the_best_values_of_a_table_are_bold(tmp_path):
    given = table(["rule", "test", "loss"], ["otpe", "0.9 ± 0.1", 2.5], ["ostl", "0.8", 2.0], ["ottt", "no run", ""])
    assert best(given) == {("otpe", "test"), ("ostl", "loss")}
    shown = page.part("table", given, "files", False)
    assert re.findall(r"<strong>(.*?)</strong>", shown) == ["0.9 ± 0.1", "2.0"]
    equal = table(["rule", "O", "H1"], ["otpe", "1.000", "0.9"], ["ostl", "1.000", "−0.2"])
    assert best(equal) == {("otpe", "O"), ("ostl", "O"), ("otpe", "H1")}
    assert best(table(["rule", "test"], ["otpe", "0.9"])) == set(), "a single value is not the best of several"
    assert best(table(["rule", "layers"], ["otpe", 3], ["ostl", 5])) == set(), "nothing is better about more layers"


def test_the_best_value_is_found_for_each_size_of_network():
    rows = [
        ["otpe", "3", "128", "61 ± 2"],
        ["ostl", "3", "128", "59"],
        ["otpe", "5", "512", "54"],
        ["ostl", "5", "512", "55"],
    ]
    found = cells.best_cells(table(["rule", "layers", "width", "ours"], *rows))
    assert found == {(0, 3), (3, 3)}


def test_the_best_rate_is_found_for_each_rule():
    found = cells.best_cells(
        table(["rule", "0.001", "2.5e-05"], ["otpe", "0.4", "0.2"], ["ostl", "0.1", "nan"], ["ottt", "0.1", "0.3"])
    )
    assert found == {(0, 1), (2, 2)}


def test_values_that_follow_from_the_definition_are_not_the_best():
    given = table(["rule", "from BPTT's end"], ["bptt", "0.00 ± 0.00"], ["otpe", "31.6"], ["ostl", "53.8"])
    assert best(given) == {("otpe", "from BPTT's end")}


def test_long_material_is_folded(tmp_path):
    tables = [table(["rule", "n"], ["otpe", "1"]), table(["rule", "n"], ["ostl", "2"])]
    remarks = [f"Remark {i}." for i in range(4)]
    text = page_text(tmp_path, section(figures=[], tables=tables, remarks=remarks, against=[ROW] * 13))
    body = text.split('id="study"')[1]
    folded = re.findall(r"<details><summary>(.*?)</details>", body, re.DOTALL)
    assert any("13 numbers. Largest difference: +10.0 points" in each for each in folded)
    assert any("4 remarks" in each and "Remark 3." in each for each in folded)
    assert sum("<table>" in each for each in folded) == 2, "the comparison, and the second table"
    few = page_text(tmp_path, section(figures=[], tables=tables[:1], remarks=remarks[:2], against=[ROW]))
    assert "<table>" not in "".join(re.findall(r"<details>.*?</details>", few.split('id="study"')[1], re.DOTALL))


def test_keys_of_legends_have_markers(tmp_path):
    looks = [*palette.RULES.values(), *palette.looks([f"width {i}" for i in range(8)]).values()]
    assert {look.marker for look in looks} - {"o"} <= {*legend.SHAPES}
    assert {marker for _, marker in (*palette.LINES, *palette.FURTHER_LINES)} == {*legend.SHAPES, "o"}
    assert "<circle" in legend.key(palette.RULES["bptt"])
    assert palette.RULES["otpe"].colour in legend.key(palette.RULES["otpe"])
    assert "dasharray" in legend.key(palette.RULES["f-otpe"])
    assert "dasharray" not in legend.key(palette.RULES["otpe"])
    assert page_text(tmp_path, section(figures=[figure(LINES)])).count(legend.key(palette.RULES["bptt"])) == 1


def test_four_panels_are_two_and_two(tmp_path):
    assert 'class="panels four"' in page_text(tmp_path, section(figures=[figure(LINES, LINES, CONTOURS, LINES)]))
    assert 'class="panels four"' not in page_text(tmp_path, section(figures=[figure(LINES, LINES, LINES)]))
