"""Runs that train nothing, so that a whole reproduction is fast."""

import json

import made_up_runs
import pytest
import three_recordings
from reproductions import RANDMAN

from otpe.lab.paper import reproduce as reproduction
from otpe.lab.runs import check_settings, folder, guards, task
from otpe.lab.runs.train import Run
from otpe.lab.settings import ReproduceConfig


class FakeRun(Run):
    """Stands for a run: opens its folder as a run does, and writes made-up results for its settings."""

    def __init__(self, run_log, config):
        self.ran, self.config = run_log, check_settings.plain(config)
        self.folder = folder.opened(self.config, ["stand"], folder.identity(self.config))

    def compile(self):
        self.ran.prepared.append(self.config.out.name)

    def __call__(self):
        try:
            return self._train()
        finally:
            self.folder.close()

    def _train(self):
        name, c = self.config.out.name, self.config
        self.ran.append(name)
        if name in self.ran.raising:
            raise self.ran.raising[name]
        if name in self.ran.diverging:
            raise guards.DivergedError("step 3: weights or loss are not finite any more")
        accuracy = self.ran.accuracy(c)
        rules = {rule: [[0.5] * (len(c.hidden) + 1)] * c.seeds for rule in c.align}
        alignment = [made_up_runs.aligned(rules)] * (c.steps // c.eval_every) if rules else None
        about = json.loads((c.out / "config.json").read_text())
        valid = [[accuracy] * c.seeds] * (c.steps // c.eval_every)
        made_up_runs.write(c.out, c, valid, test=[accuracy] * c.seeds, every=c.eval_every, alignment=alignment)
        (c.out / "config.json").write_text(json.dumps(about))


class RunLog(list):
    """Records the names of the runs that were trained, and says which runs fail."""

    def __init__(self):
        super().__init__()
        self.prepared, self.reports, self.diverging, self.raising = [], [], set(), {}
        self.accuracy = lambda config: 0.5


@pytest.fixture
def run_log(monkeypatch):
    """Replace training, data and page, so that none of them is made."""
    log = RunLog()
    monkeypatch.setattr(reproduction, "prepared", lambda config, data: FakeRun(log, config))
    monkeypatch.setattr(reproduction, "report", lambda *given, **_: log.reports.append(given) or given[1])
    monkeypatch.setattr(folder, "provenance", lambda: made_up_runs.MACHINE)
    monkeypatch.setattr(task, "named", lambda config: "data")
    monkeypatch.setattr(task, "fingerprint", lambda *_: "fingerprint")
    return log


@pytest.fixture
def config(tmp_path):
    return ReproduceConfig(items=RANDMAN, quick=True, out=tmp_path / "out", root=tmp_path / "digits")


@pytest.fixture
def recordings(config):
    """Put files in the place of the digits. They are not read."""
    for split in ("train", "test"):
        three_recordings.write(config.root / f"shd_{split}.h5")
