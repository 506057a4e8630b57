"""A learner interrupted anywhere has the state before or after a step, and can be saved."""

import multiprocessing
import os
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import otpe
from otpe.lab.runs import checkpoint
from otpe.stream import cell, programs
from otpe.stream import learner as module
from otpe.stream.learner import StreamLearner

NET = otpe.dense([9, 8, 7, 4], leak=0.9, threshold=0.4)
RNG = np.random.default_rng(0)
X, Y = (RNG.random((40, 9)) < 0.4).astype(np.float32), RNG.integers(0, 4, 40)
OURS = {module.__file__, cell.__file__}


class InterruptAt:
    """Raises KeyboardInterrupt before the bytecode with this number, counted in the learner's source files."""

    def __init__(self, number):
        self.left = number

    def __enter__(self):
        sys.settrace(self)

    def __exit__(self, *_):
        sys.settrace(None)

    def __call__(self, frame, event, _):
        if frame.f_code.co_filename not in OURS:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


class InterruptCall:
    """Raises KeyboardInterrupt before the function call with this number, counted over all Python code including JAX."""

    def __init__(self, number):
        self.left = number

    def __enter__(self):
        sys.settrace(self)

    def __exit__(self, *_):
        sys.settrace(None)

    def __call__(self, *_):
        self.left -= 1
        if self.left == 0:
            sys.settrace(None)
            raise KeyboardInterrupt


def state(learner):
    """Return the complete state of the learner as bytes."""
    host = learner._cell.host
    arrays = [*map(checkpoint.numbers, jax.tree.leaves(learner._memory)), *host.waiting]
    return tuple(np.asarray(a).tobytes() for a in arrays), host.steps, host.labelled, host.begins


CALLS = {
    "learn_one": ({}, lambda one: one.learn_one(X[0], 1)),
    "observe_one": ({}, lambda one: one.observe_one(X[0])),
    "learn_many": ({}, lambda one: one.learn_many(X[:3], Y[:3])),  # three programs for one step
    "reset": ({"every": 3}, lambda one: one.reset()),
    "late": ({"delay": 2}, lambda one: one.learn_many(X[:3], Y[:3])),
    "late reset": ({"delay": 2}, lambda one: one.reset()),
    "label_late": ({"delay": 2}, lambda one: one.label_late(3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_before_any_bytecode_leaves_the_state_of_a_step(name, tmp_path):
    settings, call = CALLS[name]
    start = StreamLearner(NET, "otpe", optax.adam(0.01), **settings)
    start.learn_many(X[:5], Y[:5])
    call(start.clone())  # compiles
    allowed = {state(start)}
    several = 3 if "many" in name or name == "late" else 0
    for steps in range(1, several + 1):  # a call with several steps may stop between two of them
        part = start.clone()
        part.learn_many(X[:steps], Y[:steps])
        allowed.add(state(part))
    done = start.clone()
    call(done)
    allowed.add(state(done))
    interrupted = set()
    for number in range(1, 10_000):
        learner = start.clone()
        try:
            with InterruptAt(number):
                call(learner)
        except KeyboardInterrupt:
            assert state(learner) in allowed, f"interrupted before bytecode {number}"
            interrupted.add(state(learner))
        else:
            break
    assert number > 20
    assert interrupted == allowed, "interrupts must come before and after each step"
    learner.save(tmp_path / "learner")
    assert state(StreamLearner.load(tmp_path / "learner")) == state(done)


def test_an_interrupt_while_a_program_is_compiled_loses_nothing(tmp_path):
    def update(updates, state, params=None):
        if pressed:
            raise KeyboardInterrupt
        return updates, state

    pressed = []
    optimizer = optax.chain(optax.adam(0.01), optax.GradientTransformation(lambda params: (), update))
    learner = StreamLearner(NET, "otpe", optimizer)
    learner.learn_one(X[0], 1)
    before, pressed = state(learner), [True]
    with pytest.raises(KeyboardInterrupt):
        learner.learn_many(X[:16], Y[:16])
    assert state(learner) == before
    learner.save(tmp_path / "learner")


def test_the_first_call_of_a_program_copies_the_state():
    """The first call runs Python code of JAX. An interrupt can come there after JAX took over the arrays."""
    learner, deleted = StreamLearner(otpe.dense([9, 4], leak=0.8125)), []
    for _ in range(2):
        taken = jax.tree.leaves(learner._memory)
        learner.learn_one(X[0], 1)
        deleted.append(any(leaf.is_deleted() for leaf in taken))
    assert deleted == [False, True], "later calls copy nothing"


def test_random_keys_of_an_optimizer_are_not_lost():
    """JAX makes keys in Python. An interrupt can come there after JAX took over the arrays."""
    start = StreamLearner(NET, "otpe", optax.noisy_sgd(0.01, key=0))
    start.learn_one(X[0], 1)
    start.learn_one(X[1], 2)
    done = start.clone()
    done.learn_one(X[2], 3)
    for number in range(1, 1000):
        learner = start.clone()
        try:
            with InterruptCall(number):
                learner.learn_one(X[2], 3)
        except KeyboardInterrupt:
            assert state(learner) in (state(start), state(done)), f"interrupted before call {number}"
        else:
            break
    assert number > 5


def test_threads_can_share_a_learner():
    learner, wrong = StreamLearner(NET), []
    learner.learn_one(X[0], 1)

    def use():
        try:
            for x, y in zip(X, Y, strict=True):
                learner.learn_one(x, y)
                learner.predict_one(x)
                learner.observe_one(x)
                assert all(np.isfinite(w).all() for w in jax.tree.leaves(learner.params))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    assert (learner.steps, learner.labelled) == (1 + 4 * 2 * 40, 1 + 4 * 40)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:os.fork")
def test_using_a_learner_after_a_fork_is_refused():
    learner, context = StreamLearner(NET), multiprocessing.get_context("fork")
    answers = context.Queue()
    learner.learn_one(X[0], 1)

    def child():
        calls = [
            lambda: learner.learn_one(X[0], 1), lambda: learner.predict_one(X[0]), lambda: learner.observe_one(X[0]),
            lambda: learner.learn_many(X, Y), learner.reset, learner.clone, lambda: learner.params,
            lambda: learner.save(Path("never")), lambda: StreamLearner(NET), lambda: learner.label_late(1),
        ]  # fmt: skip
        for call in calls:
            try:
                call()
            except RuntimeError as error:
                answers.put(str(error))

    process = context.Process(target=child, daemon=True)
    process.start()
    for _ in range(10):
        assert "was forked from one that uses JAX, and JAX would hang here. Save" in answers.get(timeout=20)
    process.join(20)
    programs.check_not_forked()  # the parent process continues
