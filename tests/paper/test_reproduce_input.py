"""Input of `otpe reproduce`: missing recordings, folders with other content, bad settings."""

import json
import math
import re
from dataclasses import replace

import pytest
from reproductions import ITEM, OTPE, line, read_section

from otpe import cli
from otpe.datasets import download
from otpe.datasets.download import SOURCES
from otpe.lab.paper import reproduce as reproduction
from otpe.lab.paper.items import ITEMS
from otpe.lab.paper.reproduce import prepared_reproduction, reproduce
from otpe.lab.records import read_config
from otpe.lab.report import finder
from otpe.lab.report.content import to_json
from otpe.lab.runs import task
from otpe.lab.settings import ReproduceConfig


def test_items_without_recordings_are_left_out_and_say_how_to_get_them(run_log, config, capsys):
    config = replace(config, items=("offline-digits", ITEM, "rates-digits"))
    assert cli.main(line(config)) == 0
    reason = f"Not run: there are no recordings in {config.root}. Get them with: otpe data shd --root {config.root} --download"
    output, meanwhile = capsys.readouterr()
    about = f"left out: offline-digits, rates-digits. {reason}\n"
    assert f"  {about}" in output
    assert meanwhile.startswith(about), "it is said before training"
    assert "1 item in " in meanwhile
    section = read_section(config, "offline-digits")
    assert (section.lead, section.left_out, [*section.remarks], section.apart) == ("Left out.", reason, [], None)
    assert section.command == f"otpe reproduce offline-digits --quick --root {config.root}"
    assert math.isnan(section.seconds), "no time was spent"
    assert read_section(config, ITEM).tables
    assert {name.split("-")[0] for name in run_log} == {"t"}
    states = {each.path.name: (each.state, each.note) for each in finder.search([config.out])}
    assert states == {
        "offline-digits": ("left out", reason),
        ITEM: ("finished", ""),
        "rates-digits": ("left out", reason),
    }


def test_later_recordings_are_used_and_sections_stay_when_they_are_removed(run_log, config, recordings):
    config = replace(config, items=("offline-digits",))
    away = replace(config, root=config.root / "away")
    reproduce(away)
    path = config.out / "offline-digits" / "section.json"
    for damaged in ('{"for', to_json(replace(read_section(config, "offline-digits"), left_out=None))):
        path.write_text(damaged)  # an older otpe wrote the second form
        reproduce(away)
        assert read_section(config, "offline-digits").left_out
    reproduce(config)
    section = read_section(config, "offline-digits")
    assert section.tables
    assert section.left_out is None
    reproduce(away)
    assert read_section(config, "offline-digits") == section


def test_finished_runs_on_other_recordings_are_refused(run_log, config, recordings, monkeypatch):
    config = replace(config, items=("offline-digits",))
    reproduce(config)
    for path in config.out.glob("runs/*/config.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "data": "fingerprint"}))
    reproduce(config)
    monkeypatch.setattr(task, "fingerprint", lambda *_: "another")
    with pytest.raises(FileExistsError, match=r"other settings: data was 'fingerprint', now is 'another'"):
        reproduce(config)


def test_a_run_of_other_settings_is_refused(run_log, config):
    reproduce(config)
    path = config.out / "runs" / OTPE / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "batch": 5}))
    with pytest.raises(FileExistsError, match=rf"{OTPE} belongs to a run with other settings: batch was 5, now is 32"):
        reproduce(config)


def test_another_scale_or_precision_in_the_folder_is_refused(run_log, config):
    reproduce(config)
    with pytest.raises(FileExistsError, match=r"scale was 'quick', now is 'full'"):
        reproduce(replace(config, quick=False))
    with pytest.raises(FileExistsError, match=r"precision was 'float32', now is 'tf32'"):
        reproduce(replace(config, precision="tf32"))


def test_a_folder_with_other_files_is_refused_and_unchanged(run_log, config):
    config.out.mkdir()
    (config.out / "thesis.tex").write_text("")
    with pytest.raises(FileExistsError, match=r"has other files \(thesis.tex\), but no reproduction. Name another"):
        reproduce(config)
    assert [path.name for path in config.out.iterdir()] == ["thesis.tex"]
    with pytest.raises(NotADirectoryError, match="which is a file, expected a folder"):
        reproduce(replace(config, out=config.out / "thesis.tex"))


def test_a_second_process_in_the_same_folder_is_refused(run_log, config):
    prepared = prepared_reproduction(config)
    with pytest.raises(FileExistsError, match="where another process is at work"):
        prepared_reproduction(config)
    prepared()
    prepared_reproduction(config).lock.release()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["offline-t-randmann"], r"item 'offline-t-randmann' is not known. Did you mean 'offline-t-randman'"),
        ([ITEM, "--quick", "--fine"], "quick and fine are both given, expected one of them"),
        ([ITEM, "--checkpoint-seconds", "-1"], "checkpoint_seconds is -1.0, expected seconds"),
    ],
)
def test_bad_input_is_refused_before_a_folder_is_made(run_log, tmp_path, capsys, given, words):
    assert cli.main(["reproduce", *given, "--out", str(tmp_path / "out")]) == 2
    assert re.search(words, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_settings_of_the_wrong_type_are_refused():
    with pytest.raises(TypeError, match=r"config is a str, expected otpe.ReproduceConfig"):
        reproduce("complexity")


def test_the_list_names_all_items(capsys, tmp_path):
    assert cli.main(["reproduce", "--list", "--out", str(tmp_path / "out")]) == 0
    output = capsys.readouterr().out
    assert all(name in output and item.where in output for name, item in ITEMS.items())
    assert not (tmp_path / "out").exists()


def test_folders_are_named_after_the_scale(run_log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, name in (({"quick": True}, "reproduce-quick"), ({"fine": True}, "reproduce-fine"), ({}, "reproduce")):
        prepared = prepared_reproduction(ReproduceConfig(items=("complexity",), **given))
        prepared.lock.release()
        assert read_config(tmp_path / "runs" / name)["kind"] == "reproduce"


def test_the_name_of_the_recordings(config):
    assert reproduction.digits_name(replace(config, digits="mine")) == "mine"
    assert reproduction.digits_name(config) == "recordings in SHD's layout"


def test_only_the_file_that_is_read_counts_as_official(config, monkeypatch):
    config.root.mkdir(parents=True)
    for split in ("train", "test"):
        (config.root / f"shd_{split}.h5.zip").write_text("")
    monkeypatch.setattr(download, "md5", lambda path: SOURCES["shd"].md5[path.name.split("_")[1].split(".")[0]])
    assert reproduction.digits_name(config) == reproduction.OFFICIAL
    assert reproduction.no_digits(config.root) is None
    (config.root / "shd_test.h5").write_text("mine, which is read before the archive")
    assert reproduction.digits_name(config) == "recordings in SHD's layout"
