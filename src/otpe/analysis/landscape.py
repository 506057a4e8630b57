"""The loss around a training run: over the plane through the initial and the final model, and the ways through it."""

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
    """Through the initial model, the final one, and that of zeros. Coordinates are distances from the initial model.

    The final model is at (`distance`, 0).
    """

    origin: Any  # θ₀, the initial model
    along: Any  # e₁ = (θ_T − θ₀) / |θ_T − θ₀|
    across: Any  # e₂, of length 1: what of θ₀ is orthogonal to e₁
    distance: Array  # |θ_T − θ₀|


class Landscape(NamedTuple):
    """Heights over a plane, and where each rule went, by name."""

    at_x: Array  # [grid], towards the final model
    at_y: Array  # [grid]
    loss: Array  # [y, x]
    coordinates: dict[str, Array]  # [K, 2] each: models projected into the plane
    explained: dict[str, Array]  # [K] each: share of |θ − θ₀|² that lies in the plane; NaN at θ₀ itself


def plane(initial: Any, final: Any) -> Plane:
    """The plane of two models of the same shape."""
    found, size, rest = _spanned(*(jax.tree.map(jnp.asarray, model) for model in (initial, final)))
    if not isinstance(rest, Tracer):
        least = 10 * float(jnp.finfo(rest.dtype).eps) * float(size)
        if not float(found.distance) > least:
            raise ValueError("the final model is the initial one, expected two that differ: train it first.")
        if not float(rest) > least:
            raise ValueError(
                "the initial model is a multiple of the way to the final one, so the two span a line, expected a"
                " plane. Start from random weights: net.init(key)."
            )
    return found


@jax.jit
def _spanned(initial: Any, final: Any) -> tuple[Plane, Array, Array]:
    """The plane, and how long the initial model and its part across are, which tell whether it is one."""
    step = jax.tree.map(jnp.subtract, final, initial)
    distance = _norm(step)
    along = _scaled(step, 1 / distance)
    across = _without(_without(initial, along), along)  # twice: the first time leaves rounding behind
    rest = _norm(across)
    return Plane(initial, along, _scaled(across, 1 / rest), distance), _norm(initial), rest


def project(plane: Plane, params: Any) -> tuple[Array, Array]:
    """Coordinates [..., 2] of models in the plane, and the share [...] of |θ − θ₀|² that lies in it.

    `params` may have further axes in front. At θ₀ itself the share is NaN.
    """
    moved = jax.tree.map(jnp.subtract, params, plane.origin)
    x, y = (_dot(moved, direction) for direction in (plane.along, plane.across))
    squares = jax.tree.map(lambda d, o: jnp.square(d).sum(range(d.ndim - o.ndim, d.ndim)), moved, plane.origin)
    share = (x**2 + y**2) / _total(squares)
    return jnp.stack([x, y], -1), jnp.minimum(share, 1)  # rounding aside, it is no more than 1


def point(plane: Plane, coordinates: ArrayLike) -> Any:
    """The model at these coordinates [2]."""
    x, y = jnp.asarray(coordinates)
    return jax.tree.map(lambda o, a, b: (o + x * a + y * b).astype(o.dtype), plane.origin, plane.along, plane.across)


