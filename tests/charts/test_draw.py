"""Every kind of panel is drawn, also with missing values, and the output is reproducible."""

import csv
import math
import re
from dataclasses import replace

import pytest
from sample_sections import LINES, NAN, NOTHING, PANELS, figure

from otpe.lab.report import palette, panels
from otpe.lab.report.content import Section, from_json, to_json
from otpe.lab.report.panels import Bar, Bars, Heat, Line, Lines, Mark

draw = pytest.importorskip("otpe.lab.report.drawing")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", PANELS)
def test_every_kind_is_drawn(kind):
    (inline,) = draw.inlines(figure(PANELS[kind]))
    assert PANELS[kind].title in re.findall(r">([^<]+)</", inline.svg)
    assert "no data" not in inline.svg
    assert inline.tooltips
    assert len(inline.svg) > 2000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", NOTHING)
def test_an_empty_panel_says_so(kind):
    (inline,) = draw.inlines(figure(NOTHING[kind]))
    assert ">no data<" in inline.svg


@pytest.mark.filterwarnings("error")
def test_marks_are_drawn_and_stored():
    marked = replace(LINES, marks=[Mark(x=5.0, text="classes swap"), Mark(x=15.0, text="30 % die $")])
    (inline,) = draw.inlines(figure(marked))
    assert {"classes swap", "30 % die $"} <= set(re.findall(r">([^<]+)</", inline.svg))
    axes = draw._canvas([marked], figure(marked).legend(), (0.0, 1.0)).axes[0]
    assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"] == [5.0, 15.0]
    section = Section(name="s", title="", lead="", figures=[figure(marked)])
    assert list(from_json(to_json(section)).figures[0].panels[0].marks) == list(marked.marks)
    assert '"marks"' not in to_json(replace(section, figures=[figure(LINES)])), (
        "figures without marks are stored as before"
    )


def test_a_figure_is_written_as_svg_png_and_csv(tmp_path):
    shown = figure(LINES, PANELS["contours"])
    written = draw.draw(shown, tmp_path)
    assert [path.name for path in written] == ["curves.svg", "curves.png", "curves.csv"]
    first = [path.read_bytes() for path in written]
    assert first[0].startswith(b"<?xml")
    assert first[1].startswith(b"\x89PNG")
    assert [path.read_bytes() for path in draw.draw(shown, tmp_path)] == first, "the bytes are reproducible"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.csv", "curves.png", "curves.svg"]


@pytest.mark.parametrize(("panels_shown", "across", "down"), [(1, 1, 1), (3, 3, 1), (4, 2, 2), (5, 3, 2), (7, 3, 3)])
def test_panels_are_split_evenly_into_rows(panels_shown, across, down):
    canvas = draw._canvas([LINES] * panels_shown, figure(LINES).legend(), (0.0, 1.0))
    shape = canvas.axes[0].get_subplotspec().get_gridspec().get_geometry()
    assert shape == (down, across)


def test_a_figure_name_cannot_leave_its_folder(tmp_path):
    written = draw.draw(figure(LINES, name="../../a b"), tmp_path)
    assert {path.parent for path in written} == {tmp_path}
    assert written[0].name == "a-b.svg"


def test_the_table_has_every_number():
    shown = figure(*PANELS.values())
    rows = list(csv.DictReader(shown.csv().splitlines()))
    assert rows[1] == {"panel": "Accuracy", "series": "bptt", "x": "10", "y": "0.6", "spread": "0.02", "height": ""}
    assert {"panel": "Accuracy", "series": "f-otpe", "x": "10", "y": "", "spread": "", "height": ""} in rows
    assert {"panel": "Cosine", "series": "otpe", "x": "layer 1", "y": "0.9", "spread": "0.1", "height": ""} in rows
    assert {"panel": "Grid", "series": "128", "x": "5", "y": "0.7", "spread": "0.1", "height": ""} in rows
    assert {"panel": "Plane", "series": "loss", "x": "2", "y": "1", "spread": "", "height": "90"} in rows
    assert {"panel": "Plane", "series": "bptt", "x": "1", "y": "0.5", "spread": "", "height": ""} in rows
    assert len(rows) == 6 + 3 + 4 + 4 + 6 + 3 + 2


def test_ids_of_two_figures_on_a_page_differ():
    texts = [inline.svg for name in ("a", "b") for inline in draw.inlines(figure(LINES, PANELS["contours"], name=name))]
    ids = [re.findall(r' id="([^"]+)"', text) for text in texts]
    assert all(ids)
    assert len({name for each in ids for name in each}) == sum(map(len, ids))
    for text, own in zip(texts, ids, strict=True):
        assert set(re.findall(r"(?:href=\"|url\()#([^\")]+)", text)) == set(own)
        assert "<style" not in text
        assert "http" not in text


def test_the_svg_uses_colours_and_font_of_the_page():
    (inline,) = draw.inlines(figure(LINES))
    assert "#000000" not in inline.svg
    assert "stroke: currentColor" in inline.svg
    assert "DejaVu" not in inline.svg
    assert "system-ui" in inline.svg
    alone = draw.contents(figure(LINES))["svg"]
    assert '<rect width="100%" height="100%" fill="#ffffff"/>' in alone


