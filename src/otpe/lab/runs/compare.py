"""`otpe.compare`: several rules on the same mini-batches and from the same initial weights."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import optax

from otpe import check, files, tables
from otpe.lab.records import read_config
from otpe.lab.report import content, sections, words
from otpe.lab.report.palette import shown
from otpe.lab.runs import check_settings, custom, folder, guards, saved_weights, task
from otpe.lab.runs.dataset_defaults import with_dataset_defaults
from otpe.lab.runs.folder import Folder
from otpe.lab.runs.results import Result, numbers
from otpe.lab.runs.start_settings import with_start_data
from otpe.lab.runs.task import Splits
from otpe.lab.runs.train import check_size, network_of, prepared
from otpe.lab.settings import CompareConfig, TrainConfig
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.rulebook import rules as rule_names
from otpe.training.optimizer import Optimizer


def compare(
    config: CompareConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
    optimizer: optax.GradientTransformation | Optimizer | None = None,
) -> list[Result]:
    """Train by each rule in each mode, and return the results, in the order of the settings.

    `rules` are added to those of the settings, and may be compositions of your own. `data`, `net`, `loss` and
    `optimizer` are as in `otpe.train`.

    The folder has a run folder for each rule and mode, table.txt, compare.json, section.json for `otpe report`, and
    with matplotlib curves.png. Rules that cannot learn online are left out of that mode, and so are runs that diverge.
    """
    check_settings.check_kind(config, CompareConfig)
    config, own = with_custom_parts(task.with_own_name(config, data), data, rules, net, loss, optimizer)
    return prepared_comparison(config, own)()


def with_custom_parts(
    config: Any, data: Any, rules: Any, net: Any, loss: LossChoice, optimizer: Any = None
) -> tuple[Any, custom.CustomParts]:
    """Return the settings with the names of the user's own parts, and these parts."""
    check_settings.check_rule_names("rules", config.rules)
    config, own_rules = custom.with_rules(config, rules)
    config, function = custom.with_loss(config, loss)
    config, optimizer = custom.with_optimizer(config, optimizer)
    return config, custom.CustomParts(data=data, rules=own_rules, net=net, loss=function, optimizer=optimizer)


@dataclass
class Comparison:
    """A comparison whose settings are checked and whose folder is open. Call it to train."""

    config: CompareConfig
    runs: list[TrainConfig]
    left_out: list[str]
    splits: Splits
    folder: Folder
    own: custom.CustomParts = custom.NONE  # `own.data` is `splits`
    warn: Callable[[str], None] = lambda text: warnings.warn(text, stacklevel=2)
    diverged: list[str] = field(default_factory=list)
    verb: str = "compare"  # the command that resumes it

    def __call__(self) -> list[Result]:
        try:
            results = []
            for config in self.runs:
                run = prepared(config, self.own)
                name = f"{config.rule} {config.mode}"
                run.warn = lambda text, name=name: self.warn(f"{name}, {text}")
                run.home, run.verb = self.folder.path, self.verb
                try:
                    results.append(run())
                except guards.DivergedError as error:
                    self.diverged.append(f"{name}: {error}")
            if not results:
                raise guards.DivergedError("; ".join(self.diverged))
            self._report(results)
            return results
        finally:
            self.folder.close()

    def _report(self, results: list[Result]) -> None:
        path = self.folder.path
        runs = [{**numbers(result), "folder": result.folder.name} for result in results]
        about = {"left_out": [*self.left_out, *self.diverged], "runs": runs}
        files.write_json(path / "compare.json", about)
        files.write_atomically(path / "table.txt", table(results) + "\n")
        found = self._section(results)
        if self.verb == "compare":  # another study writes its own section
            files.write_atomically(path / "section.json", content.to_json(found))
        if find_spec("matplotlib"):
            from otpe.lab.report import drawing

            files.write_atomically(path / "curves.png", drawing.png(found.figures[0]))

    def _section(self, results: list[Result]) -> content.Section:
        about, over = read_config(self.folder.path), title(self.config)
        best = max(results, key=lambda result: result.test_accuracy_mean)
        (columns, *rows), tested = _rows(results), "Tested with the weights that validated best."
        accuracy = words.mean_text(best.test_accuracy)
        return content.Section(
            name=self.folder.path.name,
            title=f"{len({result.rule for result in results})} rules on {self.config.data_name}",
            lead=f"{over}. The best in the test: {shown(best.rule)} {best.mode}, {accuracy}.",
            figures=[sections.learning_curves(results, f"While training: {over}.")],
            tables=[content.Table(name="table", caption=tested, columns=columns, rows=rows)],
            remarks=[*(f"{line}." for line in (*self.left_out, *self.diverged)), *sections.by_hand(about)],
            command=sections.command("compare", CompareConfig, about),
            settings=sections.settings(CompareConfig, about),
            machine=sections.machine(about),
            seconds=sum(result.seconds for result in results),
        )


