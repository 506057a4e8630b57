"""One object for all optimizers that compute the same, as `sys.intern` gives one object for equal strings.

JAX compiles once for each optimizer object. An optimizer of optax is a pair of functions, so two with equal settings
are different objects: with `optax.adamax(1e-3)` inside a loop, JAX would compile in every iteration. Here two
optimizers are the same if JAX traces both to the same program, which takes milliseconds, once for each new object.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import jax
import optax
from jax.extend.core import ClosedJaxpr

from otpe.training.optimizer import OPTIMIZERS, Optimizer

MOST = 256  # optimizer objects to remember


@dataclass(frozen=True, eq=False)
class Interned:
    """An optimizer for parameters of given shapes. It is equal only to itself."""

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]  # takes the loss as `value`, which some optimizers need
    params: Any  # shapes and types of the parameters
    state: Any  # those of its state
    program: str  # text of the traced program
    traced: tuple[ClosedJaxpr, ClosedJaxpr]  # keeps functions alive, since the text may contain their addresses


_of_object: dict[Any, tuple[Any, Interned]] = {}  # the object is stored too, so that no other object gets its id
_of_program: WeakValueDictionary[Any, Interned] = WeakValueDictionary()  # entries live while compiled programs use them


def interned(optimizer: Any, params: Any) -> Interned:
    """Return the one object for all optimizers that compute the same for parameters of these shapes and types.

    An optimizer that contains arrays or tracers is equal only to itself.
    """
    if isinstance(optimizer, Optimizer):
        optimizer = optimizer.transformation()
    leaves, structure = jax.tree.flatten(params)
    shapes = (structure, *((leaf.shape, leaf.dtype) for leaf in leaves), jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    key = (id(optimizer), shapes)
    found = _of_object.get(key)
    if found is None:
        if len(_of_object) >= MOST:
            _of_object.pop(next(iter(_of_object)), None)
        found = _of_object[key] = optimizer, _interned(optimizer, params, shapes)
    return found[1]


def _interned(optimizer: Any, params: Any, shapes: Any) -> Interned:
    found = _trace(optimizer, params)
    if any(jaxpr.consts for jaxpr in found.traced) or "[...]" in found.program:  # the text does not show arrays
        return found
    return _of_program.setdefault((shapes, jax.tree.structure(found.state), found.program), found)


def _trace(optimizer: Any, params: Any) -> Interned:
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    update = optax.with_extra_args_support(optimizer).update
    init, state = jax.make_jaxpr(optimizer.init, return_shape=True)(like)
    loss = jax.ShapeDtypeStruct((), jax.tree.leaves(like)[0].dtype)
    step, after = jax.make_jaxpr(lambda *args: update(*args[:3], value=args[3]), return_shape=True)(
        like, state, like, loss
    )
    text = f"{init}\n{step}\n{jax.tree.structure(after)}"
    return Interned(optimizer.init, update, like, state, text, (init, step))


# --------------------
# The name of an optimizer of optax, for files.

RATE = 0.123  # a learning rate that differs from all other numbers in these optimizers


def recognise(optimizer: Any, params: Any) -> Optimizer | None:
    """Return an optimizer of optax by name, if only its learning rate was set. Returns None for any other."""
    return optimizer if isinstance(optimizer, Optimizer) else _recognised(interned(optimizer, params))


@lru_cache(maxsize=64)
def _recognised(given: Interned) -> Optimizer | None:
    params, number = given.params, jax.tree.leaves(given.params)[0].dtype.type
    for name in OPTIMIZERS:
        template = re.escape(_trace(Optimizer(name, RATE).transformation(), params).program)
        pattern = template.replace(re.escape(str(number(RATE).item())), "([.0-9e+-]+)")
        found = re.fullmatch(pattern, given.program)
        rate = float(str(number(found[1]))) if found else 0.0
        if rate > 0 and given is interned(Optimizer(name, rate), params):
            return Optimizer(name, rate)
    return None
