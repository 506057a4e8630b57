"""The runs that the items need: how large they are, their names and settings, and their results.

A run has one name, however many items need it. So it is trained once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from otpe import files
from otpe.lab.paper import published
from otpe.lab.records import read_training
from otpe.lab.report import words
from otpe.lab.runs import folder
from otpe.lab.runs.results import read as read_result
from otpe.lab.settings import ReproduceConfig, TrainConfig

OURS = ("deep-otpe", "approx-deep-otpe")
OFFLINE = ("bptt", "otpe", "approx-otpe", "ostl", "ottt", *OURS)
ONLINE = ("otpe", "approx-otpe", "f-otpe", "f-approx-otpe", "ostl", "ottt", *OURS)
DATASETS = {"r-randman": "R-Randman", "t-randman": "T-Randman"}  # and spoken digits
Hidden = tuple[int, ...]  # units of each hidden layer


@dataclass(frozen=True, kw_only=True)
class Training:
    """Runs of one kind: one for each rule and learning rate."""

    rules: tuple[str, ...]
    steps: int
    seeds: int
    eval_every: int
    rates: tuple[float, ...] = (1e-3,)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The sizes of all trainings, networks and studies."""

    name: str
    draws: int  # of the manifolds, offline
    randman: dict[str, Any]  # settings of all runs on Randman
    digits: dict[str, Any]  # settings of all runs on spoken digits
    sizes: tuple[Hidden, ...]  # networks of the table of accuracies
    randman_offline: Training
    randman_online: Training
    randman_search: Training
    digits_offline: Training
    digits_online: Training
    digits_search: Training
    slopes: tuple[int, ...]
    widths: tuple[int, ...]
    layers: tuple[int, ...]
    slope_search: Training
    snapshots: int  # mini-batches between two snapshots of the weights
    grid: int  # points of a landscape in each direction
    last: int  # number of mini-batches at the end; final accuracies are means over them


FULL = Scale(
    name="full",
    draws=3,
    randman={"hidden": (128, 128)},
    digits={},
    sizes=((128, 128), (512, 512), (512, 512, 512, 512)),
    randman_offline=Training(rules=OFFLINE, steps=20_000, seeds=12, eval_every=100),
    randman_online=Training(rules=ONLINE, steps=3_000, seeds=4, eval_every=50),
    randman_search=Training(rules=ONLINE, steps=500, seeds=2, eval_every=50, rates=(1e-3, 4e-4, 1e-4)),
    digits_offline=Training(rules=OFFLINE, steps=10_000, seeds=4, eval_every=20),
    digits_online=Training(rules=ONLINE, steps=1_000, seeds=4, eval_every=50),
    digits_search=Training(rules=ONLINE, steps=300, seeds=1, eval_every=50, rates=(1e-3, 4e-4, 1e-4, 2.5e-5)),
    slopes=published.SLOPES,
    widths=(128, 512),
    layers=published.LAYERS,
    slope_search=Training(rules=OFFLINE, steps=2_000, seeds=2, eval_every=100),
    snapshots=200,
    grid=41,
    last=1_000,
)
FINE = replace(
    FULL,
    name="fine",
    randman_online=replace(FULL.randman_online, steps=20_000, eval_every=100),
    randman_search=replace(FULL.randman_search, steps=3_000, seeds=4, rates=published.RATES),
    digits_online=replace(FULL.digits_online, steps=10_000),
    digits_search=replace(FULL.digits_search, steps=10_000, seeds=4, rates=published.RATES),
    widths=published.WIDTHS,
    slope_search=replace(FULL.slope_search, steps=10_000, seeds=4),
)
# Few rules, and the same number of networks everywhere: most of the time of a quick reproduction is compilation.
SOME, SOME_ONLINE = ("bptt", "otpe", "ostl", "deep-otpe"), ("otpe", "ostl", "deep-otpe")
QUICK = Scale(
    name="quick",
    draws=1,
    randman={
        "classes": 5, "units": 40, "dims": 2, "alpha": 2.0, "hidden": (32, 32), "batch": 32, "time_steps": 30,
        "valid_samples": 256, "test_samples": 512,
    },
    digits={"pool": 10, "bins": 20, "batch": 64},
    sizes=((32, 32), (32, 32, 32, 32)),
    randman_offline=Training(rules=SOME, steps=300, seeds=2, eval_every=25, rates=(5e-3,)),
    randman_online=Training(rules=SOME_ONLINE, steps=60, seeds=2, eval_every=10),
    randman_search=Training(rules=SOME_ONLINE, steps=20, seeds=2, eval_every=10, rates=(3e-3, 1e-3)),
    digits_offline=Training(rules=SOME, steps=500, seeds=2, eval_every=25, rates=(5e-3,)),
    digits_online=Training(rules=SOME_ONLINE, steps=30, seeds=2, eval_every=10),
    digits_search=Training(rules=SOME_ONLINE, steps=10, seeds=2, eval_every=10, rates=(3e-3, 1e-3)),
    slopes=(5, 25),
    widths=(32,),
    layers=(3,),
    slope_search=Training(rules=("bptt", "otpe", "deep-otpe"), steps=200, seeds=2, eval_every=25, rates=(5e-3,)),
    snapshots=50,
    grid=15,
    last=75,
)  # fmt: skip


