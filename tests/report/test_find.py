"""The runs in a folder and their states: none is omitted."""

import json
import re

import pytest

from otpe.lab.report import finder
from otpe.lab.settings import TrainConfig


def states(runs, *below):
    return {str(each.path.relative_to(runs.path)): each.state for each in finder.search([runs.path.joinpath(*below)])}


def only(runs):
    (each,) = finder.search([runs.path])
    return each


def test_a_folder_of_runs_and_studies(runs):
    runs.study("b-study")
    runs.train("b-study/inside")
    runs.train("c-run")
    runs.study("deep/down/a-study")
    runs.train(".hidden")
    runs.write("c-run/checkpoints/odd", result={})
    assert states(runs) == {"b-study": "finished", "c-run": "finished", "deep/down/a-study": "finished"}
    assert list(states(runs)) == sorted(states(runs))
    assert states(runs, "b-study") == {"b-study": "finished"}


def test_order_json_sets_the_order_and_names_missing_items(runs):
    for name in ("a", "b", "c"):
        runs.study(name)
    runs.write("", order=["c", "x", "a"])
    assert states(runs) == {"c": "finished", "a": "finished", "b": "finished", "x": "missing"}
    assert finder.search([runs.path])[-1].note == "order.json names it, but it is not finished yet."


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "{}", "[1]", '["a/b"]', '[".."]', '["\\u0000"]'])
def test_a_damaged_order_is_reported(runs, content):
    for name in ("b", "a"):
        runs.study(name)
    runs.write("", order=content)
    assert states(runs) == {"order.json": "damaged", "a": "finished", "b": "finished"}
    note = finder.search([runs.path])[0].note
    assert re.match(r"order.json is damaged: .*\. Sections are sorted by name. Missing sections cannot be", note)


def test_a_folder_without_results_counts_as_missing(runs):
    runs.study("a")
    runs.write("b", points={"points": []})
    runs.write("", order=["b", "a"])
    assert states(runs) == {"a": "finished", "b": "missing"}


def test_a_file_nested_too_deep_to_read_is_damaged(runs):
    (runs.path / "deep").mkdir(parents=True)
    (runs.path / "deep" / "section.json").write_text("[" * 200_000)
    assert only(runs).state == "damaged"


def test_a_single_run(runs):
    runs.train("run", rule="ostl", hidden=[64], root="my data")
    section = only(runs).section
    assert section.title == "OSTL, offline, on r-randman"
    assert section.lead.endswith("8 mini-batches of 128, mean ± σ of 2 networks (few). Test accuracy 0.600 ± 0.141.")
    assert (
        section.command == "otpe train --rule ostl --steps 8 --seeds 2 --dataset r-randman --root 'my data' --hidden 64"
    )
    assert (section.settings["leak"], section.machine["commit"], section.seconds) == (TrainConfig.leak, "abc", 3.0)
    accuracy, loss = section.figures[0].panels
    assert (accuracy.lines[0].x, accuracy.lines[0].y, accuracy.lines[0].spread) == (
        [4, 8],
        pytest.approx([0.6, 0.6]),
        pytest.approx([0.02**0.5] * 2),
    )
    assert loss.lines[0].y == pytest.approx([float("nan"), 0.5625], nan_ok=True)
    assert section.tables[0].rows[1] == ["1", 0.7, 2, 2, 2, 2]


def test_the_section_names_several_draws(runs):
    runs.train("run", draws=2)
    assert "mean ± σ of 2 networks (few) on 2 draws." in only(runs).section.lead


def test_user_parts_are_named_instead_of_a_command(runs):
    runs.train("run", own_net="a network")
    assert only(runs).section.command == ""
    assert only(runs).section.remarks == ["Trained with a network from Python code: no command can repeat it."]
    runs.train("run", dataset="mine")
    assert only(runs).section.command == ""


def test_a_stopped_run_is_shown_as_unfinished(runs):
    path = runs.train("run", finished=False, measured=(4,))
    each = only(runs)
    assert each.state == "unfinished"
    assert (
        each.note
        == f"Stopped, or still training: 4 of 8 mini-batches are measured. Go on with: otpe train --resume --out {path}"
    )
    assert each.section.figures[0].panels[0].lines[0].x == [4]
    assert each.section.tables == []
    (path / "metrics.jsonl").unlink()
    assert "0 of 8 mini-batches" in only(runs).note


def test_a_stopped_comparison_is_shown_as_unfinished(runs):
    path = runs.comparison("compared")
    runs.train("compared/otpe-offline")
    runs.train("compared/ostl-offline", finished=False)
    each = only(runs)
    assert each.state == "unfinished"
    assert each.note == (
        "There is no section.json: the study was stopped, or is still at work. Runs in it: 2, finished: 1. Go on with:"
        f" otpe compare --resume --out {path}"
    )
    runs.write("compared", compare={})
    assert "Its table.txt is complete; an older otpe made it." in only(runs).note


