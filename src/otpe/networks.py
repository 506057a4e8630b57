"""A feed-forward stack of layers: linear maps, and the neurons that they drive.

A network does not know how it is trained. `walk` is the only place where an input passes through the layers.
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
from otpe.choices import PAPER_LEAK, Backend, Precision
from otpe.engine import Engine, engine, plain_when_differentiated
from otpe.layers import Current, DenseLayer, LinearMap
from otpe.neurons import LIF, Reset
from otpe.neurons.leaks import Leak
from otpe.surrogates import Surrogate, fast_sigmoid

State = tuple[Any, ...]  # the state of the neurons of each layer; for LIF the membrane after the reset, [B, n]


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
                f"the network has {len(self.layers)} layers and {len(self.neurons)} populations of neurons, expected"
                " the same number of both, and at least one."
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
        """Number of layers, including the output layer."""
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
        """λ of the leaky readout o_t = λ o_{t-1} + s_t: the leak of the output neurons before any training."""
        return _readout_leak(self)

    def init(self, key: Array, dtype: DTypeLike = float) -> tuple[Any, ...]:
        """New parameters, one entry per layer: the parameters of its map, then the trainable neuron parameters."""
        check.key(key)
        dtype = check.float_type(dtype)
        keys = jax.random.split(key, self.depth)
        return tuple(
            _join_params(layer.init(k, dtype), neurons.trained(neuron, layer.out_shape, dtype))
            for layer, neuron, k in zip(self.layers, self.neurons, keys, strict=True)
        )

    def run(
        self, params: Any, spikes: ArrayLike, *, precision: Precision = "float32", backend: Backend = "auto"
    ) -> Array:
        """Outputs [T, B, classes] for input spikes [T, B, *in]. Its derivative by `jax.grad` is BPTT.

        `precision` and `backend` are as in `otpe.gradients`.
        """
        return self.record(params, spikes, precision=precision, backend=backend)[-1]

    def record(
        self, params: Any, spikes: ArrayLike, *, precision: Precision = "float32", backend: Backend = "auto"
    ) -> tuple[Array, ...]:
        """The outputs [T, B, *out] of all layers, from the first to the last."""
        params = check.params(self, params)
        x = check.spikes(self, params, spikes)
        return _record(self, engine(backend, precision, params), params, x)

    def leaky_sum(self, outputs: Array) -> Array:
        """The leaky readout o_t = λ o_{t-1} + s_t of outputs s_t [T, B, classes]."""

        def add(_: None, o: Array, s: Array) -> tuple[Array, Array]:
            o = self.readout_leak * o + s
            return o, o

        return scan.recur(add, jnp.zeros_like(outputs[0]), outputs)[1]

    def start(self, batch: int = 1, dtype: DTypeLike = float) -> State:
        """The state of the neurons before the first step of a stream."""
        check.count("batch", batch)
        dtype = check.float_type(dtype)
        return tuple(
            neurons.initial_state(neuron, batch, layer.out_shape, dtype)
            for layer, neuron in zip(self.layers, self.neurons, strict=True)
        )

    def step(self, params: Any, state: State, x: ArrayLike) -> tuple[State, Array]:
        """One time step of a stream: maps input spikes [B, *in] to outputs [B, classes]."""
        params = check.params(self, params)
        leaves = jax.tree.leaves(state)
        batch = np.shape(leaves[0])[0] if leaves and np.ndim(leaves[0]) else 1
        dtype = jax.tree.leaves(params)[0].dtype
        rest = jax.eval_shape(lambda: self.start(batch, dtype))
        check.state(state, rest, f"net.start(batch, {str(dtype)!r}) or what the last step returned")
        s = check.step_spikes(self, params, x, batch).astype(dtype)
        state, outputs = one_step(self, params, state, s)
        return state, outputs[-1]

    def __repr__(self) -> str:
        """One line: the input shape, then the map, output shape and neurons of each layer."""
        return summary.line(self)

    def __str__(self) -> str:
        """A table of layers, shapes, parameters and bytes of traces."""
        return summary.table(self)


class Layer(NamedTuple):
    """A layer with its parameters."""

    number: int  # counted from 0
    map: Any  # a LinearMap
    params: Any  # of the map
    unbound_neuron: Any  # the neuron as the user gave it, without its arrays
    values: dict[str, Array]  # the arrays of the neurons; empty for most neurons

    @property
    def neuron(self) -> Any:
        """The neuron with its arrays."""
        return neurons.bind(self.unbound_neuron, self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.map.out_shape


def bind(net: Network, params: Any) -> tuple[Layer, ...]:
    """The layers with their parameters."""
    dtype, bound = jax.tree.leaves(params)[0].dtype, []
    for i, (layer, neuron) in enumerate(zip(net.layers, net.neurons, strict=True)):
        weights, trained = _split_params(net, i, params[i])
        values = neurons.values(neuron, trained, layer.out_shape, dtype)
        bound.append(Layer(i, layer, weights, neuron, values))
    return tuple(bound)


def map_params(net: Network, params: Any) -> list[Any]:
    """The parameters of each layer's map."""
    return [_split_params(net, i, entry)[0] for i, entry in enumerate(params)]


