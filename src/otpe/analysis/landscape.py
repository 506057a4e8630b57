"""The loss near a training run: on the plane through the initial and the final model, with the paths of training."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike

from otpe import check, losses
from otpe.engine import Backend, Engine, Precision, engine
from otpe.losses import Loss, LossChoice, Readout, as_loss
from otpe.networks import Network


class Plane(NamedTuple):
    """The plane through the initial model, the final model and zero. Coordinates are distances from the initial model.

    The final model is at (`distance`, 0).
    """

    origin: Any  # θ₀, the initial model
    along: Any  # e₁ = (θ_T − θ₀) / |θ_T − θ₀|
    across: Any  # e₂, the part of θ₀ that is orthogonal to e₁, scaled to length 1
    distance: Array  # |θ_T − θ₀|


class Landscape(NamedTuple):
    """The loss on a grid of a plane, and the path of each rule, by name."""

    at_x: Array  # [grid], towards the final model
    at_y: Array  # [grid]
    loss: Array  # [y, x]
    coordinates: dict[str, Array]  # [K, 2] each: models projected into the plane
    explained: dict[str, Array]  # [K] each: share of |θ − θ₀|² that lies in the plane; NaN at θ₀ itself


def plane(initial: Any, final: Any) -> Plane:
    """The plane through two models of the same shape. Raises ValueError if they do not span a plane."""
    result, size, rest = _span(*(jax.tree.map(jnp.asarray, model) for model in (initial, final)))
    if not isinstance(rest, Tracer):
        least = 10 * float(jnp.finfo(rest.dtype).eps) * float(size)
        if not float(result.distance) > least:
            raise ValueError("the final model is the initial one, expected two that differ: train it first.")
        if not float(rest) > least:
            raise ValueError(
                "the final model minus the initial one is a multiple of the initial one, so the two span a line,"
                " expected a plane. Start from random weights: net.init(key)."
            )
    return result


@jax.jit
def _span(initial: Any, final: Any) -> tuple[Plane, Array, Array]:
    """The plane, the norm of the initial model, and the norm of its part orthogonal to the first direction."""
    step = jax.tree.map(jnp.subtract, final, initial)
    distance = _norm(step)
    along = _scaled(step, 1 / distance)
    across = _without(_without(initial, along), along)  # twice, because the first time leaves rounding errors
    rest = _norm(across)
    return Plane(initial, along, _scaled(across, 1 / rest), distance), _norm(initial), rest


def project(plane: Plane, params: Any) -> tuple[Array, Array]:
    """Coordinates [..., 2] of models projected into the plane, and the share [...] of |θ − θ₀|² in the plane.

    `params` may have more axes in front. The share is NaN at θ₀ itself.
    """
    offset = jax.tree.map(jnp.subtract, params, plane.origin)
    x, y = (_dot(offset, direction) for direction in (plane.along, plane.across))
    squares = jax.tree.map(lambda d, o: jnp.square(d).sum(range(d.ndim - o.ndim, d.ndim)), offset, plane.origin)
    share = (x**2 + y**2) / _total(squares)
    return jnp.stack([x, y], -1), jnp.minimum(share, 1)  # above 1 only by rounding


def point(plane: Plane, coordinates: ArrayLike) -> Any:
    """The model at these coordinates [2]."""
    x, y = jnp.asarray(coordinates)
    return jax.tree.map(lambda o, a, b: (o + x * a + y * b).astype(o.dtype), plane.origin, plane.along, plane.across)


def surface(
    loss: Callable[[Any], Array], plane: Plane, at_x: ArrayLike, at_y: ArrayLike, *, batch_size: int | None = None
) -> Array:
    """The loss [y, x] at every point of a grid.

    `loss` maps parameters to a number. `batch_size` is the number of points computed at the same time, by default 16
    on a GPU and one on a CPU.
    """
    at_x, at_y = jnp.asarray(at_x), jnp.asarray(at_y)
    points = jnp.stack(jnp.meshgrid(at_x, at_y), -1).reshape(-1, 2)
    together = (None if jax.default_backend() == "cpu" else 16) if batch_size is None else batch_size
    heights = jax.lax.map(lambda coordinates: loss(point(plane, coordinates)), points, batch_size=together)
    return heights.reshape(at_y.size, at_x.size)


def landscape(
    net: Network,
    initial: Any,
    final: Any,
    paths: Mapping[str, Any],
    spikes: ArrayLike,
    labels: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    grid: int = 41,
    margin: float = 0.15,
    readout: Readout = "spikes",
    loss: LossChoice = None,
    precision: Precision = "float32",
    backend: Backend = "auto",
) -> Landscape:
    """The loss on the plane through two models, and training paths projected into it.

    Args:
      initial, final: parameters; in the paper, BPTT's parameters before and after training.
      paths: by name, parameters with an axis of models in front: the models of one rule during training.
      spikes, labels, mask: the data for the loss, as in `otpe.gradients`.
      grid: number of points in each direction.
      margin: space around all paths, as a share of the longer side of the window.
      readout: what the loss sees: the output "spikes", or their "leaky" sum.
      loss: as in `otpe.gradients`. If it has a readout, that readout replaces `readout`.
      precision, backend: as in `otpe.gradients`.
    """
    initial, final = check.params(net, initial), check.params(net, final)
    checked_paths = {name: _path(initial, name, path) for name, path in paths.items()}
    x = check.spikes(net, initial, spikes, labels)
    chosen_loss = as_loss(loss)
    y = check.targets(net, chosen_loss, labels, *x.shape[1::-1])
    weight = None if mask is None else check.mask(mask, *x.shape[:2])
    if check.count("grid", grid) < 2:
        raise ValueError(f"grid is {grid}, expected at least 2 points in each direction.")
    check.number("margin", margin, "a share of the window, 0 or above", lambda m: 0 <= m < float("inf"))
    check.one_of("readout", readout, get_args(Readout))
    chosen_engine, through = engine(backend, precision, initial), plane(initial, final)
    loss_and_readout = (chosen_loss, chosen_loss.readout or readout)
    result = _landscape(net, chosen_engine, loss_and_readout, grid, float(margin), through, checked_paths, x, y, weight)
    # jit sorts dictionaries by name, so restore the order of `paths`.
    in_order = ({name: each[name] for name in paths} for each in (result.coordinates, result.explained))
    return Landscape(*result[:3], *in_order)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _landscape(
    net: Network,
    engine: Engine,
    loss_and_readout: tuple[Loss, Readout],
    grid: int,
    margin: float,
    through: Plane,
    paths: dict[str, Any],
    x: Array,
    y: Array,
    mask: Array | None,
) -> Landscape:
    def loss(params: Any) -> Array:
        outputs = net.record(params, x, precision=engine.precision, backend=engine.backend)
        share = None if mask is None else mask.astype(outputs[-1].dtype) / mask.sum()
        loss, readout = loss_and_readout
        return losses.of_outputs(net, loss, readout, outputs, y, share)

    projected = {name: project(through, path) for name, path in paths.items()}
    coordinates = {name: at for name, (at, _) in projected.items()}
    at_x, at_y = _window(through, coordinates, grid, margin)
    explained = {name: share for name, (_, share) in projected.items()}
    return Landscape(at_x, at_y, surface(loss, through, at_x, at_y), coordinates, explained)


def _window(through: Plane, coordinates: dict[str, Array], grid: int, margin: float) -> Array:
    """Both axes [2, grid] of a window that contains all paths, the initial model and the final model."""
    ends = jnp.zeros((2, 2), through.distance.dtype).at[1, 0].set(through.distance)
    points = jnp.concatenate([ends, *coordinates.values()])
    low, high = points.min(0), points.max(0)
    beyond = margin * (high - low).max()
    return jnp.linspace(low - beyond, high + beyond, grid, axis=-1)


def _path(like: Any, name: str, path: Any) -> Any:
    """A path as JAX arrays. Raises ValueError if it does not fit the network."""
    leaves, expected = jax.tree.leaves(path), jax.tree.leaves(like)
    lengths = {np.shape(leaf)[:1] for leaf in leaves}
    same = jax.tree.structure(path) == jax.tree.structure(like)
    if not same or len(lengths) != 1 or any(np.shape(a)[1:] != b.shape for a, b in zip(leaves, expected, strict=True)):
        raise ValueError(
            f"paths[{name!r}] does not fit the network, expected parameters such as net.init(key) makes, with an axis"
            " of models in front: jax.tree.map(lambda *p: jnp.stack(p), *models)."
        )
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), path, like)


def _dot(tree: Any, direction: Any) -> Array:
    """The inner product over all parameters. `tree` may have more axes in front."""
    products = jax.tree.map(lambda d, e: jnp.tensordot(d, e, e.ndim, precision="highest"), tree, direction)
    return _total(products)


def _norm(tree: Any) -> Array:
    return jnp.sqrt(_dot(tree, tree))


def _without(tree: Any, direction: Any) -> Any:
    """The part of a tree that is orthogonal to a direction of length 1."""
    along = _dot(tree, direction)
    return jax.tree.map(lambda a, e: a - along * e, tree, direction)


def _scaled(tree: Any, factor: Array) -> Any:
    return jax.tree.map(lambda a: a * factor, tree)


def _total(tree: Any) -> Array:
    return jnp.asarray(sum(jax.tree.leaves(tree)))
