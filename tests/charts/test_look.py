"""Every rule has its own name and colour, visible on light and dark pages."""

import pytest

import otpe
from otpe.lab.report import look


def luminance(colour):
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_rule_has_a_distinct_colour():
    assert set(look.RULES) == set(otpe.rules())
    assert len({(each.colour, each.dashed) for each in look.RULES.values()}) == len(look.RULES)
    assert len({each.name for each in look.RULES.values()}) == len(look.RULES)


@pytest.mark.parametrize("name", look.RULES)
def test_colours_have_contrast_on_white_and_near_black(name):
    colour = look.RULES[name].colour
    assert contrast(colour, "#ffffff") >= 3
    assert colour == look.TEXT or contrast(colour, "#15171b") >= 3


def test_shown_names_of_rules():
    assert look.shown("approx-otpe") == "Approx OTPE"
    assert look.shown("f-approx-otpe") == "F-Approx OTPE"
    assert look.shown("deep-otpe") == "Deep OTPE (ours)"
    assert look.shown("width 64") == "width 64"
    assert [rule for rule in otpe.rules() if look.ours(rule)] == [
        "deep-otpe",
        "approx-deep-otpe",
        "f-deep-otpe",
        "f-approx-deep-otpe",
    ]


def test_other_names_get_the_remaining_colours():
    looks = look.looks(["width 64", "bptt", "width 64", *(f"width {n}" for n in range(20))])
    assert list(looks)[:3] == ["width 64", "bptt", "width 0"]
    assert looks["bptt"] == look.RULES["bptt"]
    assert look.TEXT not in {each.colour for name, each in looks.items() if name != "bptt"}
    assert len({(looks[f"width {n}"].colour, looks[f"width {n}"].dashed) for n in range(13)}) == 13
