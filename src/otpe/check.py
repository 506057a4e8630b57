"""What the front door says to bad input: what was given, what was expected, and the fix.

Shapes and types are known while JAX traces and are always checked. Values (NaN, label range) are
checked when they are there to look at, so not inside `jax.jit`, where these checks cost nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from otpe import contents

if TYPE_CHECKING:
    from otpe.networks import Network


# What a network is made of


def sizes(sizes: Any) -> list[int]:
    given = list(sizes) if isinstance(sizes, Sequence | np.ndarray) and not isinstance(sizes, str) else sizes
    if not (isinstance(given, list) and len(given) >= 2 and all(map(_is_count, given))):
        raise ValueError(
            f"sizes is {given!r}, expected at least two whole numbers above 0, from input to output,"
            " such as [700, 512, 512, 20]."
        )
    return [int(n) for n in given]


def network(net: Any) -> None:
    if not (hasattr(net, "layers") and hasattr(net, "neurons")):
        raise TypeError(f"net is a {type(net).__name__}, expected a network such as otpe.dense([700, 512, 20]) makes.")


def key(key: Any) -> None:
    if not isinstance(key, Array | np.ndarray):
        raise TypeError(f"key is {key!r}, expected a random key such as jax.random.key(0).")


def float_type(dtype: Any) -> Any:
    """The type as JAX has it, if it is one for real numbers."""
    try:
        given = jax.dtypes.canonicalize_dtype(dtype)
    except TypeError:
        given = None
    if given is None or not jnp.issubdtype(given, jnp.floating):
        raise TypeError(f"dtype is {dtype!r}, expected a floating-point type such as 'float32'.")
    return given


def count(what: str, value: Any, most: int | None = None) -> int:
    if not _is_count(value) or (most is not None and value > most):
        up_to = "" if most is None else f", {most:,} at most"
        raise ValueError(f"{what} is {value!r}, expected a whole number above 0{up_to}.")
    return int(value)


def whole(what: str, value: Any, below: int) -> int:
    """0 or above, and small enough for the type it will have."""
    if isinstance(value, Array | np.ndarray) and value.shape == () and jnp.issubdtype(value.dtype, jnp.integer):
        value = int(value)
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < below:
        raise ValueError(f"{what} is {value!r}, expected a whole number from 0 to {below - 1:,}.")
    return int(value)


def number(what: str, value: Any, expected: str, fits: Callable[[float], bool]) -> float:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        fine = real and fits(float(value))
    except OverflowError:  # a whole number larger than any float
        fine = False
    if not fine:
        raise ValueError(f"{what} is {value!r}, expected {expected}.")
    return float(value)


def flag(what: str, value: object) -> None:
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} is {value!r}, expected True or False.")


def one_of(what: str, name: object, known: Iterable[str]) -> None:
    """Refuse an unknown name, and suggest the nearest one."""
    known = list(known)
    if isinstance(name, str) and name in known:
        return
    spelled = name.lower().replace("_", "-").replace(" ", "-") if isinstance(name, str) else ""
    near = difflib.get_close_matches(spelled, known, n=1, cutoff=0.5)
    suggestion = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} {name!r} is not known.{suggestion} Expected one of: {', '.join(map(repr, known))}.")


# Parameters and states


def params(net: Network, params: Any) -> tuple[Any, ...]:
    """The parameters as JAX arrays, if they fit the network."""
    network(net)
    advice = "net.init(key) makes parameters that fit."
    if not isinstance(params, tuple) or len(params) != net.depth:
        given = f"{len(params)} entries" if isinstance(params, tuple) else f"the type {type(params).__name__}"
        raise ValueError(f"params has {given}, expected a tuple of {net.depth}, one per layer. {advice}")
    for i, (given, want) in enumerate(zip(params, _shapes_of_params(net), strict=True)):
        if jax.tree.structure(given) != jax.tree.structure(want):
            raise ValueError(f"params[{i}] is {contents.shown(given)}, expected {_describe(want)}. {advice}")
        for leaf, leaf_want in zip(jax.tree.leaves(given), jax.tree.leaves(want), strict=True):
            if np.shape(leaf) != leaf_want.shape or not jnp.issubdtype(_type(leaf), jnp.floating):
                raise ValueError(f"params[{i}] is {_describe(given)}, expected {_describe(want)}. {advice}")
    types = {_type(leaf) for leaf in jax.tree.leaves(params)}
    if len(types) > 1:
        raise ValueError(f"params mix the types {sorted(map(str, types))}, expected one type throughout. {advice}")
    (dtype,) = types
    return jax.tree.map(lambda p: jnp.asarray(p, dtype), params)  # named, so that no weak type makes it trace again


def state(state: Any, like: Any, fix: str) -> None:
    """A running state must have the structure, shapes and types of `like`."""
    if _signature(state) != _signature(like):
        raise ValueError(f"the state given does not belong here, expected {fix}.")


def optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, type) or not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise TypeError(
            f"optimizer is {contents.shown(optimizer)}, expected an optax optimizer such as optax.adamax(1e-3)."
        )


# Data


def spikes(net: Network, params: Any, spikes: Any, labels: Any = None) -> Array:
    """Spikes [T, B, *in] in the type of the parameters or of one byte, if they fit the network (and the labels)."""
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
    labelled = None if labels is None else _array("labels", labels).shape
    if labelled == x.shape[:1] and x.shape[0] != x.shape[1]:
        raise ValueError(
            f"spikes have the shape {_shape(x)} and there are {x.shape[0]} labels: this looks batch-major. Expected"
            f" time first, {expected}: use spikes.swapaxes(0, 1)."
        )
    return _finite(x, _dtype(params))


def step_spikes(net: Network, params: Any, x: Any, batch: int) -> Array:
    """Spikes [B, *in] of one time step."""
    x, want = _array("spikes", x), (batch, *net.layers[0].in_shape)
    if x.shape != want:
        raise ValueError(
            f"spikes of one time step have the shape {_shape(x)}, expected {_shape_of(want)}: [batch, inputs], with"
            " the batch that the state was made for."
        )
    return _finite(x, _dtype(params))


def targets(net: Network, loss: Any, given: Any, batch: int, steps: int | None = None) -> Array:
    """What the outputs are compared with: labels [B] or [T, B], or real numbers [B, C] or [T, B, C].

    `steps` is None where only one time step is at hand. `loss` is an `otpe.losses.Loss`.
    """
    outputs(net)
    if loss.function == "membrane" and getattr(net.neurons[-1], "spiking", False):
        raise ValueError(
            f"loss is 'membrane', but the output neurons are {type(net.neurons[-1]).__name__}, which spike. Use"
            " otpe.LeakyIntegrator for the last layer, or the loss 'spikes' or 'leaky'."
        )
    y = _array("labels", given)
    if not loss.takes_reals or not jnp.issubdtype(y.dtype, jnp.floating):
        return labels(net.classes, y, batch, steps)
    shapes = [(batch, net.classes)] if steps is None else [(batch, net.classes), (steps, batch, net.classes)]
    own = callable(loss.function)
    fits = any(len(y.shape) == len(s) and y.shape[: len(s) - own] == s[: len(s) - own] for s in shapes)
    if not fits:
        raise ValueError(
            f"targets have the shape {_shape(y)}, expected {' or '.join(map(_shape_of, shapes))}: one number per"
            " output, for each sample or for each time step of each sample."
        )
    y = jnp.asarray(y)
    if not isinstance(y, Tracer) and not bool(jnp.isfinite(y).all()):
        raise ValueError("targets hold numbers that are not finite, expected finite ones.")
    return y


def outputs(net: Network) -> None:
    """A loss compares one row of outputs per sample."""
    shape = net.layers[-1].out_shape
    if len(shape) != 1:
        raise ValueError(
            f"the last layer gives {_shape_of(shape)} per sample, expected one row of outputs. End the network with"
            " otpe.layers.flatten() >> otpe.layers.dense(classes)."
        )


def labels(classes: int, labels: Any, batch: int, steps: int | None = None) -> Array:
    """Labels [B], or [T, B] where `steps` are given, as integers below the number of classes."""
    y = _array("labels", labels)
    one_hot = " For one-hot labels use labels.argmax(-1)." if y.ndim == 2 and y.shape[-1] == classes else ""
    if steps is not None and steps != batch and y.shape == (batch, steps):
        raise ValueError(
            f"labels have the shape {_shape(y)}: this looks batch-major. Expected time first, [{steps}, {batch}]: use"
            " labels.T."
        )
    if not jnp.issubdtype(y.dtype, jnp.integer):
        raise TypeError(f"labels are of type {y.dtype}, expected whole numbers.{one_hot or ' Use labels.astype(int).'}")
    if y.shape != (batch,) and (steps is None or y.shape != (steps, batch)):
        per_step = "" if steps is None else f", or [{steps}, {batch}] with one per time step"
        raise ValueError(
            f"labels have the shape {_shape(y)}, expected [{batch}]: one label per sample{per_step}.{one_hot}"
        )
    if not isinstance(y, Tracer):
        known = np.asarray(y)
        if known.min() < 0 or known.max() >= classes:
            raise ValueError(
                f"labels run from {known.min()} to {known.max()}, expected 0 to {classes - 1}: there are {classes}"
                " outputs. Renumber the labels, or build the network with more outputs."
            )
    return jnp.asarray(y, jnp.int32)


def mask(mask: Any, steps: int, batch: int) -> Array:
    """True [T, B] where a sample has time steps of its own."""
    given = _array("mask", mask)
    if given.shape != (steps, batch):
        raise ValueError(
            f"mask has the shape {_shape(given)}, expected [{steps}, {batch}]: time, batch. SpikeBatch.mask makes one."
        )
    if not isinstance(given, Tracer) and not np.asarray(given).any():
        raise ValueError("mask is false everywhere, expected at least one time step of one sample.")
    return jnp.asarray(given, bool)


def output_spikes(spikes: Any) -> Any:
    """Outputs [T, B, classes], for those who count them."""
    s = _array("spikes", spikes)
    if s.ndim != 3:
        raise ValueError(f"spikes have the shape {_shape(s)}, expected [time, batch, classes], as net.run gives them.")
    return s


def _array(what: str, value: Any) -> Any:
    """A numpy or JAX array; anything else becomes a numpy one."""
    try:
        x = value if isinstance(value, Array | np.ndarray) else np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{what} are a list whose rows differ in length, expected an array: pad them to one length."
        ) from None
    numeric = any(jnp.issubdtype(x.dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))
    if not numeric:
        raise TypeError(f"{what} are of type {x.dtype}, expected an array of real numbers.")
    return x


def _finite(x: Any, dtype: Any) -> Array:
    """The spikes in the type they are used in, and finite there: a large number may be so only in a larger type.

    Those of one byte stay as they are: whoever works with them knows that they are exact in any type.
    """
    if x.dtype.itemsize == 1 and not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.asarray(x)
    with np.errstate(over="ignore"):
        x = jnp.asarray(x, dtype)
    if isinstance(x, Tracer):
        return x
    with jax.ensure_compile_time_eval():  # a constant inside somebody's jit is still there to look at
        if jnp.isfinite(x).all():
            return x
    known = np.asarray(x)
    bad = np.argwhere(~np.isfinite(known))
    where = tuple(int(i) for i in bad[0])
    raise ValueError(
        f"spikes hold {float(known[where])} at {list(where)} as {x.dtype} ({len(bad)} values that are not finite),"
        " expected finite numbers. Find where they come from, or use np.nan_to_num(spikes)."
    )


def _axis_advice(x: Any, in_shape: tuple[int, ...]) -> str:
    if len(in_shape) == 1 and in_shape[0] in x.shape[:2]:
        axis = x.shape.index(in_shape[0])
        return f" Axis {axis} has that size: use np.moveaxis(spikes, {axis}, -1), with time first."
    return ""


@lru_cache
def _shapes_of_params(net: Network) -> tuple[Any, ...]:
    return jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32))


def _signature(tree: Any) -> Any:
    return jax.tree.structure(tree), [(np.shape(leaf), _type(leaf)) for leaf in jax.tree.leaves(tree)]


def _describe(params: Any) -> str:
    fields = ", ".join(f"{name}={_shape_of(np.shape(leaf))} {_type(leaf)}" for name, leaf in _named(params))
    return f"{type(params).__name__}({fields})"


def _named(params: Any) -> Iterable[tuple[str, Any]]:
    if hasattr(params, "_asdict"):
        return params._asdict().items()
    return ((str(i), leaf) for i, leaf in enumerate(jax.tree.leaves(params)))


def _type(leaf: Any) -> Any:
    return leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype


def _dtype(params: Any) -> Any:
    return jax.tree.leaves(params)[0].dtype


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value > 0)


def _shape(x: Any) -> str:
    return _shape_of(x.shape)


def _shape_of(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
