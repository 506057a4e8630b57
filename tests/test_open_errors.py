"""Bad neurons, leaks, losses, targets and rules are refused: what was given, what was expected, and the fix."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory.own_neuron import AlphaSynapse

import otpe
from otpe import layers
from otpe.neurons import AdaptiveLIF, CubaLIF, LeakyIntegrator, PerNeuron, Uniform

NET = otpe.network(4, [(layers.dense(6), CubaLIF(0.9)), (layers.dense(3), AdaptiveLIF(0.9))])
PARAMS = NET.init(jax.random.key(0))
SPIKES = np.zeros((5, 2, 4))
LABELS = np.array([0, 2])


def grads(labels=LABELS, loss=None, **kwargs):
    return otpe.gradients(NET, PARAMS, SPIKES, labels, loss=loss, **kwargs)


def one(neuron, n=3):
    return otpe.network(4, [(layers.dense(n), neuron)])


def emit(labels, loss=None):
    form = otpe.stepper(NET, "otpe", loss=loss)
    state, info = form.advance(PARAMS, form.init(2), SPIKES[0])
    return form.emit(PARAMS, state, info, labels)


def rule(local):
    return otpe.Rule("mine", hidden=local, output=local)


class NoLinearise:
    start = step = lambda self: None


class NoHash:
    __hash__ = None
    start = step = linearise = lambda self: None


@dataclass(frozen=True)
class ManyCurrents(AlphaSynapse):
    """b differs between neurons."""

    def linearise(self, v):
        A, (a, b, _), h = super().linearise(v)
        return A, (a, b, 1 + v), h


@dataclass(frozen=True)
class Circle(AlphaSynapse):
    """Its states feed each other."""

    def step(self, state, current):
        (J, I, u), _, v = super().step(state, current)
        return (J + 0.1 * I, I, u), otpe.spike(self.surrogate, v - 1), v


@dataclass(frozen=True)
class MoreArrays(AlphaSynapse):
    def start(self, shape, dtype):
        return (*super().start(shape, dtype), jnp.zeros(shape, dtype))

    def step(self, state, current):
        after, s, v = super().step(state[:3], current)
        return (*after, s), s, v


@dataclass(frozen=True)
class BadPoles(AlphaSynapse):
    poles: object = (0, 3)


@dataclass(frozen=True)
class OneNumberByWeight(otpe.Ostl):
    """Written for neurons with one state."""

    def advance(self, rows, x, now, decay):
        (D,) = rows
        return (decay.ρ * D + x,)

    def backward(self, carry, q, now, decay):
        (κ,) = carry
        κ = q * now.g + decay.ρ * κ
        return (κ,), κ, q * now.g


@dataclass(frozen=True)
class OneNumberByInput(otpe.Ottt):
    def advance(self, rows, x, now, decay):
        (a,) = rows
        return (decay.own * a + x,)

    def backward(self, carry, q, now, decay):
        (κ,) = carry
        κ = q * now.g + decay.own * κ
        return (κ,), κ, q * now.g


@dataclass(frozen=True)
class Forgets(otpe.Ostl):
    def backward(self, carry, q, now, decay):
        κ = q * now.g
        return (κ,), κ, κ


def deep(neuron):
    """Call a rule that needs the poles of the output."""
    net = otpe.network(4, [(layers.dense(3), otpe.LIF(0.9)), (layers.dense(3), neuron)])
    return otpe.gradients(net, net.init(jax.random.key(0)), SPIKES, LABELS, rule="deep-otpe")


RANGE = r"expected a number in \[0, 1\): the share of the membrane"
MESSAGES = [
    # networks
    (lambda: otpe.Network((layers.DenseLayer(4, 6), layers.DenseLayer(5, 3)), (CubaLIF(0.9),) * 2), ValueError, r"layer 0 gives \(6,\) and layer 1 takes \(5,\), expected one shape"),
    (lambda: otpe.network((1, 4, 4), [(layers.dense(6), CubaLIF(0.9))]), ValueError, r"layer 0: dense\(6\) takes a flat input, but its input is \[1, 4, 4\]. Use flatten\(\) >> dense\(6\)"),
    (lambda: otpe.network((1, 4, 4), [(layers.conv(2, 3), CubaLIF(0.9))]), ValueError, r"layer 0: the last layer gives the shape \[2, 2, 2\], expected one number per class"),
    # neurons
    (lambda: one(NoLinearise()), TypeError, r"one of your own with the methods start, step and linearise; missing: linearise"),
    (lambda: otpe.Network((layers.DenseLayer(4, 3),), (otpe.LIF,)), TypeError, r"neuron is <class .*LIF.*>, expected a neuron such as otpe.LIF\(0.95\)"),
    (lambda: one(None), TypeError, r"layer 0: the neurons are None, expected neurons such as otpe.LIF\(0.9\)"),
    (lambda: one(NoHash()), TypeError, r"NoHash cannot be hashed, expected a frozen dataclass of plain numbers.*use otpe.Uniform or otpe.PerNeuron"),
    (lambda: CubaLIF(0.9, surrogate=lambda d: 1 / d), ValueError, r"surrogate gives inf at the distance 0 from the threshold, expected a finite number"),
    (lambda: AdaptiveLIF(0.9, surrogate=jnp.sqrt), ValueError, r"surrogate gives nan at the distance -100 from the threshold"),
    (lambda: AdaptiveLIF(0.9, strength=-1), ValueError, r"strength is -1, expected a finite number, 0 or above"),
    (lambda: AdaptiveLIF(0.9, reset="hard"), ValueError, r"reset is 'hard', expected one of 'subtract', 'zero', 'none'"),
    (lambda: CubaLIF(0.9, threshold=0), ValueError, r"threshold is 0, expected a finite number above 0"),
    (lambda: deep(ManyCurrents()), ValueError, r"linearise of ManyCurrents returned .* for b, expected plain numbers, one per state"),
    (lambda: deep(Circle()), ValueError, r"the states of Circle feed each other.*Give the class `poles`"),
    (lambda: deep(MoreArrays()), ValueError, r"MoreArrays has 3 numbers in b and a state of 4 arrays.*Give it a method leaks\(\)"),
    (lambda: deep(BadPoles()), ValueError, r"poles of BadPoles are \(0, 3\), expected numbers of states from 0 to 2, each at most once, the membrane last"),
    # leaks
    (lambda: CubaLIF(0.9, 1.2), ValueError, rf"current_leak is 1.2, {RANGE}"),
    (lambda: AdaptiveLIF(0.9, -1), ValueError, rf"adaptation_leak is -1, {RANGE}"),
    (lambda: LeakyIntegrator(float("nan")), ValueError, rf"leak is nan, {RANGE}"),
    (lambda: otpe.LIF(1.0, learn_leak=True), ValueError, rf"leak is 1.0, {RANGE}"),
    (lambda: otpe.LIF(0.0, learn_leak=True), ValueError, r"leak is 0 and trained, expected a number in \(0, 1\): it is stored as its logit"),
    (lambda: CubaLIF(0.9, 0.0, learn_current_leak=True), ValueError, r"current_leak is 0 and trained, expected a number in \(0, 1\)"),
    (lambda: otpe.LIF([0.9, 0.0], learn_leak=True), ValueError, r"leak is 0 and trained, expected a number in \(0, 1\)"),
    (lambda: otpe.LIF(Uniform(0, 0.9), learn_leak="neuron"), ValueError, r"leak is 0 and trained, expected a number in \(0, 1\)"),
    (lambda: otpe.LIF(0.9, learn_leak="layer"), ValueError, r"learn_leak is 'layer', expected True, False or 'neuron'"),
    (lambda: otpe.LIF([0.9, 1.0]), ValueError, rf"leak is 1.0, {RANGE}"),
    (lambda: otpe.LIF([0.9, np.nan]), ValueError, r"leak has no entries or some that are not finite, expected numbers in \[0, 1\)"),
    (lambda: otpe.LIF([]), ValueError, r"leak has no entries or some that are not finite"),
    (lambda: otpe.LIF(["a", "b"]), ValueError, r"leak is \['a', 'b'\], expected an array of numbers in \[0, 1\)"),
    (lambda: PerNeuron([2.0, 0.5]), ValueError, rf"PerNeuron is 2.0, {RANGE}"),
    (lambda: PerNeuron("x"), ValueError, r"PerNeuron is 'x', expected an array of numbers in \[0, 1\)"),
    (lambda: one(otpe.LIF([0.9, 0.8])), ValueError, r"layer 0: leak has the shape \[2\], expected \[3\]: one number for each neuron of the layer"),
    (lambda: one(CubaLIF(0.9, [0.9, 0.8], learn_current_leak=True)), ValueError, r"layer 0: current_leak has the shape \[2\], expected \[3\]"),
    (lambda: Uniform(0.9, 0.5), ValueError, r"Uniform: low is 0.9 and high is 0.5, expected low to be the smaller one"),
    (lambda: Uniform(0.9, 1.0), ValueError, rf"Uniform: high is 1.0, {RANGE}"),
    (lambda: Uniform(0.5, 0.9, seed=-1), ValueError, r"Uniform: seed is -1, expected a whole number from 0"),
    # losses
    (lambda: grads(loss=lambda o, y: o.sum()), ValueError, r"loss '<lambda>' returned the shape \[\] for logits \[2, 3\], expected \[2\]: one number per sample"),
    (lambda: grads(loss=lambda o, y: o**2), ValueError, r"returned the shape \[2, 3\] for logits \[2, 3\], expected \[2\].*Take the mean or the sum over the outputs, axis -1"),
    (lambda: grads(loss=lambda o, y: o.mean(0), form="steps"), ValueError, r"returned the shape \[3\] for logits \[2, 3\], expected \[2\]"),
    (lambda: grads(loss=lambda o, y: o.sum(), rule="rtrl"), ValueError, r"returned the shape \[\] for logits \[2, 3\]"),
    (lambda: grads(loss=lambda o, y: (o > 0).sum(-1)), TypeError, r"loss '<lambda>' returned numbers of type int64, expected real numbers \[B\] that depend on the logits"),
    (lambda: grads(loss=lambda o, y: None), TypeError, r"loss '<lambda>' returned None, expected real numbers"),
    (lambda: grads(loss="spike"), ValueError, r"loss 'spike' is not known. Did you mean 'spikes'\?"),
    (lambda: grads(loss=3), TypeError, r"loss is 3, expected one of 'spikes', 'leaky', 'membrane', 'mse', or a function of logits"),
    (lambda: grads(loss=otpe.Loss), TypeError, r"loss is <class 'otpe.losses.Loss'>, expected one of"),
    (lambda: otpe.Loss("mae"), ValueError, r"loss 'mae' is not known"),
    (lambda: otpe.Loss(rate=2), ValueError, r"rate is 2, expected a share from 0 to 1"),
    (lambda: otpe.Loss(rate_weight=-1), ValueError, r"rate_weight is -1, expected a finite number, 0 or above"),
    (lambda: grads(loss="membrane"), ValueError, r"loss is 'membrane', but the output neurons are AdaptiveLIF, which spike. Use otpe.LeakyIntegrator for the last layer"),
    # targets and labels
    (lambda: grads(np.zeros((2, 4)), "mse"), ValueError, r"targets have the shape \[2, 4\], expected \[2, 3\] or \[5, 2, 3\]: one number per output"),
    (lambda: grads(np.zeros((4, 2, 3)), "mse"), ValueError, r"targets have the shape \[4, 2, 3\], expected \[2, 3\] or \[5, 2, 3\]"),
    (lambda: grads(np.zeros(2), "mse"), ValueError, r"targets have the shape \[2\], expected \[2, 3\] or \[5, 2, 3\]"),
    (lambda: grads(np.full((2, 3), np.nan), "mse"), ValueError, r"targets hold numbers that are not finite"),
    (lambda: grads(np.zeros((2, 3))), TypeError, r"labels are of type float64, expected whole numbers. For one-hot labels use labels.argmax\(-1\)"),
    (lambda: grads(np.zeros((5, 2))), TypeError, r"labels are of type float64, expected whole numbers. Use labels.astype\(int\)"),
    (lambda: grads(np.zeros((4, 2), int)), ValueError, r"labels have the shape \[4, 2\], expected \[2\]: one label per sample, or \[5, 2\] with one per time step.$"),
    (lambda: grads(np.zeros((2, 5), int)), ValueError, r"labels have the shape \[2, 5\]: this looks batch-major. Expected time first, \[5, 2\]: use labels.T"),
    (lambda: grads(np.full((5, 2), 3)), ValueError, r"labels run from 3 to 3, expected 0 to 2"),
    (lambda: emit(np.zeros((5, 2), int)), ValueError, r"labels have the shape \[5, 2\], expected \[2\]: one label per sample.$"),
    (lambda: emit(np.zeros((5, 2, 3)), "mse"), ValueError, r"targets have the shape \[5, 2, 3\], expected \[2, 3\]: one number per output"),
    # rules that were written for one state
    *(
        (lambda form=form: grads(rule=rule(OneNumberByWeight()), form=form), ValueError, r"decay.ρ is one number per neuron, but the neurons of this layer have 2 states. Write the rule with decay.carry\(trace, x\)")
        for form in ("whole", "steps")
    ),
    *(
        (lambda form=form: grads(rule=rule(OneNumberByInput()), form=form), ValueError, r"decay.own is one number per neuron, but the neurons of this layer have 2 states. Write the rule with decay.carry_leaky\(trace, x\)")
        for form in ("whole", "steps")
    ),
    (lambda: grads(rule=rule(Forgets())), ValueError, r"backward of Forgets returned other filters than its start made for layer 1, whose neurons have 2 states"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), MESSAGES, ids=[row[2][:40] for row in MESSAGES])
def test_the_error_message(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_rules_for_one_state_work_where_there_is_one():
    net = otpe.dense([4, 5, 3])
    params = net.init(jax.random.key(0))
    spikes = np.ones_like(SPIKES)
    for mine, same in ((OneNumberByWeight(), "ostl"), (OneNumberByInput(), "ottt")):
        actual, expected = (otpe.gradients(net, params, spikes, LABELS, rule=r)[1] for r in (rule(mine), same))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), actual, expected)
