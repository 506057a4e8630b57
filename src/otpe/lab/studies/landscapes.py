"""Where each rule went, network by network, in the plane of BPTT's first and last model."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from otpe import check, files, memory
from otpe.analysis.landscape import Landscape, Plane, landscape, plane, project
from otpe.datasets import SpikeBatch
from otpe.datasets.frames import FrameSet
from otpe.datasets.registry import DRAWN
from otpe.engine import Backend, Precision
from otpe.lab.report import words
from otpe.lab.report.content import Contours, Figure, Line, Lines, Path, Section, Table
from otpe.lab.report.palette import shown
from otpe.lab.runs import build_network, check_settings, compare, guards, saved_weights, task
from otpe.lab.runs.compare import Comparison
from otpe.lab.runs.custom import Own
from otpe.lab.runs.task import Splits
from otpe.lab.settings import CompareConfig, LandscapeConfig, Settings
from otpe.lab.studies import provenance
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule

REFERENCE = "bptt"  # whose plane it is
Runs = Mapping[str, tuple[np.ndarray, Any]]  # by rule: steps [K], parameters [K, S, ...]


class NoPlaneError(ValueError):
    """Training has led nowhere, or straight on."""


class Seen(NamedTuple):
    """Every network in its own plane, and the loss around the first. By rule, K models of each of S networks."""

    landscape: Landscape  # of the first network
    steps: dict[str, np.ndarray]  # [K]
    coordinates: dict[str, np.ndarray]  # [S, K, 2]
    explained: dict[str, np.ndarray]  # [S, K] share of |θ − θ₀|² that lies in the plane; NaN at the start
    length: dict[str, np.ndarray]  # [S] from the first to the last model
    apart: dict[str, np.ndarray]  # [S] from BPTT's last model to this rule's
    samples: int  # that the loss is taken over


def look(
    net: Network,
    runs: Runs,
    batch: SpikeBatch,
    *,
    grid: int = 41,
    loss: LossChoice = None,
    precision: Precision = "float32",
    backend: Backend = "auto",
) -> Seen:
    """`runs`: weights along training, as `read_snapshot` returns them; `batch`: what the loss is taken over."""
    if REFERENCE not in runs:
        raise ValueError(f"there are runs of {', '.join(runs)}, but none of bptt, whose plane it is. Train it too.")
    _, reference = runs[REFERENCE]
    planes = [_plane(reference, i) for i in range(jax.tree.leaves(reference)[0].shape[1])]
    found = {rule: _projected(planes, params) for rule, (_, params) in runs.items()}
    around = landscape(
        net,
        _model(reference, 0, 0),
        _model(reference, -1, 0),
        {rule: _network(params, 0) for rule, (_, params) in runs.items()},
        batch.spikes,
        batch.labels,
        None if batch.lengths is None else batch.mask,
        grid=grid,
        loss=loss,
        precision=precision,
        backend=backend,
    )
    return Seen(
        landscape=jax.tree.map(np.asarray, around),
        steps={rule: np.asarray(steps) for rule, (steps, _) in runs.items()},
        coordinates={rule: at for rule, (at, _) in found.items()},
        explained={rule: share for rule, (_, share) in found.items()},
        length={rule: _distance(_at(params, -1), _at(params, 0)) for rule, (_, params) in runs.items()},
        apart={rule: _distance(_at(params, -1), _at(reference, -1)) for rule, (_, params) in runs.items()},
        samples=batch.labels.shape[-1],
    )


def npz(seen: Seen) -> bytes:
    """A file of all arrays by name: loss, at_x, at_y, and for each rule such as steps.otpe."""
    arrays: dict[str, Any] = {name: getattr(seen.landscape, name) for name in ("loss", "at_x", "at_y")}
    for part in ("steps", "coordinates", "explained", "length", "apart"):
        arrays |= {f"{part}.{rule}": values for rule, values in getattr(seen, part).items()}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _plane(reference: Any, i: int) -> Plane:
    try:
        return plane(_model(reference, 0, i), _model(reference, -1, i))
    except ValueError as error:
        raise NoPlaneError(f"bptt, network {i}: {error}") from None


def _projected(planes: list[Plane], params: Any) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates [S, K, 2] and explained shares [S, K]: each network in its own plane."""
    side_by_side = jax.tree.map(lambda *each: np.stack(each), *planes)
    return jax.tree.map(np.asarray, _project(side_by_side, params))


