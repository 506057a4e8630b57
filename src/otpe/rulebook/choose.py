"""The per-step driver for a network and a rule, with the traces that suit their shapes."""

import math
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp

from otpe import check, neurons
from otpe.engine import Backend, Engine, Precision, engine
from otpe.layers import WeightRows
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import stages
from otpe.rulebook.named import rule_and_loss
from otpe.rulebook.rule import NonLocal, Rule, StepForm, WholeSequence
from otpe.rulebook.steps import Stepper
from otpe.rulebook.traces import FactoredTraces, InputTraces, NoTraces, Place, Traces, WeightTraces

TraceChoice = Literal["auto", "dense", "factored"]


def stepper(
    net: Network,
    rule: str | Rule = "otpe",
    *,
    traces: TraceChoice = "auto",
    batch: int = 1,
    steps: int | None = None,
    narrow: bool = False,
    loss: LossChoice = None,
    precision: Precision = "float32",
    backend: Backend = "auto",
) -> StepForm:
    """The per-step form of a rule: `init`, `advance`, `emit`, and `learn` for the last two at once.

    Args:
      traces: how rules with a number per weight keep it: "dense", one row per input; "factored", the inputs and
        membranes it is made of; "auto", whichever is less work for these shapes. Same gradients; no matter to others.
      batch: for how many samples side by side "auto" should choose.
      steps: how long a sequence is at most. Factored traces remember that many; None, an endless stream,
        remembers until an input's share has sunk below rounding.
      narrow: are the inputs whole numbers up to 255, such as spikes or their counts? Then a GPU can keep them in
        fewer bytes and multiply them faster.
      loss, precision, backend: as in `otpe.gradients`.
    """
    check.network(net)
    rule, loss = rule_and_loss(rule, loss)
    check.one_of("traces", traces, get_args(TraceChoice))
    check.count("batch", batch)
    check.count("steps", 1 if steps is None else steps)
    if not rule.has_steps:
        raise ValueError(
            f"rule {rule.name!r} has no per-step form: it needs the whole sequence before it can give a gradient."
            " Use otpe.gradients, or a rule that learns online: 'rtrl' is as exact, 'otpe' scales."
        )
    check.flag("narrow", narrow)
    how = engine(backend, precision)
    if isinstance(rule.output, NonLocal):
        return rule.output.stepper(net, rule, loss)

    def kept_by(i: int) -> Traces:
        kind, place = _kind(net, rule, i, traces, batch, steps, how), Place(net, rule, i, how)
        if kind is not FactoredTraces:
            return kind(place)
        exact = narrow if i == 0 else neurons.is_spiking(net.neurons[i - 1])
        return FactoredTraces(place, window(net, rule, i) if steps is None else steps, endless=True, narrow=exact)

    return Stepper(net, rule, tuple(map(kept_by, range(net.depth))), how, loss)


def window(net: Network, rule: Rule, layer: int) -> int:
    """How many steps back an input still matters: K^(order + 1) λ^K below rounding, λ the largest leak it meets.

    It takes survival to be at most λ, which a surrogate with θ g > 2 may exceed, and leaks as they are before training.
    """
    leaks = stages.largest_leaks(net)
    involved = [leak for stage in (layer, *stages.above(net, rule, layer)) for leak in leaks[stage]]
    leak, K, eps = max(involved), 1, float(jnp.finfo(jnp.float32).eps) / 4
    while K ** len(involved) * leak**K > eps:
        K += 1 + K // 64
    return K


def _kind(
    net: Network, rule: Rule, i: int, choice: TraceChoice, batch: int, steps: int | None, how: Engine
) -> type[Any]:
    layer = net.layers[i]
    if not jax.tree.leaves(jax.eval_shape(lambda: layer.init(jax.random.key(0), jnp.float32))):
        return NoTraces
    if rule.at(i, net.depth).trace == "input":
        return InputTraces
    if not isinstance(layer, WeightRows):
        if choice == "dense":
            raise ValueError(
                f"layer {i} ({type(layer).__name__}) cannot hold a trace per weight; use traces='factored' or 'auto'."
            )
        if not isinstance(rule.at(i, net.depth), WholeSequence):
            raise ValueError(
                f"layer {i} ({type(layer).__name__}) cannot hold a trace per weight, and rule {rule.name!r} has no"
                " whole-sequence form to do without; use a rule that has one, or give the layer rows and to_rows."
            )
        return FactoredTraces
    if not isinstance(rule.at(i, net.depth), WholeSequence):
        if choice == "factored":
            raise ValueError(
                f"rule {rule.name!r} has no whole-sequence form, which factored traces are made by; use traces='dense'"
                " or 'auto'."
            )
        return WeightTraces
    if choice == "auto":
        K = window(net, rule, i) if steps is None else steps
        choice = "factored" if _factored_is_less_work(layer, math.prod(layer.out_shape), K, batch, how) else "dense"
    return FactoredTraces if choice == "factored" else WeightTraces


def _factored_is_less_work(layer: WeightRows, outputs: int, window: int, batch: int, how: Engine) -> bool:
    """A row per step instead of per input is fewer numbers, but its gradient is a matrix product over window · batch.

    Where that pays was measured: on a CPU (benchmarks/results/online-cpu.json), with several samples, from two inputs
    per step on; on a GPU, only where the traces are too large to be gone through in a few microseconds.
    """
    inputs = layer.rows - 1  # that a neuron listens to
    if how.backend != "plain" and inputs * outputs * batch <= 2**21:
        return False
    return batch >= 8 and 2 * window <= inputs
