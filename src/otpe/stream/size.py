"""Does a learner fit into memory? Counted before it is made."""

from functools import lru_cache, partial
from math import prod

import jax
import jax.numpy as jnp

from otpe import memory
from otpe.stream.programs import How, start


def check(how: How) -> None:
    """ValueError with a sentence if what the learner remembers cannot fit."""
    units, *hidden, classes = (
        prod(shape) for shape in (how.net.layers[0].in_shape, *(n.out_shape for n in how.net.layers))
    )
    given = {"hidden": tuple(hidden), "units": units, "classes": classes}
    memory.refuse_more("what the learner remembers", _remembered(how), given)


@lru_cache(maxsize=64)
def _remembered(how: How) -> int:
    params = jax.eval_shape(lambda: how.net.init(jax.random.key(0), jnp.float32))
    return memory.size(jax.eval_shape(partial(start, how), params))