def layers_and_width(hidden: Hidden) -> tuple[int, int]:
    """The size of a network as the paper counts it: the number of layers with weights, and their width."""
    return len(hidden) + 1, hidden[0]


class PlannedRun(NamedTuple):
    name: str  # of its folder
    config: TrainConfig
    search: tuple[str, ...] = ()  # the names of its trials; the one that validates best gives the learning rate

    @property
    def is_trial(self) -> bool:
        """Is it one run of a search for a learning rate?"""
        return self.config.mode == "online" and not self.search

    @property
    def weight(self) -> float:
        """A rough estimate of its share of the time, for the progress bar."""
        c = self.config
        sizes = [700 if c.dataset == "shd" else 50, *c.hidden]
        step = 0.03 + sum(n * m for n, m in pairwise(sizes)) / 3e6
        return 8 + c.steps * c.seeds**0.6 * step * (0.012 if c.mode == "offline" else 0.2)


class Plan(NamedTuple):
    """All runs at one scale. Each method returns the runs of one kind on some data.

    Data is r-randman or t-randman, or the networks that learn spoken digits: "digits" is the one in the paper's
    figures, "digits-5" the deepest, "every digits" all in the table of accuracies.
    """

    scale: Scale
    config: ReproduceConfig

    def offline(self, data: str) -> list[PlannedRun]:
        """BPTT's run also compares the gradients of all other rules with its own."""
        kind, more = self.scale.digits_offline, {}
        if data in DATASETS:
            kind, more = self.scale.randman_offline, {"draws": self.scale.draws, "snapshots": self.scale.snapshots}
        others = tuple(rule for rule in kind.rules if rule != "bptt")
        return [
            self._run(f"{task}-offline-{rule}", kind, rule, settings, **more, align=others if rule == "bptt" else ())
            for task, settings in self._tasks(data).items()
            for rule in kind.rules
        ]

    def bptt(self, data: str) -> list[PlannedRun]:
        return [run for run in self.offline(data) if run.config.rule == "bptt"]

    def online(self, data: str) -> list[PlannedRun]:
        """The trials of a search for the learning rate of each rule, then a final run by each rule."""
        search, final, runs = self.scale.digits_search, self.scale.digits_online, []
        if data in DATASETS:
            search, final = self.scale.randman_search, self.scale.randman_online
        for task, settings in self._tasks(data).items():
            how = {**settings, "mode": "online"}
            runs += [
                self._run(f"{task}-rate-{rate:g}-{rule}", search, rule, how, learning_rate=rate)
                for rule in search.rules
                for rate in search.rates
            ]
            for rule in final.rules:
                trials = tuple(f"{task}-rate-{rate:g}-{rule}" for rate in search.rates)
                runs.append(self._run(f"{task}-online-{rule}", final, rule, how)._replace(search=trials))
        return runs

    def search(self, data: str) -> list[PlannedRun]:
        return [run for run in self.online(data) if run.is_trial]

    def slopes(self) -> list[PlannedRun]:
        """The search over slope, width and number of layers, on spoken digits."""
        kind, scale = self.scale.slope_search, self.scale
        sizes = [(width,) * (depth - 1) for depth in scale.layers for width in scale.widths]
        return [
            self._run(f"{task}-slope-{slope}-{rule}", kind, rule, settings, slope=float(slope))
            for task, settings in self._digits(sizes).items()
            for slope in scale.slopes
            for rule in kind.rules
        ]

    def _tasks(self, data: str) -> dict[str, dict[str, Any]]:
        """The settings of data and network, by the beginning of the names of their runs."""
        if data in DATASETS:
            return {data: {**self.scale.randman, "dataset": data}}
        sizes = self.scale.sizes
        figures = max((hidden for hidden in sizes if len(hidden) == 2), key=lambda hidden: hidden[0])
        return self._digits({"digits": [figures], "digits-5": [max(sizes, key=len)], "every digits": sizes}[data])

    def _digits(self, sizes: Sequence[Hidden]) -> dict[str, dict[str, Any]]:
        common = {"dataset": "shd", "root": self.config.root, **self.scale.digits}
        return {"digits-{}x{}".format(*layers_and_width(hidden)): {**common, "hidden": hidden} for hidden in sizes}

    def _run(self, name: str, kind: Training, rule: str, settings: dict[str, Any], **more: Any) -> PlannedRun:
        common = {
            "rule": rule, "steps": kind.steps, "seeds": kind.seeds, "eval_every": kind.eval_every,
            "learning_rate": kind.rates[0], "precision": self.config.precision, "keep": 1,
            "checkpoint_seconds": self.config.checkpoint_seconds,
        }  # fmt: skip
        return PlannedRun(name, TrainConfig(**{**common, **settings, **more}))


