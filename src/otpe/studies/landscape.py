"""`otpe landscape`: the loss around a training run, and where each rule went."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from otpe import check, files, memory
from otpe.charts.kinds import Contours, Figure, Line, Lines, Path, Section, Table
from otpe.charts.look import shown
from otpe.datasets import SpikeBatch
from otpe.datasets.frameset import FrameSet
from otpe.datasets.named import DRAWN
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule
from otpe.runs import compare, guards, settings, size, snapshots, spread, task
from otpe.runs.compare import Comparison
from otpe.runs.config import CompareConfig, Settings
from otpe.runs.own import Own
from otpe.runs.task import Splits
from otpe.studies import about, planes
from otpe.studies.config import LandscapeConfig
from otpe.studies.planes import REFERENCE, Seen


@dataclass
class Study:
    """A study that was found in order. Calling it trains, and looks."""

    config: LandscapeConfig
    comparison: Comparison

    def __call__(self) -> tuple[Seen, Section]:
        config, results, where = self.config, self.comparison(), self.comparison.folder.path
        runs = {result.rule: snapshots.read(result.folder, result.net) for result in results}
        if REFERENCE not in runs:
            raise guards.DivergedError(f"there is no plane: {'; '.join(self.comparison.diverged)}")
        batch = validation(config, self.comparison.splits, config.loss_samples)
        how: dict[str, Any] = {"precision": config.precision, "backend": config.backend}
        how["loss"] = self.comparison.own.loss_of(config)
        seen = planes.look(results[0].net, runs, batch, grid=config.grid, **how)
        files.write_atomically(where / "landscape.npz", planes.npz(seen))
        title, remarks = f"Loss landscape, {config.dataset}", [f"{line}." for line in self.comparison.diverged]
        told = section(seen, name=where.name, title=title, remarks=remarks)
        told = about.signed(told, "landscape", config, sum(result.seconds for result in results), where)
        about.write(where, told)
        return seen, told


def prepared_landscape(
    config: LandscapeConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
) -> Study:
    """Check everything, and make or open the folder. All bad input is told here.

    `data`, `rules`, `net` and `loss` as in `otpe.compare`.
    """
    settings.check_kind(config, LandscapeConfig)
    config, own = compare.with_own(task.of_own(config, data), data, rules, net, loss)
    for name in ("snapshots", "loss_samples", "grid"):
        check.count(name, getattr(config, name))
    if config.grid < 2:
        raise ValueError(f"grid is {config.grid}, expected at least 2 points in each direction.")
    _check_size(config, size.expected(config) if data is None else size.found(task.given(data)), own)
    shared = {field.name: getattr(config, field.name) for field in fields(CompareConfig) if hasattr(config, field.name)}
    names = config.rules
    if isinstance(names, tuple | list) and names and not {REFERENCE, "all"} & {*names}:
        shared["rules"] = (REFERENCE, *names)
    return Study(config, compare.prepared_comparison(CompareConfig(**shared), own, verb="landscape"))


def _check_size(config: LandscapeConfig, shape: size.Shape, own: Own) -> None:
    """Do the points of the plane fit into memory, the samples at each of them, and the weights of one rule's way?"""
    memory.refuse_more("the points of the plane", 8 * config.grid**2, {"grid": config.grid})
    if config.dataset in DRAWN:
        samples = min(config.valid_samples, config.loss_samples)
        given = {"loss_samples": samples, "time_steps": shape.steps, "units": shape.units}
        memory.refuse_more("the samples that the loss is taken over", prod((samples, *shape[:2])), given)
    net = settings.network(config, shape.axes, shape.classes) if own.net is None else own.net
    check.network(net)
    kept = config.steps // config.snapshots + 1
    given = {"steps / snapshots": kept, "seeds": config.seeds, "hidden": tuple(config.hidden)}
    weights = kept * config.seeds * size.weights(net)
    memory.refuse_more("the weights along the way of a rule", weights, given, memory.host())


