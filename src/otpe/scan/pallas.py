"""Elementwise recurrences as one GPU kernel: each thread walks all time steps with its carry in registers.

Every number of the carry is a lane. Lanes never talk to each other, so they are laid out flat and cut into blocks, and
any shape will do. An array that is smaller than the lanes (one number per sample, or one for all) is read by each lane
where broadcasting would put it. Lanes beyond the last do the work of the last one over again: the same value,
written to the same place.

Memory is the floor: each input is read once, each output written once. The inputs of several steps are loaded before
the first of them is used, so that many loads are under way at a time.
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

from otpe.scan.parts import Parts, Stacked, leaves, one_step, settled

UNROLL = 10  # steps whose inputs are loaded together
INTERPRETED_UNROLL = 2  # what interprets a kernel takes long to compile
BLOCK = 128  # lanes of one program, one per thread
PROGRAMS = 264  # rather smaller blocks than fewer programs: two for each multiprocessor of a large GPU


_NOT_ELEMENTWISE = ("reduce_", "cum", "arg", "dot_general", "conv_general", "sort", "gather", "scatter", "iota", "rev")


def kernel(
    step: Any, fixed: Any, carry: Any, xs: Any, *, reverse: bool = False, replaced: int = 0, interpret: bool = False
) -> "Kernel | NoKernel":
    """The kernel of a step, or why there is none: see `otpe.scan.recur`.

    There is none if the step closes over arrays, such as the learned slope of a surrogate; if its lanes talk to each
    other, which they should not; or if it uses a function, or a 16-bit type, that kernels do not know. `interpret` runs
    it as ordinary JAX, on any device, to test it. The first `replaced` outputs take the place of as many arrays in
    `xs`.
    """
    steps, x_0 = jax.tree.leaves(xs)[0].shape[0], one_step(xs)
    carry_0 = settled(step, fixed, carry, x_0)
    whole, (_, y_0) = jax.make_jaxpr(step, return_shape=True)(fixed, carry_0, x_0)
    if whole.consts:
        return NoKernel("it uses an array from outside of it, such as a learned slope of a surrogate")
    if (mixing := _mixing(whole.jaxpr)) is not None:
        return NoKernel(f"it uses {mixing!r}, in which neurons see each other")
    lanes = np.broadcast_shapes(*(a.shape for a in jax.tree.leaves((fixed, carry_0, x_0, y_0))))
    count = math.prod(lanes)
    block = _block(count)
    if replaced and count % block:
        block = 32  # one warp, in step: a lane that repeats another's work must not find it done
    slots = [
        _slots((fixed, carry), lanes),
        _slots(x_0, lanes, steps),
        _slots(carry_0, lanes),
        _slots(y_0, lanes, steps),
    ]
    in_block = jax.tree.map(lambda a: jax.ShapeDtypeStruct((block,), a.dtype), (fixed, carry, x_0))
    try:
        made = Kernel(
            _Step.of(step, in_block), *(tuple(each) for each, _ in slots), trees=tuple(tree for _, tree in slots),
            steps=steps, count=count, block=block, unroll=INTERPRETED_UNROLL if interpret else UNROLL, reverse=reverse,
            replaced=replaced, interpret=interpret,
        )  # fmt: skip
        if not interpret:
            _try_to_lower(made.of_one_step())
    except Exception as error:  # each missing piece fails in its own way
        if interpret:
            raise
        return NoKernel(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}")
    return made


class NoKernel(NamedTuple):
    """There is no kernel for a step."""

    reason: str


@lru_cache(maxsize=1024)
def _try_to_lower(kernel: "Kernel") -> None:
    arguments = [jax.ShapeDtypeStruct(slot.memory, slot.dtype) for slot in kernel.before + kernel.incoming]
    jax.jit(kernel).trace(*arguments).lower(lowering_platforms=("cuda",))


def _mixing(jaxpr: Any) -> str | None:
    """An operation that is not elementwise, if there is one."""
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name.startswith(_NOT_ELEMENTWISE) and name != "reduce_precision":
            return name
        inner = (getattr(value, "jaxpr", None) for value in equation.params.values())
        found = next((f for j in inner if j is not None and (f := _mixing(getattr(j, "jaxpr", j)))), None)
        if found is not None:
            return found
    return None


@dataclass(frozen=True)
class _Step:
    """What is done with one block of lanes. Equal to every other that does the same, whichever function said it."""

    text: str
    name: str
    jaxpr: Any = field(compare=False)
    tree: Any = field(compare=False)  # of what comes out

    @classmethod
    def of(cls, step: Any, given: Any) -> "_Step":
        jaxpr, out = jax.make_jaxpr(step, return_shape=True)(*given)
        return cls(str(jaxpr), step.__name__, jaxpr, jax.tree.structure(out))

    def __call__(self, *given: Any) -> Any:
        return jax.tree.unflatten(self.tree, jaxpr_as_fun(self.jaxpr)(*jax.tree.leaves(given)))


@dataclass(frozen=True)
class Kernel:
    """A step for all lanes and times. Equal ones are traced and compiled once."""

    step: _Step
    before: tuple["_Slot", ...]
    incoming: tuple["_Slot", ...]
    after: tuple["_Slot", ...]
    outgoing: tuple["_Slot", ...]
    trees: tuple[Any, ...]  # of each of these
    steps: int
    count: int  # lanes
    block: int
    unroll: int
    reverse: bool
    replaced: int
    interpret: bool

    def run(self, fixed: Any, carry: Any, xs: Any) -> tuple[Any, Any]:
        """The carry after the last step, and what came out of each."""
        given = zip(self.before + self.incoming, (*leaves((fixed, carry))[0], *leaves(xs)[0]), strict=True)
        results = _run(self, *(slot.flatten(a) for slot, a in given))
        whole = [slot.restore(r) for slot, r in zip(self.after + self.outgoing, results, strict=True)]
        carry, ys = whole[: len(self.after)], whole[len(self.after) :]
        return jax.tree.unflatten(self.trees[2], carry), jax.tree.unflatten(self.trees[3], ys)

    def of_one_step(self) -> "Kernel":
        """Which shows all that there is in it."""
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
        """One block of lanes through all steps."""
        lane = pl.program_id(0) * self.block + jnp.arange(self.block)
        if self.count % self.block:
            lane = jnp.minimum(lane, self.count - 1)
        given, (before_tree, in_tree, *_) = iter(refs), self.trees
        before_refs, x_refs, after_refs, y_refs = (
            [next(given) for _ in slots] for slots in (self.before, self.incoming, self.after, self.outgoing)
        )
        fixed, state = jax.tree.unflatten(before_tree, _load(self.before, before_refs, lane))

        def stretch(start: Any, length: int, state: Any) -> Any:
            times = [self.steps - 1 - start - k if self.reverse else start + k for k in range(length)]
            loaded = [jax.tree.unflatten(in_tree, _load(self.incoming, x_refs, lane, t)) for t in times]
            for t, x_t in zip(times, loaded, strict=True):
                state, y_t = self.step(fixed, state, x_t)
                _store(self.outgoing, y_refs, y_t, lane, t)
            return state

        unroll, rounds = self.unroll, self.steps // self.unroll
        if rounds:
            state = jax.lax.fori_loop(0, rounds, lambda k, state: stretch(k * unroll, unroll, state), state)
        state = stretch(rounds * unroll, self.steps % unroll, state)
        _store(self.after, after_refs, state, lane)


@partial(jax.jit, static_argnums=0)
def _run(kernel: Kernel, *arrays: Array) -> list[Array]:
    """A program of its own: it stands once in the program around it, however often it is called."""
    return kernel(*arrays)


@dataclass(frozen=True)
class _Slot:
    """Where the lanes find their numbers of one array."""

    shape: tuple[int, ...]  # at one step, without parts; broadcasts to that of the lanes
    lanes: tuple[int, ...]
    dtype: Any
    steps: int | None  # None for an array without a time axis
    parts: int | None  # None for a plain array

    @property
    def memory(self) -> tuple[int, ...]:
        """Its shape as the kernel sees it: flat, time aside."""
        size = math.prod(self.shape) * (self.parts or 1)
        return (size,) if self.steps is None else (self.steps, size)

    def flatten(self, a: Any) -> Array:
        return jnp.reshape(a.array if isinstance(a, Stacked) else a, self.memory)

    def restore(self, a: Array) -> Any:
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
        """Parts lie behind the first axis: [B, parts, *out]."""
        row = math.prod(self.shape[1:])
        return lane + lane // row * (row * ((self.parts or 1) - 1)) + part * row


def _slots(tree: Any, lanes: tuple[int, ...], steps: int | None = None) -> tuple[list[_Slot], Any]:
    arrays, structure = leaves(tree)
    slots = []
    for a in arrays:
        parts = len(a.arrays) if isinstance(a, Parts) else None
        like = a.arrays[0] if isinstance(a, Parts) else a
        slots.append(_Slot(like.shape, lanes, like.dtype, steps, parts))
    return slots, structure


def _load(slots: Sequence[_Slot], refs: list[Any], lane: Array, *t: Any) -> list[Any]:
    return [slot.load(ref, lane, *t) for slot, ref in zip(slots, refs, strict=True)]


def _store(slots: Sequence[_Slot], refs: list[Any], values: Any, lane: Array, *t: Any) -> None:
    for slot, ref, value in zip(slots, refs, leaves(values)[0], strict=True):
        slot.store(ref, value, lane, *t)


def _block(count: int) -> int:
    block = BLOCK
    while block > 32 and count < block * PROGRAMS:
        block //= 2
    return block
