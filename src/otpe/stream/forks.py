"""JAX does not survive a fork: its threads stay in the parent, and a call in the child would wait for them forever."""

import os

_used = False  # has this process, or one that it was forked from, made a learner?
_forked = False  # was it forked after that?


def check() -> None:
    """Raises in a process that was forked from one with a learner. Call it before anything that asks JAX."""
    if _forked:
        raise RuntimeError(
            "this process was forked from one that uses JAX, and JAX would hang here. Save the learner before, start"
            " the process with multiprocessing.get_context('spawn'), and load the learner there."
        )


def used() -> None:
    global _used
    check()
    _used = True


def _in_child() -> None:
    global _forked
    _forked = _used


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
