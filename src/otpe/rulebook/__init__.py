"""The learning rules. README.md in this folder says what each file contains."""

from otpe.rulebook.approx import Approx
from otpe.rulebook.bptt import Bptt
from otpe.rulebook.choose import stepper
from otpe.rulebook.named_rules import rule, rules
from otpe.rulebook.ostl import Ostl
from otpe.rulebook.otpe import Otpe
from otpe.rulebook.ottt import Ottt
from otpe.rulebook.rtrl import Rtrl
from otpe.rulebook.rule import (
    Decays,
    Emission,
    LocalRule,
    NonLocal,
    PerStep,
    Rule,
    StepDerivatives,
    WholeSequence,
    cascade,
    scalar,
)

__all__ = [
    "Approx", "Bptt", "Decays", "Emission", "LocalRule", "NonLocal", "Ostl", "Otpe", "Ottt", "PerStep", "Rtrl", "Rule",
    "StepDerivatives", "WholeSequence", "cascade", "rule", "rules", "scalar", "stepper",
]  # fmt: skip
