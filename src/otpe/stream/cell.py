"""The state of a learner, replaced as a whole: an exception at any moment leaves the old state or the new one.

A program takes over the arrays of the learner's memory and returns new ones. JAX calls this donation. It avoids a copy,
but an interrupt between the call and the assignment of its result would lose both: the old arrays are deleted, and the
new ones have no name. Python raises interrupts only while it runs Python code, never inside a function written in C. So
a single C function makes the call and stores the result: `deque.extend`, which pulls it out of `map` and `zip`.

Three more things would run Python code there. (1) A NamedTuple is made in Python, so programs return plain tuples.
(2) Random keys, which some optimizers hold, are made in Python too, so programs take and return their numbers.
(3) The first call with new shapes compiles the program in Python, so it gets a copy of the memory.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp

from otpe.lab.runs import checkpoint

Memory = TypeVar("Memory")
Host = TypeVar("Host")


class Program:
    """A function `memory, *arrays -> memory, output` that takes over the arrays of the memory.

    It is compiled when it is first called. Then it takes the plain leaves of the memory, and returns tuples. `like` is
    the memory, or its shapes and types.
    """

    def __init__(self, function: Callable[..., Any], like: Any) -> None:
        self.function, self.like = function, like
        self.compiled: dict[tuple[Any, ...], Any] = {}  # by the shapes of the arrays, after the first successful call

    def jitted(self) -> Any:
        """Return a new function for the first call.

        After an interrupted first call, JAX would never use its fast path in C for the same function again.
        """

        def on_leaves(leaves: tuple[Any, ...], *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            memory, output = self.function(from_leaves(self.like, leaves), *arrays)
            return plain_leaves(memory), tuple(output)

        return jax.jit(on_leaves, donate_argnums=0)


def plain_leaves(memory: Any) -> tuple[Any, ...]:
    """Return the leaves of the memory, with numbers in place of random keys."""
    return tuple(map(checkpoint.numbers, jax.tree.leaves(memory)))


def from_leaves(like: Any, leaves: tuple[Any, ...]) -> Any:
    """Return the memory for the output of `plain_leaves`."""
    known, structure = jax.tree.flatten(like)
    pairs = zip(leaves, known, strict=True)
    return jax.tree.unflatten(structure, [a if a.dtype == b.dtype else checkpoint.like_leaf(a, b) for a, b in pairs])


class Cell(Generic[Memory, Host]):
    """Holds the memory on the device and the part of the state on the host. Both change together."""

    def __init__(self, memory: Memory, host: Host) -> None:
        self._like = jax.eval_shape(lambda same: same, memory)
        self._content: deque[Any] = deque(maxlen=1)  # ((leaves of the memory, output of the last program), host)
        self.replace(memory, host)

    @property
    def leaves(self) -> tuple[Any, ...]:
        return self._content[0][0][0]

    @property
    def memory(self) -> Memory:
        return from_leaves(self._like, self.leaves)

    @property
    def host(self) -> Host:
        return self._content[0][1]

    def replace(self, memory: Memory, host: Host) -> None:
        self._content.append(((plain_leaves(memory), ()), host))

    def run(self, program: Program, *arrays: Any, host: Host) -> tuple[Any, ...]:
        """Run the program and return its output. Its new memory and `host` replace the old ones together."""
        leaves, shapes = self.leaves, tuple([array.shape for array in arrays])
        compiled = program.compiled.get(shapes)
        if compiled is None:
            compiled, leaves = program.jitted(), tuple(map(jnp.copy, leaves))
        self._content.extend(zip(map(compiled, (leaves,), *[(array,) for array in arrays]), (host,), strict=False))
        program.compiled[shapes] = compiled
        return self._content[0][0][1]