_project = jax.jit(jax.vmap(project, in_axes=(0, 1)))


def _distance(a: Any, b: Any) -> np.ndarray:
    """[S] between the models of each network."""
    squares = jax.tree.map(lambda x, y: np.square(np.float64(x) - y).sum(tuple(range(1, np.ndim(x)))), a, b)
    return np.sqrt(sum(jax.tree.leaves(squares)))


def _at(params: Any, k: int) -> Any:
    """Model k of every network, [S, ...]."""
    return jax.tree.map(lambda x: x[k], params)


def _network(params: Any, i: int) -> Any:
    """Every model of network i, [K, ...]."""
    return jax.tree.map(lambda x: x[:, i], params)


def _model(params: Any, k: int, i: int) -> Any:
    return jax.tree.map(lambda x: x[k, i], params)


# --------------------
# `otpe landscape`: the loss around a training run, and where each rule went.


@dataclass
class Study:
    """A study that was found in order. Calling it trains, and looks."""

    config: LandscapeConfig
    comparison: Comparison

    def __call__(self) -> tuple[Seen, Section]:
        config, results, where = self.config, self.comparison(), self.comparison.folder.path
        runs = {result.rule: saved_weights.read_snapshot(result.folder, result.net) for result in results}
        if REFERENCE not in runs:
            raise guards.DivergedError(f"there is no plane: {'; '.join(self.comparison.diverged)}")
        batch = validation(config, self.comparison.splits, config.loss_samples)
        how: dict[str, Any] = {"precision": config.precision, "backend": config.backend}
        how["loss"] = self.comparison.own.loss_of(config)
        seen = look(results[0].net, runs, batch, grid=config.grid, **how)
        files.write_atomically(where / "landscape.npz", npz(seen))
        title, remarks = f"Loss landscape, {config.dataset}", [f"{line}." for line in self.comparison.diverged]
        told = section(seen, name=where.name, title=title, remarks=remarks)
        told = provenance.signed(told, "landscape", config, sum(result.seconds for result in results), where)
        provenance.write_section(where, told)
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
    check_settings.check_kind(config, LandscapeConfig)
    config, own = compare.with_own(task.of_own(config, data), data, rules, net, loss)
    for name in ("snapshots", "loss_samples", "grid"):
        check.count(name, getattr(config, name))
    if config.grid < 2:
        raise ValueError(f"grid is {config.grid}, expected at least 2 points in each direction.")
    _check_size(config, task.expected_shape(config) if data is None else task.found_shape(task.given(data)), own)
    shared = {field.name: getattr(config, field.name) for field in fields(CompareConfig) if hasattr(config, field.name)}
    names = config.rules
    if isinstance(names, tuple | list) and names and not {REFERENCE, "all"} & {*names}:
        shared["rules"] = (REFERENCE, *names)
    return Study(config, compare.prepared_comparison(CompareConfig(**shared), own, verb="landscape"))


def _check_size(config: LandscapeConfig, shape: task.Shape, own: Own) -> None:
    """Do the points of the plane fit into memory, the samples at each of them, and the weights of one rule's way?"""
    memory.check_fits("the points of the plane", 8 * config.grid**2, {"grid": config.grid})
    if config.dataset in DRAWN:
        samples = min(config.valid_samples, config.loss_samples)
        given = {"loss_samples": samples, "time_steps": shape.steps, "units": shape.units}
        memory.check_fits("the samples that the loss is taken over", prod((samples, *shape[:2])), given)
    net = build_network.network(config, shape.axes, shape.classes) if own.net is None else own.net
    check.network(net)
    kept = config.steps // config.snapshots + 1
    given = {"steps / snapshots": kept, "seeds": config.seeds, "hidden": tuple(config.hidden)}
    weights = kept * config.seeds * task.weights(net)
    memory.check_fits("the weights along the way of a rule", weights, given, memory.host())


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
        [
            rule,
            words.mean_text(share[:, -1]),
            words.mean_text(seen.length[rule], 2),
            words.mean_text(seen.apart[rule], 2),
        ]
        for rule, share in seen.explained.items()
    ]
    caption = f"Share of each way that the plane explains, and distances |θ − θ'| of all weights together; {of}."
    return Table(name="ways", caption=caption, columns=columns, rows=rows)


def _percent(share: np.ndarray) -> str:
    return f"{100 * share.mean():.0f}" + (f" ± {100 * share.std():.0f}" if len(share) > 1 else "") + " %"
