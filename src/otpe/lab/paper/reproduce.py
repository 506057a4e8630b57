"""`otpe reproduce`: train the missing runs, write the section of each item, and write the page.

While one run is trained, other threads prepare and compile the next ones. A program takes seconds to compile, which is
the training time of some runs on a GPU. Compilers release Python's lock while they work.
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
from otpe.datasets import download, heidelberg, registry
from otpe.lab import signals
from otpe.lab.paper import accuracy_tables, outcomes, verdicts
from otpe.lab.paper.items import ITEMS, Inputs, Item
from otpe.lab.paper.plan import (
    FINE,
    FULL,
    QUICK,
    DivergedRun,
    FinishedRun,
    Plan,
    PlannedRun,
    Scale,
    coarser,
    note_diverged,
    read_run,
)  # fmt: skip
from otpe.lab.progress import Bar, PartOfBar
from otpe.lab.report import sections
from otpe.lab.report.content import Section, from_json, to_json
from otpe.lab.report.page import report
from otpe.lab.runs import check_settings, folder, guards, task
from otpe.lab.runs.custom import CustomParts
from otpe.lab.runs.folder import RUNS
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import Run, prepared
from otpe.lab.settings import DataSettings, ReproduceConfig, TrainConfig
from otpe.lab.studies import study

OFFICIAL = "Spiking Heidelberg Digits"
MADE_SMALL = "Quick: everything is small, to check that it runs. No number here can be compared with the paper's."
NOT_OFFICIAL = (
    "Trained on {}, not on the official SHD files of the paper. To use those: {}, and the same command without"
    " --digits."
)


def reproduce(config: ReproduceConfig) -> Path:
    """Make these items of the paper, and return the path of the page. Finished runs are not trained again."""
    check_settings.check_kind(config, ReproduceConfig)
    return prepared_reproduction(config)()


@dataclass
class Reproduction:
    """A reproduction with valid settings and an open folder. A call trains, and writes the page."""

    config: ReproduceConfig
    plan: Plan
    items: dict[str, Item]  # to make now
    left_out: list[str]  # items that need recordings, which are missing
    why: str  # the reason why items are left out
    digits: str  # the name of the recordings of spoken digits
    out: Path
    lock: BaseFileLock
    results: dict[str, FinishedRun | DivergedRun] = field(default_factory=dict)  # of each run that is over
    splits: dict[Any, Splits] = field(default_factory=dict)  # the data that is in memory
    splits_lock: threading.Lock = field(default_factory=threading.Lock)  # several threads prepare runs
    say: Callable[[str], None] = lambda text: None

    def __call__(self) -> Path:
        began = time.monotonic()
        planned = {run.name: run for item in self.items.values() for run in item.needs(self.plan)}
        waiting = dict(self.items)
        if self.left_out:
            self.say(self.about_left_out())
        bar = Bar("", 0, sum(run.weight for run in planned.values()), unit=None)
        try:
            self._write_left_out()
            self._write_sections(waiting)
            for run, ready_run in ready(list(planned.values()), self._prepared, self.results.__contains__):
                self._train(run, ready_run, bar)
                self._write_sections(waiting)
        except KeyboardInterrupt as stop:
            text = f"stopped, and saved in {self.out}. Give the same command again to go on"
            raise signals.StoppedError(getattr(stop, "status", 130) - 128, text) from None
        finally:
            bar.close()
            self.lock.release()
        self.say(f"{len(self.items)} item{'s' * (len(self.items) != 1)} in {time.monotonic() - began:.0f} s")
        return report(self.out, self.out / "report.html", title=f"The paper, reproduced ({self.plan.scale.name})")

    @property
    def diverged(self) -> dict[str, str]:
        """The reason for each run that diverged."""
        return {name: found.why for name, found in self.results.items() if isinstance(found, DivergedRun)}

    @property
    def finished(self) -> dict[str, FinishedRun]:
        return {name: found for name, found in self.results.items() if isinstance(found, FinishedRun)}

    def about_left_out(self) -> str:
        return f"left out: {', '.join(self.left_out)}. {self.why}"

    def _write_left_out(self) -> None:
        """Write a section for each item that is left out, unless it was made earlier."""
        for name in self.left_out:
            path, item = self.out / name / "section.json", ITEMS[name]
            if not _has_results(path):
                files.make_folder(path.parent)
                section = Section(
                    name=name, title=item.title, where=item.where, lead="Left out.", left_out=self.why,
                    command=command(self.config, name),
                )  # fmt: skip
                files.write_atomically(path, to_json(section))

    def _prepared(self, run: PlannedRun) -> "Ready":
        """Return the run, or its result if it is over. Raises if its folder has a run with other settings."""
        out = self.out / "runs" / run.name
        config = replace(run.config, out=out, resume=True)
        if run.search:
            trials = [found for name in run.search if isinstance(found := self.results[name], FinishedRun)]
            if not trials:
                return DivergedRun({}, "every run of the search for its learning rate diverged")
            config = replace(config, learning_rate=accuracy_tables.best(trials, self.plan.scale.last).rate)
        found = read_run(out)
        if found is None:
            return prepared(config, CustomParts(data=self._splits(config)))
        identity = folder.identity(check_settings.plain(config))
        if config.dataset == "shd":  # the same folder may hold other recordings by now; manifolds follow from settings
            identity["data"] = task.fingerprint(self._splits(config), config.seed, config.batch)
        folder.check_same(str(out), {**folder.plain(TrainConfig()), **found.about}, identity)
        return found

    def _train(self, run: PlannedRun, found: "Ready", bar: Bar) -> None:
        """Train a run, if it is not over, and store its result."""
        part, where = PartOfBar(bar, run.name, run.weight), self.out / "runs" / run.name
        if isinstance(found, Run):
            found.bar = part
            found.warn = lambda text: None  # a search tries extreme rates; the section has the results
            try:
                found()
            except guards.DivergedError as error:
                note_diverged(where, str(error))
        bar.advance(part.start + part.weight)
        result = read_run(where) if isinstance(found, Run) else found
        if result is not None:
            self.results[run.name] = result

    def _write_sections(self, waiting: dict[str, Item]) -> None:
        """Write the sections of all items whose runs are over, and remove these items from `waiting`."""
        for name, item in list(waiting.items()):
            planned = item.needs(self.plan)
            if all(run.name in self.results for run in planned):
                del waiting[name]
                files.make_folder(self.out / name)
                files.write_atomically(self.out / name / "section.json", to_json(self._section(name, planned)))
                self.say(f"{name}: {item.title}")

    def _section(self, name: str, planned: list[PlannedRun]) -> Section:
        began, item, finished = time.monotonic(), self.items[name], self.finished
        parts = item.section(Inputs(self.plan, planned, finished, self.out / name, self.digits, self._splits))
        done = [finished[run.name] for run in planned if run.name in finished]
        seconds = sum(run.result["seconds"] for run in done) + time.monotonic() - began
        diverged, digits = self.diverged, _uses_digits(planned)
        remarks = [*parts.pop("remarks", ())]
        remarks += [f"{run.name}: {diverged[run.name]}" for run in planned if run.name in diverged]
        apart = []  # why the numbers cannot simply be compared
        if self.plan.scale.name == "full" and (less := coarser(planned, item.needs(Plan(FINE, self.config)))):
            remarks, apart = remarks + less, [verdicts.COARSER]
        if self.config.quick:
            parts, remarks, apart = {**parts, "against": ()}, [*remarks, MADE_SMALL], [verdicts.MADE_SMALL]
        elif digits and self.digits != OFFICIAL:
            remarks.append(NOT_OFFICIAL.format(self.digits, download.command("shd", self.config.root)))
            apart.append(verdicts.OTHER_RECORDINGS)
        section = Section(
            **{"seconds": seconds, "settings": _settings(planned), **parts},
            name=name,
            title=item.title,
            where=item.where,
            remarks=remarks,
            command=command(self.config if digits else replace(self.config, digits=None), name),
            machine=sections.machine(done[0].about if done else folder.provenance()),  # that of the runs
            apart=apart or None,
        )
        return outcomes.with_outcome(section)

    def _splits(self, config: TrainConfig) -> Splits:
        """The data of a run. It is made once for all runs that share it."""
        key = config.group(DataSettings)
        with self.splits_lock:
            if key not in self.splits:
                self.splits[key] = task.named(config)
            return self.splits[key]


def prepared_reproduction(config: ReproduceConfig) -> Reproduction:
    """Check everything, make or open the folder, and return the reproduction. Raises for any invalid setting."""
    scale = chosen_scale(config)
    for name in config.items:
        check.one_of("item", name, ITEMS)
    plan, items = Plan(scale, config), {name: ITEMS[name] for name in dict.fromkeys(config.items or ITEMS)}
    planned = {name: item.needs(plan) for name, item in items.items()}
    for run in (run for runs in planned.values() for run in runs):
        check_settings.checked(run.config)
    with_digits = [name for name, runs in planned.items() if _uses_digits(runs)]
    missing = no_digits(config.root) if with_digits else None
    left_out = with_digits if missing else []
    out = config.out or RUNS / ("reproduce" if scale.name == "full" else f"reproduce-{scale.name}")
    files.make_folder(out)
    folder.check_not_foreign(out, "reproduction")
    lock = folder.locked(out)
    try:
        _check_scale(out, scale, config)
        order = [name for name in ITEMS if name in items or (out / name / "section.json").exists()]
        files.write_atomically(out / "order.json", json.dumps(order) + "\n")
    except BaseException:
        lock.release()
        raise
    items = {name: item for name, item in items.items() if name not in left_out}
    return Reproduction(config, plan, items, left_out, missing or "", digits_name(config), out, lock)


def chosen_scale(config: ReproduceConfig) -> Scale:
    if config.quick and config.fine:
        raise ValueError("quick and fine are both given, expected one of them.")
    return QUICK if config.quick else FINE if config.fine else FULL


def _uses_digits(planned: Sequence[PlannedRun]) -> bool:
    return any(run.config.dataset == "shd" for run in planned)


def no_digits(root: Path) -> str | None:
    """Return why items that need recordings cannot be made, or None if the recordings are there."""
    if all(heidelberg.find(root, f"shd_{split}") for split in ("train", "test")):
        return None
    return f"Not run: there are no recordings in {root}. Get them with: {download.command('shd', root)}"


def digits_name(config: ReproduceConfig) -> str:
    """The name of the recordings in sections."""
    if config.digits:
        return config.digits
    paths = {split: heidelberg.find(config.root, f"shd_{split}") for split in ("train", "test")}
    if all(path is not None and download.is_official("shd", split, path) for split, path in paths.items()):
        return OFFICIAL
    return "recordings in SHD's layout"


def command(config: ReproduceConfig, item: str) -> str:
    """The command that makes this item."""
    return study.command("reproduce", replace(config, items=(item,))).replace("--items ", "", 1)


def _has_results(path: Path) -> bool:
    """Return whether this section has results: then its settings name the runs."""
    try:
        return "runs" in from_json(path.read_text()).settings
    except (OSError, ValueError, TypeError):
        return False


def _settings(planned: Sequence[PlannedRun]) -> dict[str, Any]:
    """Return the settings that have the same value in all runs and apply to their data, and the names of the runs."""
    if not planned:
        return {}
    first, *others = [folder.identity(run.config) for run in planned]
    data = planned[0].config.dataset
    shared = {
        name: value
        for name, value in first.items()
        if all(other[name] == value for other in others) and data in (registry.users(name) or (data,))
    }
    return {**shared, "runs": [run.name for run in planned]}


def _check_scale(out: Path, scale: Scale, config: ReproduceConfig) -> None:
    """Refuse a folder of another scale or precision. Write config.json to a new one."""
    path, identity = out / "config.json", {"scale": scale.name, "precision": config.precision}
    if path.exists():
        folder.check_same(str(out), folder.read_config(out), identity)
    else:
        about = {"format": folder.FORMAT, "kind": "reproduce", **identity, **folder.provenance()}
        files.write_json(path, about)


# --------------------
# Runs that are prepared and compiled by other threads.


Ready = Run | FinishedRun | DivergedRun
SWITCH_INTERVAL = (
    0.0005  # seconds between switches of threads: a tenth of the default, because training needs Python often
)
AHEAD = 12  # number of runs that are prepared ahead, so that compilers are never idle


def ready(
    planned: Sequence[PlannedRun], make: Callable[[PlannedRun], Ready], is_over: Callable[[str], bool]
) -> Iterator[tuple[PlannedRun, Ready]]:
    """Yield each run when it is ready to train. A run with a search waits until all its trials are over."""
    waiting, begun = deque(planned), dict[Future[Ready], PlannedRun]()
    threads = min(3, 1 + (os.cpu_count() or 1) // 4)  # more would wait for each other: half of their work is Python's
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    with ThreadPoolExecutor(threads) as pool:
        try:
            while waiting or begun:
                while waiting and len(begun) < AHEAD and all(map(is_over, waiting[0].search)):
                    run = waiting.popleft()
                    begun[pool.submit(_compiled, make, run)] = run
                wait(begun, return_when=FIRST_COMPLETED)
                done = next(each for each in begun if each.done())
                yield begun.pop(done), done.result()
        finally:
            sys.setswitchinterval(before)
            for each in begun:
                each.cancel()
            for each in begun:  # close the folders that are open
                with suppress(BaseException):
                    made = None if each.cancelled() else each.result()
                    if isinstance(made, Run):
                        made.folder.close()


def _compiled(make: Callable[[PlannedRun], Ready], planned: PlannedRun) -> Ready:
    made = make(planned)
    if isinstance(made, Run):
        try:
            made.compile()
        except BaseException:
            made.folder.close()
            raise
    return made
