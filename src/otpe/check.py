"""What the front door says to bad input: what was given, what was expected, and the fix.

Shapes and types are known while JAX traces and are always checked. Values (NaN, label range) are
checked when they are there to look at, so not inside `jax.jit`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

if TYPE_CHECKING:
    from otpe.network import Network


def sizes(sizes: Sequence[int]) -> None:
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in sizes)
    if len(sizes) < 2 or not whole:
        raise ValueError(
            f"sizes is {list(sizes)!r}, expected at least two whole numbers above 0, from input to output,"
            " such as [700, 512, 512, 20]."
        )


def params(net: Network, params: Any) -> tuple[Any, ...]:
    """The parameters as JAX arrays, if they fit the network."""
    advice = "net.init(key) makes parameters that fit."
    if not isinstance(params, tuple | list) or len(params) != net.depth:
        given = f"{len(params)} entries" if isinstance(params, tuple | list) else f"a {type(params).__name__}"
        raise ValueError(f"params has {given}, expected a tuple of {net.depth}, one per layer. {advice}")
    wanted = _shapes_of_params(net)
    for i, (given, want) in enumerate(zip(params, wanted, strict=True)):
        if jax.tree.structure(given) != jax.tree.structure(want):
            raise ValueError(f"params[{i}] is a {type(given).__name__}, expected {_describe(want)}. {advice}")
        for leaf, leaf_want in zip(jax.tree.leaves(given), jax.tree.leaves(want), strict=True):
            if np.shape(leaf) != leaf_want.shape or not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
                raise ValueError(f"params[{i}] is {_describe(given)}, expected {_describe(want)}. {advice}")
    dtypes = {jnp.result_type(leaf) for leaf in jax.tree.leaves(params)}
    if len(dtypes) > 1:
        raise ValueError(f"params mix the types {sorted(map(str, dtypes))}, expected one type throughout. {advice}")
    return tuple(jax.tree.map(jnp.asarray, p) for p in params)


def spikes(net: Network, params: Any, spikes: Any, labels: Any = None) -> Array:
    """Spikes [T, B, *in] in the type of the parameters, if they fit the network (and the labels)."""
    x, in_shape = _array("spikes", spikes), net.layers[0].in_shape
    expected = f"[time, batch, {', '.join(map(str, in_shape))}]"
    if x.ndim != 2 + len(in_shape):
        advice = " For a single sequence add a batch axis: spikes[:, None]." if x.ndim == 1 + len(in_shape) else ""
        raise ValueError(f"spikes have the shape {_shape(x)}, expected {expected}.{advice}")
    if x.shape[2:] != in_shape:
        raise ValueError(
            f"spikes have the shape {_shape(x)}, expected {expected}: the network has {_shape_of(in_shape)} inputs."
            + _axis_advice(x, in_shape)
        )
    for axis, name in enumerate(("time steps", "samples")):
        if x.shape[axis] == 0:
            raise ValueError(f"spikes have the shape {_shape(x)}: there are no {name}. Expected at least one.")
    count = np.shape(labels)[0] if labels is not None and np.ndim(labels) == 1 else None
    if count is not None and x.shape[1] != count == x.shape[0]:
        raise ValueError(
            f"spikes have the shape {_shape(x)} and there are {count} labels: this looks batch-major. Expected"
            f" time first, {expected}: use spikes.swapaxes(0, 1)."
        )
    _finite(x)
    return jnp.asarray(x, _dtype(params))


def step_spikes(net: Network, params: Any, x: Any, batch: int) -> Array:
    """Spikes [B, *in] of one time step."""
    x, want = _array("spikes", x), (batch, *net.layers[0].in_shape)
    if x.shape != want:
        raise ValueError(
            f"spikes of one time step have the shape {_shape(x)}, expected {_shape_of(want)}: [batch, inputs], with"
            " the batch that the state was made for."
        )
    _finite(x)
    return jnp.asarray(x, _dtype(params))


def labels(net: Network, labels: Any, batch: int) -> Array:
    """Labels [B] as integers below the number of classes."""
    y, classes = _array("labels", labels), net.layers[-1].out_shape[-1]
    if not jnp.issubdtype(y.dtype, jnp.integer):
        advice = " For one-hot labels use labels.argmax(-1)." if y.ndim == 2 else " Use labels.astype(int)."
        raise TypeError(f"labels are of type {y.dtype}, expected whole numbers.{advice}")
    if y.shape != (batch,):
        raise ValueError(f"labels have the shape {_shape(y)}, expected [{batch}]: one label per sample.")
    if not isinstance(y, Tracer):
        with jax.ensure_compile_time_eval():
            low, high = int(y.min()), int(y.max())
        if low < 0 or high >= classes:
            raise ValueError(
                f"labels run from {low} to {high}, expected 0 to {classes - 1}: the network has {classes} outputs."
                " Renumber the labels, or build the network with more outputs."
            )
    return jnp.asarray(y)


def count(what: str, value: object) -> None:
    if not (isinstance(value, int | np.integer) and not isinstance(value, bool) and value > 0):
        raise ValueError(f"{what} is {value!r}, expected a whole number above 0.")


def one_of(what: str, name: object, known: Iterable[str]) -> None:
    """Refuse an unknown name, and suggest the nearest one."""
    known = list(known)
    if isinstance(name, str) and name in known:
        return
    spelled = name.lower().replace("_", "-").replace(" ", "-") if isinstance(name, str) else ""
    near = difflib.get_close_matches(spelled, known, n=1, cutoff=0.5)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} {name!r} is not known.{suggestion} Expected one of: {', '.join(map(repr, known))}.")


def opt_state(optimizer: Any, params: Any, state: Any) -> None:
    """The optimizer's state must have been made by it for parameters like these."""

    def shapes(tree: Any) -> Any:
        return jax.tree.structure(tree), [np.shape(leaf) for leaf in jax.tree.leaves(tree)]

    if shapes(state) != shapes(jax.eval_shape(optimizer.init, params)):
        raise ValueError(
            "opt_state does not belong to this optimizer and these params, expected what optimizer.init(params) gives."
        )


