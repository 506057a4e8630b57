"""Checks for learning rules, linear maps, neurons and learners for streams, including your own.

    from otpe import testing
    testing.check_rule(otpe.Rule("mine", hidden=MyRule(), output=otpe.Ostl()))
    testing.check_layer(MyLayer(20, 10))
    testing.check_neuron(MyNeuron(0.9))

Each check raises an AssertionError that says what is wrong. With `jax_enable_x64`, equality means a relative error of
at most 1e-10.
"""

from otpe.testing.assertions import relative_error
from otpe.testing.layer_checks import check_layer
from otpe.testing.learner_checks import check_learner
from otpe.testing.neuron_checks import check_neuron
from otpe.testing.oracles import autodiff
from otpe.testing.rule_checks import CHECKS, check_rule
from otpe.testing.scenario import Scenario, assert_live, scenario, scenario_on

__all__ = [
    "CHECKS", "Scenario", "assert_live", "autodiff", "check_layer", "check_learner", "check_neuron", "check_rule",
    "relative_error", "scenario", "scenario_on",
]  # fmt: skip
