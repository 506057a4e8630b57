"""Elementwise recurrences as one GPU kernel: each thread walks all time steps with its carry in registers.

Every number of the carry is a lane. Lanes never talk to each other, so they are laid out flat and cut into blocks, and
any shape will do. An array that is smaller than the lanes (one number per sample, or one for all) is read by each lane
where broadcasting would put it. Lanes beyond the last do the work of the last one over again: the same value,
written to the same place.

Memory is the floor: each input is read once, each output written once. The inputs of several steps are loaded before
the first of them is used, so that many loads are under way at a time.
"""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from otpe.scan.parts import Parts, Stacked, leaves, one_step, settled

UNROLL = 10  # steps whose inputs are loaded together
INTERPRETED_UNROLL = 2  # what interprets a kernel takes long to compile
BLOCK = 128  # lanes of one program, one per thread
PROGRAMS = 264  # rather smaller blocks than fewer programs: two for each multiprocessor of a large GPU


_NOT_ELEMENTWISE = ("reduce_", "cum", "arg", "dot_general", "conv_general", "sort", "gather", "scatter", "iota", "rev")


def can_run(step: Any, fixed: Any, carry: Any, xs: Any, *, interpret: bool = False, replaced: int = 0) -> bool:
    """Is there a kernel for this step?

    Not if it closes over arrays, such as the learned slope of a surrogate; if its lanes talk to each other, which
    they should not; or if it uses a function, or a 16-bit type, that kernels do not know.
    """
    steps = jax.make_jaxpr(step)(fixed, carry, one_step(xs))
    if steps.consts or not _elementwise(steps.jaxpr):
        return False
    if interpret:
        return True
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape[1:]), a.dtype), xs)  # a step shows all there is
    like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), (fixed, carry))
    try:
        jax.jit(lambda *args: recur(step, *args, replaced=replaced)).trace(*like, one).lower(
            lowering_platforms=("cuda",)
        )
    except Exception:  # each missing piece fails in its own way
        return False
    return True


def _elementwise(jaxpr: Any) -> bool:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name.startswith(_NOT_ELEMENTWISE) and name != "reduce_precision":
            return False
        inner = (getattr(value, "jaxpr", None) for value in equation.params.values())
        if not all(_elementwise(getattr(j, "jaxpr", j)) for j in inner if j is not None):
            return False
    return True


def recur(
    step: Any,
    fixed: Any,
    carry: Any,
    xs: Any,
    *,
    reverse: bool = False,
    replaced: int = 0,
    interpret: bool = False,
) -> tuple[Any, Any]:
    """See `otpe.scan.recur`. `interpret` runs the kernel as ordinary JAX, on any device, to test it.

    The first `replaced` outputs take the place of as many arrays in `xs`.
    """
    steps, x_0 = jax.tree.leaves(xs)[0].shape[0], one_step(xs)
    carry_0 = settled(step, fixed, carry, x_0)
    _, y_0 = jax.eval_shape(step, fixed, carry_0, x_0)
    lanes = np.broadcast_shapes(*(a.shape for a in jax.tree.leaves((fixed, carry_0, x_0, y_0))))
    count = math.prod(lanes)
    block, unroll = _block(count), INTERPRETED_UNROLL if interpret else UNROLL
    if replaced and count % block:
        block = 32  # one warp, in step: a lane that repeats another's work must not find it done

    before, before_tree = _slots((fixed, carry), lanes)
    incoming, in_tree = _slots(x_0, lanes, steps)
    after, after_tree = _slots(carry_0, lanes)
    outgoing, out_tree = _slots(y_0, lanes, steps)

    def kernel(*refs: Any) -> None:
        lane = pl.program_id(0) * block + jnp.arange(block)
        if count % block:
            lane = jnp.minimum(lane, count - 1)
        given = iter(refs)
        before_refs, x_refs, after_refs, y_refs = (
            [next(given) for _ in slots] for slots in (before, incoming, after, outgoing)
        )
        fixed, state = jax.tree.unflatten(before_tree, _load(before, before_refs, lane))

        def stretch(start: Any, length: int, state: Any) -> Any:
            times = [steps - 1 - start - k if reverse else start + k for k in range(length)]
            loaded = [jax.tree.unflatten(in_tree, _load(incoming, x_refs, lane, t)) for t in times]
            for t, x_t in zip(times, loaded, strict=True):
                state, y_t = step(fixed, state, x_t)
                _store(outgoing, y_refs, y_t, lane, t)
            return state

        rounds = steps // unroll
        if rounds:
            state = jax.lax.fori_loop(0, rounds, lambda k, state: stretch(k * unroll, unroll, state), state)
        state = stretch(rounds * unroll, steps % unroll, state)
        _store(after, after_refs, state, lane)

    arrays = (*leaves((fixed, carry))[0], *leaves(xs)[0])
    results = pl.pallas_call(
        kernel,
        out_shape=[jax.ShapeDtypeStruct(slot.memory, slot.dtype) for slot in after + outgoing],
        grid=(pl.cdiv(count, block),),
        interpret=interpret,
        name=step.__name__,
        input_output_aliases={len(before) + k: len(after) + k for k in range(replaced)},
        compiler_params=triton.CompilerParams(num_warps=max(1, block // 32), num_stages=1),
    )(*(slot.flatten(a) for slot, a in zip(before + incoming, arrays, strict=True)))
    whole = [slot.restore(r) for slot, r in zip(after + outgoing, results, strict=True)]
    return jax.tree.unflatten(after_tree, whole[: len(after)]), jax.tree.unflatten(out_tree, whole[len(after) :])


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


def _load(slots: list[_Slot], refs: list[Any], lane: Array, *t: Any) -> list[Any]:
    return [slot.load(ref, lane, *t) for slot, ref in zip(slots, refs, strict=True)]


def _store(slots: list[_Slot], refs: list[Any], values: Any, lane: Array, *t: Any) -> None:
    for slot, ref, value in zip(slots, refs, leaves(values)[0], strict=True):
        slot.store(ref, value, lane, *t)


def _block(count: int) -> int:
    block = BLOCK
    while block > 32 and count < block * PROGRAMS:
        block //= 2
    return block