def _array(what: str, value: Any) -> Any:
    """A numpy or JAX array; anything else becomes a numpy one."""
    x = value if isinstance(value, Array | np.ndarray) else np.asarray(value)
    numeric = any(jnp.issubdtype(x.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
    if not numeric:
        raise TypeError(f"{what} are of type {x.dtype}, expected an array of real numbers.")
    return x


def _finite(x: Any) -> None:
    if isinstance(x, Tracer) or not jnp.issubdtype(x.dtype, jnp.floating):
        return
    with jax.ensure_compile_time_eval():  # a constant inside somebody's jit is still there to look at
        if jnp.isfinite(x).all():
            return
    x = np.asarray(x)
    bad = np.argwhere(~np.isfinite(x))
    where = tuple(int(i) for i in bad[0])
    raise ValueError(
        f"spikes hold {float(x[where])} at {list(where)} ({len(bad)} values that are not finite), expected finite"
        " numbers. Find where they come from, or use np.nan_to_num(spikes)."
    )


def _axis_advice(x: Any, in_shape: tuple[int, ...]) -> str:
    if len(in_shape) == 1 and in_shape[0] in x.shape[:2]:
        axis = x.shape.index(in_shape[0])
        return f" Axis {axis} has that size: use np.moveaxis(spikes, {axis}, -1), with time first."
    return ""


@lru_cache
def _shapes_of_params(net: Network) -> tuple[Any, ...]:
    return jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32))


def _describe(params: Any) -> str:
    fields = ", ".join(f"{name}={_shape_of(np.shape(leaf))} {jnp.result_type(leaf)}" for name, leaf in _named(params))
    return f"{type(params).__name__}({fields})"


def _named(params: Any) -> Iterable[tuple[str, Any]]:
    return (
        params._asdict().items()
        if hasattr(params, "_asdict")
        else ((str(i), leaf) for i, leaf in enumerate(jax.tree.leaves(params)))
    )


def _dtype(params: Any) -> Any:
    return jnp.result_type(*jax.tree.leaves(params))


def _shape(x: Any) -> str:
    return _shape_of(x.shape)


def _shape_of(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
