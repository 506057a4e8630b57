"""Elementwise recurrences as one GPU kernel: each thread loops over all time steps with its carry in registers.

The arrays of a step broadcast to one shape. Each number of this shape is a lane. Lanes are independent, so they are
stored flat and divided into blocks, for arrays of any shape. If an array has fewer numbers than there are lanes (one
per sample, or one for all), each lane reads the number that broadcasting would give it. Lanes past the end repeat the
last lane's work, so they write the same value to the same place.

Memory sets the speed limit: each input is read once and each output is written once. A kernel loads the inputs of
several steps before it uses the first of them, so that many loads run at the same time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.extend.core import jaxpr_as_fun

from otpe.scan.parts import Parts, Stacked, carry_shapes, leaves, step_shapes

UNROLL = 10  # number of steps whose inputs are loaded together
INTERPRETED_UNROLL = 2  # interpreted kernels take long to compile
BLOCK = 128  # lanes of one program, one per thread
PROGRAMS = 264  # two for each multiprocessor of a large GPU; blocks get smaller if there would be fewer programs


_NOT_ELEMENTWISE = ("reduce_", "cum", "arg", "dot_general", "conv_general", "sort", "gather", "scatter", "iota", "rev")


def kernel(
    step: Any, fixed: Any, carry: Any, xs: Any, *, reverse: bool = False, replaced: int = 0, interpret: bool = False
) -> "Kernel | NoKernel":
    """The kernel of a step, or the reason why it has none: see `otpe.scan.recur`.

    A step has no kernel if it closes over arrays, such as the trained slope of a surrogate; if it is not elementwise;
    or if it uses a function or a 16-bit type that kernels do not support. `interpret` runs the kernel as ordinary JAX
    on any device, for tests. The first `replaced` outputs overwrite the first `replaced` arrays of `xs`.
    """
    steps, x_0 = jax.tree.leaves(xs)[0].shape[0], step_shapes(xs)
    carry_0 = carry_shapes(step, fixed, carry, x_0)
    program, (_, y_0) = jax.make_jaxpr(step, return_shape=True)(fixed, carry_0, x_0)
    if program.consts:
        return NoKernel("it uses an array from outside of it, such as a learned slope of a surrogate")
    if (operation := _mixing_operation(program.jaxpr)) is not None:
        return NoKernel(f"it uses {operation!r}, in which neurons see each other")
    lanes = np.broadcast_shapes(*(a.shape for a in jax.tree.leaves((fixed, carry_0, x_0, y_0))))
    count = math.prod(lanes)
    block = _block(count)
    if replaced and count % block:
        block = 32  # one warp runs in lockstep: a lane past the end must not read what the last lane has replaced
    slots = [
        _slots((fixed, carry), lanes),
        _slots(x_0, lanes, steps),
        _slots(carry_0, lanes),
        _slots(y_0, lanes, steps),
    ]
    in_block = jax.tree.map(lambda a: jax.ShapeDtypeStruct((block,), a.dtype), (fixed, carry, x_0))
    try:
        result = Kernel(
            _Step.of(step, in_block), *(tuple(each) for each, _ in slots), trees=tuple(tree for _, tree in slots),
            steps=steps, count=count, block=block, unroll=INTERPRETED_UNROLL if interpret else UNROLL, reverse=reverse,
            replaced=replaced, interpret=interpret,
        )  # fmt: skip
        if not interpret:
            _try_to_lower(result.of_one_step())
    except Exception as error:  # what a kernel does not support raises errors of many types
        if interpret:
            raise
        return NoKernel(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}")
    return result


class NoKernel(NamedTuple):
    """The reason why a step has no kernel."""

    reason: str


@lru_cache(maxsize=1024)
def _try_to_lower(kernel: "Kernel") -> None:
    arguments = [jax.ShapeDtypeStruct(slot.memory, slot.dtype) for slot in kernel.before + kernel.incoming]
    jax.jit(kernel).trace(*arguments).lower(lowering_platforms=("cuda",))


def _mixing_operation(jaxpr: Any) -> str | None:
    """The name of the first operation that is not elementwise, or None."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name.startswith(_NOT_ELEMENTWISE) and name != "reduce_precision":
            return name
        inner = (getattr(value, "jaxpr", None) for value in equation.params.values())
        nested = next((f for j in inner if j is not None and (f := _mixing_operation(getattr(j, "jaxpr", j)))), None)
        if nested is not None:
            return nested
    return None


