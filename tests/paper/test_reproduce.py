"""`otpe reproduce`: missing runs are trained, existing ones are not, every item gets a section. Here no run is trained."""

import errno
import json
import os
import time
from dataclasses import replace

import made_up_runs
import pytest
from reproductions import BPTT, ITEM, OTPE, RANDMAN, line, read_section

from otpe import cli, files
from otpe.lab import signals
from otpe.lab.bench import bench
from otpe.lab.paper import reproduce as reproduction
from otpe.lab.paper.items import ITEMS
from otpe.lab.paper.reproduce import prepared_reproduction, reproduce
from otpe.lab.report.content import Section
from otpe.lab.runs import folder, task

MAKE_DATA = task.named


def test_a_reproduction_writes_runs_sections_order_and_report(run_log, config):
    assert reproduce(config) == config.out / "report.html"
    assert run_log.reports == [(config.out, config.out / "report.html")]
    assert json.loads((config.out / "order.json").read_text()) == [ITEM, "cosines-t-randman", "online-t-randman"]
    for name in RANDMAN:
        section = read_section(config, name)
        assert (section.name, section.title, section.where) == (name, ITEMS[name].title, ITEMS[name].where)
        assert section.command == f"otpe reproduce {name} --quick --root {config.root}"
        assert all((config.out / "runs" / run / "result.json").exists() for run in section.settings["runs"])
        assert section.settings["dataset"] == "t-randman"
        assert section.seconds >= 2.0 * len(section.settings["runs"])
        assert section.remarks[-1] == reproduction.MADE_SMALL
        assert [*section.against] == [], "too small to be compared with the paper"
    assert set(run_log) == {run for name in RANDMAN for run in read_section(config, name).settings["runs"]}
    assert len(run_log) == len(set(run_log)), "each run is trained once, even if several items need it"


def test_every_item_with_runs_gets_a_section(run_log, config, recordings):
    names = tuple(name for name in ITEMS if name != "complexity" and not name.startswith("landscape"))
    reproduce(replace(config, items=names[::-1]))
    assert json.loads((config.out / "order.json").read_text()) == [*names], "in the paper's order"
    for name in names:
        section = read_section(config, name)
        assert section.figures or section.tables
        official = [remark for remark in section.remarks if "official SHD files" in remark]
        assert not official, "this is said only if numbers can be compared"


def test_at_full_scale_numbers_are_compared_and_other_recordings_are_named(run_log, config, recordings, monkeypatch):
    scale = replace(reproduction.QUICK, name="full")
    monkeypatch.setattr(reproduction, "FULL", scale)
    reproduce(replace(config, quick=False, items=("offline-digits", ITEM), digits="my digits"))
    section = read_section(config, "offline-digits")
    assert section.against
    assert section.remarks[-1:] == [
        "Trained on my digits, not on the official SHD files of the paper. To use those: otpe data shd --root"
        f" {config.root} --download, and the same command without --digits."
    ]
    assert section.apart == ["coarser", "other recordings"]
    assert "--digits 'my digits'" in section.command
    assert "my digits" in section.lead
    assert "Coarser than with --fine: training has 500 mini-batches instead of 10,000" in section.remarks[0]
    assert section.settings["bins"] == 20
    assert not {"manifolds", "classes", "alpha"} & {*section.settings}, "these recordings do not have it"
    other = read_section(config, ITEM)
    assert not any("official" in remark for remark in other.remarks)
    assert other.apart == ["coarser"]
    assert "--digits" not in other.command, "this item does not use recordings"


def test_the_complexity_item_shows_its_study(run_log, config, monkeypatch):
    measured = Section(name="complexity", title="", lead="All of it.", settings={"widths": [64, 128]}, seconds=9.0)
    monkeypatch.setattr(bench, "study", lambda **_: measured)
    reproduce(replace(config, items=("complexity",)))
    section = read_section(config, "complexity")
    assert (section.lead, section.settings, section.seconds) == ("All of it.", {"widths": [64, 128]}, 9.0)