def validation(config: Settings, splits: Splits, most: int) -> SpikeBatch:
    """The samples that runs of these settings are validated on, side by side: the first ones, if there are more."""
    data = splits.valid
    if isinstance(data, FrameSet):
        return data.take(np.arange(min(len(data), most)))
    exam = task.exam(data, task.VALID, config.valid_samples, config.batch)
    batches = [data.batch(exam.seed, i, exam.size) for i in range(min(exam.batches, -(-most // exam.size)))]
    lengths = [batch.lengths for batch in batches if batch.lengths is not None]
    return SpikeBatch(
        jnp.concatenate([batch.spikes for batch in batches], 1)[:, :most],
        jnp.concatenate([batch.labels for batch in batches], -1)[..., :most],
        jnp.concatenate(lengths)[:most] if lengths else None,
    )


def section(seen: Seen, *, name: str = "landscape", title: str = "Loss landscape", remarks: Any = ()) -> Section:
    """What a report says about it."""
    networks = len(seen.explained[REFERENCE])
    of = f"mean ± σ of {networks} networks, each in its own plane" if networks > 1 else "one network"
    shares = ", ".join(f"{shown(rule)} {_percent(share[:, -1])}" for rule, share in seen.explained.items())
    return Section(
        name=name,
        title=title,
        lead="The loss over the plane through BPTT's initial and final model, and every rule's way through training"
        f" projected into it. At the end the plane explains of each way: {shares} ({of}).",
        figures=[_map(seen, title), _shares(seen, of)],
        tables=[_table(seen, of)],
        remarks=list(remarks),
    )


def _map(seen: Seen, title: str) -> Figure:
    found = seen.landscape
    ways = [
        Path(name=rule, x=found.coordinates[rule][:, 0].tolist(), y=found.coordinates[rule][:, 1].tolist())
        for rule in seen.explained
    ]
    panel = Contours(
        title=title,
        x="towards BPTT's final model",
        y="along the initial model",
        at_x=found.at_x.tolist(),
        at_y=found.at_y.tolist(),
        heights=found.loss.tolist(),
        unit="loss",
        paths=ways,
    )
    caption = (
        f"Loss, shaded where it is high, of the first network on {seen.samples:,} samples of validation, over the plane"
        " through the initial model, at (0, 0), and BPTT's final one, on the horizontal axis; every rule's way"
        " projected into it. Distances are those of all weights together."
    )
    return Figure(name="landscape", caption=caption, panels=[panel])


def _shares(seen: Seen, of: str) -> Figure:
    lines = []
    for rule, share in seen.explained.items():
        known = share[:, 1:]  # at the start there is no way yet
        σ = known.std(0).tolist() if len(known) > 1 else None
        lines.append(Line(name=rule, x=seen.steps[rule][1:].tolist(), y=known.mean(0).tolist(), spread=σ))
    panel = Lines(
        title="How much the plane explains", x="mini-batches", y="share of the way", lines=lines, y_range=(0, 1)
    )
    caption = f"Share of |θ − θ₀|² that lies in the plane: how much of each rule's way the map above shows; {of}."
    return Figure(name="explained", caption=caption, panels=[panel])


def _table(seen: Seen, of: str) -> Table:
    columns = ["rule", "explained at the end", "from start to end", "from BPTT's end"]
    rows = [
        [rule, spread.text(share[:, -1]), spread.text(seen.length[rule], 2), spread.text(seen.apart[rule], 2)]
        for rule, share in seen.explained.items()
    ]
    caption = f"Share of each way that the plane explains, and distances |θ − θ'| of all weights together; {of}."
    return Table(name="ways", caption=caption, columns=columns, rows=rows)


def _percent(share: np.ndarray) -> str:
    return f"{100 * share.mean():.0f}" + (f" ± {100 * share.std():.0f}" if len(share) > 1 else "") + " %"
