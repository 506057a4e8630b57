"""Checks of the arguments of public functions. Messages say what was given, what was expected, and the fix.

Shapes and types are known while JAX traces a function, so they are always checked. Values, such as NaN or the range of
labels, are only checked outside `jax.jit`: inside it they are not known, and the checks cost nothing.
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


# Networks, random keys, and single settings


def sizes(sizes: Any) -> list[int]:
    """Return the layer sizes of a dense network as a list of ints."""
    given = list(sizes) if isinstance(sizes, Sequence | np.ndarray) and not isinstance(sizes, str) else sizes
    if not (isinstance(given, list) and len(given) >= 2 and all(map(_is_count, given))):
        raise ValueError(
            f"sizes is {given!r}, expected at least two whole numbers above 0, from input to output,"
            " such as [700, 512, 512, 20]."
        )
    return [int(n) for n in given]


def network(net: Any) -> None:
    """Raise TypeError if this is not a network."""
    if not (hasattr(net, "layers") and hasattr(net, "neurons")):
        raise TypeError(f"net is a {type(net).__name__}, expected a network such as otpe.dense([700, 512, 20]) makes.")


def key(key: Any) -> None:
    """Raise TypeError if this is not a random key of JAX."""
    if not isinstance(key, Array | np.ndarray):
        raise TypeError(f"key is {key!r}, expected a random key such as jax.random.key(0).")


def float_type(dtype: Any) -> Any:
    """Return the type as JAX uses it. Raises TypeError if it is not a floating-point type."""
    try:
        given = jax.dtypes.canonicalize_dtype(dtype)
    except TypeError:
        given = None
    if given is None or not jnp.issubdtype(given, jnp.floating):
        raise TypeError(f"dtype is {dtype!r}, expected a floating-point type such as 'float32'.")
    return given


def count(what: str, value: Any, most: int | None = None) -> int:
    """Return a whole number above 0, and at most `most`, as an int. `what` names it in the message."""
    if not _is_count(value) or (most is not None and value > most):
        up_to = "" if most is None else f", {most:,} at most"
        raise ValueError(f"{what} is {value!r}, expected a whole number above 0{up_to}.")
    return int(value)


def whole(what: str, value: Any, below: int) -> int:
    """Return a whole number from 0 to `below` − 1 as an int. `what` names it in the message."""
    if isinstance(value, Array | np.ndarray) and value.shape == () and jnp.issubdtype(value.dtype, jnp.integer):
        value = int(value)
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < below:
        raise ValueError(f"{what} is {value!r}, expected a whole number from 0 to {below - 1:,}.")
    return int(value)


def number(what: str, value: Any, expected: str, fits: Callable[[float], bool]) -> float:
    """Return a real number as a float if `fits` accepts it. `expected` describes the valid numbers in the message."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        fine = real and fits(float(value))
    except OverflowError:  # a whole number larger than any float
        fine = False
    if not fine:
        raise ValueError(f"{what} is {value!r}, expected {expected}.")
    return float(value)


