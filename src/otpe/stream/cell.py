"""The state of a learner, replaced as a whole: an exception at any moment leaves the old state or the new one.

A program takes over the arrays of the learner's memory and returns new ones (JAX calls this donation: it saves a copy).
An interrupt between the call and the assignment of its result would leave neither: the old arrays are deleted, the new
ones are lost. Python raises interrupts only while it runs Python code, never inside a function written in C. So a
single C function makes the call and stores the result: `deque.extend`, which pulls it out of `map` and `zip`.

Three more places would run Python code there. Programs return plain tuples, because a NamedTuple is made in Python.
Random keys, which some optimizers keep, are made in Python too: programs take and return the numbers in them. And the
first call with new shapes compiles the program, in Python: it gets a copy of the memory.
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
    """A function `memory, *arrays -> memory, output` that takes over the arrays of the memory, compiled when first run.

    Compiled, it sees the plain leaves of the memory, and returns tuples. `like`: the memory, or its shapes and types.
    """

    def __init__(self, function: Callable[..., Any], like: Any) -> None:
        self.function, self.like = function, like
        self.compiled: dict[tuple[Any, ...], Any] = {}  # by the shapes of the arrays, once a call has succeeded

    def jitted(self) -> Any:
        """A new one each time: JAX never takes its fast path again for one whose first call was interrupted."""

        def flat(leaves: tuple[Any, ...], *arrays: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            memory, output = self.function(whole(self.like, leaves), *arrays)
            return plain(memory), tuple(output)

        return jax.jit(flat, donate_argnums=0)


def plain(memory: Any) -> tuple[Any, ...]:
    """Its leaves, with numbers in place of random keys."""
    return tuple(map(checkpoint.numbers, jax.tree.leaves(memory)))


def whole(like: Any, leaves: tuple[Any, ...]) -> Any:
    """The memory that `plain` took apart."""
    known, structure = jax.tree.flatten(like)
    pairs = zip(leaves, known, strict=True)
    return jax.tree.unflatten(structure, [a if a.dtype == b.dtype else checkpoint.like_leaf(a, b) for a, b in pairs])


class Cell(Generic[Memory, Host]):
    """Holds the memory on the device and what belongs to it on the host. Both change together."""

    def __init__(self, memory: Memory, host: Host) -> None:
        self._like = jax.eval_shape(lambda same: same, memory)
        self._only: deque[Any] = deque(maxlen=1)  # ((leaves of the memory, output of the last program), host)
        self.replace(memory, host)

    @property
    def leaves(self) -> tuple[Any, ...]:
        return self._only[0][0][0]

    @property
    def memory(self) -> Memory:
        return whole(self._like, self.leaves)

    @property
    def host(self) -> Host:
        return self._only[0][1]

    def replace(self, memory: Memory, host: Host) -> None:
        self._only.append(((plain(memory), ()), host))

    def run(self, program: Program, *arrays: Any, host: Host) -> tuple[Any, ...]:
        """Replace the memory by what the program makes of it, and the host's part by this. Returns the output."""
        leaves, shapes = self.leaves, tuple([array.shape for array in arrays])
        compiled = program.compiled.get(shapes)
        if compiled is None:
            compiled, leaves = program.jitted(), tuple(map(jnp.copy, leaves))
        self._only.extend(zip(map(compiled, (leaves,), *[(array,) for array in arrays]), (host,), strict=False))
        program.compiled[shapes] = compiled
        return self._only[0][0][1]
