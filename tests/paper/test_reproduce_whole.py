"""`otpe reproduce` from the command to the page, with real training of networks of one layer."""

import os
import shutil
import signal
from dataclasses import replace

import pytest
from reproductions import BPTT, ITEM, OTPE, line, read_section

from otpe import cli
from otpe.lab.paper import reproduce as reproduction
from otpe.lab.paper.plan import QUICK, Training
from otpe.lab.runs import loop
from otpe.lab.settings import ReproduceConfig

ITEMS = (ITEM, "cosines-t-randman", "landscape-t-randman")
TINY = replace(
    QUICK,
    randman={
        "classes": 3, "units": 8, "dims": 1, "alpha": 2.0, "time_steps": 6, "standardize": "fixed", "hidden": (),
        "threshold": 0.3, "batch": 4, "valid_samples": 16, "test_samples": 12, "seed": 1,
    },
    randman_offline=Training(rules=("bptt", "otpe"), steps=8, seeds=2, eval_every=4, rates=(0.03,)),
    snapshots=4, grid=3, last=4,
)  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def tiny():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reproduction, "QUICK", TINY)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the settings of a finished reproduction with its page. Do not change its folder."""
    where = tmp_path_factory.mktemp("whole")
    config = ReproduceConfig(items=ITEMS, quick=True, out=where / "out", root=where / "digits")
    assert cli.main(line(config)) == 0
    return config


@pytest.fixture
def no_page(monkeypatch):
    monkeypatch.setattr(reproduction, "report", lambda *given, **_: given[1])


@pytest.fixture
def copied(whole, tmp_path, no_page):
    """Return a copy of the finished reproduction that a test may change."""
    shutil.copytree(whole.out, tmp_path / "out")
    return replace(whole, out=tmp_path / "out")


@pytest.fixture
def new(whole, tmp_path, no_page):
    """Return the same settings with an empty folder."""
    return replace(whole, out=tmp_path / "new")


@pytest.fixture
def no_training(monkeypatch):
    for name in ("start", "advance", "score"):
        monkeypatch.setattr(loop, name, lambda *_: pytest.fail("computed something"))


def sections(config):
    return [replace(read_section(config, item), seconds=0) for item in config.items]


def test_the_page_shows_every_item(whole):
    page = (whole.out / "report.html").read_text()
    for item in ITEMS:
        assert f'id="{item}"' in page
        assert read_section(whole, item).title in page
    assert "The paper, reproduced (quick)" in page
    assert list((whole.out / "report-files").rglob("*.svg"))
    assert (whole.out / "landscape-t-randman" / "landscape.npz").exists()


def test_a_rule_equal_to_bptt_gives_1_everywhere(whole):
    """In a network of one layer, OTPE omits nothing."""
    section = read_section(whole, "cosines-t-randman")
    assert section.tables[0].columns == ["rule", "O", "model", "ratio of norms"]
    assert section.tables[0].rows == [["otpe", *["1.000 ± 0.000"] * 3]]
    for panel in section.figures[0].panels:
        assert panel.bars[0].values == pytest.approx([1], abs=1e-5)
        assert panel.bars[0].spread == pytest.approx([0], abs=1e-5)
    assert section.lead.endswith("the highest mean is 1.00 (OTPE).")


def test_the_folder_has_the_runs_of_the_plan(whole):
    assert {path.name for path in (whole.out / "runs").iterdir()} == {BPTT, OTPE}
    section = read_section(whole, ITEM)
    assert [*section.figures[0].panels[0].lines[0].x] == [4, 8]
    assert section.settings["runs"] == [BPTT, OTPE]
    assert [path.name for path in read_section(whole, "landscape-t-randman").figures[0].panels[0].paths] == [
        "bptt",
        "otpe",
    ]


def test_repeating_the_command_computes_nothing_without_checkpoints(whole, copied, no_training):
    for run in (BPTT, OTPE):
        shutil.rmtree(copied.out / "runs" / run / "checkpoints")
    times = {path: path.stat().st_mtime_ns for path in copied.out.glob("runs/*/*.json*")}
    assert cli.main(line(copied)) == 0
    assert {path: path.stat().st_mtime_ns for path in copied.out.glob("runs/*/*.json*")} == times
    assert sections(copied) == sections(whole)


class Fault(list):
    """Call a function once, after four steps of the second run."""

    def __call__(self, act, monkeypatch):
        advance = loop.advance

        def watched(recipe, train, valid, networks, before, strides, when):
            if recipe.rule.name == "otpe" and before.step == 4 and strides and not self:
                self.append("happened")
                act()
            return advance(recipe, train, valid, networks, before, strides, when)

        monkeypatch.setattr(loop, "advance", watched)
        return self


def test_after_ctrl_c_the_same_command_resumes(whole, new, monkeypatch, capsys):
    happened = Fault()(lambda: os.kill(os.getpid(), signal.SIGINT), monkeypatch)
    assert cli.main(line(new, "--checkpoint-seconds", "0")) == 130
    assert happened
    output = capsys.readouterr().err
    assert f"otpe: stopped, and saved in {new.out}. Give the same command again to go on" in output
    assert cli.main(line(new)) == 0
    assert sections(new) == sections(whole)


def test_after_a_crash_the_same_command_resumes(whole, new, monkeypatch):
    def crash():
        raise RuntimeError("a bug")

    happened = Fault()(crash, monkeypatch)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main(line(new, "--checkpoint-seconds", "0"))
    assert happened
    assert (new.out / "runs" / BPTT / "result.json").exists()
    assert not (new.out / "runs" / OTPE / "result.json").exists()
    assert cli.main(line(new)) == 0
    assert sections(new) == sections(whole)