def flag(what: str, value: object) -> None:
    """Raise TypeError if this is not True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{what} is {value!r}, expected True or False.")


def one_of(what: str, name: object, known: Iterable[str]) -> None:
    """Raise ValueError if the name is not known, and suggest the most similar name."""
    known = list(known)
    if isinstance(name, str) and name in known:
        return
    spelled = name.lower().replace("_", "-").replace(" ", "-") if isinstance(name, str) else ""
    similar = difflib.get_close_matches(spelled, known, n=1, cutoff=0.5)
    suggestion = f" Did you mean {similar[0]!r}?" if similar else ""
    raise ValueError(f"{what} {name!r} is not known.{suggestion} Expected one of: {', '.join(map(repr, known))}.")


# Parameters, states and optimizers


def params(net: Network, params: Any) -> tuple[Any, ...]:
    """Return the parameters as JAX arrays of one type. Raises ValueError if they do not fit the network."""
    network(net)
    advice = "net.init(key) makes parameters that fit."
    if not isinstance(params, tuple) or len(params) != net.depth:
        given = f"{len(params)} entries" if isinstance(params, tuple) else f"the type {type(params).__name__}"
        raise ValueError(f"params has {given}, expected a tuple of {net.depth}, one per layer. {advice}")
    for i, (given, expected) in enumerate(zip(params, _shapes_of_params(net), strict=True)):
        if jax.tree.structure(given) != jax.tree.structure(expected):
            raise ValueError(f"params[{i}] is {contents.shown(given)}, expected {_describe(expected)}. {advice}")
        for leaf, like in zip(jax.tree.leaves(given), jax.tree.leaves(expected), strict=True):
            if np.shape(leaf) != like.shape or not jnp.issubdtype(_type(leaf), jnp.floating):
                raise ValueError(f"params[{i}] is {_describe(given)}, expected {_describe(expected)}. {advice}")
    types = {_type(leaf) for leaf in jax.tree.leaves(params)}
    if len(types) > 1:
        raise ValueError(f"params mix the types {sorted(map(str, types))}, expected one type throughout. {advice}")
    (dtype,) = types
    return jax.tree.map(lambda p: jnp.asarray(p, dtype), params)  # an explicit dtype: a weak type would cause retracing


def state(state: Any, like: Any, fix: str) -> None:
    """Raise ValueError if a state differs from `like` in structure, shapes or types. `fix` says where to get one."""
    if _signature(state) != _signature(like):
        raise ValueError(f"the state has the wrong structure, shapes or types, expected {fix}.")


def optimizer(optimizer: Any) -> None:
    """Raise TypeError if this is not an optax optimizer."""
    if isinstance(optimizer, type) or not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise TypeError(
            f"optimizer is {contents.shown(optimizer)}, expected an optax optimizer such as optax.adamax(1e-3)."
        )


# Data


def spikes(net: Network, params: Any, spikes: Any, labels: Any = None) -> Array:
    """Return spikes [T, B, *in] as an array that fits the network.

    Integers and booleans of one byte keep their type. All other numbers get the type of the parameters.

    Raises ValueError if the shape does not fit the network or the labels, or if a number is not finite.
    """
    x, in_shape = _array("spikes", spikes), net.layers[0].in_shape
    expected = f"[time, batch, {', '.join(map(str, in_shape))}]"
    if x.ndim != 2 + len(in_shape):
        advice = " For a single sequence add a batch axis: spikes[:, None]." if x.ndim == 1 + len(in_shape) else ""
        raise ValueError(f"spikes have the shape {_shape(x)}, expected {expected}.{advice}")
    if x.shape[2:] != in_shape:
        raise ValueError(
            f"spikes have the shape {_shape(x)}, expected {expected}: the network has {_shape_text(in_shape)} inputs."
            + _axis_advice(x, in_shape)
        )
    for axis, name in enumerate(("time steps", "samples")):
        if x.shape[axis] == 0:
            raise ValueError(f"spikes have the shape {_shape(x)}: there are no {name}. Expected at least one.")
    label_shape = None if labels is None else _array("labels", labels).shape
    if label_shape == x.shape[:1] and x.shape[0] != x.shape[1]:
        raise ValueError(
            f"spikes have the shape {_shape(x)} and there are {x.shape[0]} labels: this looks batch-major. Expected"
            f" time first, {expected}: use spikes.swapaxes(0, 1)."
        )
    return _finite(x, _dtype(params))


def step_spikes(net: Network, params: Any, x: Any, batch: int) -> Array:
    """Return the spikes [B, *in] of one time step, checked like `spikes`."""
    x, expected = _array("spikes", x), (batch, *net.layers[0].in_shape)
    if x.shape != expected:
        raise ValueError(
            f"spikes of one time step have the shape {_shape(x)}, expected {_shape_text(expected)}: [batch, inputs],"
            " with the batch that the state was made for."
        )
    return _finite(x, _dtype(params))


def targets(net: Network, loss: Any, given: Any, batch: int, steps: int | None = None) -> Array:
    """Return the targets of the loss: labels [B] or [T, B], or real numbers [B, C] or [T, B, C].

    `steps` is None if the targets are for one time step. `loss` is an `otpe.losses.Loss`.
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
    free = int(callable(loss.function))  # a user's function may take targets of any size on the last axis
    fits = any(len(y.shape) == len(s) and y.shape[: len(s) - free] == s[: len(s) - free] for s in shapes)
    if not fits:
        raise ValueError(
            f"targets have the shape {_shape(y)}, expected {' or '.join(map(_shape_text, shapes))}: one number per"
            " output, for each sample or for each time step of each sample."
        )
    y = jnp.asarray(y)
    if not isinstance(y, Tracer) and not bool(jnp.isfinite(y).all()):
        raise ValueError("targets hold numbers that are not finite, expected finite ones.")
    return y


