"""`otpe landscape`: the loss around a training run by BPTT, and the path of every rule in the plane of that run."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from otpe import check, files, memory
from otpe.analysis.landscape import Landscape, Plane, landscape, plane, project
from otpe.datasets import SpikeBatch, registry
from otpe.datasets.dataset import FrameSet
from otpe.lab.report import words
from otpe.lab.report.content import Figure, Section, Table
from otpe.lab.report.palette import shown
from otpe.lab.report.panels import Contours, Lines, Path
from otpe.lab.runs import build_network, check_settings, compare, guards, saved_weights, task
from otpe.lab.runs.compare import Comparison
from otpe.lab.runs.custom import CustomParts
from otpe.lab.runs.task import Splits
from otpe.lab.settings import CompareConfig, LandscapeConfig, Settings
from otpe.lab.studies import study
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule

REFERENCE = "bptt"  # the rule that defines the plane
Paths = Mapping[str, tuple[np.ndarray, Any]]  # by rule: steps [K], parameters [K, S, ...]


class NoPlaneError(ValueError):
    """The first and the last model of BPTT do not span a plane."""


class PathsInPlane(NamedTuple):
    """The paths of all rules in the plane, K models of each of S networks, and the loss around the first network."""

    landscape: Landscape  # of the first network
    steps: dict[str, np.ndarray]  # [K]
    coordinates: dict[str, np.ndarray]  # [S, K, 2]
    explained: dict[str, np.ndarray]  # [S, K] share of |θ − θ₀|² in the plane; NaN at the start
    length: dict[str, np.ndarray]  # [S] distance between the first and the last model
    apart: dict[str, np.ndarray]  # [S] distance between BPTT's last model and this rule's
    samples: int  # for the loss


def measure(
    net: Network,
    paths: Paths,
    batch: SpikeBatch,
    **options: Any,
) -> PathsInPlane:
    """Project all paths into the planes of BPTT, and compute the loss of `batch` around the first network.

    `paths` has the weights along training, as `read_snapshot` returns them. `options` are as in `otpe.landscape`.
    """
    if REFERENCE not in paths:
        raise ValueError(
            f"there are runs of {', '.join(paths)}, but none by bptt, which defines the plane. Train by it too."
        )
    models = {rule: params for rule, (_, params) in paths.items()}
    bptt = models[REFERENCE]
    planes = [_plane(bptt, i) for i in range(jax.tree.leaves(bptt)[0].shape[1])]
    stacked = jax.tree.map(lambda *each: np.stack(each), *planes)
    projected = {rule: jax.tree.map(np.asarray, _project(stacked, params)) for rule, params in models.items()}
    around = landscape(
        net,
        _at(bptt, (0, 0)),
        _at(bptt, (-1, 0)),
        {rule: _at(params, np.s_[:, 0]) for rule, params in models.items()},
        batch.spikes,
        batch.labels,
        None if batch.lengths is None else batch.mask,
        **options,
    )
    return PathsInPlane(
        landscape=jax.tree.map(np.asarray, around),
        steps={rule: np.asarray(steps) for rule, (steps, _) in paths.items()},
        coordinates={rule: at for rule, (at, _) in projected.items()},
        explained={rule: share for rule, (_, share) in projected.items()},
        length={rule: _distance(_at(params, -1), _at(params, 0)) for rule, params in models.items()},
        apart={rule: _distance(_at(params, -1), _at(bptt, -1)) for rule, params in models.items()},
        samples=batch.labels.shape[-1],
    )


def npz(found: PathsInPlane) -> bytes:
    """The content of landscape.npz: loss, at_x, at_y, and for each rule arrays such as steps.otpe."""
    arrays: dict[str, Any] = {name: getattr(found.landscape, name) for name in ("loss", "at_x", "at_y")}
    for part in ("steps", "coordinates", "explained", "length", "apart"):
        arrays |= {f"{part}.{rule}": values for rule, values in getattr(found, part).items()}
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


_project = jax.jit(jax.vmap(project, in_axes=(0, 1)))  # each network into its own plane


def _plane(bptt: Any, network: int) -> Plane:
    try:
        return plane(_at(bptt, (0, network)), _at(bptt, (-1, network)))
    except ValueError as error:
        raise NoPlaneError(f"bptt, network {network}: {error}") from None


def _at(params: Any, index: Any) -> Any:
    """Parameters at an index of the axes [K, S] in front."""
    return jax.tree.map(lambda x: x[index], params)


def _distance(a: Any, b: Any) -> np.ndarray:
    """The distance [S] between the models of each network."""
    squares = jax.tree.map(lambda x, y: np.square(np.float64(x) - y).sum(tuple(range(1, np.ndim(x)))), a, b)
    return np.sqrt(sum(jax.tree.leaves(squares)))


# --------------------
# The study: train by several rules, then measure.


def train_landscape(
    config: LandscapeConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
) -> PathsInPlane:
    """Train by several rules. Return their paths in the plane of BPTT's run, and the loss around the first network.

    It is `otpe landscape` in Python. `data`, `rules`, `net` and `loss` are as in `otpe.compare`. `otpe.landscape` does
    the same for models that you have already.
    """
    found, _ = prepared_landscape(config, data=data, rules=rules, net=net, loss=loss)()
    return found


@dataclass
class Study:
    """A study with valid settings and an open folder. A call trains and measures."""

    config: LandscapeConfig
    comparison: Comparison

    def __call__(self) -> tuple[PathsInPlane, Section]:
        config, results, where = self.config, self.comparison(), self.comparison.folder.path
        paths = {result.rule: saved_weights.read_snapshot(result.folder, result.net) for result in results}
        if REFERENCE not in paths:
            raise guards.DivergedError(f"there is no plane: {'; '.join(self.comparison.diverged)}")
        batch = validation(config, self.comparison.splits, config.loss_samples)
        loss = self.comparison.own.loss_of(config)
        options = {name: getattr(config, name) for name in ("grid", "precision", "backend")}
        found = measure(results[0].net, paths, batch, loss=loss, **options)
        files.write_atomically(where / "landscape.npz", npz(found))
        title, remarks = f"Loss landscape, {config.data_name}", [f"{line}." for line in self.comparison.diverged]
        written = section(found, name=where.name, title=title, remarks=remarks)
        seconds = sum(result.seconds for result in results)
        return found, study.write_section(written, "landscape", config, seconds, where)


def prepared_landscape(
    config: LandscapeConfig,
    *,
    data: Splits | None = None,
    rules: str | Rule | Sequence[str | Rule] | None = None,
    net: Network | None = None,
    loss: LossChoice = None,
) -> Study:
    """Check everything, make or open the folder, and return the study. Raises for any invalid setting.

    `data`, `rules`, `net` and `loss` are as in `otpe.compare`.
    """
    check_settings.check_kind(config, LandscapeConfig)
    config, own = compare.with_custom_parts(task.with_own_name(config, data), data, rules, net, loss)
    for name in ("snapshots", "loss_samples", "grid"):
        check.count(name, getattr(config, name))
    if config.grid < 2:
        raise ValueError(f"grid is {config.grid}, expected at least 2 points in each direction.")
    _check_size(config, task.expected_shape(config) if data is None else task.found_shape(task.given(data)), own)
    names = config.rules
    if isinstance(names, tuple | list) and names and not {REFERENCE, "all"} & {*names}:
        names = (REFERENCE, *names)
    runs = study.settings_as(CompareConfig, config, rules=names)
    return Study(config, compare.prepared_comparison(runs, own, verb="landscape"))


def _check_size(config: LandscapeConfig, shape: task.Shape, own: CustomParts) -> None:
    """Raise if the points of the plane, the samples for the loss, or the weights of one path do not fit into memory."""
    memory.check_fits("the points of the plane", 8 * config.grid**2, {"grid": config.grid})
    if registry.is_drawn(config.dataset):
        samples = min(config.valid_samples, config.loss_samples)
        given = {"loss_samples": samples, "time_steps": shape.steps, "units": shape.units}
        memory.check_fits("the samples that the loss is taken over", prod((samples, *shape[:2])), given)
    net = build_network.network(config, shape.axes, shape.classes) if own.net is None else own.net
    check.network(net)
    models = config.steps // config.snapshots + 1
    given = {"steps / snapshots": models, "seeds": config.seeds, "hidden": tuple(config.hidden)}
    weights = models * config.seeds * task.weights(net)
    memory.check_fits("the weights along the path of a rule", weights, given, memory.host())


def validation(config: Settings, splits: Splits, most: int) -> SpikeBatch:
    """Return the samples that runs with these settings are validated on, as one batch: the first `most` of them."""
    data = splits.valid
    if isinstance(data, FrameSet):
        return data.take(np.arange(min(len(data), most)))
    evaluated = task.evaluation_set(data, task.VALID, config.valid_samples, config.batch)
    batches = [
        data.batch(evaluated.seed, i, evaluated.size) for i in range(min(evaluated.batches, -(-most // evaluated.size)))
    ]
    lengths = [batch.lengths for batch in batches if batch.lengths is not None]
    return SpikeBatch(
        jnp.concatenate([batch.spikes for batch in batches], 1)[:, :most],
        jnp.concatenate([batch.labels for batch in batches], -1)[..., :most],
        jnp.concatenate(lengths)[:most] if lengths else None,
    )


# --------------------
# The section of a report.


def section(
    found: PathsInPlane, *, name: str = "landscape", title: str = "Loss landscape", remarks: Sequence[str] = ()
) -> Section:
    networks = len(found.explained[REFERENCE])
    of = f"mean ± σ of {networks} networks, each in its own plane" if networks > 1 else "one network"
    shares = ", ".join(f"{shown(rule)} {_percent(share[:, -1])}" for rule, share in found.explained.items())
    return Section(
        name=name,
        title=title,
        lead="The loss on the plane through BPTT's initial and final model, and the path of every rule during training,"
        f" projected into this plane. At the end the plane explains of each path: {shares} ({of}).",
        figures=[_map(found, title), _shares(found, of)],
        tables=[_table(found, of)],
        remarks=remarks,
    )


def _map(found: PathsInPlane, title: str) -> Figure:
    around = found.landscape
    panel = Contours(
        title=title,
        x="towards BPTT's final model",
        y="along the initial model",
        at_x=around.at_x.tolist(),
        at_y=around.at_y.tolist(),
        heights=around.loss.tolist(),
        unit="loss",
        paths=[
            Path(name=rule, x=around.coordinates[rule][:, 0].tolist(), y=around.coordinates[rule][:, 1].tolist())
            for rule in found.explained
        ],
    )
    caption = (
        f"Loss of the first network on {found.samples:,} validation samples, shaded where it is high, on the plane"
        " through the initial model, at (0, 0), and BPTT's final model, on the horizontal axis. The path of every rule"
        " is projected into the plane. Distances are between all weights together."
    )
    return Figure(name="landscape", caption=caption, panels=[panel])


def _shares(found: PathsInPlane, of: str) -> Figure:
    shares = {rule: share[:, 1:].T for rule, share in found.explained.items()}  # at the start there is no path yet
    lines = [study.mean_line(rule, found.steps[rule][1:], share) for rule, share in shares.items()]
    panel = Lines(
        title="How much the plane explains", x="mini-batches", y="share of the path", lines=lines, y_range=(0, 1)
    )
    caption = f"Share of |θ − θ₀|² in the plane: how much of each path the map above shows; {of}."
    return Figure(name="explained", caption=caption, panels=[panel])


def _table(found: PathsInPlane, of: str) -> Table:
    distances = {rule: (found.length[rule], found.apart[rule]) for rule in found.explained}
    return Table(
        name="ways",
        caption=f"Share of each path that the plane explains, and distances |θ − θ'| of all weights together; {of}.",
        columns=["rule", "explained at the end", "from start to end", "from BPTT's end"],
        rows=[
            [rule, words.mean_text(share[:, -1]), *(words.mean_text(values, 2) for values in distances[rule])]
            for rule, share in found.explained.items()
        ],
    )


def _percent(share: np.ndarray) -> str:
    return f"{100 * share.mean():.0f}" + (f" ± {100 * words.std(share):.0f}" if len(share) > 1 else "") + " %"
