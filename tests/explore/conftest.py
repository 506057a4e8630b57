"""Fixtures of the tests of `otpe data`."""

import sys

import pytest

from otpe.datasets import manifolds, randman
from otpe.lab.explore import reading, statistics


@pytest.fixture
def plain(monkeypatch):
    """Draw no figures: they take time."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture
def tiny_randman(monkeypatch, tmp_path):
    """Use manifolds with small tables."""
    monkeypatch.setenv("OTPE_CACHE", str(tmp_path / "cache"))
    small = {"classes": 3, "units": 6, "dims": 1, "steps": 7, "alpha": 3, "points": 50}
    monkeypatch.setattr(manifolds, "randman", lambda *a, **k: randman(*a, **{**k, **small}))
    for module in (reading, statistics):
        monkeypatch.setattr(module, "BATCH", 20)
        monkeypatch.setattr(module, "BATCHES", 3)
