"""`otpe sweep`: train at every point of a grid. Finished points are not trained again; results are on disk at once."""

import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import jax
import numpy as np

from otpe import check, contents, files
from otpe.lab import signals
from otpe.lab.report import words
from otpe.lab.report.content import Figure, Section, Table
from otpe.lab.report.palette import shown
from otpe.lab.report.panels import Bar, Bars, Heat, Lines, Panel
from otpe.lab.runs import check_settings, folder, guards, task
from otpe.lab.runs.compare import with_custom_parts
from otpe.lab.runs.custom import NONE, CustomParts, with_stored_net
from otpe.lab.runs.dataset_defaults import with_dataset_defaults
from otpe.lab.runs.folder import Folder
from otpe.lab.runs.results import numbers
from otpe.lab.runs.results import read as read_result
from otpe.lab.runs.start_settings import with_start_data
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import check_size, network_of, prepared
from otpe.lab.settings import SweepConfig, TrainConfig
from otpe.lab.studies import grid, study
from otpe.lab.studies.grid import Axes, Point
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule

RECORDED = ("test_accuracy", "valid_accuracy", "test_loss", "loss", "best_step", "seconds", "steps_per_second")
PROGRAMS = 50  # clear compiled programs after this many points: a process can hold a limited number of them


def sweep(
    config: SweepConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
) -> "SweepResult":
    """Train at every point of the grid, and return all accuracies.

    `data`, `rules`, `net` and `loss` are as in `otpe.compare`.

    The folder has a run folder for each point, sweep.json with the record of every point, and a section for reports. A
    run that diverges is recorded as such. Everything else is as in `otpe.train`.
    """
    check_settings.check_kind(config, SweepConfig)
    config, own = with_custom_parts(task.with_own_name(config, data), data, rules, net, loss)
    return prepared_sweep(config, own)()


@dataclass
class Sweep:
    """A sweep with valid settings and an open folder. A call trains the points that are waiting."""

    config: SweepConfig
    axes: Axes
    points: list[Point]
    left_out: list[str]
    folder: Folder
    records: list[dict[str, Any]]  # one for each point, as in sweep.json
    splits: Splits  # the data that is in memory
    data_key: Any  # identifies the data in memory: points with this key use it; None for a user's own, used by all
    own: CustomParts = NONE
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=2)
    on_record: Callable[[dict[str, Any]], None] = field(default=lambda record: None)  # called after each new record

    def __call__(self) -> "SweepResult":
        try:
            for i, point in enumerate(self.points):
                if self.records[i]["state"] == "waiting":
                    self.records[i] |= self._train(point)
                    self._write_records()
                    self.on_record(self.records[i])
                    if i % PROGRAMS == PROGRAMS - 1:
                        jax.clear_caches()
            self._write_records()
            result = gathered(self.config, self.axes, self.records, self.left_out, self.folder.path)
            seconds = sum(record.get("seconds", 0.0) for record in self.records)
            about = section(result, self.folder.path.name)
            study.write_section(about, "sweep", self.config, seconds, self.folder.path)
            return result
        except signals.StoppedError:
            raise
        except KeyboardInterrupt:  # between two runs, or while one is prepared
            go_on = f"otpe sweep --resume --out {self.folder.path} (in Python: resume=True)"
            raise signals.StoppedError(signal.SIGINT, f"stopped. Go on with: {go_on}") from None
        finally:
            self.folder.close()

    def _train(self, point: Point) -> dict[str, Any]:
        """Train at one point, and return what to record."""
        if self.data_key is not None and self.data_key != grid.data_key(point):
            self.data_key, self.splits = grid.data_key(point), task.named(point.run)
        run = prepared(point.run, replace(self.own, data=self.splits))
        run.home, run.verb = self.folder.path, "sweep"
        run.warn = lambda text: self.warn(f"{point.name}, {text}")
        try:
            return _finished(numbers(run()))
        except guards.DivergedError as error:
            return {"state": "diverged", "why": str(error)}

    def _write_records(self) -> None:
        about = {"format": folder.FORMAT, "axes": self.axes, "left_out": self.left_out, "points": self.records}
        files.write_json(self.folder.path / "sweep.json", about)


def prepared_sweep(config: SweepConfig, own: CustomParts = NONE) -> Sweep:
    """Check everything, make or open the folder, and return the sweep. Raises for any invalid setting."""
    check_settings.check_kind(config, SweepConfig)
    config = check_settings.plain(config)
    own = with_stored_net(config, own)
    if own.data is None:
        config = with_start_data(config)
    config = with_dataset_defaults(config, own, grid.axes(config.over))
    points, left_out = grid.points(config, own)
    if own.data is None:
        for point in points:
            _check_size(config, point, own)
        key, splits = grid.data_key(points[0]), task.named(points[0].run)
    else:
        key, splits = None, task.given(own.data)

    def in_memory(point: Point) -> Splits | None:
        """The data of a point, if it is in memory already."""
        return splits if key in (None, grid.data_key(point)) else None

    for point in filter(in_memory, points):
        task.check_shapes(splits, point.run.batch)
        _check_size(config, point, own, splits)
    identity = {name: value for name, value in folder.identity(config).items() if name != "over"}
    opened = folder.opened(config, [config.data_name, "sweep"], {**identity, **own.of_study}, kind="sweep")
    with opened.closed_after_error():
        _store_grid(opened.path, config)
        points, known = [_placed(opened.path, point) for point in points], _known(opened.path)
        records = [_record(point, known.get(point.name, {}), in_memory(point), own) for point in points]
    return Sweep(config, grid.axes(config.over), points, left_out, opened, records, splits, key, own)