def surface(
    loss: Callable[[Any], Array], plane: Plane, at_x: ArrayLike, at_y: ArrayLike, *, batch_size: int | None = None
) -> Array:
    """The loss [y, x] at every point of a grid.

    `loss`: from parameters to a number. `batch_size`: points that are computed side by side, 16 by default, and one
    after the other on a CPU.
    """
    at_x, at_y = jnp.asarray(at_x), jnp.asarray(at_y)
    points = jnp.stack(jnp.meshgrid(at_x, at_y), -1).reshape(-1, 2)
    together = (None if jax.default_backend() == "cpu" else 16) if batch_size is None else batch_size
    heights = jax.lax.map(lambda at: loss(point(plane, at)), points, batch_size=together)
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
    """The loss over the plane through two models, and ways of training projected into it.

    Args:
      initial, final: parameters; in the paper, those of BPTT before and after training.
      paths: by name, parameters with an axis of models in front: one rule's way through training.
      spikes, labels, mask: what the loss is taken over, as in `otpe.gradients`.
      grid: points in each direction.
      margin: how far the window reaches beyond all paths, as a share of its longer side.
      readout: what the loss looks at: output "spikes", or their "leaky" sum.
      loss: as in `otpe.gradients`; what it says of the readout goes first.
      precision, backend: as in `otpe.gradients`.
    """
    initial, final = check.params(net, initial), check.params(net, final)
    ways = {name: _path(initial, name, path) for name, path in paths.items()}
    x = check.spikes(net, initial, spikes, labels)
    found_loss = as_loss(loss)
    y = check.targets(net, found_loss, labels, *x.shape[1::-1])
    weight = None if mask is None else check.mask(mask, *x.shape[:2])
    if check.count("grid", grid) < 2:
        raise ValueError(f"grid is {grid}, expected at least 2 points in each direction.")
    check.number("margin", margin, "a share of the window, 0 or above", lambda m: 0 <= m < float("inf"))
    check.one_of("readout", readout, get_args(Readout))
    how = engine(backend, precision, initial)
    seen = (found_loss.readout or readout, found_loss)
    found = _landscape(net, how, seen, grid, float(margin), plane(initial, final), ways, x, y, weight)
    in_order = ({name: each[name] for name in paths} for each in (found.coordinates, found.explained))  # jit sorts them
    return Landscape(*found[:3], *in_order)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _landscape(
    net: Network,
    how: Engine,
    seen: tuple[Readout, Loss],
    grid: int,
    margin: float,
    through: Plane,
    paths: dict[str, Any],
    x: Array,
    y: Array,
    mask: Array | None,
) -> Landscape:
    def loss(params: Any) -> Array:
        outputs = net.record(params, x, precision=how.precision, backend=how.backend)
        share = None if mask is None else mask.astype(outputs[-1].dtype) / mask.sum()
        readout, loss = seen
        return losses.of_outputs(net, loss, readout, outputs, y, share)

    found = {name: project(through, path) for name, path in paths.items()}
    coordinates = {name: at for name, (at, _) in found.items()}
    at_x, at_y = _window(through, coordinates, grid, margin)
    explained = {name: share for name, (_, share) in found.items()}
    return Landscape(at_x, at_y, surface(loss, through, at_x, at_y), coordinates, explained)


def _window(through: Plane, coordinates: dict[str, Array], grid: int, margin: float) -> Array:
    """Both axes [2, grid]: all of the paths, the initial and the final model."""
    ends = jnp.zeros((2, 2), through.distance.dtype).at[1, 0].set(through.distance)
    seen = jnp.concatenate([ends, *coordinates.values()])
    low, high = seen.min(0), seen.max(0)
    beyond = margin * (high - low).max()
    return jnp.linspace(low - beyond, high + beyond, grid, axis=-1)


def _path(like: Any, name: str, path: Any) -> Any:
    """Models along an axis in front, as JAX arrays."""
    given, wanted = jax.tree.leaves(path), jax.tree.leaves(like)
    lengths = {np.shape(leaf)[:1] for leaf in given}
    same = jax.tree.structure(path) == jax.tree.structure(like)
    if not same or len(lengths) != 1 or any(np.shape(a)[1:] != b.shape for a, b in zip(given, wanted, strict=True)):
        raise ValueError(
            f"paths[{name!r}] does not fit the network, expected parameters such as net.init(key) makes, with an axis"
            " of models in front: jax.tree.map(lambda *p: jnp.stack(p), *models)."
        )
    return jax.tree.map(lambda a, b: jnp.asarray(a, b.dtype), path, like)


def _dot(moved: Any, direction: Any) -> Array:
    """Over all parameters at once; `moved` may have further axes in front."""
    each = jax.tree.map(lambda d, e: jnp.tensordot(d, e, e.ndim, precision="highest"), moved, direction)
    return _total(each)


def _norm(tree: Any) -> Array:
    return jnp.sqrt(_dot(tree, tree))


def _without(tree: Any, direction: Any) -> Any:
    """What of it is orthogonal to the direction."""
    along = _dot(tree, direction)
    return jax.tree.map(lambda a, e: a - along * e, tree, direction)


def _scaled(tree: Any, factor: Array) -> Any:
    return jax.tree.map(lambda a: a * factor, tree)


def _total(tree: Any) -> Array:
    return jnp.asarray(sum(jax.tree.leaves(tree)))