def test_repeating_the_command_trains_nothing(run_log, config):
    reproduce(config)
    before = {path: path.stat().st_mtime_ns for path in config.out.glob("runs/*/*.json*")}
    sections = [replace(read_section(config, name), seconds=0) for name in RANDMAN]
    run_log.clear()
    run_log.prepared.clear()
    reproduce(config)
    assert not run_log
    assert not run_log.prepared
    assert before == {path: path.stat().st_mtime_ns for path in config.out.glob("runs/*/*.json*")}
    assert sections == [replace(read_section(config, name), seconds=0) for name in RANDMAN]


def test_the_final_run_has_the_best_rate_of_the_search(run_log, config):
    best = {"otpe": 1e-3, "ostl": 3e-3, "deep-otpe": 1e-3}
    run_log.accuracy = lambda c: 0.9 if c.learning_rate == best[c.rule] else 0.4
    reproduce(replace(config, items=("online-t-randman",)))
    for rule, rate in best.items():
        settings_of_run = folder.read_json(config.out / "runs" / f"t-randman-online-{rule}" / "config.json")
        assert settings_of_run["learning_rate"] == rate
    rows = read_section(config, "online-t-randman").tables[0].rows
    assert {row[0]: row[-1] for row in rows} == {"otpe": "0.001", "ostl": "0.003", "deep-otpe": "0.001"}


def test_diverged_runs_are_reported_and_the_others_are_shown(run_log, config, capsys):
    run_log.diverging = {OTPE, "t-randman-rate-0.003-ostl"}
    run_log.accuracy = lambda c: c.learning_rate * 100
    assert cli.main(line(config)) == 1
    reason = "step 3: weights or loss are not finite any more"
    assert f"  {OTPE}: {reason}\n" in capsys.readouterr().out
    section = read_section(config, ITEM)
    assert section.remarks[-2:] == [f"{OTPE}: {reason}", reproduction.MADE_SMALL]
    rows = {row[0]: row[2] for row in section.tables[0].rows}
    assert rows["otpe"] == "no run"
    assert rows["bptt"] == rows["ostl"] == "0.500 ± 0.000"
    assert read_section(config, "cosines-t-randman").remarks == [reproduction.MADE_SMALL]
    assert f"t-randman-rate-0.003-ostl: {reason}" in read_section(config, "online-t-randman").remarks
    final = folder.read_json(config.out / "runs" / "t-randman-online-ostl" / "config.json")
    assert final["learning_rate"] == 1e-3, "from the search that finished"
    assert run_log.reports
    run_log.clear()
    assert cli.main(line(config)) == 1
    assert not run_log, "a diverged run is not repeated"
    assert read_section(config, ITEM).remarks == section.remarks


def test_a_search_whose_runs_all_diverge_is_reported(run_log, config):
    run_log.diverging = {"t-randman-rate-0.003-ostl", "t-randman-rate-0.001-ostl"}
    reproduce(replace(config, items=("online-t-randman",)))
    assert "t-randman-online-ostl" not in run_log
    section = read_section(config, "online-t-randman")
    assert "t-randman-online-ostl: every run of the search for its learning rate diverged" in section.remarks
    assert {row[0]: row[2] for row in section.tables[0].rows}["ostl"] == "no run"


def test_truncated_metrics_are_reported(run_log, config, capsys):
    reproduce(config)
    path = config.out / "runs" / OTPE / "metrics.jsonl"
    path.write_text(path.read_text()[:-30])
    assert cli.main(line(config)) == 1
    output = f"{path} is damaged: it ends before the run did. Remove {path.parent} to train it again."
    assert output in capsys.readouterr().err


def test_a_landscape_with_missing_weights_is_reported(run_log, config, monkeypatch):
    monkeypatch.setattr(task, "named", MAKE_DATA)
    reproduce(replace(config, items=("landscape-t-randman",)))
    assert "has no snapshots of the weights" in read_section(config, "landscape-t-randman").lead


def test_items_that_need_a_missing_bptt_run_are_reported(run_log, config):
    run_log.diverging = {BPTT}
    reproduce(replace(config, items=(ITEM, "cosines-t-randman", "landscape-t-randman")))
    assert read_section(config, "cosines-t-randman").lead == "There is no run by BPTT to compare with."
    assert read_section(config, "landscape-t-randman").lead == "There is no run by BPTT, which defines the plane."
    assert read_section(config, ITEM).tables[0].rows[0][:3] == ["bptt", "", "no run"]