@dataclass(frozen=True)
class _Step:
    """The function of a kernel for one block of lanes. Two are equal if program text and name are equal."""

    text: str
    name: str
    jaxpr: Any = field(compare=False)
    tree: Any = field(compare=False)  # structure of the outputs

    @classmethod
    def of(cls, step: Any, arguments: Any) -> "_Step":
        jaxpr, out = jax.make_jaxpr(step, return_shape=True)(*arguments)
        return cls(str(jaxpr), step.__name__, jaxpr, jax.tree.structure(out))

    def __call__(self, *arguments: Any) -> Any:
        return jax.tree.unflatten(self.tree, jaxpr_as_fun(self.jaxpr)(*jax.tree.leaves(arguments)))


@dataclass(frozen=True)
class Kernel:
    """A step for all lanes and times. Equal kernels are traced and compiled once."""

    step: _Step
    before: tuple["_Slot", ...]  # `fixed` and the carry before the first step
    incoming: tuple["_Slot", ...]  # `xs`
    after: tuple["_Slot", ...]  # the carry after the last step
    outgoing: tuple["_Slot", ...]  # the outputs of all steps
    trees: tuple[Any, ...]  # structure of each of these four
    steps: int
    count: int  # lanes
    block: int
    unroll: int
    reverse: bool
    replaced: int
    interpret: bool

    def run(self, fixed: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
        """The carry after the last step, and the outputs of all steps."""
        inputs = zip(self.before + self.incoming, (*leaves((fixed, carry))[0], *leaves(xs)[0]), strict=True)
        results = _run(self, *(slot.flatten(a) for slot, a in inputs))
        whole = [slot.restore(r) for slot, r in zip(self.after + self.outgoing, results, strict=True)]
        carry, ys = whole[: len(self.after)], whole[len(self.after) :]
        return jax.tree.unflatten(self.trees[2], carry), jax.tree.unflatten(self.trees[3], ys)

    def of_one_step(self) -> "Kernel":
        """The same kernel for one step. If it can be lowered, the kernel for all steps can be lowered too."""
        incoming, outgoing = (tuple(replace(s, steps=1) for s in slots) for slots in (self.incoming, self.outgoing))
        return replace(self, incoming=incoming, outgoing=outgoing, steps=1)

    def __call__(self, *arrays: Array) -> list[Array]:
        return pl.pallas_call(
            self._walk,
            out_shape=[jax.ShapeDtypeStruct(slot.memory, slot.dtype) for slot in self.after + self.outgoing],
            grid=(pl.cdiv(self.count, self.block),),
            interpret=self.interpret,
            name=self.step.name,
            input_output_aliases={len(self.before) + k: len(self.after) + k for k in range(self.replaced)},
            compiler_params=triton.CompilerParams(num_warps=max(1, self.block // 32), num_stages=1),
        )(*arrays)

    def _walk(self, *refs: Any) -> None:
        """Run one block of lanes through all steps."""
        lane = pl.program_id(0) * self.block + jnp.arange(self.block)
        if self.count % self.block:
            lane = jnp.minimum(lane, self.count - 1)
        remaining, (before_tree, in_tree, *_) = iter(refs), self.trees
        before_refs, x_refs, after_refs, y_refs = (
            [next(remaining) for _ in slots] for slots in (self.before, self.incoming, self.after, self.outgoing)
        )
        fixed, state = jax.tree.unflatten(before_tree, _load(self.before, before_refs, lane))

        def run_steps(start: Any, length: int, state: Any) -> Any:
            times = [self.steps - 1 - start - k if self.reverse else start + k for k in range(length)]
            loaded = [jax.tree.unflatten(in_tree, _load(self.incoming, x_refs, lane, t)) for t in times]
            for t, x_t in zip(times, loaded, strict=True):
                state, y_t = self.step(fixed, state, x_t)
                _store(self.outgoing, y_refs, y_t, lane, t)
            return state

        unroll, rounds = self.unroll, self.steps // self.unroll
        if rounds:
            state = jax.lax.fori_loop(0, rounds, lambda k, state: run_steps(k * unroll, unroll, state), state)
        state = run_steps(rounds * unroll, self.steps % unroll, state)
        _store(self.after, after_refs, state, lane)


@partial(jax.jit, static_argnums=0)
def _run(kernel: Kernel, *arrays: Array) -> list[Array]:
    """A jitted call, so that the surrounding program contains the kernel once, for any number of calls."""
    return kernel(*arrays)


@dataclass(frozen=True)
class _Slot:
    """Where the lanes read and write their numbers of one array."""

    shape: tuple[int, ...]  # at one step, without parts; broadcasts to the shape of the lanes
    lanes: tuple[int, ...]
    dtype: Any
    steps: int | None  # None for an array without a time axis
    parts: int | None  # None for a plain array

    @property
    def memory(self) -> tuple[int, ...]:
        """The shape of the array as the kernel sees it: flat, except for the time axis."""
        size = math.prod(self.shape) * (self.parts or 1)
        return (size,) if self.steps is None else (self.steps, size)

    def flatten(self, a: Any) -> Array:
        """The array in the shape that the kernel sees."""
        return jnp.reshape(a.array if isinstance(a, Stacked) else a, self.memory)

    def restore(self, a: Array) -> Any:
        """The inverse of `flatten`."""
        time = () if self.steps is None else (self.steps,)
        if self.parts is None:
            return a.reshape(*time, *self.shape)
        return Stacked(a.reshape(*time, self.shape[0], self.parts, *self.shape[1:]))

    def load(self, ref: Any, lane: Array, *t: Any) -> Any:
        if self.parts is None:
            return ref[(*t, self._index(lane))]
        return Parts(tuple(ref[(*t, self._index_of_part(lane, k))] for k in range(self.parts)))

    def store(self, ref: Any, value: Any, lane: Array, *t: Any) -> None:
        if self.parts is None:
            ref[(*t, self._index(lane))] = value
            return
        for k, part in enumerate(value.arrays):
            ref[(*t, self._index_of_part(lane, k))] = part

    def _index(self, lane: Array) -> Array:
        """The position of each lane's number in the flat array."""
        if self.shape == self.lanes:
            return lane
        index, stride, inner = jnp.zeros_like(lane), 1, 1
        shape = (1,) * (len(self.lanes) - len(self.shape)) + self.shape
        for size, full in zip(reversed(shape), reversed(self.lanes), strict=True):
            if size > 1:
                index += lane // inner % full * stride
            stride, inner = stride * size, inner * full
        return index

    def _index_of_part(self, lane: Array, part: int) -> Array:
        """The position of each lane's number of one part. The axis of parts is the second: [B, parts, *out]."""
        row = math.prod(self.shape[1:])
        return lane + lane // row * (row * ((self.parts or 1) - 1)) + part * row


def _slots(tree: Any, lanes: tuple[int, ...], steps: int | None = None) -> tuple[list[_Slot], Any]:
    """A slot for each array of a tree, and the structure of the tree."""
    arrays, structure = leaves(tree)
    slots = []
    for a in arrays:
        parts = len(a.arrays) if isinstance(a, Parts) else None
        array = a.arrays[0] if isinstance(a, Parts) else a
        slots.append(_Slot(array.shape, lanes, array.dtype, steps, parts))
    return slots, structure


def _load(slots: Sequence[_Slot], refs: list[Any], lane: Array, *t: Any) -> list[Any]:
    return [slot.load(ref, lane, *t) for slot, ref in zip(slots, refs, strict=True)]


def _store(slots: Sequence[_Slot], refs: list[Any], values: Any, lane: Array, *t: Any) -> None:
    for slot, ref, value in zip(slots, refs, leaves(values)[0], strict=True):
        slot.store(ref, value, lane, *t)


def _block(count: int) -> int:
    """The number of lanes per block, smaller if there would be fewer than `PROGRAMS` blocks."""
    block = BLOCK
    while block > 32 and count < block * PROGRAMS:
        block //= 2
    return block