def outputs(net: Network) -> None:
    """Raise ValueError if the network does not give one row of outputs per sample, as losses need it."""
    shape = net.layers[-1].out_shape
    if len(shape) != 1:
        raise ValueError(
            f"the last layer gives {_shape_text(shape)} per sample, expected one row of outputs. End the network with"
            " otpe.layers.flatten() >> otpe.layers.dense(classes)."
        )


def labels(classes: int, labels: Any, batch: int, steps: int | None = None) -> Array:
    """Return labels [B], or [T, B] if `steps` is given, as integers below the number of classes."""
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
        values = np.asarray(y)
        if values.min() < 0 or values.max() >= classes:
            raise ValueError(
                f"labels run from {values.min()} to {values.max()}, expected 0 to {classes - 1}: there are {classes}"
                " outputs. Renumber the labels, or build the network with more outputs."
            )
    return jnp.asarray(y, jnp.int32)


def mask(mask: Any, steps: int, batch: int) -> Array:
    """Return a mask [T, B] that is true for the time steps of a sample and false for its padding."""
    given = _array("mask", mask)
    if given.shape != (steps, batch):
        raise ValueError(
            f"mask has the shape {_shape(given)}, expected [{steps}, {batch}]: time, batch. SpikeBatch.mask makes one."
        )
    if not isinstance(given, Tracer) and not np.asarray(given).any():
        raise ValueError("mask is false everywhere, expected at least one time step of one sample.")
    return jnp.asarray(given, bool)


def output_spikes(spikes: Any) -> Any:
    """Return outputs [T, B, classes] as an array. Raises ValueError for another number of axes."""
    s = _array("spikes", spikes)
    if s.ndim != 3:
        raise ValueError(f"spikes have the shape {_shape(s)}, expected [time, batch, classes], as net.run gives them.")
    return s


def _array(what: str, value: Any) -> Any:
    """Return a numpy or JAX array. Anything else is converted to a numpy array."""
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
    """Return the spikes as `dtype`. Raises ValueError if a number is not finite in this type.

    Integers and booleans of one byte are not converted: they are exact in any type, and callers use that.
    """
    if x.dtype.itemsize == 1 and not jnp.issubdtype(x.dtype, jnp.floating):
        return jnp.asarray(x)
    with np.errstate(over="ignore"):
        x = jnp.asarray(x, dtype)
    if isinstance(x, Tracer):
        return x
    with jax.ensure_compile_time_eval():  # inside a user's `jit`, the value of a constant is still known
        if jnp.isfinite(x).all():
            return x
    values = np.asarray(x)
    bad = np.argwhere(~np.isfinite(values))
    where = tuple(int(i) for i in bad[0])
    raise ValueError(
        f"spikes hold {float(values[where])} at {list(where)} as {x.dtype} ({len(bad)} values that are not finite),"
        " expected finite numbers. Find where they come from, or use np.nan_to_num(spikes)."
    )


def _axis_advice(x: Any, in_shape: tuple[int, ...]) -> str:
    """Return advice if another axis has the size of the input."""
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
    fields = ", ".join(f"{name}={_shape_text(np.shape(leaf))} {_type(leaf)}" for name, leaf in _named(params))
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
    return _shape_text(x.shape)


def _shape_text(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
