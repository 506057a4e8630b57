"""One run, trained once. Every test gets its own copy."""

import shutil
from dataclasses import replace

import pytest
from tiny_runs import TINY

import otpe
from otpe.lab.runs import checkpoint, loop


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return the result of the run. Do not change its folder."""
    return otpe.train(replace(TINY, out=tmp_path_factory.mktemp("trained") / "run", checkpoint_seconds=0))


@pytest.fixture
def finished(trained, tmp_path):
    """Return the folder of a finished run."""
    return shutil.copytree(trained.folder, tmp_path / "finished")


@pytest.fixture
def unfinished(trained, tmp_path):
    """Return the folder of a run that was killed after step 12 was measured and before it was saved."""
    path = shutil.copytree(trained.folder, tmp_path / "unfinished")
    (path / "result.json").unlink()
    checkpoint.newest(path / "checkpoints").unlink()
    return path


@pytest.fixture
def no_training(monkeypatch):
    """Fail if anything is trained."""
    for name in ("start", "advance", "score"):
        monkeypatch.setattr(loop, name, lambda *_: pytest.fail("computed something"))