def test_tooltips_are_at_the_drawn_points():
    shown = Lines(
        title="",
        x="n",
        y="share",
        lines=[Line(name="otpe", x=[0, 1, 2], y=[0, 0.5, 2], spread=[0.1, 0.25, 0]), Line(name="ostl", x=[1], y=[NAN])],
    )
    (inline,) = draw.inlines(figure(shown))
    first, middle, last = inline.tooltips
    assert (first.at[0] + last.at[0]) / 2 == pytest.approx(middle.at[0], abs=0.1)
    assert first.at[1] + (last.at[1] - first.at[1]) / 4 == pytest.approx(middle.at[1], abs=0.1)
    assert first.at[1] > last.at[1], "y grows downwards in SVG"
    drawn = re.search(r"d=\"M ([\d.]+) ([\d.]+) \nL", inline.svg[inline.svg.index("stroke-width: 1.6") - 400 :])
    assert first.at == pytest.approx((float(drawn[1]), float(drawn[2])), abs=0.1)
    assert middle.series == "otpe"
    assert middle.text == "n 1\nshare 0.5 ± 0.25"


def test_points_outside_the_axes_have_no_tooltip():
    shown = Lines(title="", x="", y="", lines=[Line(name="otpe", x=[0, 1], y=[0.5, 7])], y_range=(0, 1))
    assert len(draw.inlines(figure(shown))[0].tooltips) == 1


def test_tooltips_of_bars_and_cells_are_at_their_centre():
    shown = Bars(
        title="", y="cosine", groups=["a", "b"], bars=[Bar(name="otpe", values=[1, 2]), Bar(name="ostl", values=[1, 2])]
    )
    spots = list(panels.tooltips(shown))
    assert [spot.at[0] for spot in spots] == pytest.approx([-0.2, 0.8, 0.2, 1.2])
    assert spots[0].text == "a\ncosine 1"
    cells = list(panels.tooltips(PANELS["heat"]))
    assert (cells[0].at, cells[0].text) == ((0.5, 0.5), "width 64\nslope 5\naccuracy 0.5 ± 0.1")
    assert cells[1].text.endswith("accuracy not a number")


def test_a_long_line_is_thinned():
    line = Line(name="otpe", x=range(10_000), y=[math.sin(i) for i in range(10_000)])
    spots = list(panels.tooltips(Lines(title="", x="", y="", lines=[line])))
    assert 100 < len(spots) <= panels.MOST_TOOLTIPS


@pytest.mark.parametrize(
    ("values", "spread", "texts"),
    [
        ([0.561, 0.59], [0.0002, 0.02], ["0.561\n± 0.000", "0.590\n± 0.020"]),
        ([1.0, 0.5], None, ["1.000", "0.500"]),
        ([0.0, NAN], None, ["0", "–"]),
        ([2e-5, 0.5], None, ["2e-05", "0.5"]),
    ],
)
def test_cells_of_a_map_share_their_number_of_decimals(values, spread, texts):
    shown = Heat(
        title="",
        x="",
        y="",
        columns=["1", "2"],
        rows=["1"],
        values=[values],
        spread=None if spread is None else [spread],
    )
    (axes, *_) = draw._canvas([shown], {}, (0.0, 1.0)).axes
    assert [text.get_text() for text in axes.texts] == texts


def test_maps_of_one_figure_share_their_colour_scale():
    low, high = (
        Heat(title="", x="", y="", columns=["1", "2"], rows=["1"], values=[values])
        for values in ([0.0, 0.5], [0.5, 1.0])
    )
    one, other = draw.inlines(figure(low, high))
    colours = [
        set(re.findall(r"fill: (#\w{6})", each.svg)) - {palette.CELL_DARK.lower(), palette.CELL_LIGHT.lower()}
        for each in (one, other)
    ]
    assert [len(each) for each in colours] == [2, 2]
    assert len(colours[0] & colours[1]) == 1, "0.5 has the same colour in both, other values differ"


def test_a_landscape_has_a_colour_bar():
    canvas = draw._canvas([PANELS["contours"]], figure(PANELS["contours"]).legend(), (0.0, 1.0))
    (bar,) = canvas.axes[0].child_axes
    assert bar.get_title(loc="left") == "loss"
    heights = [float(text.get_text()) for text in bar.get_yticklabels()]
    assert (heights[0], heights[-1]) == (1, 90), "from the lowest height to the highest"
    assert heights == sorted(heights)
    assert len(bar.patches) == panels.CONTOUR_LEVELS - 1, "a shade for each level"


def test_long_lines_and_legends_have_markers():
    line = Line(name="otpe", x=range(1000), y=range(1000))
    canvas = draw._canvas([Lines(title="", x="", y="", lines=[line])], {"otpe": palette.RULES["otpe"]}, (0.0, 1.0))
    (drawn,) = [each for each in canvas.axes[0].lines if len(each.get_xdata()) == 1000]
    assert drawn.get_marker() == palette.RULES["otpe"].marker
    assert 1000 // drawn.get_markevery() < 10
    (key,) = canvas.legends[0].get_lines()
    assert key.get_marker() == palette.RULES["otpe"].marker
