"""A rule, a map or a neuron is one file and one line in a registry: everything else follows from the line."""

import ast
import inspect
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax
import numpy as np
import pytest
from theory import cases, networks, reference
from theory.cases import assert_same

import otpe
from otpe import cli
from otpe.lab.runs import build_network, folder
from otpe.layers.compose import Chains
from otpe.neurons.models import Leaky
from otpe.rulebook import named_rules
from otpe.rulebook.rule import NonLocal
from otpe.surrogates import surrogate_derivative
from otpe.testing import autodiff, check_layer, check_neuron, check_rule, scenario

RULES = Path(named_rules.__file__).parent


@dataclass(frozen=True)
class Toy(otpe.Ottt):
    """OTTT that sends down half of the signal, except where there is no memory."""

    averages: ClassVar = True

    def emit(self, rows, q, now):
        return super().emit(rows, q, now)._replace(below=q * (1.5 * now.g - 0.5 * now.ḡ))

    def backward(self, carry, q, now, decay):
        carry, κ, _ = super().backward(carry, q, now, decay)
        return carry, κ, q * (1.5 * now.g - 0.5 * now.ḡ)


@dataclass(frozen=True)
class ToyMap(Chains):
    """The inputs in reverse order."""

    units: int

    @property
    def in_shape(self):
        return (self.units,)

    out_shape = in_shape

    def init(self, key, dtype):
        return ()

    def apply(self, params, x, one=1.0):
        return x[:, ::-1]


@dataclass(frozen=True)
class ToyNeuron(Leaky):
    """LIF whose current is a leaky sum with a fixed leak: I_t = α I_{t-1} + c_t, v_t = λ u_{t-1} + I_t."""

    leak: object
    α: float = 0.5
    surrogate: object = otpe.arctan()
    reset: str = "subtract"
    threshold: float = 1.0
    learn_leak: object = False

    def start(self, shape, dtype):
        return jax.numpy.zeros(shape, dtype), jax.numpy.zeros(shape, dtype)

    def step(self, state, current):
        I, u = state
        I = self.α * I + current
        v = self.leak * u + I
        s = otpe.spike(self.surrogate, v - self.threshold)
        return (I, self._after_reset(v, s)), s, v

    def linearise(self, v):
        g = surrogate_derivative(self.surrogate, v - self.threshold)
        return ((self.α, 0), (self.α, self._survival(v, v >= self.threshold, g))), (1.0, 1.0), (0, g)

    def causes(self, state):
        return {"leak": (state[1], (0, 1.0))}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(named_rules.NAMED, "toy", otpe.Rule("toy", Toy(), Toy()))
    monkeypatch.setitem(otpe.layers.NAMED, "toy map", ToyMap(4))
    monkeypatch.setitem(otpe.neurons.NAMED, "toy neuron", ToyNeuron)


def test_a_registered_rule_is_known_and_checked(tmp_path):
    assert otpe.rules()[-1] == "toy"
    assert set(cases.local_rules()) == {*cases.LOCAL, "toy"}
    check_rule("toy")
    case = scenario((4, 6, 3), leak=(0.9, 0.7), seed=3)
    actual = otpe.gradients(*case, rule="toy")[1]
    assert_same([tuple(layer) for layer in actual], reference.gradients(case, "toy"))
    path = tmp_path / "learner.safetensors"
    otpe.StreamLearner(case.net, "toy").save(path)
    assert otpe.StreamLearner.load(path).rule == otpe.rule("toy")


@pytest.mark.parametrize("name", ["toy map", "toy neuron"])
def test_a_registered_map_or_neuron_is_known_and_exact(name, tmp_path):
    """The theory tests run on a network with it, for every rule. Here they do for two rules."""
    added = networks.every_network()
    assert set(added) == {*networks.NETWORKS, "toy map", "toy neuron"}
    case = networks.live(added[name])
    assert {ToyMap, ToyNeuron} & networks.parts(case.net)
    exact = autodiff(*case)
    assert_same(otpe.gradients(*case, rule="bptt"), exact)
    for rule in ("otpe", "f-approx-deep-otpe"):
        whole = otpe.gradients(*case, rule=rule)
        assert_same(otpe.gradients(*case, rule=rule, form="steps"), whole)
        assert_same(whole[1], reference.gradients(case, rule))

    otpe.save(tmp_path / "net", case.net, case.params)
    net, params = otpe.load_network(tmp_path / "net")
    assert net == case.net
    np.testing.assert_array_equal(net.run(params, case.spikes), case.net.run(case.params, case.spikes))


def test_a_registered_neuron_is_trained_from_the_command_line(tmp_path, capsys):
    small = ["--time-steps", "4", "--steps", "2", "--batch", "4", "--valid-samples", "4", "--test-samples", "4"]
    options = ["--neuron", "toy neuron", "--leak", "0.7", "--threshold", "0.5", "--learn-leak", "neuron"]
    run = tmp_path / "run"
    options += ["--surrogate", "arctan", "--hidden", "5", "--out", str(run)]
    with jax.enable_x64(False):
        assert cli.main(["train", *small, *options]) == 0
    net = build_network.network(folder.stored(otpe.TrainConfig, run), 50, 10)
    assert {*net.neurons} == {ToyNeuron(0.7, surrogate=otpe.arctan(), threshold=0.5, learn_leak="neuron")}
    assert cli.main(["train", "--neuron", "toy neuron", "--current-leak", "0.5", "--out", str(tmp_path / "other")]) == 2
    assert "which is for neuron 'cuba', but neuron is 'toy neuron'" in capsys.readouterr().err


def test_registered_maps_and_neurons_pass_the_public_checks():
    check_layer(otpe.layers.NAMED["toy map"])
    check_neuron(otpe.neurons.NAMED["toy neuron"](0.9))


def test_an_unregistered_map_is_not_written_to_a_file(tmp_path, monkeypatch):
    net = networks.with_map(ToyMap(4))
    otpe.save(tmp_path / "net", net, params := net.init(jax.random.key(0)))
    monkeypatch.delitem(otpe.layers.NAMED, "toy map")
    with pytest.raises(ValueError, match="it holds a 'ToyMap', which this version of otpe does not know"):
        otpe.load_network(tmp_path / "net")
    otpe.save(tmp_path / "net", net, params)
    with pytest.raises(ValueError, match="maps, neurons or surrogates of your own"):
        otpe.load_network(tmp_path / "net")


def imported(kind):
    """Return the modules of otpe that the file of a rule imports."""
    tree = ast.parse(inspect.getsource(sys.modules[kind.__module__]))
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {name for name in names if name.split(".")[0] == "otpe"}


@pytest.mark.parametrize("rule", otpe.rules())
def test_the_file_of_a_local_rule_imports_only_the_contract(rule):
    """It has no loop and no network, and rules do not know each other."""
    others = {type(local).__module__ for each in map(otpe.rule, cases.LOCAL) for local in (each.hidden, each.output)}
    assert others >= {"otpe.rulebook.ostl", "otpe.rulebook.ottt", "otpe.rulebook.otpe", "otpe.rulebook.approx"}
    for local in (otpe.rule(rule).hidden, otpe.rule(rule).output):
        if isinstance(local, NonLocal):
            assert not imported(type(local)) & others
        else:
            assert imported(type(local)) == {"otpe.rulebook.rule"}
