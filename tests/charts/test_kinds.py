"""Sections are written as JSON and read again."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from sample_sections import PANELS, figure, section

from otpe.lab.report import content, page, panels
from otpe.lab.report.finder import Found


def test_every_kind_of_panel_has_an_example():
    """All tests of drawing, of tables and of pages run over these examples."""
    assert {type(panel) for panel in PANELS.values()} == set(panels.PANELS)


def test_a_new_kind_of_panel_needs_only_its_class(tmp_path, monkeypatch):
    @dataclass(frozen=True, kw_only=True)
    class Dots(panels.Panel):
        parts = (panels.Mark,)
        dots: Sequence[panels.Mark]

        def points(self):
            return (panels.Point(dot.text, dot.x, 1.0, at=(dot.x, 1.0), text=f"here: {dot.x}") for dot in self.dots)

        def draw(self, axes, looks, scale):
            axes.plot([dot.x for dot in self.dots], [1.0] * len(self.dots), "o")

    monkeypatch.setitem(content._KINDS, "Dots", Dots)
    dots = Dots(title="Some dots", dots=[panels.Mark(x=2.0, text="a")])
    loaded = content.from_json(content.to_json(section(figures=[figure(dots)])))
    assert content.to_json(loaded) == content.to_json(section(figures=[figure(dots)]))
    html = page.page("T", [Found(tmp_path, "finished", loaded)], tmp_path).html
    assert ">Some dots</text>" in html
    assert "here: 2.0" in html
    assert "Some dots,a,2.0,1.0,," in (tmp_path / "study-curves.csv").read_text()


def test_a_section_survives_a_round_trip():
    text = content.to_json(section())
    loaded = content.from_json(text)
    assert content.to_json(loaded) == text
    assert [type(panel) for panel in loaded.figures[0].panels] == [type(panel) for panel in PANELS.values()]
    assert loaded.figures[0].panels[0].lines[0] == section().figures[0].panels[0].lines[0]
    assert (loaded.seconds, loaded.against[0]) == (83.4, section().against[0])


def test_missing_numbers_are_null_in_json_and_nan_in_memory():
    line = panels.Line(name="otpe", x=[1], y=[math.inf])
    text = content.to_json(
        section(
            figures=[content.Figure(name="f", caption="", panels=[panels.Lines(title="", x="", y="", lines=[line])])],
            seconds=math.nan,
        )
    )
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    loaded = content.from_json(text)
    assert math.isnan(loaded.seconds)
    assert math.isnan(loaded.figures[0].panels[0].lines[0].y[0])
    assert loaded.figures[0].panels[0].lines[0].spread is None


def test_settings_keep_all_digits_and_plotted_numbers_six():
    loaded = content.from_json(
        content.to_json(
            section(seconds=1.23456789, settings={"leak": 0.9525741268224334, "root": None, "n": np.int64(3)})
        )
    )
    assert loaded.settings == {"leak": 0.9525741268224334, "root": None, "n": 3}
    assert loaded.seconds == 1.23457


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"no section of a report: JSONDecodeError"),
        ("[]", r"no section of a report: TypeError"),
        ('{"format": 1}', r"no section of a report: KeyError\('section'\)"),
        ('{"format": 1, "section": {"kind": "Sec"}}', r"no section of a report: KeyError\('Sec'\)"),
        (
            '{"format": 1, "section": {"kind": "Line", "name": "otpe", "x": [], "y": []}}',
            r"a Line, not a section of a report",
        ),
    ],
)
def test_json_that_is_no_section_is_refused(text, message):
    with pytest.raises(ValueError, match=message) as error:
        content.from_json(text)
    assert not isinstance(error.value, content.OtherVersionError)


def test_a_section_of_another_version_is_refused():
    with pytest.raises(
        content.OtherVersionError, match=r"of format 2, which another version of otpe wrote; this one reads 1"
    ):
        content.from_json('{"format": 2}')