def walk(
    net: Network, params: Any, x: Array, engine: Engine, each: Callable[[Layer, Array, Current], tuple[Array, Any]]
) -> tuple[Array, list[Any]]:
    """Pass an input through the layers, from the first to the last. Return the last output, and a list of results.

    `each(layer, x, current)` gets a layer, its input and its current. It returns the layer's output and a result for
    the list. The input is a whole sequence [T, B, *in] or one step [B, *in]. Each layer
    processes the whole sequence before the next layer starts. No layer sends a signal to the layers below it.
    """
    dtype, results = jax.tree.leaves(params)[0].dtype, []
    for layer in bind(net, params):
        x = layers.narrow(layer.map, layer.params, x, engine, dtype)
        x, result = each(layer, x, layers.current(layer.map, layer.params, x, engine))
        results.append(result)
    return x, results


def output_type(net: Network, params: Any, i: int, engine: Engine) -> Any:
    """The type of a layer's output: for spikes the type that is fastest for the layer above, else that of `params`."""
    dtype = jax.tree.leaves(params)[0].dtype
    if i + 1 == net.depth or not neurons.is_spiking(net.neurons[i]):
        return dtype
    return layers.spike_type(net.layers[i + 1], _split_params(net, i + 1, params[i + 1])[0], engine, dtype)


def one_step(net: Network, params: Any, state: State, x: Array, engine: Engine = Engine()) -> tuple[State, list[Array]]:
    """One time step of all neurons: the states after it, and the output of each layer."""

    def each(layer: Layer, x: Array, current: Current) -> tuple[Array, Any]:
        after, output, _ = layer.neuron.step(state[layer.number], current.total)
        return output, (after, output)

    _, results = walk(net, params, x, engine, each)
    return tuple(after for after, _ in results), [output for _, output in results]


def dense(
    sizes: Sequence[int],
    *,
    leak: Leak | Sequence[Leak] = PAPER_LEAK,
    threshold: float = 1.0,
    surrogate: Surrogate = fast_sigmoid(25.0),
    reset: Reset = "subtract",
) -> Network:
    """A network of dense LIF layers with bias. `otpe.network` builds other networks.

    Args:
      sizes: number of units of each layer, from input to output: `[700, 512, 512, 20]` has two hidden layers and 20
        classes.
      leak: λ, the share of the membrane that is left after one step: one number, or a list with one entry per layer. An
        entry is a number, an array with one number per neuron, or `otpe.Uniform(low, high)`.
      threshold: θ, the membrane at which a neuron spikes.
      surrogate: the function of v − θ that replaces the derivative of the spike.
      reset: what a spike does to the membrane: "subtract" θ, set it to "zero", or "none".
    """
    sizes = check.sizes(sizes)
    depth = len(sizes) - 1
    shared = isinstance(leak, str | neurons.Uniform | neurons.PerNeuron) or np.ndim(_outer_axis(leak)) == 0
    per_layer: tuple[Any, ...] = (leak,) * depth if shared else tuple(leak)  # type: ignore[arg-type]
    if len(per_layer) != depth:
        raise ValueError(
            f"leak has {len(per_layer)} entries, expected {depth}: one number for all layers, or one per layer"
            f" ({depth} for sizes {sizes})."
        )
    return Network(
        layers=tuple(DenseLayer(a, b) for a, b in pairwise(sizes)),
        neurons=tuple(LIF(k, threshold, surrogate, reset) for k in per_layer),
    )


