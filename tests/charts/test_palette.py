"""Every rule has its own name and colour, visible on light and dark pages."""

import pytest

import otpe
from otpe.lab.report import palette


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_rule_has_a_distinct_colour():
    assert tuple(palette.RULES) == otpe.rules()
    assert len({(each.colour, each.dashed) for each in palette.RULES.values()}) == len(palette.RULES)
    assert len({each.name for each in palette.RULES.values()}) == len(palette.RULES)


@pytest.mark.parametrize("name", palette.RULES)
def test_colours_have_contrast_on_white_and_near_black(name):
    colour = palette.RULES[name].colour
    assert contrast(colour, "#ffffff") >= 3
    assert colour == palette.TEXT or contrast(colour, "#15171b") >= 3


def test_shown_names_of_rules():
    assert palette.shown("approx-otpe") == "Approx OTPE"
    assert palette.shown("f-approx-otpe") == "F-Approx OTPE"
    assert palette.shown("deep-otpe") == "Deep OTPE (ours)"
    assert palette.shown("width 64") == "width 64"
    assert [rule for rule in otpe.rules() if palette.ours(rule)] == [
        "deep-otpe",
        "approx-deep-otpe",
        "f-deep-otpe",
        "f-approx-deep-otpe",
    ]


def test_other_names_get_the_remaining_colours():
    looks = palette.looks(["width 64", "bptt", "width 64", *(f"width {n}" for n in range(20))])
    assert list(looks)[:3] == ["width 64", "bptt", "width 0"]
    assert looks["bptt"] == palette.RULES["bptt"]
    assert palette.TEXT not in {each.colour for name, each in looks.items() if name != "bptt"}
    assert len({(looks[f"width {n}"].colour, looks[f"width {n}"].dashed) for n in range(13)}) == 13


def test_a_new_rule_gets_a_name_and_a_colour_by_its_place():
    names = [*otpe.rules(), "eprop", "f-eprop", *(f"rule-{i}" for i in range(3))]
    found = palette._rule_looks(names)
    assert {name: found[name] for name in palette.RULES} == palette.RULES
    assert (found["eprop"].name, found["f-eprop"].name) == ("EPROP", "F-EPROP")
    assert found["eprop"].colour == found["f-eprop"].colour
    assert len({(each.colour, each.dashed) for each in found.values()}) == len(found)
    assert all(contrast(colour, paper) >= 3 for colour, _ in palette.FURTHER_LINES for paper in ("#ffffff", "#15171b"))
