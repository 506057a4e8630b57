"""`otpe compare`: several rules on the same mini-batches and from the same initial weights."""

import json
import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny_runs import TINY, arguments, fingerprints

import otpe
from otpe import cli
from otpe.datasets import from_arrays
from otpe.lab.records import read_config
from otpe.lab.report import content
from otpe.lab.runs import checkpoint, compare, loop, task
from otpe.lab.runs.custom import CustomParts

RULES = ("bptt", "ottt")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    dataset = from_arrays(rng.random((6, 9, 8)) < 0.4, np.arange(9) % 3, names=("a", "b", "c"))
    return otpe.Splits(dataset, dataset.subset([0, 1, 2, 3, 4]), dataset.subset([5, 6, 7]))


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return otpe.CompareConfig(
        rules=RULES, modes=("offline", "online"), hidden=(), threshold=0.3, learning_rate=0.01, batch=4, steps=4, eval_every=2,
        online_learning_rate=0.002, every=3, out=tmp_path_factory.mktemp("compared") / "here",
    )  # fmt: skip


def run(config, data):
    """Run the comparison with these data under the name of a known dataset, so that the command can resume it."""
    return compare.prepared_comparison(config, CustomParts(data=data))()


@pytest.fixture(scope="module")
def compared(config, data):
    """Return the results, and the arguments of the first program call of each run."""
    begun, advance = [], loop.advance
    with pytest.MonkeyPatch.context() as patch:

        def watched(recipe, train, valid, networks, state, strides, when):
            if strides and state.step == 0:
                begun.append((recipe, train, networks, state))
            return advance(recipe, train, valid, networks, state, strides, when)

        patch.setattr(loop, "advance", watched)
        return run(config, data), begun


def test_all_rules_start_from_the_same_state(compared, data):
    _, begun = compared
    assert [(recipe.rule.name, recipe.mode) for recipe, *_ in begun] == [
        ("bptt", "offline"),
        ("ottt", "offline"),
        ("ottt", "online"),
    ]
    recipe, _, networks, state = begun[0]
    for other, given, same_networks, same in begun:
        assert given is data.train
        assert (other.setup.net, other.batch) == (recipe.setup.net, recipe.batch)
        jax.tree.map(np.testing.assert_array_equal, same_networks, networks)
        jax.tree.map(np.testing.assert_array_equal, same.params, state.params)
    assert [other.every for other, *_ in begun] == [1, 1, 3], "offline training does not use it"


def test_each_rule_has_a_run_folder(compared, config):
    results, _ = compared
    assert [result.learning_rate for result in results] == [0.01, 0.01, 0.002]
    for result in results:
        loaded = otpe.load(result.folder)
        assert (read_config(config.out)["kind"], read_config(result.folder)["kind"]) == ("compare", "train")
        assert result.folder == config.out / f"{result.rule}-{result.mode}"
        assert (loaded.test_accuracy, loaded.metrics) == (result.test_accuracy, result.metrics)


