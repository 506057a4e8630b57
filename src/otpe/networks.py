"""A feed-forward stack of layers: linear maps, and the neurons that they drive.

A network does not know how it will be trained. `walk` is the one place where an input passes through the layers.
"""

from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from otpe import check, layers, neurons, scan, states, summary
from otpe.engine import Backend, Engine, Precision, engine, plain_when_differentiated
from otpe.layers import Current, DenseLayer, LinearMap
from otpe.neurons import LIF, Reset
from otpe.neurons.leaks import Leak
from otpe.surrogates import Surrogate, fast_sigmoid

PAPER_LEAK = 0.9525741268224334  # sigmoid(3), the leak behind the paper's results

State = tuple[Any, ...]  # of the neurons of each layer; for LIF the membrane after the reset, [B, n]


@dataclass(frozen=True)
class Network:
    """Layers from input to output, each a linear map and the neurons it drives."""

    layers: tuple[LinearMap, ...]
    neurons: tuple[Any, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "neurons", tuple(self.neurons))
        if not self.layers or len(self.layers) != len(self.neurons):
            raise ValueError(
                f"the network has {len(self.layers)} layers and {len(self.neurons)} populations of neurons, expected as"
                " many of each, and at least one."
            )
        for neuron in self.neurons:
            neurons.check_neuron(neuron)
        for i, (below, above) in enumerate(pairwise(self.layers)):
            if below.out_shape != above.in_shape:
                raise ValueError(
                    f"layer {i} gives {below.out_shape} and layer {i + 1} takes {above.in_shape}, expected one shape."
                )
        for i, (layer, neuron) in enumerate(zip(self.layers, self.neurons, strict=True)):
            try:
                neurons.check_shape(neuron, layer.out_shape)
            except ValueError as error:
                raise ValueError(f"layer {i}: {error}") from None

    @property
    def depth(self) -> int:
        """Number of layers, the output included."""
        return len(self.layers)

    @property
    def in_shape(self) -> tuple[int, ...]:
        """Shape of the input of one sample at one time step."""
        return self.layers[0].in_shape

    @property
    def classes(self) -> int:
        """Number of outputs."""
        return self.layers[-1].out_shape[-1]

    @property
    def readout_leak(self) -> float:
        """λ of the leaky readout o_t = λ o_{t-1} + s_t: that of the output neurons, before any training."""
        return _readout_leak(self)

    def init(self, key: Array, dtype: DTypeLike = float) -> tuple[Any, ...]:
        """Fresh parameters, one entry per layer: those of its map, and trained numbers of its neurons beside them."""
        check.key(key)
        dtype = check.float_type(dtype)
        keys = jax.random.split(key, self.depth)
        return tuple(
            _joined(layer.init(k, dtype), neurons.trained(neuron, layer.out_shape, dtype))
            for layer, neuron, k in zip(self.layers, self.neurons, keys, strict=True)
        )

    def run(
        self, params: Any, spikes: ArrayLike, *, precision: Precision = "float32", backend: Backend = "auto"
    ) -> Array:
        """Outputs [T, B, classes] for input spikes [T, B, *in]. `jax.grad` through it is BPTT.

        `precision` and `backend` as in `otpe.gradients`.
        """
        return self.record(params, spikes, precision=precision, backend=backend)[-1]

    def record(
        self, params: Any, spikes: ArrayLike, *, precision: Precision = "float32", backend: Backend = "auto"
    ) -> tuple[Array, ...]:
        """The outputs [T, B, *out] of every layer, the last layer's last."""
        params = check.params(self, params)
        x = check.spikes(self, params, spikes)
        return _record(self, engine(backend, precision, params), params, x)

    def leaky_sum(self, outputs: Array) -> Array:
        """The leaky readout o_t of outputs [T, B, classes]."""

        def add(_: None, o: Array, s: Array) -> tuple[Array, Array]:
            o = self.readout_leak * o + s
            return o, o

        return scan.recur(add, jnp.zeros_like(outputs[0]), outputs)[1]

    def start(self, batch: int = 1, dtype: DTypeLike = float) -> State:
        """Neurons at rest, to begin a stream with."""
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        return tuple(
            neurons.initial_state(neuron, batch, layer.out_shape, dtype)
            for layer, neuron in zip(self.layers, self.neurons, strict=True)
        )

    def step(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Array]:
        """One time step of a stream: input spikes [B, *in] to outputs [B, classes]."""
        params = check.params(self, params)
        leaves = jax.tree.leaves(state)
        batch = np.shape(leaves[0])[0] if leaves and np.ndim(leaves[0]) else 1
        dtype = jax.tree.leaves(params)[0].dtype
        rest = jax.eval_shape(lambda: self.start(batch, dtype))
        check.state(state, rest, f"net.start(batch, {str(dtype)!r}) or what the last step returned")
        s = check.step_spikes(self, params, x, batch).astype(dtype)
        state, outputs = one_step(self, params, state, s)
        return state, outputs[-1]

    def __str__(self) -> str:
        """A table of layers, shapes, parameters and bytes of traces."""
        return summary.table(self)


