"""`otpe reproduce`."""

from collections.abc import Callable

from otpe import tables
from otpe.paper.config import ReproduceConfig
from otpe.paper.items import ITEMS
from otpe.paper.run import Reproduction, prepared_reproduction
from otpe.runs import progress


def prepare(config: ReproduceConfig) -> Callable[[], int]:
    """Check everything, and return the job."""
    if config.list:
        return _list
    reproduction = prepared_reproduction(config)
    reproduction.say = progress.say
    return lambda: _reproduce(reproduction)


def _reproduce(reproduction: Reproduction) -> int:
    page = reproduction()
    if reproduction.left_out:
        print(f"  {reproduction.about_left_out()}")
    diverged = [f"  {name}: {why}" for name, why in reproduction.over.items() if why]
    for line in diverged:
        print(line)
    print(f"Folder: {reproduction.out}\nReport: {page}")
    return 1 if diverged else 0


def _list() -> int:
    rows = [[name, item.where, item.title] for name, item in ITEMS.items()]
    print(tables.columns([["item", "in the paper", "what"], *rows], left=(0, 1, 2)))
    return 0
