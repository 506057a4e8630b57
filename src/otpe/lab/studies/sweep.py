"""`otpe sweep`: a run at every point of a grid. Finished points are not run again; what is known is always on disk."""

import json
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from otpe import check, contents, files
from otpe.lab import signals
from otpe.lab.runs import check_settings, folder, guards, task
from otpe.lab.runs.compare import with_own
from otpe.lab.runs.custom import NONE, Own, going_on
from otpe.lab.runs.folder import Folder
from otpe.lab.runs.results import numbers
from otpe.lab.runs.results import read as read_result
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import check_size, network_of, prepared
from otpe.lab.settings import SweepConfig, TrainConfig
from otpe.lab.studies import grid, maps, provenance
from otpe.lab.studies.grid import Axes, Point, SweepResult, gathered
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule

KEPT = ("test_accuracy", "valid_accuracy", "test_loss", "loss", "best_step", "seconds", "steps_per_second")
PROGRAMS = 50  # points after which compiled programs are forgotten: a process may only have so many


def sweep(
    config: SweepConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
) -> SweepResult:
    """Train at every point of the grid, and return all accuracies.

    `data`, `rules`, `net` and `loss` as in `otpe.compare`.

    The folder has a run folder for each point, sweep.json with every point, and a section for the report. Runs that
    diverge are recorded as such. Otherwise as `otpe.train`.
    """
    check_settings.check_kind(config, SweepConfig)
    config, own = with_own(task.of_own(config, data), data, rules, net, loss)
    return prepared_sweep(config, own)()


@dataclass
class Sweep:
    """A sweep that was found in order. Calling it trains."""

    config: SweepConfig
    axes: Axes
    points: list[Point]
    left_out: list[str]
    folder: Folder
    records: list[dict[str, Any]]  # of each point, as sweep.json has them
    made: tuple[Any, Splits]  # the data that is at hand, and the key of its points; for a user's own, None
    own: Own = NONE
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=2)
    told: Callable[[dict[str, Any]], None] = field(default=lambda record: None)  # of a point that has come to its end

    def __call__(self) -> SweepResult:
        try:
            for i, point in enumerate(self.points):
                if self.records[i]["state"] == "waiting":
                    self.records[i] |= self._train(point)
                    self._write()
                    self.told(self.records[i])
                    if i % PROGRAMS == PROGRAMS - 1:
                        jax.clear_caches()
            self._write()
            result = gathered(self.config, self.axes, self.records, self.left_out, self.folder.path)
            seconds = sum(record.get("seconds", 0.0) for record in self.records)
            told = maps.section(result, name=self.folder.path.name)
            told = provenance.signed(told, "sweep", self.config, seconds, self.folder.path)
            provenance.write_section(self.folder.path, told)
            return result
        except signals.StoppedError:
            raise
        except KeyboardInterrupt:  # between two runs, or while one is prepared
            go_on = f"otpe sweep --resume --out {self.folder.path} (in Python: resume=True)"
            raise signals.StoppedError(signal.SIGINT, f"stopped. Go on with: {go_on}") from None
        finally:
            self.folder.close()

    def _train(self, point: Point) -> dict[str, Any]:
        run = prepared(point.run, replace(self.own, data=self._data(point)))
        run.home, run.verb = self.folder.path, "sweep"
        run.warn = lambda text: self.warn(f"{point.name}, {text}")
        try:
            return finished(numbers(run()))
        except guards.DivergedError as error:
            return {"state": "diverged", "why": str(error)}

    def _data(self, point: Point) -> Splits:
        """Made once for all points that have it, which come one behind the other."""
        key, splits = self.made
        if key is not None and key != grid.data_key(point):
            splits = task.named(point.run)
            self.made = grid.data_key(point), splits
        return splits

    def _write(self) -> None:
        write(self.folder.path, self.axes, self.left_out, self.records)


