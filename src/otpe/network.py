"""A feed-forward stack of LIF layers. It does not know how it will be trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from otpe import check, scan
from otpe.layers import DenseLayer, LinearMap
from otpe.neurons import LIF, Reset
from otpe.surrogates import Surrogate, fast_sigmoid

PAPER_LEAK = 0.9525741268224334  # sigmoid(3), the leak behind the paper's results

State = tuple[Array, ...]  # membranes u_t after the reset, [B, n] per layer


@dataclass(frozen=True)
class Network:
    """Layers from input to output, each a linear map and the neurons it drives."""

    layers: tuple[LinearMap, ...]
    neurons: tuple[LIF, ...]

    @property
    def depth(self) -> int:
        """How many layers, the output included."""
        return len(self.layers)

    @property
    def readout_leak(self) -> float:
        """λ of the leaky readout o_t = λ o_{t-1} + s_t: that of the output neurons."""
        return self.neurons[-1].leak

    def init(self, key: Array, dtype: DTypeLike = float) -> tuple[Any, ...]:
        """Fresh parameters, one entry per layer."""
        dtype = jax.dtypes.canonicalize_dtype(dtype)
        keys = jax.random.split(key, self.depth)
        return tuple(layer.init(k, dtype) for layer, k in zip(self.layers, keys, strict=True))

    def run(self, params: Any, spikes: ArrayLike) -> Array:
        """Output spikes [T, B, classes] for input spikes [T, B, n_in]. `jax.grad` through it is BPTT."""
        return self.record(params, spikes)[-1]

    def record(self, params: Any, spikes: ArrayLike) -> tuple[Array, ...]:
        """The spikes [T, B, n] of every layer, output last."""
        params = check.params(self, params)
        x = check.spikes(self, params, spikes)
        return _record(self, params, x)

    def start(self, batch: int = 1, dtype: DTypeLike = float) -> State:
        """Membranes at rest, to begin a stream with."""
        check.count("batch", batch)
        dtype = jax.dtypes.canonicalize_dtype(dtype)
        return tuple(jnp.zeros((batch, *layer.out_shape), dtype) for layer in self.layers)

    def step(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Array]:
        """One time step of a stream: spikes [B, n_in] in, output spikes [B, classes] out."""
        params = check.params(self, params)
        s = check.step_spikes(self, params, x, batch=state[0].shape[0])
        membranes = []
        for layer, neuron, p, u in zip(self.layers, self.neurons, params, state, strict=True):
            u, s, _ = neuron.fire(u, layer.apply(p, s))
            membranes.append(u)
        return tuple(membranes), s


def dense(
    sizes: Sequence[int],
    *,
    leak: float | Sequence[float] = PAPER_LEAK,
    threshold: float = 1.0,
    surrogate: Surrogate = fast_sigmoid(25.0),
    reset: Reset = "subtract",
) -> Network:
    """A network of dense LIF layers with bias.

    Args:
      sizes: units from input to output: `[700, 512, 512, 20]` has two hidden layers and 20 classes.
      leak: λ, the share of the membrane that is left after one step; one number, or one per layer.
      threshold: θ, where a neuron spikes.
      surrogate: derivative that stands in for the spike's, a function of v − θ.
      reset: what a spike does to the membrane: "subtract" θ, set it to "zero", or "none".
    """
    check.sizes(sizes)
    depth = len(sizes) - 1
    leaks = tuple(leak) if isinstance(leak, Sequence) else (leak,) * depth
    if len(leaks) != depth:
        raise ValueError(
            f"leak has {len(leaks)} entries, expected {depth}: one number for all layers, or one per layer"
            f" ({depth} for sizes {list(sizes)})."
        )
    return Network(
        layers=tuple(DenseLayer(int(a), int(b)) for a, b in pairwise(sizes)),
        neurons=tuple(LIF(k, threshold, surrogate, reset) for k in leaks),
    )


def _record_impl(net: Network, params: Any, x: Array) -> tuple[Array, ...]:
    recorded = []
    for layer, neuron, p in zip(net.layers, net.neurons, params, strict=True):
        current = layer.apply(p, x)  # all T·B rows at once: nothing flows between layers over time

        def fire(u: Array, c: Array, neuron: LIF = neuron) -> tuple[Array, Array]:
            fired = neuron.fire(u, c)
            return fired.u, fired.spikes

        _, x = scan.recur(fire, jnp.zeros_like(current[0]), current)
        recorded.append(x)
    return tuple(recorded)


_record = jax.jit(_record_impl, static_argnums=0)