def _outer_axis(leak: Any) -> Any:
    """A list with each entry replaced by zero: np.ndim fails for a list of arrays of different lengths."""
    return [0] * len(leak) if isinstance(leak, tuple | list) else leak


# Parameters: each layer has one entry, with the parameters of its map and of its neurons


def _join_params(weights: Any, trained: dict[str, Array]) -> Any:
    """One entry of the parameters: the fields of the map, then the trainable neuron parameters, if any."""
    if not trained:
        return weights
    names = tuple(sorted(trained))
    arrays = [trained[name] for name in names]
    if not hasattr(weights, "_fields"):
        return _params_type("Layer", ("map", *names))(weights, *arrays)
    return _params_type(f"{type(weights).__name__}Layer", (*weights._fields, *names))(*weights, *arrays)


def _split_params(net: Network, i: int, entry: Any) -> tuple[Any, dict[str, Array]]:
    """The parameters of the map, and those of the neurons."""
    map_type, names = _structure(net, i)
    if not names:
        return entry, {}
    values = tuple(entry)
    fields = values[: len(values) - len(names)]
    weights = fields[0] if map_type is None else map_type(*fields)
    return weights, dict(zip(names, values[len(values) - len(names) :], strict=True))


def join_gradients(net: Network, params: Any, i: int, map_grad: Any, by_value: dict[str, Array]) -> Any:
    """The gradient of a layer's entry of the parameters, given the gradient of its map.

    `by_value` has the derivatives with respect to the values of the neurons, such as λ of each neuron. This converts
    them to the trained parameters: the logit of λ, one per neuron or one for all neurons.
    """
    if not by_value:
        return map_grad
    layer, neuron = net.layers[i], net.neurons[i]
    _, trained = _split_params(net, i, params[i])
    dtype = jax.tree.leaves(params)[0].dtype

    def of_each_neuron(trained: dict[str, Array]) -> dict[str, Array]:
        values = neurons.values(neuron, trained, layer.out_shape, dtype)
        return {name: jnp.broadcast_to(values[name], layer.out_shape) for name in by_value}

    _, transpose = jax.vjp(of_each_neuron, trained)
    return _join_params(map_grad, transpose({name: g.astype(dtype) for name, g in by_value.items()})[0])


@lru_cache(maxsize=1024)
def _structure(net: Network, i: int) -> tuple[Any, tuple[str, ...]]:
    """The type of a map's parameters if they have named fields, and the names of the neurons' parameters."""
    layer, neuron = net.layers[i], net.neurons[i]
    trained = jax.eval_shape(lambda: neurons.trained(neuron, layer.out_shape, jnp.float32))
    like = jax.eval_shape(lambda: layer.init(jax.random.key(0), jnp.float32)) if trained else None
    return (type(like) if hasattr(like, "_fields") else None), tuple(sorted(trained))


@lru_cache(maxsize=1024)
def _params_type(name: str, fields: tuple[str, ...]) -> Any:
    return namedtuple(name, fields)


# The leak of the readout, and the outputs of all layers


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
            state, output, _ = neurons.bind(layer.unbound_neuron, values).step(state, Current(terms, bias).total)
            return state, output

        rest = neurons.initial_state(layer.unbound_neuron, x.shape[1], layer.shape, dtype)
        fixed = (current.bias, layer.values)
        _, outputs = scan.recur(fire, rest, current.terms, fixed=fixed, backend=engine.backend)
        return outputs.astype(narrow), outputs

    return tuple(walk(net, params, x, engine, each)[1])


_record = jax.jit(plain_when_differentiated(_record_impl), static_argnums=(0, 1))