@pytest.mark.parametrize(("stop", "status"), [(KeyboardInterrupt(), 130), (signals.StoppedError(15, "saved"), 143)])
def test_a_stopped_reproduction_says_how_to_resume_and_resumes(run_log, config, capsys, stop, status):
    run_log.raising = {OTPE: stop}
    assert cli.main(line(config)) == status
    assert f"otpe: stopped, and saved in {config.out}. Give the same command again to go on" in capsys.readouterr().err
    assert (config.out / "cosines-t-randman" / "section.json").exists(), "it needs only BPTT's run, which is finished"
    assert not (config.out / ITEM / "section.json").exists()
    assert not run_log.reports
    done, run_log.raising = [name for name in run_log if name != OTPE], {}
    run_log.clear()
    assert cli.main(line(config)) == 0
    assert OTPE in run_log
    assert not {*done} & {*run_log}


def test_after_a_crash_the_final_result_is_the_same(run_log, config):
    reproduce(config)
    whole = [replace(read_section(config, name), seconds=0, command="") for name in RANDMAN]
    other = replace(config, out=config.out.with_name("other"))
    for name in (OTPE, "t-randman-online-otpe"):
        run_log.raising = {name: RuntimeError("a bug")}
        with pytest.raises(RuntimeError, match="a bug"):
            reproduce(other)
    run_log.raising = {}
    reproduce(other)
    assert [replace(read_section(other, name), seconds=0, command="") for name in RANDMAN] == whole


def test_the_same_process_can_resume_after_catching_a_stop(run_log, config):
    """As in a notebook, which keeps the error. Runs that were prepared ahead have released their folders."""
    run_log.raising = {OTPE: signals.StoppedError(15, "saved")}
    with pytest.raises(KeyboardInterrupt) as stop_error:
        reproduce(config)
    run_log.raising = {}
    reproduce(config)
    assert stop_error.value.__traceback__ is not None


def test_threads_share_one_copy_of_the_data(run_log, config, monkeypatch):
    loads = []
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(task, "named", lambda config: loads.append(config.dataset) or time.sleep(0.05) or "data")
    reproduce(replace(config, items=(ITEM,)))
    assert loads == ["t-randman"]


def test_a_full_disk_keeps_existing_results(run_log, config, capsys, monkeypatch):
    write = files.write_atomically

    def full(path, content):
        if path.name == "section.json" and path.parent.name == ITEM:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, content)

    monkeypatch.setattr(files, "write_atomically", full)
    assert cli.main(line(config)) == 1
    output = capsys.readouterr().err
    assert f"{ITEM}/section.json: No space left on device. What was written until then is kept." in output
    assert "What was written until then is kept." in output
    assert (config.out / "cosines-t-randman" / "section.json").exists()
    assert (config.out / "runs" / OTPE / "result.json").exists()
    monkeypatch.setattr(files, "write_atomically", write)
    done = set(run_log)
    run_log.clear()
    assert cli.main(line(config)) == 0
    assert not done & {*run_log}


def test_a_full_disk_at_the_start_releases_the_folder(run_log, config, capsys, monkeypatch):
    complexity = ITEMS["complexity"]
    monkeypatch.setitem(ITEMS, "complexity", replace(complexity, section=lambda _: _raise(OSError("no space"))))
    reproduction_ = prepared_reproduction(replace(config, items=("complexity",)))
    with pytest.raises(OSError, match="no space"):
        reproduction_()
    assert not reproduction_.lock.is_locked


def _raise(error):
    raise error


def test_the_section_names_the_machine_of_the_runs(run_log, config, monkeypatch):
    reproduce(config)
    monkeypatch.setattr(folder, "provenance", lambda: {**made_up_runs.MACHINE, "device": "cpu: cpu"})
    reproduce(config)
    assert read_section(config, ITEM).machine == made_up_runs.MACHINE