def test_a_comparison_writes_table_numbers_and_figure(compared, config):
    results, _ = compared
    table = (config.out / "table.txt").read_text().splitlines()
    assert re.split(r" {2,}", table[0].strip()) == [
        "rule",
        "mode",
        "test accuracy",
        "validation",
        "loss",
        "learning rate",
        "steps/s",
    ]
    for line, result in zip(table[1:], results, strict=True):
        rule, mode, accuracy = line.split()[:3]
        assert (rule, mode) == (result.rule, result.mode)
        assert float(accuracy) == pytest.approx(result.test_accuracy[0], abs=1e-3)
    recorded = json.loads((config.out / "compare.json").read_text())
    assert recorded["left_out"] == ["bptt cannot learn online"]
    assert [run["folder"] for run in recorded["runs"]] == ["bptt-offline", "ottt-offline", "ottt-online"]
    assert [run["test_accuracy"] for run in recorded["runs"]] == [result.test_accuracy for result in results]
    section = content.from_json((config.out / "section.json").read_text())
    assert [(panel.title, [line.name for line in panel.lines]) for panel in section.figures[0].panels] == [
        ("offline: validation accuracy", ["bptt", "ottt"]),
        ("offline: training loss", ["bptt", "ottt"]),
        ("online: validation accuracy", ["ottt"]),
        ("online: training loss", ["ottt"]),
    ]
    drawn = section.figures[0].panels[1].lines[1]
    assert drawn.x == [line["step"] for line in results[1].metrics]
    assert drawn.y == pytest.approx([line["loss"][0] for line in results[1].metrics], rel=1e-5)
    assert [row[:3] for row in section.tables[0].rows] == [line.split()[:3] for line in table[1:]]
    assert section.remarks == ["bptt cannot learn online."]
    assert section.seconds == pytest.approx(sum(result.seconds for result in results))
    assert section.command.startswith(
        "otpe compare --rules bptt ottt --modes offline online --online-learning-rate 0.002"
    )
    assert (section.settings["threshold"], section.machine["versions"]["otpe"]) == (0.3, otpe.__version__)
    pytest.importorskip("matplotlib")
    assert (config.out / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_finished_runs_are_not_trained_again(compared, config, data, monkeypatch):
    results, _ = compared
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained again"))
    runs = {folder.name: fingerprints(folder) for folder in config.out.iterdir() if folder.is_dir()}
    again = run(replace(config, resume=True), data)
    assert [result.test_accuracy for result in again] == [result.test_accuracy for result in results]
    assert {folder.name: fingerprints(folder) for folder in config.out.iterdir() if folder.is_dir()} == runs


def test_the_command_names_rules_that_were_left_out(compared, config, data, monkeypatch, capsys):
    monkeypatch.setattr(task, "named", lambda _: data)
    assert cli.main(["compare", "--resume", "--out", str(config.out)]) == 0
    output = capsys.readouterr().out
    assert (config.out / "table.txt").read_text() in output
    assert "  bptt cannot learn online\n" in output
    assert f"Picture: {config.out / 'curves.png'}" in output


def test_missing_runs_are_trained(compared, config, data, monkeypatch):
    last = config.out / "ottt-online"
    (last / "result.json").unlink()
    checkpoint.newest(last / "checkpoints").unlink()
    begun, advance = set(), loop.advance
    monkeypatch.setattr(loop, "advance", lambda recipe, *rest: begun.add(recipe.mode) or advance(recipe, *rest))
    again = run(replace(config, resume=True), data)
    assert begun == {"online"}
    assert again[2].metrics[-1]["loss"] == compared[0][2].metrics[-1]["loss"]


def test_a_damaged_run_is_reported_before_training(compared, config, data, monkeypatch):
    monkeypatch.setattr(loop, "advance", lambda *_: pytest.fail("trained something"))
    newest = checkpoint.newest(config.out / "ottt-online" / "checkpoints")
    content = newest.read_bytes()
    newest.write_bytes(content[:-1])
    with pytest.raises(ValueError, match=r"ottt-online.* is damaged: "):
        compare.prepared_comparison(replace(config, resume=True), CustomParts(data=data))
    newest.write_bytes(content)
    compare.prepared_comparison(replace(config, resume=True), CustomParts(data=data)).folder.close()


def test_resuming_with_other_settings_is_refused(compared, config, data):
    before = fingerprints(config.out)
    with pytest.raises(FileExistsError, match=r"rules was \['bptt', 'ottt'\], now is \['ottt'\]"):
        run(replace(config, rules=("ottt",), resume=True), data)
    with pytest.raises(FileExistsError, match=r"already has this run"):
        run(config, data)
    assert fingerprints(config.out) == before


def test_rules_all_means_every_rule(config, data, tmp_path):
    comparison = compare.prepared_comparison(
        replace(config, rules=("all",), out=tmp_path / "all"), CustomParts(data=data)
    )
    comparison.folder.close()
    assert [run.rule for run in comparison.runs if run.mode == "offline"] == list(otpe.rules())
    assert [run.rule for run in comparison.runs if run.mode == "online"] == [
        rule for rule in otpe.rules() if rule != "bptt"
    ]
    assert comparison.left_out == ["bptt cannot learn online"]


SMALL = arguments(TINY)
BAD = [
    (["--rules"], r"rules is \(\), expected at least one, and none twice"),
    (["--rules", "ottt", "ottt"], r"rules is \('ottt', 'ottt'\), expected at least one, and none twice"),
    (["--modes"], r"modes is \(\), expected at least one"),
    (["--rules", "ottt", "otp"], r"rule 'otp' is not known. Did you mean 'otpe'\?"),
    (
        ["--rules", "bptt", "--modes", "online"],
        r"nothing is left to train: bptt cannot learn online. Add the mode offline",
    ),
    (["--steps", "0"], r"steps is 0, expected a whole number above 0"),
    (["--modes", "online", "--online-learning-rate", "nan"], r"learning_rate is nan, expected a finite number above 0"),
    ([*SMALL, "--leak", "nan"], r"leak is nan, expected"),
    ([*SMALL, "--surrogate", "arctg"], r"surrogate 'arctg' is not known. Did you mean 'arctan'\?"),
    ([*SMALL, "--out", "a-file"], r"out is 'a-file', which is a file, expected a folder"),
]


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(("args", "message"), BAD, ids=[" ".join(args[-3:]) for args, _ in BAD])
def test_bad_input_is_refused_with_a_sentence(args, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a-file").write_text("mine")
    assert cli.main(["compare", *args]) == 2
    output = capsys.readouterr().err
    assert output.startswith("otpe: ")
    assert "Traceback" not in output
    assert re.search(message, output)
    assert [path.name for path in tmp_path.iterdir()] == ["a-file"]


@pytest.mark.parametrize("given", [TINY, "otpe"], ids=["train", "text"])
def test_settings_of_the_wrong_type_are_refused(given):
    with pytest.raises(TypeError, match=r"expected otpe.CompareConfig\(dataset=..., ...\)"):
        otpe.compare(given)