def _check_size(config: SweepConfig, point: Point, own: CustomParts, splits: Splits | None = None) -> None:
    """Raise if the run of a point does not fit into memory. With `splits`, also if its loss does not fit the labels."""
    shape = task.expected_shape(point.run) if splits is None else task.found_shape(splits)
    run = point.run if config.out is None else _placed(Path(config.out), point).run
    check_size(run, own.rule(run.rule), shape, own)
    if splits is not None:
        network = network_of(run, task.shaped_for_network(run, splits, own), own)
        check.targets(network, own.loss_of(run), np.zeros(1, int), 1)


def _placed(where: Path, point: Point) -> Point:
    """The point, with its run in the folder of the sweep."""
    return replace(point, run=replace(point.run, out=where / point.name))


def _store_grid(where: Path, config: SweepConfig) -> None:
    """Store the grid in config.json, so that `--resume` alone continues with the newest grid."""
    stored = folder.read_config(where)
    if stored.get("over") != list(config.over):
        stored["over"] = list(config.over)
        files.write_json(where / "config.json", stored)


# --------------------
# The records of points in sweep.json.


def _known(where: Path) -> dict[str, dict[str, Any]]:
    """The stored records, by the name of the point."""
    path = where / "sweep.json"
    if not path.exists():
        return {}
    found = folder.read_json(path)
    with contents.reading(path, "Move it away: a new one is written."):
        points = contents.typed(found, {"points": list})["points"]
        for point in points:
            why = {"why": str} if point.get("state") == "diverged" else {}
            contents.typed(point, {"name": str, "state": str, **why})
        return {point["name"]: point for point in points}


def _record(point: Point, known: dict[str, Any], splits: Splits | None, own: CustomParts) -> dict[str, Any]:
    """The record of a point from its folder: finished, diverged or waiting. Raises if the run has other settings."""
    record = {"name": point.name, "rule": point.run.rule, "mode": point.run.mode, "at": point.at, "state": "waiting"}
    where = Path(point.run.out or point.name)
    if not (where / "config.json").exists():
        return record
    stored = folder.read_settings(TrainConfig, where)
    identity = {**folder.identity(point.run), **own.of_run(point.run)}
    if splits is not None and "data" in stored:  # the same folder may hold other recordings by now
        identity["data"] = task.fingerprint(
            task.shaped_for_network(point.run, splits, own), point.run.seed, point.run.batch
        )
    folder.check_same(str(where), stored, identity)
    if (where / "result.json").exists():
        return record | _finished(read_result(where / "result.json", ("seeds", *RECORDED)))
    return record | ({"state": "diverged", "why": known["why"]} if known.get("state") == "diverged" else {})


def _finished(result: dict[str, Any]) -> dict[str, Any]:
    """The part of a record that comes from the run's result."""
    return {"state": "finished", **{name: result[name] for name in RECORDED}}


# --------------------
# The accuracies of all points.


@dataclass(frozen=True)
class SweepResult:
    """Accuracies over rules, modes, every swept setting, and seeds. NaN if there is no run, or it has no result."""

    axes: Axes  # the swept settings and their values, in the order of the arrays' axes
    rules: tuple[str, ...]
    modes: tuple[str, ...]
    accuracy: np.ndarray  # on the test data, [rules, modes, *axes, seeds]
    valid_accuracy: np.ndarray  # on the validation data, with the same shape; it chooses the best point
    points: list[dict[str, Any]]  # the records in sweep.json
    left_out: list[str]
    folder: Path
    dataset: str

    def best(self, rule: str, mode: str) -> dict[str, Any] | None:
        """The point with the highest mean validation accuracy over seeds, or None if no point is finished."""
        finished = [p for p in self.points if (p["rule"], p["mode"], p["state"]) == (rule, mode, "finished")]
        return max(finished, key=_validation, default=None)

    @property
    def best_points(self) -> list[dict[str, Any]]:
        """The best point of each rule in each mode."""
        found = (self.best(rule, mode) for mode, rule in product(self.modes, self.rules))
        return [point for point in found if point is not None]

    @property
    def diverged(self) -> list[str]:
        return [f"{point['name']}: {point['why']}" for point in self.points if point["state"] == "diverged"]

    def __str__(self) -> str:
        over = ", ".join(f"{name} of {', '.join(map(grid.text, values))}" for name, values in self.axes.items())
        return f"{len(self.points)} runs over {over}, in {self.folder}"

    def __repr__(self) -> str:
        return f"<SweepResult of {self}>"


