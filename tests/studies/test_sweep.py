"""`otpe sweep`: finished points are not run again, diverged points are recorded, and results are on disk at once."""

import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest
from tiny_runs import TINY, arguments

import otpe
from otpe import cli
from otpe.lab import signals
from otpe.lab.records import read_config
from otpe.lab.report.content import from_json
from otpe.lab.report.panels import Bars, Heat, Lines
from otpe.lab.runs import folder, guards, loop, task
from otpe.lab.settings import SweepConfig
from otpe.lab.studies import sweep
from otpe.lab.studies.sweep import gathered

CONFIG = SweepConfig(
    **{f.name: getattr(TINY, f.name) for f in fields(SweepConfig) if hasattr(TINY, f.name)}
    | {"rules": ("bptt", "ottt"), "over": ("slope=5,10", "leak=0.9,0.5"), "seeds": 2}
)
DATA, NAMED = object(), task.named


def accuracies(config):
    """Accuracies of a run that was not trained, computed from its settings."""
    base = config.leak / 2 + config.slope / 100 + (config.rule == "ottt") / 10
    return [base, base + 0.02]


@pytest.fixture
def run_log(monkeypatch):
    """Record the runs that would be trained. Runs named in `diverging` diverge, runs named in `stopping` are stopped."""

    class RunLog(list):
        diverging, stopping, data = set(), set(), []

    log = RunLog()

    class FakeRun:
        def __init__(self, config, data):
            self.config = config
            config.out.mkdir(exist_ok=True)
            (config.out / "config.json").write_text(json.dumps(folder.plain(config)))
            log.data.append(data)

        def __call__(self):
            config, name = self.config, self.config.out.name
            log.append(name)
            assert (self.verb, self.home) == ("sweep", config.out.parent), "a stopped run must say how to resume"
            if name in log.diverging:
                raise guards.DivergedError("step 3: weights or loss are not finite any more")
            if name in log.stopping:
                raise KeyboardInterrupt
            known = dict.fromkeys(sweep.RECORDED, 1.0) | {
                "seeds": config.seeds,
                "test_accuracy": accuracies(config),
                "valid_accuracy": accuracies(config),
                "test_loss": [1.0] * config.seeds,
                "loss": [1.0] * config.seeds,
                "best_step": [1] * config.seeds,
            }
            (config.out / "result.json").write_text(json.dumps(known))
            return known

    log.data = []
    monkeypatch.setattr(sweep, "prepared", lambda config, own: FakeRun(config, own.data))
    monkeypatch.setattr(sweep, "numbers", lambda known: known)
    monkeypatch.setattr(task, "named", lambda _: DATA)
    monkeypatch.setattr(task, "check_shapes", lambda *_: None)
    monkeypatch.setattr(task, "shaped_for_network", lambda _, splits, __: splits)
    monkeypatch.setattr(sweep, "_check_size", lambda *_: None)
    return log


def recorded(out):
    return {point["name"]: point for point in json.loads((out / "sweep.json").read_text())["points"]}


def test_accuracies_are_stored_at_their_points(run_log, tmp_path):
    result = sweep.sweep(replace(CONFIG, out=tmp_path / "s"))
    assert result.axes == {"slope": (5.0, 10.0), "leak": (0.9, 0.5)}
    assert (result.rules, result.modes) == (("bptt", "ottt"), ("offline",))
    assert result.accuracy.shape == (2, 1, 2, 2, 2)
    np.testing.assert_allclose(result.accuracy[1, 0, 0, 1], [0.4, 0.42])
    np.testing.assert_allclose(result.accuracy[0, 0, 1, 0], [0.55, 0.57])
    assert result.best("ottt", "offline")["name"] == "ottt-offline-slope=10-leak=0.9"
    assert len(recorded(tmp_path / "s")) == 8
    assert recorded(tmp_path / "s")["bptt-offline-slope=5-leak=0.5"]["at"] == {"slope": 5.0, "leak": 0.5}
    assert str(result) == f"8 runs over slope of 5, 10, leak of 0.9, 0.5, in {tmp_path / 's'}"


def test_a_diverged_point_is_recorded_and_not_repeated(run_log, tmp_path):
    out = tmp_path / "s"
    run_log.diverging = {"bptt-offline-slope=5-leak=0.9"}
    result = sweep.sweep(replace(CONFIG, out=out))
    assert len(run_log) == 8
    assert np.isnan(result.accuracy[0, 0, 0, 0]).all()
    assert np.isfinite(result.accuracy).sum() == 14
    assert result.diverged == ["bptt-offline-slope=5-leak=0.9: step 3: weights or loss are not finite any more"]
    section = from_json((out / "section.json").read_text())
    assert np.isnan(section.figures[0].panels[0].values[0][0])
    assert section.remarks == [f"{line}." for line in result.diverged]
    assert "7 of 8 runs" in section.lead
    again = sweep.sweep(replace(CONFIG, out=out, resume=True))
    assert len(run_log) == 8, "neither finished nor diverged points run again"
    np.testing.assert_array_equal(again.accuracy, result.accuracy)


