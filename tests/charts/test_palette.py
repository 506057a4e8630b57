"""Every rule has its own name and colour, visible on light and dark pages."""

from itertools import combinations

import numpy as np
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


# Machado, Oliveira and Fernandes (2009): what a person without red or green cones sees, in linear RGB.
PROTANOPIA = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
DEUTERANOPIA = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
WHITE = [0.95047, 1, 1.08883]


def seen(colour, sight):
    """Return the colour in CIELAB, in which equal distances look about equally different."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    x, y, z = (
        c ** (1 / 3) if c > 216 / 24389 else (24389 / 27 * c + 16) / 116
        for c in TO_XYZ @ np.clip(sight @ linear, 0, 1) / WHITE
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least_distance(colours):
    """Return the smallest distance of two of these colours, for each kind of sight."""
    sights = (np.eye(3), np.array(PROTANOPIA), np.array(DEUTERANOPIA))
    return min(
        float(np.linalg.norm(seen(a, sight) - seen(b, sight))) for sight in sights for a, b in combinations(colours, 2)
    )


@pytest.mark.parametrize("ink", [palette.TEXT, palette.LIGHT["ink"], palette.DARK["ink"]])
def test_colour_blind_readers_can_tell_the_rules_apart(ink):
    """A distance of 2 is just visible. Before, it was 6 between OTPE and Approx OTPE, and 15 between OSTL and OTTT."""
    rules = ("bptt", "ostl", "ottt", "otpe", "approx-otpe")
    colours = [palette.RULES[rule].colour.replace(palette.TEXT, ink) for rule in rules]
    assert least_distance(colours) > 30
    ours = [palette.RULES[rule].colour for rule in ("deep-otpe", "approx-deep-otpe")]
    assert least_distance([*colours, *ours]) > 15


def test_the_simulation_finds_colours_that_look_alike():
    assert least_distance(["#D55E00", "#C98500"]) < 10, "two oranges"
    assert least_distance(["#ff0000", "#ff0000"]) == 0
    assert least_distance(["#000000", "#ffffff"]) == pytest.approx(100, abs=0.1)


def test_rules_of_one_figure_have_different_markers():
    assert len({each.marker for each in palette.RULES.values() if not each.dashed}) == 8


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
