"""The next runs are prepared during training: in order, not too far ahead, and every folder is closed."""

import os
import threading
import time

import pytest

from otpe.lab.paper import reproduce
from otpe.lab.paper.plan import PlannedRun
from otpe.lab.runs.train import Run
from otpe.lab.settings import TrainConfig


class FakeRun(Run):
    """A run that only records whether it is compiled and whether its folder is open."""

    def __init__(self, name):
        self.name, self.compiled, self.closed, self.folder = name, False, False, self

    def compile(self):
        self.compiled = threading.current_thread() is not threading.main_thread()

    def close(self):
        self.closed = True


def planned(*names, **search):
    return [PlannedRun(name, TrainConfig(), search.get(name, ())) for name in names]


class Making:
    """Makes runs. Runs named in `late` take long, runs named in `failing` fail."""

    def __init__(self, late=(), failing=()):
        self.made, self.late, self.failing = {}, late, failing

    def __call__(self, run):
        if run.name in self.late:
            time.sleep(0.05)
        if run.name in self.failing:
            raise OSError(f"no room for {run.name}")
        return self.made.setdefault(run.name, FakeRun(run.name))


def always(_):
    return True


@pytest.fixture(params=[1, 2, 64])
def cores(request, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: request.param)
    return request.param


def test_all_runs_are_compiled_in_other_threads(cores):
    making = Making(late=("a", "c"))
    ready = list(reproduce.ready(planned(*"abcde"), making, always))
    assert sorted(run.name for run, _ in ready) == sorted(made.name for _, made in ready) == [*"abcde"]
    assert all(made.compiled and not made.closed for _, made in ready)


def test_a_slow_compilation_does_not_delay_the_others(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    others, names = threading.Event(), []

    def make(run):
        assert run.name != "a" or others.wait(30), "the other runs had to wait"
        return FakeRun(run.name)

    for run, _ in reproduce.ready(planned(*"abcdef"), make, always):
        names.append(run.name)
        if len(names) == 5:
            others.set()
    assert names == [*"bcdefa"]


def test_only_a_limited_number_of_runs_is_prepared_ahead(cores):
    making, names = Making(), [f"run {i}" for i in range(reproduce.AHEAD + 5)]
    for i, _ in enumerate(reproduce.ready(planned(*names), making, always)):
        time.sleep(0.03)
        assert len(making.made) == min(i + reproduce.AHEAD, len(names)), "the run in training plus the allowed number"


def test_runs_that_depend_on_a_search_are_made_after_it(cores):
    over, making, seen = set(), Making(), []
    for run, _ in reproduce.ready(planned(*"abcd", c=("a", "b")), making, over.__contains__):
        time.sleep(0.02)
        assert "c" not in making.made or {"a", "b"} <= over
        over.add(run.name)
        seen.append(run.name)
    assert seen == [*"abcd"], "no run overtakes it"


def test_folders_are_closed_when_iteration_stops():
    making = Making(late=("b",))
    runs = reproduce.ready(planned(*"abcdef"), making, always)
    _, first = next(runs)
    runs.close()
    assert not first.closed, "the one that was handed out is closed by its user"
    assert all(made.closed for name, made in making.made.items() if name != "a")


def test_an_error_is_raised_and_the_other_folders_are_closed():
    making = Making(failing=("b",))
    runs = reproduce.ready(planned(*"abcd"), making, always)
    taken = set()
    with pytest.raises(OSError, match="no room for b"):
        taken.update(run.name for run, _ in runs)
    assert all(made.closed for name, made in making.made.items() if name not in taken)


def test_a_run_that_cannot_be_compiled_closes_its_folder():
    class Large(FakeRun):
        def compile(self):
            raise MemoryError("out of memory")

    large = Large("a")
    with pytest.raises(MemoryError, match="out of memory"):
        next(reproduce.ready(planned("a"), lambda _: large, always))
    assert large.closed
