"""Runs that come next are prepared and compiled by other threads while one is trained.

A program takes seconds to compile, as long as some runs take on a GPU. Compilers leave Python alone while they work.
"""

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import BaseFileLock

from otpe import check, files
from otpe.datasets import download, heidelberg
from otpe.lab import signals
from otpe.lab.paper import accuracy_tables, finished
from otpe.lab.paper.finished import Diverged, Finished
from otpe.lab.paper.items import ITEMS, Item, Material
from otpe.lab.paper.plan import Plan, Planned, coarser
from otpe.lab.paper.scale import FINE, FULL, QUICK, Scale
from otpe.lab.progress import Bar, PartOfBar
from otpe.lab.report import sections
from otpe.lab.report.content import Section, from_json, to_json
from otpe.lab.report.page import report
from otpe.lab.runs import check_settings, folder, guards, task
from otpe.lab.runs.custom import Own
from otpe.lab.runs.folder import RUNS
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import Run, prepared
from otpe.lab.settings import ReproduceConfig, TrainConfig
from otpe.lab.studies import study

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


# --------------------
# `otpe reproduce`: train what is missing, write a section for every item as soon as it can be told, and the report.


MADE_SMALL = (
    "Quick: everything is made small, to see that it runs. Nothing here can be compared with the paper's numbers."
)
NOT_OFFICIAL = (
    "Not the official SHD files, on which the paper's numbers are, but {}. For those: {}, and the same command without"
    " --digits."
)
OFFICIAL = "Spiking Heidelberg Digits"


def reproduce(config: ReproduceConfig) -> Path:
    """Make these items of the paper, and return the report. What is finished already is not run again."""
    check_settings.check_kind(config, ReproduceConfig)
    return prepared_reproduction(config)()


@dataclass
class Reproduction:
    """A reproduction that was found in order. Calling it trains, and writes the report."""

    config: ReproduceConfig
    plan: Plan
    items: dict[str, Item]
    out: Path
    lock: BaseFileLock
    left_out: list[str]  # items that cannot be made now
    why: str  # they cannot
    data: str  # what the spoken digits are
    runs: dict[str, Finished] = field(default_factory=dict)
    over: dict[str, str | None] = field(default_factory=dict)  # runs that came to their end, or why they have none
    made: dict[Any, Splits] = field(default_factory=dict)
    making: threading.Lock = field(default_factory=threading.Lock)  # runs are prepared by several threads
    say: Callable[[str], None] = lambda text: None

    def __call__(self) -> Path:
        began = time.monotonic()
        planned = {run.name: run for item in self.items.values() for run in item.needs(self.plan)}
        waiting = dict(self.items)
        if self.left_out:
            self.say(self.about_left_out())
        bar = Bar("", 0, sum(run.weight for run in planned.values()), unit=None)
        try:
            self._leave_out()
            sections = self._tell(waiting)
            for run, made in ready(list(planned.values()), self._made, self.over.__contains__):
                self._train(run, made, bar)
                sections |= self._tell(waiting)
        except KeyboardInterrupt as stop:
            text = f"stopped, and saved in {self.out}. Give the same command again to go on"
            raise signals.StoppedError(getattr(stop, "status", 130) - 128, text) from None
        finally:
            bar.close()
            self.lock.release()
        self.say(f"{len(sections)} item{'s' * (len(sections) != 1)} in {time.monotonic() - began:.0f} s")
        return report(self.out, self.out / "report.html", title=f"The paper, reproduced ({self.plan.scale.name})")

    def about_left_out(self) -> str:
        return f"left out: {', '.join(self.left_out)}. {self.why}"

    def _leave_out(self) -> None:
        """What was made before stays."""
        for name in self.left_out:
            where = self.out / name / "section.json"
            if not _was_made(where):
                item, again = ITEMS[name], command(self.config, name)
                told = Section(
                    name=name, title=item.title, where=item.where, lead="Left out.", command=again, left_out=self.why
                )
                files.make_folder(where.parent)
                files.write_atomically(where, to_json(told))

    def _made(self, run: Planned) -> Run | Finished | Diverged:
        """The run, or what came out of it if it has come to its end."""
        out = self.out / "runs" / run.name
        config = replace(run.config, out=out, resume=True)
        tried = [self.runs[name] for name in run.search if name in self.runs]
        if run.search and not tried:
            return Diverged({}, "every run of the search for its learning rate diverged")
        if tried:
            best = accuracy_tables.best(tried, self.plan.scale.last)
            config = replace(config, learning_rate=best.result["learning_rate"])
        found = finished.read(out)
        if found is None:
            return prepared(config, Own(data=self._splits(config)))
        mine = folder.identity(check_settings.plain(config))
        if config.dataset == "shd":  # other recordings may lie there by now; manifolds follow from the settings
            mine["data"] = task.fingerprint(self._splits(config), config.seed, config.batch)
        folder.check_same(str(out), {**folder.plain(TrainConfig()), **found.about}, mine)
        return found

    def _train(self, run: Planned, made: Run | Finished | Diverged, bar: Bar) -> None:
        part, where = PartOfBar(bar, run.name, run.weight), self.out / "runs" / run.name
        if isinstance(made, Run):
            made.bar = part
            made.warn = lambda text: None  # a search goes to the edges; what came out tells
            try:
                made()
            except guards.DivergedError as error:
                finished.note_diverged(where, str(error))
        bar.advance(part.start + part.weight)
        found = made if isinstance(made, Diverged) else finished.read(where)
        self.over[run.name] = found.why if isinstance(found, Diverged) else None
        if isinstance(found, Finished):
            self.runs[run.name] = found

    def _tell(self, waiting: dict[str, Item]) -> dict[str, Section]:
        """Sections of all items whose runs are over; they are written, and wait no longer."""
        found = {}
        for name, item in list(waiting.items()):
            if all(run.name in self.over for run in item.needs(self.plan)):
                found[name] = self._section(name, waiting.pop(name))
                files.write_atomically(self.out / name / "section.json", to_json(found[name]))
                self.say(f"{name}: {found[name].title}")
        return found

    def _section(self, name: str, item: Item) -> Section:
        where = self.out / name
        files.make_folder(where)
        began, needed = time.monotonic(), item.needs(self.plan)
        parts = item.tell(Material(self.plan, self.runs, where, self.data, self._splits))
        seconds = sum(self.runs[run.name].result["seconds"] for run in needed if run.name in self.runs)
        remarks = [*parts.pop("remarks", ())]
        remarks += [f"{run.name}: {self.over[run.name]}" for run in needed if self.over[run.name]]
        apart = []
        if self.plan.scale.name == "full":
            less = coarser(needed, item.needs(Plan(FINE, self.config)))
            remarks, apart = remarks + less, ["coarser"] * len(less)
        if self.config.quick:
            parts, remarks, apart = {**parts, "against": ()}, [*remarks, MADE_SMALL], ["made small"]
        elif item.digits and self.data != OFFICIAL:
            remarks.append(NOT_OFFICIAL.format(self.data, download.command("shd", self.config.root)))
            apart.append("other recordings")
        return Section(
            **{"seconds": seconds + time.monotonic() - began, "settings": _settings(needed), **parts},
            name=name,
            title=item.title,
            where=item.where,
            remarks=remarks,
            command=command(self.config if item.digits else replace(self.config, digits=None), name),
            machine=self._machine(needed),
            apart=apart or None,
        )

    def _machine(self, needed: Sequence[Planned]) -> dict[str, Any]:
        """That of the runs, which may have been another one than this."""
        made = [self.runs[run.name].about for run in needed if run.name in self.runs]
        return sections.machine(made[0] if made else folder.provenance())

    def _splits(self, config: TrainConfig) -> Splits:
        """Made once for all runs that share them."""
        key = tuple((name, getattr(config, name)) for name in ("dataset", *check_settings.USED_BY))
        with self.making:
            if key not in self.made:
                self.made[key] = task.named(config)
            return self.made[key]