def test_ctrl_c_keeps_results_and_says_how_to_resume(run_log, tmp_path):
    out = tmp_path / "s"
    run_log.stopping = {"ottt-offline-slope=5-leak=0.5"}
    with pytest.raises(signals.StoppedError, match=rf"Go on with: otpe sweep --resume --out {re.escape(str(out))}"):
        sweep.sweep(replace(CONFIG, out=out))
    states = [point["state"] for point in recorded(out).values()]
    assert states == ["finished"] * 3 + ["waiting"] * 5
    assert not (out / "section.json").exists()
    run_log.stopping = set()
    result = sweep.sweep(replace(CONFIG, out=out, resume=True))
    assert np.isfinite(result.accuracy).all()
    assert len(run_log) == 9
    assert len(set(run_log)) == 8


def test_a_larger_grid_runs_only_what_is_new(run_log, tmp_path):
    out = tmp_path / "s"
    sweep.sweep(replace(CONFIG, out=out))
    run_log.clear()
    result = sweep.sweep(replace(CONFIG, over=("slope=5,10,20", "leak=0.9,0.5"), out=out, resume=True))
    assert sorted(run_log) == sorted(
        f"{rule}-offline-slope=20-leak={leak}" for rule in CONFIG.rules for leak in (0.9, 0.5)
    )
    assert np.isfinite(result.accuracy).all()
    assert folder.stored(SweepConfig, out).over == ("slope=5,10,20", "leak=0.9,0.5")
    assert read_config(out)["kind"] == "sweep"


def test_other_settings_and_folders_are_refused(run_log, tmp_path, monkeypatch):
    out = tmp_path / "s"
    sweep.sweep(replace(CONFIG, out=out))
    with pytest.raises(FileExistsError, match=r"steps was 12, now is 8"):
        sweep.sweep(replace(CONFIG, steps=8, out=out, resume=True))
    with pytest.raises(FileExistsError, match=r"already has this run, which is finished. Use resume"):
        sweep.sweep(replace(CONFIG, out=out))
    monkeypatch.setattr(task, "named", NAMED)
    shared = {f.name: getattr(CONFIG, f.name) for f in fields(otpe.CompareConfig)}
    with pytest.raises(FileExistsError, match=r"which holds a sweep, not a comparison. Name another folder."):
        otpe.compare(otpe.CompareConfig(**{**shared, "out": out, "resume": True}))
    about = json.loads((out / "ottt-offline-slope=5-leak=0.9" / "config.json").read_text())
    (out / "ottt-offline-slope=5-leak=0.9" / "config.json").write_text(json.dumps(about | {"batch": 5}))
    with pytest.raises(
        FileExistsError, match=r"ottt-offline-slope=5-leak=0.9 belongs to a run with other settings: batch was 5"
    ):
        sweep.sweep(replace(CONFIG, out=out, resume=True))


def test_finished_points_of_other_data_are_refused(run_log, tmp_path, monkeypatch):
    out = tmp_path / "s"
    sweep.sweep(replace(CONFIG, out=out))
    place = out / "ottt-offline-slope=5-leak=0.9" / "config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"data": "of then"}))
    monkeypatch.setattr(task, "fingerprint", lambda data, seed, batch: "of then")
    sweep.sweep(replace(CONFIG, out=out, resume=True))
    monkeypatch.setattr(task, "fingerprint", lambda data, seed, batch: "of now")
    with pytest.raises(FileExistsError, match=r"data was 'of then', now is 'of now'"):
        sweep.sweep(replace(CONFIG, out=out, resume=True))


def test_data_is_made_once_for_all_points_that_share_it(run_log, tmp_path, monkeypatch):
    loads = []
    monkeypatch.setattr(task, "named", lambda config: loads.append(config.manifolds) or f"manifolds {config.manifolds}")
    sweep.sweep(replace(CONFIG, over=("slope=5,10", "manifolds=3,4"), leak=0.5, out=tmp_path / "s"))
    assert loads == [3, 4]
    assert run_log.data == ["manifolds 3"] * 4 + ["manifolds 4"] * 4


def result_over(axes, accuracy, rules=("bptt", "ottt")):
    """Return a sweep result with these accuracies, by rule and values."""
    points, names = [], [*axes]
    for rule in rules:
        for where in np.ndindex(*map(len, axes.values())):
            at = {name: axes[name][i] for name, i in zip(names, where, strict=True)}
            value = accuracy(rule, **at)
            accuracies = [value - 0.1, value + 0.1]
            points.append({"name": "p", "rule": rule, "mode": "offline", "at": at, "state": "finished", "test_accuracy": accuracies, "valid_accuracy": accuracies})  # fmt: skip
    return gathered(CONFIG, axes, points, [], None)