def prepared_comparison(
    config: CompareConfig, own: custom.CustomParts = custom.NONE, *, verb: str = "compare"
) -> Comparison:
    """Check everything, make or open the folder, and return the comparison. Raises for any bad input.

    `verb`: the command that runs the comparison: compare, or a study that contains one.
    """
    check_settings.check_kind(config, CompareConfig)
    config = check_settings.plain(config)
    own = custom.with_stored_net(config, own)
    if own.data is None:
        config = with_start_data(config)
    config = with_dataset_defaults(config, own)
    runs, left_out = planned(config, own)
    placed = runs if config.out is None else [_inside(Path(config.out), run) for run in runs]

    def check_sizes(shape: task.Shape) -> None:
        for run in placed:
            check_size(run, own.rule(run.rule), shape, own)

    splits = task.loaded(config, own, check_sizes)
    network = network_of(config, splits, own)
    check.targets(network, own.loss_of(config), np.zeros(1, int), 1)
    if not _is_begun(config):
        saved_weights.starting_weights(config, own, network)
    data_hash = task.fingerprint(splits, config.seed, config.batch)
    identity = {**folder.identity(config), "data": data_hash, **own.of_study}
    own = replace(own, data=splits)
    opened = folder.opened(config, [config.data_name, verb], identity, kind=verb)
    runs = [_inside(opened.path, run) for run in runs]
    with opened.closed_after_error():
        for run in runs:
            if (Path(run.out or "") / "config.json").exists():
                prepared(run, own).folder.close()  # so that a damaged run raises now, before any training
    return Comparison(config, runs, left_out, splits, opened, own, verb=verb)


def _is_begun(config: CompareConfig) -> bool:
    """Return whether the comparison resumes. Its runs may have checkpoints, and then need no initial weights."""
    return config.resume and config.out is not None and (Path(config.out) / "config.json").exists()


def _inside(where: Path, run: TrainConfig) -> TrainConfig:
    """Return the settings of a run with its folder inside the comparison's folder."""
    name = re.sub(r"[^\w.+-]+", "-", f"{run.rule}-{run.mode}").lstrip(".")
    return replace(run, out=where / files.short_name(name))


def planned(config: CompareConfig, own: custom.CustomParts = custom.NONE) -> tuple[list[TrainConfig], list[str]]:
    """Return the checked settings of every run, and a sentence for each that is left out."""
    for what, given in (("rules", config.rules), ("modes", config.modes)):
        check_settings.check_rule_names(what, given)
    own_names = tuple(rule.name for rule in own.rules)
    names = (*rule_names(), *own_names) if "all" in config.rules else config.rules
    for what, given in (("rules", names), ("modes", config.modes)):
        if not given or len(set(given)) < len(given):
            raise ValueError(f"{what} is {given!r}, expected at least one, and none twice.")
    for name in names:
        own.rule(name)
    wanted = [_run(config, rule, mode) for mode in config.modes for rule in names]
    runs = [run for run in wanted if run.mode == "offline" or own.rule(run.rule).has_steps]
    left_out = [f"{run.rule} cannot learn online" for run in wanted if run not in runs]
    if not runs:
        raise ValueError(f"nothing is left to train: {'; '.join(left_out)}. Add the mode offline, or other rules.")
    only_online = {"every": config.every, "traces": config.traces, "online_learning_rate": config.online_learning_rate}
    for name, value in only_online.items():
        if "online" not in config.modes and value != getattr(CompareConfig, name):
            raise ValueError(f"{name} is {value!r}, which is for mode 'online', but modes is {config.modes!r}.")
    for run in runs:
        check_settings.checked(run, own)
    return runs, left_out


def title(config: CompareConfig) -> str:
    whose = sections.networks(config.seeds, config.draws)
    return f"{config.data_name}, {config.steps:,} mini-batches of {config.batch}, {whose}"


def table(results: list[Result]) -> str:
    """Return a text table with one line per run: mean ± σ over seeds."""
    header, *rows = _rows(results)
    return tables.as_text(tables.Table(columns=header, rows=rows), left=(0, 1))


def _rows(results: list[Result]) -> list[list[str]]:
    rows = [["rule", "mode", "test accuracy", "validation", "loss", "learning rate", "steps/s"]]
    for r in results:
        accuracies = [words.mean_text(values) for values in (r.test_accuracy, r.valid_accuracy, r.loss)]
        rate = "own" if r.learning_rate is None else f"{r.learning_rate:g}"
        rows.append([r.rule, r.mode, *accuracies, rate, f"{r.steps_per_second:.3g}"])
    return rows


def _run(config: CompareConfig, rule: str, mode: Any) -> TrainConfig:
    """Return the settings of one run. Settings for the other mode have their defaults."""
    shared = {field.name: getattr(config, field.name) for field in fields(TrainConfig) if hasattr(config, field.name)}
    if mode == "online" and config.online_learning_rate is not None:
        shared["learning_rate"] = config.online_learning_rate
    if mode == "offline":
        shared |= {name: getattr(TrainConfig, name) for name in ("every", "traces")}
    return TrainConfig(**{**shared, "rule": rule, "mode": mode, "resume": True})
