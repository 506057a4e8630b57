"""The items of `otpe reproduce`: the figures and tables of the paper. To add one, write its section and add a line."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

from otpe import files
from otpe.lab.bench import bench
from otpe.lab.paper import accuracy_tables, cosines, evidence, published
from otpe.lab.paper.plan import DATASETS, FinishedRun, Hidden, Plan, PlannedRun
from otpe.lab.runs import build_network, saved_weights
from otpe.lab.runs.task import Splits
from otpe.lab.settings import TrainConfig
from otpe.lab.studies import landscapes

Parts = dict[str, Any]  # of a Section of a report
LANDSCAPE_SAMPLES = 1024


@dataclass(frozen=True)
class Inputs:
    """Everything that the section of an item is made from."""

    plan: Plan
    planned: list[PlannedRun]  # the runs that the item needs
    finished: Mapping[str, FinishedRun]  # by name; runs that diverged are missing
    folder: Path  # of the item
    digits: str  # the name of the recordings of spoken digits
    splits: Callable[[TrainConfig], Splits]

    @property
    def config(self) -> TrainConfig:
        """The settings of the first run. Use only those that all runs share."""
        return self.planned[0].config

    @property
    def last(self) -> int:
        return self.plan.scale.last

    @property
    def data(self) -> str:
        return DATASETS.get(self.config.dataset, self.digits)

    @property
    def trials(self) -> dict[str, list[FinishedRun]]:
        """The finished trials of a search, by rule."""
        return self._by_rule(run for run in self.planned if run.is_trial)

    @property
    def runs(self) -> dict[str, FinishedRun | None]:
        """The run of each rule, without the trials of the search. None if it diverged."""
        found = self._by_rule(run for run in self.planned if not run.is_trial)
        return {rule: runs[0] if runs else None for rule, runs in found.items()}

    @property
    def sizes(self) -> "dict[Hidden, Inputs]":
        """These inputs for each size of network."""
        found: dict[Hidden, list[PlannedRun]] = {}
        for run in self.planned:
            found.setdefault(run.config.hidden, []).append(run)
        return {hidden: replace(self, planned=runs) for hidden, runs in found.items()}

    def _by_rule(self, planned: Iterable[PlannedRun]) -> dict[str, list[FinishedRun]]:
        found: dict[str, list[FinishedRun]] = {}
        for run in planned:
            of_rule = found.setdefault(run.config.rule, [])
            if run.name in self.finished:
                of_rule.append(self.finished[run.name])
        return found


@dataclass(frozen=True)
class Item:
    title: str
    where: str  # in the paper
    needs: Callable[[Plan], list[PlannedRun]]
    section: Callable[[Inputs], Parts]


# --------------------
# Sections.


def complexity(given: Inputs) -> Parts:
    found = bench.study(quick=given.plan.scale.name == "quick", out=given.folder)
    return {name: getattr(found, name) for name in ("lead", "figures", "tables", "remarks", "settings", "seconds")}


def randman(given: Inputs) -> Parts:
    return accuracy_tables.offline_randman(given.runs, given.last, given.config.dataset)


def digits(given: Inputs) -> Parts:
    return accuracy_tables.offline_digits(given.runs, given.last, given.data)


def trained_online(given: Inputs) -> Parts:
    return accuracy_tables.online_section(given.runs, given.trials, given.last, given.data)


def table(given: Inputs) -> Parts:
    runs = {hidden: inputs.runs for hidden, inputs in given.sizes.items()}
    return accuracy_tables.digits_table(runs, given.config.mode, given.data)


def rates(given: Inputs) -> Parts:
    trials = {hidden: inputs.trials for hidden, inputs in given.sizes.items()}
    return accuracy_tables.digits_rates(trials, given.last, given.data)


def slopes(given: Inputs) -> Parts:
    found: dict[str, dict[tuple[int, int, int], FinishedRun]] = {}
    for run in given.planned:
        of_rule, c = found.setdefault(run.config.rule, {}), run.config
        if run.name in given.finished:
            of_rule[len(c.hidden) + 1, c.hidden[0], round(c.slope or 0)] = given.finished[run.name]
    return accuracy_tables.digits_slopes(found, given.data)


def cosines_alone(given: Inputs) -> Parts:
    return cosines.section(given.runs["bptt"], given.config.align, given.data)


def cosines_3(given: Inputs) -> Parts:
    return _cosines(given, cosines.beside_three, published.COSINES_3)


def cosines_5(given: Inputs) -> Parts:
    return _cosines(given, lambda found: cosines.beside_five(found, given.last), published.COSINES_5)


def _cosines(given: Inputs, compare: Any, paper: cosines.Kernels) -> Parts:
    comparable = paper if given.plan.scale.name != "quick" else None
    return cosines.section(given.runs["bptt"], given.config.align, given.data, compare, comparable)


def landscape(given: Inputs) -> Parts:
    """The landscape from the weights in the run folders. Its arrays are written to landscape.npz."""
    runs, config = given.runs, given.config
    if not runs[landscapes.REFERENCE]:
        return {"lead": "There is no run by BPTT, which defines the plane."}
    splits = given.splits(config)
    net = build_network.network(config, splits.train.units, len(splits.train.names))
    batch = landscapes.validation(config, splits, LANDSCAPE_SAMPLES)
    options = {"grid": given.plan.scale.grid, "precision": config.precision, "backend": config.backend}
    try:
        paths = {rule: saved_weights.read_snapshot(run.path, net) for rule, run in runs.items() if run}
        found = landscapes.measure(net, paths, batch, **options)
    except (landscapes.NoPlaneError, FileNotFoundError) as error:
        return {"lead": f"There is no plane: {error}"}
    files.write_atomically(given.folder / "landscape.npz", landscapes.npz(found))
    section = landscapes.section(found, title=f"Loss landscape of {given.data}")
    samples = [evidence.sample(evidence.DISTANCE, rule, values) for rule, values in found.apart.items()]
    return {name: getattr(section, name) for name in ("lead", "figures", "tables", "remarks")} | {"samples": samples}


# --------------------
# The registry, in the order of `otpe reproduce --list` and of the page. docs/how-to/reproduce-the-paper.md has the same
# table.


R, T = DATASETS
DIGITS, DEEP, EVERY = "digits", "digits-5", "every digits"
# The runs that an item needs: offline(T) calls plan.offline(T).
offline, online, bptt, search = (partial(methodcaller, kind) for kind in ("offline", "online", "bptt", "search"))
ITEMS = {
    "complexity": Item("Time and space of every rule", "Table 1", lambda plan: [], complexity),
    "offline-r-randman": Item("Offline training on R-Randman", "Figures 2 a and 9 a", offline(R), randman),
    "offline-t-randman": Item("Offline training on T-Randman", "Figures 2 b and 9 b", offline(T), randman),
    "offline-digits": Item("Offline training on spoken digits", "Figures 2 c and 9 c", offline(DIGITS), digits),
    "cosines-r-randman": Item("Gradient cosines on R-Randman", "Figures 3 a and 4 a", bptt(R), cosines_alone),
    "cosines-t-randman": Item("Gradient cosines on T-Randman", "Figures 3 b and 4 b", bptt(T), cosines_alone),
    "cosines-digits": Item("Gradient cosines on spoken digits", "Figures 3 c, 4 c and 10", bptt(DIGITS), cosines_3),
    "cosines-digits-5": Item("Gradient cosines in 5 layers", "Figure 13", bptt(DEEP), cosines_5),
    "landscape-r-randman": Item("Loss landscape of R-Randman", "Figure 5 a", offline(R), landscape),
    "landscape-t-randman": Item("Loss landscape of T-Randman", "Figure 5 b", offline(T), landscape),
    "online-r-randman": Item("Online training on R-Randman", "Figures 6 a and 11 a", online(R), trained_online),
    "online-t-randman": Item("Online training on T-Randman", "Figures 6 b and 11 b", online(T), trained_online),
    "online-digits": Item("Online training on spoken digits", "Figures 6 c and 11 c", online(DIGITS), trained_online),
    "online-digits-5": Item("Online training of 5 layers", "Figure 12", online(DEEP), trained_online),
    "table-digits-offline": Item("Test accuracy on spoken digits, offline", "Table 2, offline", offline(EVERY), table),
    "table-digits-online": Item("Test accuracy on spoken digits, online", "Table 2, online", online(EVERY), table),
    "slopes-digits": Item("Search over slope, width and layers", "Figure 7", Plan.slopes, slopes),
    "rates-digits": Item("Search for learning rates", "Figure 8", search(EVERY), rates),
}
