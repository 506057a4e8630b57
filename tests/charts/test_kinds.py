"""Sections are written as JSON and read again."""

import json
import math

import numpy as np
import pytest
from sample_sections import section

from otpe.lab.report import content


def test_a_section_survives_a_round_trip():
    text = content.to_json(section())
    loaded = content.from_json(text)
    assert content.to_json(loaded) == text
    assert [type(panel).__name__ for panel in loaded.figures[0].panels] == [
        "Lines",
        "Lines",
        "Bars",
        "Heat",
        "Contours",
    ]
    assert loaded.figures[0].panels[0].lines[0] == section().figures[0].panels[0].lines[0]
    assert (loaded.seconds, loaded.against[0]) == (83.4, section().against[0])


def test_missing_numbers_are_null_in_json_and_nan_in_memory():
    line = content.Line(name="otpe", x=[1], y=[math.inf])
    text = content.to_json(
        section(
            figures=[content.Figure(name="f", caption="", panels=[content.Lines(title="", x="", y="", lines=[line])])],
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