class Layer(NamedTuple):
    """A layer with its parameters."""

    number: int  # 0 for the first
    map: Any  # a LinearMap
    params: Any  # of the map
    kind: Any  # the neuron as the user gave it
    values: dict[str, Array]  # the arrays of the neurons, empty for most

    @property
    def neuron(self) -> Any:
        """The neuron with its arrays."""
        return neurons.bind(self.kind, self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.map.out_shape


def bind(net: Network, params: Any) -> tuple[Layer, ...]:
    """The layers with their parameters."""
    dtype, found = jax.tree.leaves(params)[0].dtype, []
    for i, (layer, neuron) in enumerate(zip(net.layers, net.neurons, strict=True)):
        of_map, trained = _parted(net, i, params[i])
        found.append(Layer(i, layer, of_map, neuron, neurons.values(neuron, trained, layer.out_shape, dtype)))
    return tuple(found)


def map_params(net: Network, params: Any) -> list[Any]:
    """The parameters of each layer's map."""
    return [_parted(net, i, entry)[0] for i, entry in enumerate(params)]


def walk(
    net: Network, params: Any, x: Array, engine: Engine, each: Callable[[Layer, Array, Current], tuple[Array, Any]]
) -> tuple[Array, list[Any]]:
    """Pass an input through the layers, from the first to the last.

    `each(layer, x, current)` gets a layer, its input and its current; it returns the layer's output and whatever is
    to be remembered of it. A whole sequence [T, B, *in] passes one layer after the other, since nothing flows between
    layers over time; a single step [B, *in] passes in the same way.
    """
    dtype, remembered = jax.tree.leaves(params)[0].dtype, []
    for layer in bind(net, params):
        x = layers.narrow(layer.map, layer.params, x, engine, dtype)
        x, found = each(layer, x, layers.current(layer.map, layer.params, x, engine))
        remembered.append(found)
    return x, remembered


def output_type(net: Network, params: Any, i: int, engine: Engine) -> Any:
    """The type of a layer's output: a narrow one if it spikes and the layer above prefers that."""
    dtype = jax.tree.leaves(params)[0].dtype
    if i + 1 == net.depth or not neurons.is_spiking(net.neurons[i]):
        return dtype
    return layers.spike_type(net.layers[i + 1], _parted(net, i + 1, params[i + 1])[0], engine, dtype)


def one_step(net: Network, params: Any, state: State, x: Array, engine: Engine = Engine()) -> tuple[State, list[Array]]:
    """One time step of all neurons: their states after it, and the output of each layer."""

    def each(layer: Layer, x: Array, current: Current) -> tuple[Array, Any]:
        after, output, _ = layer.neuron.step(state[layer.number], current.total)
        return output, (after, output)

    _, found = walk(net, params, x, engine, each)
    return tuple(after for after, _ in found), [output for _, output in found]


def dense(
    sizes: Sequence[int],
    *,
    leak: Leak | Sequence[Leak] = PAPER_LEAK,
    threshold: float = 1.0,
    surrogate: Surrogate = fast_sigmoid(25.0),
    reset: Reset = "subtract",
) -> Network:
    """A network of dense LIF layers with bias. `otpe.network` builds any other.

    Args:
      sizes: units from input to output: `[700, 512, 512, 20]` has two hidden layers and 20 classes.
      leak: λ, the share of the membrane that is left after one step: one number, or a list with an entry per layer. An
        entry is a number, an array with one number per neuron, or `otpe.Uniform(low, high)`.
      threshold: θ, where a neuron spikes.
      surrogate: derivative that stands in for the spike's, a function of v − θ.
      reset: what a spike does to the membrane: "subtract" θ, set it to "zero", or "none".
    """
    sizes = check.sizes(sizes)
    depth = len(sizes) - 1
    one = isinstance(leak, str | neurons.Uniform | neurons.PerNeuron) or np.ndim(_outer(leak)) == 0
    given: tuple[Any, ...] = (leak,) * depth if one else tuple(leak)  # type: ignore[arg-type]
    if len(given) != depth:
        raise ValueError(
            f"leak has {len(given)} entries, expected {depth}: one number for all layers, or one per layer"
            f" ({depth} for sizes {sizes})."
        )
    return Network(
        layers=tuple(DenseLayer(a, b) for a, b in pairwise(sizes)),
        neurons=tuple(LIF(k, threshold, surrogate, reset) for k in given),
    )


def _outer(leak: Any) -> Any:
    """A list of arrays of different lengths has an outer axis, too."""
    return [0] * len(leak) if isinstance(leak, tuple | list) else leak


# Parameters of a map and of its neurons, side by side


def _joined(of_map: Any, trained: dict[str, Array]) -> Any:
    """One entry of the parameters: fields of the map, then those of the neurons. Without these, the map's own."""
    if not trained:
        return of_map
    names = tuple(sorted(trained))
    own = [trained[name] for name in names]
    if not hasattr(of_map, "_fields"):
        return _joint_type("Layer", ("map", *names))(of_map, *own)
    return _joint_type(f"{type(of_map).__name__}Layer", (*of_map._fields, *names))(*of_map, *own)


def _parted(net: Network, i: int, entry: Any) -> tuple[Any, dict[str, Array]]:
    """The parameters of the map, and those of the neurons."""
    like, names = _structure(net, i)
    if not names:
        return entry, {}
    values = tuple(entry)
    of_map = values[: len(values) - len(names)]
    own = of_map[0] if like is None else like(*of_map)
    return own, dict(zip(names, values[len(values) - len(names) :], strict=True))


def joined_gradient(net: Network, params: Any, i: int, of_map: Any, by_value: dict[str, Array]) -> Any:
    """The gradient of a layer's entry of the parameters.

    `by_value` has the derivatives by the values of the neurons, such as λ for each neuron. The parameters may be other
    numbers (the logit of λ), and one for all neurons.
    """
    if not by_value:
        return of_map
    layer, neuron = net.layers[i], net.neurons[i]
    _, trained = _parted(net, i, params[i])
    dtype = jax.tree.leaves(params)[0].dtype

    def of_each_neuron(trained: dict[str, Array]) -> dict[str, Array]:
        values = neurons.values(neuron, trained, layer.out_shape, dtype)
        return {name: jnp.broadcast_to(values[name], layer.out_shape) for name in by_value}

    _, transpose = jax.vjp(of_each_neuron, trained)
    return _joined(of_map, transpose({name: g.astype(dtype) for name, g in by_value.items()})[0])


@lru_cache(maxsize=1024)
def _structure(net: Network, i: int) -> tuple[Any, tuple[str, ...]]:
    """The type of a map's parameters if they have named fields, and the names of the neurons' parameters."""
    layer, neuron = net.layers[i], net.neurons[i]
    trained = jax.eval_shape(lambda: neurons.trained(neuron, layer.out_shape, jnp.float32))
    like = jax.eval_shape(lambda: layer.init(jax.random.key(0), jnp.float32)) if trained else None
    return (type(like) if hasattr(like, "_fields") else None), tuple(sorted(trained))


@lru_cache(maxsize=1024)
def _joint_type(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


@lru_cache(maxsize=1024)
def _readout_leak(net: Network) -> float:
    neuron = net.neurons[-1]
    with jax.ensure_compile_time_eval():
        leaks = states.rows(neurons.leak_matrix(neuron, None, net.layers[-1].out_shape))
    membrane = neurons.poles(neuron)[-1]
    return float(leaks[membrane][membrane])


def _record_impl(net: Network, engine: Engine, params: Any, x: Array) -> tuple[Array, ...]:
    dtype = jax.tree.leaves(params)[0].dtype

    def each(layer: Layer, x: Array, current: Current) -> tuple[Array, Array]:
        narrow = output_type(net, params, layer.number, engine)

        def fire(fixed: Any, state: Any, terms: Any) -> tuple[Any, Array]:
            bias, values = fixed
            state, output, _ = neurons.bind(layer.kind, values).step(state, Current(terms, bias).total)
            return state, output

        rest = neurons.initial_state(layer.kind, x.shape[1], layer.shape, dtype)
        fixed = (current.bias, layer.values)
        _, outputs = scan.recur(fire, rest, current.terms, fixed=fixed, backend=engine.backend)
        return outputs.astype(narrow), outputs

    return tuple(walk(net, params, x, engine, each)[1])


_record = jax.jit(plain_when_differentiated(_record_impl), static_argnums=(0, 1))
