"""Make the per-step driver for a network and a rule, with traces that suit the shapes."""

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
from otpe.rulebook.named_rules import rule_and_loss
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
    """The per-step form of a rule: `init`, `advance`, `emit`, and `learn`, which does `advance` and `emit` in one call.

    Args:
      traces: how a rule with a number per weight stores it. "dense": one row per input. "factored": the inputs and
        membranes from which the traces can be computed. "auto": whichever is less work for these shapes. Does not
        change gradients. Ignored by rules with a trace per input.
      batch: the batch size for which "auto" chooses.
      steps: the maximum number of steps in a sequence. Factored traces remember that many. None is an endless stream:
        factored traces remember an input until its contribution is smaller than rounding errors.
      narrow: whether the inputs are whole numbers up to 255, such as spikes or spike counts. Then a GPU can store them
        in fewer bytes and multiply them faster.
      loss, precision, backend: as in `otpe.gradients`.
    """
    check.network(net)
    rule, loss = rule_and_loss(rule, loss)
    check.one_of("traces", traces, get_args(TraceChoice))
    check.count("batch", batch)
    check.count("steps", 1 if steps is None else steps)
    if not rule.has_steps:
        raise ValueError(
            f"rule {rule.name!r} has no per-step form: it needs the whole sequence before it can give a gradient. Use"
            " otpe.gradients, or a rule that learns online: 'rtrl' is also exact, and 'otpe' scales to large networks."
        )
    check.flag("narrow", narrow)
    chosen_engine = engine(backend, precision)
    if isinstance(rule.output, NonLocal):
        return rule.output.stepper(net, rule, loss)

    def layer_traces(i: int) -> Traces:
        kind, place = _kind(net, rule, i, traces, batch, steps, chosen_engine), Place(net, rule, i, chosen_engine)
        if kind is not FactoredTraces:
            return kind(place)
        exact = narrow if i == 0 else neurons.is_spiking(net.neurons[i - 1])
        return FactoredTraces(place, window(net, rule, i) if steps is None else steps, endless=True, narrow=exact)

    return Stepper(net, rule, tuple(map(layer_traces, range(net.depth))), chosen_engine, loss)


def window(net: Network, rule: Rule, layer: int) -> int:
    """K, the number of steps after which an input no longer matters: K^n λ^K ≤ ε/4, with the float32 precision ε.

    n is the number of leaky sums that the input passes, in this layer and in the stages above that its rule filters by.

    λ is the largest leak of these sums before any training. This assumes that survival is at most λ, which is
    not true for a surrogate with θ g > 2.
    """
    leaks = stages.largest_leaks(net)
    involved = [leak for stage in (layer, *stages.above(net, rule, layer)) for leak in leaks[stage]]
    leak, K, eps = max(involved), 1, float(jnp.finfo(jnp.float32).eps) / 4
    while K ** len(involved) * leak**K > eps:
        K += 1 + K // 64
    return K


def _kind(
    net: Network, rule: Rule, i: int, choice: TraceChoice, batch: int, steps: int | None, engine: Engine
) -> type[Any]:
    """The class of traces for layer `i`. Raises ValueError if the layer or the rule cannot have the chosen one."""
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
                " whole-sequence form, which factored traces need. Use a rule that has one, or give the layer the"
                " attribute rows and the method to_rows."
            )
        return FactoredTraces
    if not isinstance(rule.at(i, net.depth), WholeSequence):
        if choice == "factored":
            raise ValueError(
                f"rule {rule.name!r} has no whole-sequence form, which factored traces need. Use traces='dense' or"
                " 'auto'."
            )
        return WeightTraces
    if choice == "auto":
        K = window(net, rule, i) if steps is None else steps
        choice = "factored" if _factored_is_less_work(layer, math.prod(layer.out_shape), K, batch, engine) else "dense"
    return FactoredTraces if choice == "factored" else WeightTraces


def _factored_is_less_work(layer: WeightRows, outputs: int, window: int, batch: int, engine: Engine) -> bool:
    """Whether factored traces are faster: fewer numbers, but a matrix product over window · batch for the gradient.

    The limits are measured. On a CPU (benchmarks/results/online-cpu.json) factored traces win with several samples and
    at least two inputs per remembered step. On a GPU they win only if the dense traces are large.
    """
    inputs = layer.rows - 1  # without the bias
    if engine.backend != "plain" and inputs * outputs * batch <= 2**21:
        return False
    return batch >= 8 and 2 * window <= inputs