def prepared_sweep(config: SweepConfig, own: Own = NONE) -> Sweep:
    """Check everything, and make or open the folder. All bad input is told here."""
    check_settings.check_kind(config, SweepConfig)
    config = check_settings.plain(config)
    own = going_on(config, own)
    points, left_out = grid.points(config, own)
    for point in points if own.data is None else ():
        _check_size(config, point, own)
    made = (grid.data_key(points[0]), task.named(points[0].run)) if own.data is None else (None, task.given(own.data))
    for point in points:
        if made[0] in (None, grid.data_key(point)):
            task.check_shapes(made[1], point.run.batch)
            _check_size(config, point, own, made[1])
    mine = {name: value for name, value in folder.identity(config).items() if name != "over"}
    mine |= {**own.of_study, "own_study": "sweep"}
    opened = folder.opened(config, [config.dataset, "sweep"], mine)
    try:
        _note_grid(opened.path, config)
        points = [_in(opened.path, point) for point in points]
        known = _known(opened.path)
        at_hand = [made[1] if made[0] in (None, grid.data_key(point)) else None for point in points]
        records = [
            _record(point, known.get(point.name, {}), data, own) for point, data in zip(points, at_hand, strict=True)
        ]
    except BaseException:
        opened.close()
        raise
    return Sweep(config, grid.axes(config.over), points, left_out, opened, records, made, own)


def _check_size(config: SweepConfig, point: Point, own: Own, splits: Splits | None = None) -> None:
    shape = task.expected_shape(point.run) if splits is None else task.found_shape(splits)
    placed = point if config.out is None else _in(Path(config.out), point)
    check_size(placed.run, own.rule(point.run.rule), shape, own)
    if splits is not None:
        network = network_of(point.run, task.as_taken(point.run, splits, own), own)
        check.targets(network, own.loss_of(point.run), np.zeros(1, int), 1)


def _in(where: Path, point: Point) -> Point:
    """A point of the sweep in this folder."""
    return replace(point, run=replace(point.run, out=where / point.name))


def write(where: Path, axes: Axes, left_out: list[str], records: list[dict[str, Any]]) -> None:
    about_all = {"format": folder.FORMAT, "axes": axes, "left_out": left_out, "points": records}
    files.write_atomically(where / "sweep.json", json.dumps(about_all, indent=1) + "\n")


def finished(found: dict[str, Any]) -> dict[str, Any]:
    """Of a run's result, what is recorded of the point."""
    return {"state": "finished", **{name: found[name] for name in KEPT}}


def _record(point: Point, known: dict[str, Any], splits: Splits | None, own: Own) -> dict[str, Any]:
    """What is known of a point: its result, that it has diverged, or that its turn will come."""
    blank = {"name": point.name, "rule": point.run.rule, "mode": point.run.mode, "at": point.at, "state": "waiting"}
    where = Path(point.run.out or point.name)
    if not (where / "config.json").exists():
        return blank
    theirs = folder.read_settings(TrainConfig, where)
    mine = {**folder.identity(point.run), **own.of_run(point.run)}
    if splits is not None and "data" in theirs:  # other recordings may lie there by now
        splits = task.as_taken(point.run, splits, own)
        mine["data"] = task.fingerprint(splits, point.run.seed, point.run.batch)
    folder.check_same(str(where), theirs, mine)
    if (where / "result.json").exists():
        return blank | finished(read_result(where / "result.json", ("seeds", *KEPT)))
    return blank | ({"state": "diverged", "why": known["why"]} if known.get("state") == "diverged" else {})


def _known(where: Path) -> dict[str, dict[str, Any]]:
    """What was recorded of points, by name."""
    path = where / "sweep.json"
    if not path.exists():
        return {}
    found = folder.read_json(path)
    with contents.reading(path, "Move it away: it is written anew."):
        points = contents.typed(found, {"points": list})["points"]
        for point in points:
            contents.typed(
                point, {"name": str, "state": str, **({"why": str} if point.get("state") == "diverged" else {})}
            )
        return {point["name"]: point for point in points}


def _note_grid(where: Path, config: SweepConfig) -> None:
    """The settings of a sweep that goes on in another grid say so: with --resume alone, it goes on in that one."""
    found = folder.read_json(where / "config.json")
    if found.get("over") != list(config.over):
        found["over"] = list(config.over)
        files.write_atomically(where / "config.json", json.dumps(found, indent=1) + "\n")