def test_studies_below_a_study_are_shown(runs):
    runs.write("all", config={"format": 1, "items": ["a", "b"]}, order=["a", "b"])
    runs.study("all/a")
    runs.train("all/a-run-of-it")
    runs.write("all/b", config={"format": 1, "grid": 3})
    assert states(runs) == {"all/a": "finished", "all/b": "unfinished"}
    assert finder.search([runs.path])[1].note.endswith(
        f"Go on with: its command --resume --out {runs.path / 'all' / 'b'}"
    )


@pytest.mark.parametrize(
    ("content", "state", "note"),
    [
        ({"section": '{"format": 1, "sec'}, "damaged", r"section.json is damaged: no section of a report: JSONDecodeError.* Remove it and run the study again"),
        ({"section": '{"format": 9}'}, "other version", r"section.json is of format 9, which another version of otpe wrote; this one reads 1\. Use that version"),
        ({"config": "{"}, "damaged", r"config.json is damaged: .* Name another folder\."),
        ({"config": {"format": 9}}, "other version", r"has the format 9, which a newer otpe wrote; this one reads 1\. Update otpe"),
        ({"config": {"format": 1, "rule": "otpe"}}, "damaged", r"^config.json is damaged: there is no mode in it\. Train it again in another folder\."),
        ({"result": {}, "metrics": ""}, "damaged", r"result.json, metrics.jsonl without config.json: it is unknown what ran here"),
    ],
    ids=["truncated section", "other section", "truncated config", "other config", "half a config", "no config"],
)  # fmt: skip
def test_damaged_folders_are_shown_as_damaged(runs, content, state, note):
    runs.write("odd", **content)
    assert only(runs).state == state
    assert re.search(note, only(runs).note)


def test_a_damaged_result(runs):
    path = runs.train("run")
    (path / "result.json").write_text('{"for')
    assert only(runs).state == "damaged"
    assert "result.json is damaged" in only(runs).note
    (path / "result.json").write_text('{"format": 9}')
    assert only(runs).state == "other version"


@pytest.mark.parametrize("name", ["rule", "mode", "steps", "batch", "seeds", "dataset"])
def test_a_finished_run_whose_settings_are_damaged(runs, name):
    path = runs.train("run") / "config.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in about.items() if key != name}))
    expected = "unfinished" if name == "rule" else "damaged"  # without a rule it is taken for a study
    assert only(runs).state == expected
    assert expected == "unfinished" or only(runs).note.startswith(f"config.json is damaged: there is no {name} in it.")


def test_truncated_metrics_are_shown_as_damaged(runs):
    path = runs.train("run")
    (path / "metrics.jsonl").write_text((path / "metrics.jsonl").read_text()[:-20])
    assert only(runs).state == "damaged"
    assert only(runs).note == "metrics.jsonl ends after mini-batch 4 of 8, and so do the curves. The result is whole."
    (path / "metrics.jsonl").write_text(json.dumps({"step": 8, "loss": "low"}) + "\n")
    assert only(runs).state == "damaged"
    assert only(runs).section is None


def test_a_folder_without_read_permission_is_shown_as_damaged(runs, monkeypatch):
    runs.study("a")
    runs.write("b/c")
    real = type(runs.path).iterdir

    def refused(path):
        if path.name == "b":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(type(runs.path), "iterdir", refused)
    assert states(runs) == {"a": "finished", "b": "damaged"}
    assert finder.search([runs.path])[1].note == "cannot be read: Permission denied."


def test_the_same_folder_twice_is_shown_once(runs):
    path = runs.study("a")
    assert len(finder.search([runs.path, path, runs.path])) == 1


def test_a_missing_file_or_folder_is_reported(runs):
    with pytest.raises(
        FileNotFoundError, match=r"runs', which is not there, expected a folder of runs, such as otpe train"
    ):
        finder.search([runs.path])
    empty = runs.write("empty")
    with pytest.raises(FileNotFoundError, match=r"empty', which holds no runs: .* Make one, with: otpe compare"):
        finder.search([empty])
    (empty / "file").write_text("")
    with pytest.raises(FileNotFoundError, match=r"file', which is a file, expected a folder of runs"):
        finder.search([empty / "file"])


def test_damaged_lines_of_metrics_are_reported(runs):
    path = runs.train("run", measured=(4, 8)) / "metrics.jsonl"
    assert finder.search([runs.path])[0].state == "finished"
    path.write_text("what?\n" + path.read_text())
    (result,) = finder.search([runs.path])
    assert result.state == "damaged"
    assert result.note.endswith(
        "metrics.jsonl is damaged: line 1 is left out. The curves lack them. The result is whole."
    )
    assert len(result.section.figures[0].panels[0].lines[0].x) == 2