def coarser(runs: Sequence[PlannedRun], fine: Sequence[PlannedRun]) -> list[str]:
    """Return a remark that lists how many fewer mini-batches, networks and runs there are than with --fine, if any."""
    parts = []
    for what, trials in (("training", False), ("the search for learning rates", True)):
        here, full = (_amounts([run.config for run in each if run.is_trial == trials]) for each in (runs, fine))
        less = [f"{_counted(n, name)} instead of {full[name]:,}" for name, n in here.items() if n < full[name]]
        parts += [f"{what} has {', '.join(less)}"] if less else []
    return [f"Coarser than with --fine: {'; '.join(parts)}."] if parts else []


def _amounts(configs: Sequence[TrainConfig]) -> dict[str, int]:
    most = {name: max((getattr(c, name) for c in configs), default=0) for name in ("steps", "seeds")}
    return {"mini-batch": most["steps"], "network": most["seeds"], "run": len(configs)}


def _counted(n: int, name: str) -> str:
    return f"{n:,} {name}" + ("" if n == 1 else "es" if name.endswith("ch") else "s")


# --------------------
# The results of runs.


DIVERGED = "diverged.txt"  # in the folder of a run that diverged: the reason. The run is not repeated
NEEDED = ("rule", "steps", "test_accuracy", "valid_accuracy", "learning_rate", "seconds")  # in result.json


class FinishedRun(NamedTuple):
    """The numbers and metrics of a finished run. Its weights may be gone."""

    path: Path
    about: dict[str, Any]  # config.json
    result: dict[str, Any]
    metrics: list[dict[str, Any]]

    @property
    def rule(self) -> str:
        return self.result["rule"]

    @property
    def rate(self) -> float:
        return self.result["learning_rate"]

    @property
    def test(self) -> np.ndarray:
        """Test accuracy [S]."""
        return np.array(self.result["test_accuracy"], float)

    @property
    def steps(self) -> np.ndarray:
        return np.array([line["step"] for line in self.metrics])

    def along(self, metric: str) -> np.ndarray:
        """A metric at every evaluation [K, S]. NaN if the file has null."""
        return np.array([line[metric] for line in self.metrics], float)

    def last(self, metric: str, mini_batches: int) -> np.ndarray:
        """The mean [S] over the last mini-batches."""
        return words.mean(self.along(metric)[self.steps > self.result["steps"] - mini_batches], 0)


class DivergedRun(NamedTuple):
    """A run without a result, which is not repeated."""

    about: dict[str, Any]
    why: str


def read_run(path: Path) -> FinishedRun | DivergedRun | None:
    """Return the run in this folder, or None if it is not finished."""
    if (path / DIVERGED).exists():
        return DivergedRun(folder.read_config(path), (path / DIVERGED).read_text())
    if not (path / "result.json").exists():
        return None
    about, result = folder.read_settings(TrainConfig, path), read_result(path / "result.json", NEEDED)
    metrics = read_training(path)
    if not metrics or metrics[-1]["step"] != result["steps"]:
        raise OSError(
            f"{path / 'metrics.jsonl'} is damaged: it ends before the run did. Remove {path} to train it again"
        )
    return FinishedRun(path, about, result, metrics)


def note_diverged(path: Path, why: str) -> None:
    files.write_atomically(path / DIVERGED, why)
