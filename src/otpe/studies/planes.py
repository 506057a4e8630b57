"""Where each rule went, network by network, in the plane of BPTT's first and last model."""

import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from otpe.analysis.landscape import Landscape, Plane, landscape, plane, project
from otpe.datasets import SpikeBatch
from otpe.engine import Backend, Precision
from otpe.losses import LossChoice
from otpe.networks import Network

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
    """`runs`: weights along training, as `otpe.runs.snapshots.read` has them; `batch`: what the loss is taken over."""
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
