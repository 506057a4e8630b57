"""The points of a sweep: which settings can be swept, names of points, and contradictions."""

import re
from dataclasses import fields

import pytest
from tiny_runs import TINY, arguments

from otpe import cli
from otpe.lab.runs import loop, task
from otpe.lab.runs.custom import CustomParts
from otpe.lab.settings import SweepConfig
from otpe.lab.studies import grid

SMALL = {f.name: getattr(TINY, f.name) for f in fields(SweepConfig) if hasattr(TINY, f.name)}


def points(*over, **change):
    return grid.points(SweepConfig(**{**SMALL, "rules": ("ottt",), "over": over, **change}))[0]


def test_points_are_all_combinations_of_values_rules_and_modes():
    planned, left_out = grid.points(
        SweepConfig(
            **SMALL
            | {"rules": ("bptt", "otpe"), "modes": ("offline", "online"), "over": ("slope=5,10", "leak=0.9,0.5")}
        )
    )
    assert [point.name for point in planned[:3]] == [
        "bptt-offline-slope=5-leak=0.9",
        "otpe-offline-slope=5-leak=0.9",
        "otpe-online-slope=5-leak=0.9",
    ]
    assert len(planned) == 3 * 2 * 2
    assert left_out == ["bptt cannot learn online"]
    assert (planned[-1].run.slope, planned[-1].run.leak, planned[-1].run.mode) == (10.0, 0.5, "online")
    assert planned[-1].run.steps == TINY.steps, "settings that are not swept stay unchanged"
    assert planned[-1].run.resume


def test_long_point_names_are_shortened():
    layers = "x".join(["128"] * 100)
    first, second, other = (point.name for point in points(f"hidden={layers},{layers}x64,64"))
    assert len(first) == len(second) < 255
    assert first != second
    assert first.startswith("ottt-offline-hidden=128x128x")
    assert other == "ottt-offline-hidden=64"


@pytest.mark.parametrize(
    ("over", "hidden"),
    [
        (("width=3,4", "depth=2,4"), [(3,), (3, 3, 3), (4,), (4, 4, 4)]),
        (("width=3,4",), [(3,), (4,)]),
        (("depth=1,3",), [(), (6, 6)]),
        (("hidden=5x4,7",), [(5, 4), (7,)]),
    ],
    ids=str,
)
def test_width_and_depth_set_hidden_layers(over, hidden):
    change = {"hidden": SweepConfig.hidden} if len(over) == 2 else {}
    assert [point.run.hidden for point in points(*over, **change)] == hidden


def test_values_are_converted_to_the_type_of_the_setting():
    (point,) = points("learning-rate=1e-3", "optimizer=sgd", "momentum=None", "steps=8", "batch=4")
    assert point.at == {"learning_rate": 1e-3, "optimizer": "sgd", "momentum": None, "steps": 8, "batch": 4}
    assert point.name == "ottt-offline-learning_rate=0.001-optimizer=sgd-momentum=None-steps=8-batch=4"
    assert [p.name for p in points("learning_rate=1e-5,0.00123456789")] == [
        "ottt-offline-learning_rate=1e-05",
        "ottt-offline-learning_rate=0.00123456789",
    ]
    assert points("hidden=5x4")[0].name == "ottt-offline-hidden=5x4"


def test_points_on_the_same_data_are_consecutive():
    planned = points("slope=5,10", "manifolds=0,1")
    assert [point.run.manifolds for point in planned] == [0, 0, 1, 1]


BAD = [
    ([], r"over is \(\), expected settings and their values, such as slope=5,10,25 width=128,256"),
    (["slope"], r"over has 'slope', expected a setting and its values, such as slope=5,10,25"),
    (["slope="], r"over has 'slope=', expected a setting and its values"),
    (["slop=1,2"], r"setting 'slop' is not known. Did you mean 'slope'\?"),
    (["learning_rte=1,2"], r"Did you mean 'learning_rate'\?"),
    (["rule=otpe,ottt"], r"over has 'rule': list the rules in rules instead"),
    (["seeds=1,2"], r"over has 'seeds': every point has the same number of networks"),
    (["keep=1,2"], r"over has 'keep': no accuracy depends on it"),
    (["slope=5", "slope=6"], r"over has 'slope' twice, expected all its values at once: slope=A,B"),
    (["slope=5,5.0"], r"over has 'slope=5,5.0', expected no value twice"),
    (["slope=5,"], r"over has '' as a value of slope, expected a number"),
    (["steps=2,1e3"], r"over has '1e3' as a value of steps, expected a whole number"),
    (["binary=yes"], r"over has 'yes' as a value of binary, expected True or False"),
    (["hidden=3,a"], r"over has 'a' as a value of hidden, expected numbers joined by x"),
    (["slope=5,-1"], r"-1.0, expected"),
    (["leak=0.9,2"], r"leak is 2.0, expected"),
    (["learning_rate=0.1,0"], r"learning_rate is 0.0, expected a finite number above 0"),
    (["schedule=linear,quadratic"], r"schedule 'quadratic' is not known"),
    (["width=3", "hidden=4"], r"over has hidden and width, which both set the width of the layers"),
    (["width=3", "depth=1,2"], r"over has width, but a network of depth 1 has no hidden layer"),
    (["width=3", "depth=2"], r"over has width, but hidden is \(6,\): it contradicts it. Leave hidden out"),
    (["depth=2", "--hidden", "3", "4"], r"over has depth, but hidden is \(3, 4\): it contradicts it"),
    (["depth=2", "--hidden"], r"over has depth, but hidden is \(\), which has no width"),
    (["depth=0"], r"depth is 0, expected a whole number above 0"),
    (["width=0"], r"width is 0, expected a whole number above 0"),
    (["every=1,2"], r"over has every, which is for mode 'online', but modes is \('offline',\)"),
    (["learning_rate=1,2", "--modes", "online", "--online-learning-rate", "1"], r"online it would change nothing"),
    (["batch=4,0"], r"batch is 0, expected a whole number above 0"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args) or "nothing" for args, _ in BAD])
def test_bad_input_is_refused_before_training(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained something"))
    monkeypatch.setattr(task, "named", lambda _: pytest.fail("made data"))
    assert cli.main(["sweep", *arguments(TINY), "--rules", "ottt", "--over", *args]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not [*tmp_path.iterdir()]


def test_settings_of_user_data_cannot_be_swept():
    config = SweepConfig(**{**SMALL, "rules": ("ottt",), "over": ("alpha=1,2",)})
    with pytest.raises(ValueError, match=r"over has alpha, but the data is your own, which does not depend on it"):
        grid.points(config, CustomParts(data=()))