def _validation(point: dict[str, Any]) -> float:
    return float(np.mean(point["valid_accuracy"]))


def gathered(
    config: SweepConfig, axes: Axes, points: Sequence[dict[str, Any]], left_out: list[str], folder: Path
) -> SweepResult:
    """The result of a sweep, from the records of its points."""
    rules, modes = (tuple(dict.fromkeys(point[what] for point in points)) for what in ("rule", "mode"))
    shape = (len(rules), len(modes), *map(len, axes.values()), config.seeds)
    test, valid = np.full(shape, np.nan), np.full(shape, np.nan)
    for point in points:
        if point["state"] == "finished":
            where = [values.index(point["at"][name]) for name, values in axes.items()]
            index = (rules.index(point["rule"]), modes.index(point["mode"]), *where)
            test[index], valid[index] = point["test_accuracy"], point["valid_accuracy"]
    return SweepResult(axes, rules, modes, test, valid, [*points], left_out, folder, config.data_name)


# --------------------
# The section of a report: curves over one setting, maps over two or more.


def section(result: SweepResult, name: str = "sweep") -> Section:
    over, seeds = " × ".join(result.axes), result.accuracy.shape[-1]
    networks = f"mean ± σ of {seeds} networks" if seeds > 1 else "one network each"
    finished = sum(point["state"] == "finished" for point in result.points)
    lead = f"Test accuracy over {over}: {finished} of {len(result.points)} runs, {networks}."
    if result.best_points:
        best = max(result.best_points, key=_validation)
        at = ", ".join(f"{name} {grid.text(value)}" for name, value in best["at"].items())
        lead += f" Best in validation: {shown(best['rule'])} {best['mode']} at {at},"
        lead += f" {words.mean_text(best['test_accuracy'])} in the test."
    return Section(
        name=name,
        title=f"{over}, {result.dataset}",
        lead=lead,
        figures=[
            Figure(name=mode, caption=f"Test accuracy over {over}, {mode}; {networks}.", panels=_panels(result, mode))
            for mode in result.modes
        ],
        tables=[table(result)],
        remarks=[f"{line}." for line in (*result.left_out, *result.diverged)],
    )


def table(result: SweepResult) -> Table:
    """The best point of each rule in each mode."""
    rows = []
    for point in result.best_points:
        accuracies = [point[what] for what in ("test_accuracy", "valid_accuracy")]
        spreads = [float(words.std(values)) if len(values) > 1 else words.MISSING for values in accuracies]
        means = zip(map(float, map(np.mean, accuracies)), spreads, strict=True)
        rows.append([point["rule"], point["mode"], *map(grid.text, point["at"].values()), *chain.from_iterable(means)])
    return Table(
        name="best",
        caption="The point of each rule with the highest validation accuracy, and its test accuracy.",
        columns=["rule", "mode", *result.axes, "test accuracy", "σ", "validation", "σ"],
        rows=rows,
    )


def _panels(result: SweepResult, mode: str) -> list[Panel]:
    """Curves over one setting, or maps over two or more, for the rules that have a result in this mode."""
    accuracy = result.accuracy[:, result.modes.index(mode)]  # [rules, *axes, seeds]
    known = {rule: each for rule, each in zip(result.rules, accuracy, strict=True) if not np.isnan(each).all()}
    (name, values), *others = result.axes.items()
    if others:
        return [panel for rule, each in known.items() for panel in _maps(result, rule, each)]
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        bars = {rule: study.mean_and_spread(each) for rule, each in known.items()}
        return [
            Bars(
                title=mode,
                y="test accuracy",
                groups=[*map(grid.text, values)],
                bars=[Bar(name=rule, values=mean, spread=spread) for rule, (mean, spread) in bars.items()],
                y_range=(0, 1),
            )
        ]
    order = np.argsort(values)
    x = [float(values[i]) for i in order]
    lines = [study.mean_line(rule, x, each[order]) for rule, each in known.items()]
    decade = x[0] > 0 and x[-1] / x[0] >= 10
    return [Lines(title=mode, x=name, y="test accuracy", lines=lines, log_x=decade, y_range=(0, 1))]


def _maps(result: SweepResult, rule: str, accuracy: np.ndarray) -> Iterator[Heat]:
    """Yield a map for each combination of the settings after the second. `accuracy` is [*axes, seeds]."""
    (y, rows), (x, columns), *rest = ((name, [*map(grid.text, values)]) for name, values in result.axes.items())
    for where in np.ndindex(accuracy.shape[2:-1]):
        at = [f"{name} {values[k]}" for (name, values), k in zip(rest, where, strict=True)]
        yield study.accuracy_map(", ".join([shown(rule), *at]), y, rows, x, columns, accuracy[:, :, *where])