def prepared_reproduction(config: ReproduceConfig) -> Reproduction:
    """Check everything, and make or open the folder. All bad input is told here."""
    scale = chosen_scale(config)
    for name in config.items:
        check.one_of("item", name, ITEMS)
    plan = Plan(scale, config)
    items = {name: ITEMS[name] for name in dict.fromkeys(config.items or ITEMS)}
    missing = None if not any(item.digits for item in items.values()) else no_digits(config.root)
    left_out = [name for name, item in items.items() if item.digits and missing]
    for item in items.values():
        for run in item.needs(plan):
            check_settings.checked(run.config)
    out = config.out or RUNS / ("reproduce" if scale.name == "full" else f"reproduce-{scale.name}")
    files.make_folder(out)
    folder.check_strangers(out, "reproduction")
    lock = folder.locked(out)
    try:
        _check_scale(out, scale, config)
        order = [name for name in ITEMS if name in items or (out / name / "section.json").exists()]
        files.write_atomically(out / "order.json", json.dumps(order) + "\n")
    except BaseException:
        lock.release()
        raise
    made = {name: item for name, item in items.items() if name not in left_out}
    return Reproduction(config, plan, made, out, lock, left_out, missing or "", digits_name(config))


def chosen_scale(config: ReproduceConfig) -> Scale:
    if config.quick and config.fine:
        raise ValueError("quick and fine are both given, expected one of them.")
    return QUICK if config.quick else FINE if config.fine else FULL


def no_digits(root: Path) -> str | None:
    """Why the items that need recordings cannot be made, if they cannot."""
    if all(heidelberg.find(root, f"shd_{split}") for split in ("train", "test")):
        return None
    return f"Not run: there are no recordings in {root}. Get them with: {download.command('shd', root)}"


def digits_name(config: ReproduceConfig) -> str:
    if config.digits:
        return config.digits
    read = {split: heidelberg.find(config.root, f"shd_{split}") for split in ("train", "test")}
    if all(path is not None and download.is_official("shd", split, path) for split, path in read.items()):
        return OFFICIAL
    return "recordings in SHD's layout"


def command(config: ReproduceConfig, *items: str) -> str:
    """What makes these items."""
    return study.command("reproduce", replace(config, items=items)).replace("--items ", "", 1)


def _was_made(path: Path) -> bool:
    """Is this a section with results? Every item that may be left out is made from runs, and names them."""
    try:
        return "runs" in from_json(path.read_text()).settings
    except (OSError, ValueError, TypeError):
        return False


def _settings(needed: Sequence[Planned]) -> dict[str, Any]:
    """What all runs have in common, without what their data does not have, and their names."""
    if not needed:
        return {}
    each, data = [folder.identity(run.config) for run in needed], needed[0].config.dataset
    shared = {
        name: value
        for name, value in each[0].items()
        if all(other[name] == value for other in each) and data in check_settings.USED_BY.get(name, (data,))
    }
    return {**shared, "runs": [run.name for run in needed]}


def _check_scale(out: Path, scale: Scale, config: ReproduceConfig) -> None:
    path, mine = out / "config.json", {"scale": scale.name, "precision": config.precision}
    if path.exists():
        folder.check_same(str(out), folder.read_config(out), mine)
    else:
        about_all = {"format": folder.FORMAT, "kind": "reproduce", **mine, **folder.provenance()}
        files.write_atomically(path, json.dumps(about_all, indent=1) + "\n")
