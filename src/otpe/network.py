"""A feed-forward stack of LIF layers. It does not know how it will be trained."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from otpe import check, layers, scan
from otpe.engine import Backend, Engine, Precision, engine, plain_when_differentiated
from otpe.layers import Current, DenseLayer, LinearMap
from otpe.neurons import LIF, Reset
from otpe.surrogates import Surrogate, fast_sigmoid

PAPER_LEAK = 0.9525741268224334  # sigmoid(3), the leak behind the paper's results

State = tuple[Array, ...]  # membranes u_t after the reset, [B, n] per layer


@dataclass(frozen=True)
class Network:
    """Layers from input to output, each a linear map and the neurons it drives."""

    layers: tuple[LinearMap, ...]
    neurons: tuple[LIF, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "neurons", tuple(self.neurons))
        if not self.layers or len(self.layers) != len(self.neurons):
            raise ValueError(
                f"the network has {len(self.layers)} layers and {len(self.neurons)} populations of neurons, expected as"
                " many of each, and at least one."
            )
        for i, (below, above) in enumerate(pairwise(self.layers)):
            if below.out_shape != above.in_shape:
                raise ValueError(
                    f"layer {i} gives {below.out_shape} and layer {i + 1} takes {above.in_shape}, expected one shape."
                )

    @property
    def depth(self) -> int:
        """How many layers, the output included."""
        return len(self.layers)

    @property
    def classes(self) -> int:
        """How many outputs."""
        return self.layers[-1].out_shape[-1]

    @property
    def readout_leak(self) -> float:
        """λ of the leaky readout o_t = λ o_{t-1} + s_t: that of the output neurons."""
        return self.neurons[-1].leak

    def init(self, key: Array, dtype: DTypeLike = float) -> tuple[Any, ...]:
        """Fresh parameters, one entry per layer."""
        check.key(key)
        dtype = check.float_type(dtype)
        keys = jax.random.split(key, self.depth)
        return tuple(layer.init(k, dtype) for layer, k in zip(self.layers, keys, strict=True))

    def run(
        self, params: Any, spikes: ArrayLike, *, precision: Precision = "float32", backend: Backend = "auto"
    ) -> Array:
        """Output spikes [T, B, classes] for input spikes [T, B, n_in]. `jax.grad` through it is BPTT.

        `precision` and `backend` as in `otpe.gradients`.
        """
        return self.record(params, spikes, precision=precision, backend=backend)[-1]

    def record(
        self, params: Any, spikes: ArrayLike, *, precision: Precision = "float32", backend: Backend = "auto"
    ) -> tuple[Array, ...]:
        """The spikes [T, B, n] of every layer, output last."""
        params = check.params(self, params)
        x = check.spikes(self, params, spikes)
        return _record(self, engine(backend, precision, params), params, x)

    def leaky_sum(self, spikes: Array) -> Array:
        """The leaky readout o_t of output spikes [T, B, classes]."""

        def add(_: None, o: Array, s: Array) -> tuple[Array, Array]:
            o = self.readout_leak * o + s
            return o, o

        return scan.recur(add, jnp.zeros_like(spikes[0]), spikes)[1]

    def start(self, batch: int = 1, dtype: DTypeLike = float) -> State:
        """Membranes at rest, to begin a stream with."""
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        return tuple(jnp.zeros((batch, *layer.out_shape), dtype) for layer in self.layers)

    def step(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Array]:
        """One time step of a stream: spikes [B, n_in] in, output spikes [B, classes] out."""
        params = check.params(self, params)
        batch = np.shape(state[0])[0] if state and np.ndim(state[0]) else 1
        dtype = jax.tree.leaves(params)[0].dtype
        rest = tuple(jax.ShapeDtypeStruct((batch, *layer.out_shape), dtype) for layer in self.layers)
        check.state(state, rest, f"net.start(batch, {str(dtype)!r}) or what the last step returned")
        s = check.step_spikes(self, params, x, batch)
        membranes = []
        for layer, neuron, p, u in zip(self.layers, self.neurons, params, state, strict=True):
            u, s, _ = neuron.fire(u, layers.apply(layer, p, s))
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
    sizes = check.sizes(sizes)
    depth = len(sizes) - 1
    one = isinstance(leak, str) or np.ndim(leak) == 0
    leaks: tuple[Any, ...] = (leak,) * depth if one else tuple(np.asarray(leak))
    if len(leaks) != depth:
        raise ValueError(
            f"leak has {len(leaks)} entries, expected {depth}: one number for all layers, or one per layer"
            f" ({depth} for sizes {sizes})."
        )
    return Network(
        layers=tuple(DenseLayer(a, b) for a, b in pairwise(sizes)),
        neurons=tuple(LIF(k, threshold, surrogate, reset) for k in leaks),
    )


def _record_impl(net: Network, engine: Engine, params: Any, x: Array) -> tuple[Array, ...]:
    dtype, recorded = jax.tree.leaves(params)[0].dtype, []
    for layer, above, neuron, p in zip(net.layers, (*net.layers[1:], None), net.neurons, params, strict=True):
        x = layers.narrow(layer, p, x, engine)
        current = layers.current(layer, p, x, engine)  # all T·B rows at once: nothing flows between layers over time

        def fire(bias: Any, u: Array, terms: Any, neuron: LIF = neuron) -> tuple[Array, Array]:
            fired = neuron.fire(u, Current.now(bias, terms))
            return fired.u, fired.spikes

        rest = jnp.zeros((x.shape[1], *layer.out_shape), dtype)
        _, s = scan.recur(fire, rest, current.terms, fixed=current.bias, backend=engine.backend)
        recorded.append(s)
        x = s if above is None else s.astype(layers.spike_type(above, p, engine))
    return tuple(recorded)


_record = jax.jit(plain_when_differentiated(_record_impl), static_argnums=(0, 1))
