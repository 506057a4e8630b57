"""Maps on flat inputs: dense, where every neuron sees every input, and masked, where it sees some of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from otpe import check
from otpe.layers.compose import Chains, Shape, Spec, shown
from otpe.layers.linear import lift


class Dense(NamedTuple):
    """Parameters of one dense or masked layer."""

    kernel: Array  # W     [n_in, n_out]; in a masked layer [weights]: the weights that exist, row by row
    bias: Array  # bias  [n_out]


@dataclass(frozen=True)
class DenseLayer(Chains):
    """c = x W + one · bias."""

    n_in: int
    n_out: int

    @property
    def in_shape(self) -> tuple[int, ...]:
        return (self.n_in,)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.n_out,)

    def init(self, key: Array, dtype: Any) -> Dense:
        """Kernel lecun-normal, bias zero, as in the paper."""
        kernel = jax.nn.initializers.lecun_normal()(key, (self.n_in, self.n_out), dtype)
        return Dense(kernel, jnp.zeros(self.n_out, dtype))

    def apply(self, params: Dense, x: Array, one: Array | float = 1.0) -> Array:
        return jnp.matmul(x, params.kernel) + one * params.bias

    def to_matrix(self, params: Dense) -> tuple[Array, Array]:
        return params.kernel, params.bias

    def from_matrix(self, kernel: Array, bias: Array) -> Dense:
        return Dense(kernel, bias)

    # Rows for a trace per weight: one per input, and a last one for the bias.

    @property
    def rows(self) -> int:
        return self.n_in + 1

    def to_rows(self, x: Array) -> Array:
        return lift(x)[..., None]

    def from_rows(self, dw: Array) -> Dense:
        return Dense(dw[:-1], dw[-1])

    def __str__(self) -> str:
        return f"dense {self.n_out}"


class _Weights(NamedTuple):
    """The positions of the weights of a mask. They are numpy arrays: constants of the compiled program."""

    inputs: np.ndarray  # the input of each weight    [weights]
    outputs: np.ndarray  # the output of each weight    [weights]
    row: np.ndarray  # the index of each weight among the weights of its output    [weights]
    fan_in: np.ndarray  # the number of inputs of each output    [n_out]


@dataclass(frozen=True)
class MaskedLayer(Chains):
    """c = x W + one · bias, where W has only the weights of a mask. The others are not stored."""

    n_in: int
    n_out: int
    mask: str = field(repr=False)  # [n_in, n_out], one bit per weight, in hexadecimal; `masked` makes it

    @property
    def in_shape(self) -> tuple[int, ...]:
        return (self.n_in,)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (self.n_out,)

    def init(self, key: Array, dtype: Any) -> Dense:
        """Kernel lecun-normal with the fan-in of each neuron, bias zero."""
        at = _weights(self)
        unit = jax.nn.initializers.truncated_normal(1 / 0.87962566103423978, lower=-2, upper=2)
        kernel = unit(key, at.inputs.shape, dtype) / np.sqrt(at.fan_in[at.outputs]).astype(dtype)
        return Dense(kernel, jnp.zeros(self.n_out, dtype))

    def apply(self, params: Dense, x: Array, one: Array | float = 1.0) -> Array:
        kernel, bias = self.to_matrix(params)
        return jnp.matmul(x, kernel) + one * bias

    def to_matrix(self, params: Dense) -> tuple[Array, Array]:
        at = _weights(self)
        blank = jnp.zeros((self.n_in, self.n_out), params.kernel.dtype)
        places = blank.at[at.inputs, at.outputs]
        return places.add(params.kernel, indices_are_sorted=True, unique_indices=True), params.bias

    def from_matrix(self, kernel: Array, bias: Array) -> Dense:
        at = _weights(self)
        return Dense(kernel[at.inputs, at.outputs], bias)

    # Rows for a trace per weight: as many as the largest fan-in of a neuron, and a last one for the bias.

    @property
    def rows(self) -> int:
        return int(_weights(self).fan_in.max()) + 1

    def to_rows(self, x: Array) -> Array:
        at = _weights(self)
        source = np.full((self.rows, self.n_out), self.n_in + 1)  # unused rows read the zero that is appended below
        source[at.row, at.outputs] = at.inputs
        source[-1] = self.n_in
        x = lift(x)
        return jnp.concatenate([x, jnp.zeros_like(x[..., :1])], axis=-1)[..., source]

    def from_rows(self, dw: Array) -> Dense:
        at = _weights(self)
        return Dense(dw[at.row, at.outputs], dw[-1])

    def __str__(self) -> str:
        return f"masked {self.n_out}, {len(_weights(self).inputs):,} of {self.n_in * self.n_out:,} weights"


@lru_cache
def _weights(layer: MaskedLayer) -> _Weights:
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(layer.mask), np.uint8), count=layer.n_in * layer.n_out)
    mask = bits.reshape(layer.n_in, layer.n_out).astype(bool)
    inputs, outputs = np.nonzero(mask)
    return _Weights(inputs, outputs, (np.cumsum(mask, axis=0) - 1)[inputs, outputs], mask.sum(0))


def dense(n: int) -> Spec:
    """A dense map to `n` neurons: each neuron sees every input."""
    check.count("dense: n", n)
    call = f"dense({n})"
    return Spec(call, lambda in_shape: DenseLayer(_flat(call, in_shape), n))


def masked(mask: ArrayLike | Sequence[Sequence[bool]]) -> Spec:
    """A dense map with only the weights for which `mask` [inputs, neurons] is true. The others are not stored."""
    given = np.asarray(mask)
    if given.ndim != 2 or not given.size or given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise ValueError(
            f"masked: the mask has the shape {shown(given.shape)} and the type {given.dtype}, expected a table of True"
            " and False [inputs, neurons]."
        )
    if not given.any():
        raise ValueError(f"masked: the mask {shown(given.shape)} is false everywhere, expected at least one weight.")
    n_in, n_out = given.shape
    bits = np.packbits(given.astype(bool)).tobytes().hex()
    call = f"masked({shown(given.shape)})"

    def make(in_shape: Shape) -> MaskedLayer:
        if _flat(call, in_shape) != n_in:
            raise ValueError(
                f"{call}: the mask is for {n_in} inputs, but there are {in_shape[0]}. Make a mask [{in_shape[0]},"
                " neurons]."
            )
        return MaskedLayer(n_in, n_out, bits)

    return Spec(call, make)


def grouped(n: int, groups: int) -> Spec:
    """A dense map in blocks: inputs and `n` neurons are divided into groups. A neuron sees the inputs of its group."""
    check.count("grouped: n", n)
    check.count("grouped: groups", groups)
    call = f"grouped({n}, {groups})"

    def make(in_shape: Shape) -> Any:
        n_in = _flat(call, in_shape)
        if n_in % groups or n % groups:
            raise ValueError(
                f"{call}: {n_in} inputs and {n} neurons cannot both be divided into {groups} groups. Choose a"
                " divisor of both."
            )
        return masked(np.kron(np.eye(groups, dtype=bool), np.ones((n_in // groups, n // groups), bool))).on(in_shape)

    return Spec(call, make)


def _flat(call: str, in_shape: Shape) -> int:
    if len(in_shape) != 1:
        raise ValueError(f"{call} takes a flat input, but its input is {shown(in_shape)}. Use flatten() >> {call}.")
    return in_shape[0]
