"""Runs that come next are prepared and compiled by other threads while one is trained.

A program takes seconds to compile, as long as some runs take on a GPU. Compilers leave Python alone while they work.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress

from otpe.paper.finished import Diverged, Finished
from otpe.paper.plan import Planned
from otpe.runs.run import Run

Ready = Run | Finished | Diverged
TURN = 0.0005  # seconds until Python is handed on: ten times more often than by default, as a run needs it now and then
AHEAD = 12  # runs that wait, ready or not: compilers get on while runs are trained whose programs are there already


def ready(
    planned: Sequence[Planned], make: Callable[[Planned], Ready], done: Callable[[str], bool]
) -> Iterator[tuple[Planned, Ready]]:
    """Each run, ready to train: of those that are, the first. `done`: whether a run that another waits for is over."""
    waiting, begun = deque(planned), dict[Future[Ready], Planned]()
    threads = min(3, 1 + (os.cpu_count() or 1) // 4)  # more would wait for each other: half of their work is Python's
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN)
    with ThreadPoolExecutor(threads) as pool:
        try:
            while waiting or begun:
                while waiting and len(begun) < AHEAD and all(map(done, waiting[0].search)):
                    run = waiting.popleft()
                    begun[pool.submit(_compiled, make, run)] = run
                wait(begun, return_when=FIRST_COMPLETED)
                found = next(each for each in begun if each.done())
                yield begun.pop(found), found.result()
        finally:
            sys.setswitchinterval(before)
            for found in begun:
                found.cancel()
            for found in begun:  # what was begun lets go of its folder
                with suppress(BaseException):
                    made = None if found.cancelled() else found.result()
                    if isinstance(made, Run):
                        made.folder.close()


def _compiled(make: Callable[[Planned], Ready], planned: Planned) -> Ready:
    made = make(planned)
    if isinstance(made, Run):
        try:
            made.compile()
        except BaseException:
            made.folder.close()
            raise
    return made
