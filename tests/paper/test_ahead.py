"""What comes next is prepared while something is trained: in order, not too far ahead, and nothing is left open."""

import os
import threading
import time

import pytest

from otpe.lab.paper import reproduce
from otpe.lab.paper.plan import Planned
from otpe.lab.runs.train import Run
from otpe.lab.settings import TrainConfig


class Made(Run):
    """A run that only knows whether it is compiled, and whether its folder is open."""

    def __init__(self, name):
        self.name, self.compiled, self.closed, self.folder = name, False, False, self

    def compile(self):
        self.compiled = threading.current_thread() is not threading.main_thread()

    def close(self):
        self.closed = True


def planned(*names, **search):
    return [Planned(name, TrainConfig(), search.get(name, ())) for name in names]


class Making:
    """Makes runs; those named in `late` or in `failing` take long or fail."""

    def __init__(self, late=(), failing=()):
        self.made, self.late, self.failing = {}, late, failing

    def __call__(self, run):
        if run.name in self.late:
            time.sleep(0.05)
        if run.name in self.failing:
            raise OSError(f"no room for {run.name}")
        return self.made.setdefault(run.name, Made(run.name))


def always(_):
    return True


@pytest.fixture(params=[1, 2, 64])
def cores(request, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: request.param)
    return request.param


def test_all_are_compiled_elsewhere(cores):
    making = Making(late=("a", "c"))
    found = list(reproduce.ready(planned(*"abcde"), making, always))
    assert sorted(run.name for run, _ in found) == sorted(made.name for _, made in found) == [*"abcde"]
    assert all(made.compiled and not made.closed for _, made in found)


def test_nothing_waits_for_one_that_takes_long(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    others, names = threading.Event(), []

    def make(run):
        assert run.name != "a" or others.wait(30), "the others had to wait"
        return Made(run.name)

    for run, _ in reproduce.ready(planned(*"abcdef"), make, always):
        names.append(run.name)
        if len(names) == 5:
            others.set()
    assert names == [*"bcdefa"]


def test_not_too_far_ahead(cores):
    making, names = Making(), [f"run {i}" for i in range(reproduce.AHEAD + 5)]
    for i, _ in enumerate(reproduce.ready(planned(*names), making, always)):
        time.sleep(0.03)
        assert len(making.made) == min(i + reproduce.AHEAD, len(names)), "the one in training, and so many more"


def test_what_waits_for_a_search_is_made_when_it_is_over(cores):
    over, making, seen = set(), Making(), []
    for run, _ in reproduce.ready(planned(*"abcd", c=("a", "b")), making, over.__contains__):
        time.sleep(0.02)
        assert "c" not in making.made or {"a", "b"} <= over
        over.add(run.name)
        seen.append(run.name)
    assert seen == [*"abcd"], "and nothing overtakes it"


def test_folders_are_closed_when_nobody_goes_on():
    making = Making(late=("b",))
    runs = reproduce.ready(planned(*"abcdef"), making, always)
    _, first = next(runs)
    runs.close()
    assert not first.closed, "that is whoever took it"
    assert all(made.closed for name, made in making.made.items() if name != "a")


def test_an_error_is_raised_and_lets_go_of_the_others():
    making = Making(failing=("b",))
    runs = reproduce.ready(planned(*"abcd"), making, always)
    taken = set()
    with pytest.raises(OSError, match="no room for b"):
        taken.update(run.name for run, _ in runs)
    assert all(made.closed for name, made in making.made.items() if name not in taken)


def test_a_run_that_cannot_be_compiled_lets_go_of_its_folder():
    class Large(Made):
        def compile(self):
            raise MemoryError("out of memory")

    large = Large("a")
    with pytest.raises(MemoryError, match="out of memory"):
        next(reproduce.ready(planned("a"), lambda _: large, always))
    assert large.closed