def test_one_swept_setting_gives_curves():
    axes = {"learning_rate": (1e-2, 1e-3, 1e-4)}
    result = result_over(axes, lambda rule, learning_rate: 0.5 + learning_rate + (rule == "ottt") / 5)
    ((panel,),) = [figure.panels for figure in sweep.section(result).figures]
    assert isinstance(panel, Lines)
    assert panel.log_x
    assert panel.x == "learning_rate"
    assert [line.name for line in panel.lines] == ["bptt", "ottt"]
    assert panel.lines[1].x == [1e-4, 1e-3, 1e-2]
    np.testing.assert_allclose(panel.lines[1].y, [0.7001, 0.701, 0.71])
    np.testing.assert_allclose(panel.lines[1].spread, [0.02**0.5] * 3)
    near = result_over({"slope": (5, 10)}, lambda rule, slope: slope / 20)
    assert not sweep.section(near).figures[0].panels[0].log_x
    words = result_over({"optimizer": ("sgd", "adam")}, lambda rule, optimizer: 0.3)
    (panel,) = sweep.section(words).figures[0].panels
    assert isinstance(panel, Bars)
    assert panel.groups == ["sgd", "adam"]


def test_two_settings_give_a_map_per_rule_and_a_third_gives_more_maps():
    axes = {"slope": (5, 10), "width": (64, 128, 256), "depth": (3, 5)}
    two = result_over({name: axes[name] for name in ("slope", "width")}, lambda rule, slope, width: slope + width)
    first, second = sweep.section(two).figures[0].panels
    assert isinstance(first, Heat)
    assert (first.title, second.title, first.y, first.x) == ("BPTT", "OTTT", "slope", "width")
    assert (first.rows, first.columns) == (["5", "10"], ["64", "128", "256"])
    np.testing.assert_allclose(first.values, [[69, 133, 261], [74, 138, 266]])
    np.testing.assert_allclose(first.spread, np.full((2, 3), 0.02**0.5), rtol=1e-6)
    three = result_over(axes, lambda rule, slope, width, depth: slope + width + depth + 1000 * (rule == "ottt"))
    panels = sweep.section(three).figures[0].panels
    assert [panel.title for panel in panels] == ["BPTT, depth 3", "BPTT, depth 5", "OTTT, depth 3", "OTTT, depth 5"]
    np.testing.assert_allclose(panels[3].values[1], [10 + 64 + 1005, 10 + 128 + 1005, 10 + 256 + 1005])


def test_the_best_point_is_chosen_by_validation():
    result = result_over({"slope": (5, 10)}, lambda rule, slope: slope / 20)
    result.points[0]["valid_accuracy"] = [0.99, 0.99]
    table = sweep.table(result)
    assert table.columns == ["rule", "mode", "slope", "test accuracy", "σ", "validation", "σ"]
    assert table.rows[0] == [
        "bptt",
        "offline",
        "5",
        pytest.approx(0.25),
        pytest.approx(0.02**0.5),
        pytest.approx(0.99),
        0,
    ]
    assert table.rows[1][2] == "10"


def test_a_sweep_from_end_to_end(tmp_path, capsys, monkeypatch):
    """The command trains the same as `otpe train`, and only once."""
    out = tmp_path / "s"
    small = replace(TINY, hidden=(), steps=4, eval_every=4)
    line = [
        "sweep",
        *arguments(small),
        "--hidden",
        "--rules",
        "bptt",
        "ottt",
        "--modes",
        "online",
        "--over",
        "learning-rate=0.03,0.01",
    ]
    assert cli.main([*line, "--out", str(out)]) == 0
    caught = capsys.readouterr()
    assert "  bptt cannot learn online\n" in caught.out
    assert f"Numbers: {out / 'sweep.json'}" in caught.out
    assert "2/2  ottt-online-learning_rate=0.01: " in caught.err
    alone = otpe.train(replace(small, rule="ottt", mode="online", learning_rate=0.01, out=tmp_path / "alone"))
    loaded = otpe.load(out / "ottt-online-learning_rate=0.01")
    assert (loaded.test_accuracy, loaded.loss) == (alone.test_accuracy, alone.loss)
    assert recorded(out)["ottt-online-learning_rate=0.01"]["test_accuracy"] == alone.test_accuracy
    section = from_json((out / "section.json").read_text())
    assert section.command.endswith("--over learning-rate=0.03,0.01")
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained again"))
    assert cli.main(["sweep", "--resume", "--out", str(out)]) == 0


def test_settings_of_the_wrong_type_are_refused():
    with pytest.raises(TypeError, match=r"config is a TrainConfig, expected otpe.SweepConfig\(dataset=..., ...\)"):
        sweep.sweep(TINY)
