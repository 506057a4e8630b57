"""The learning rules. README.md in this folder is the map."""

from otpe.rulebook.approx import Approx
from otpe.rulebook.bptt import Bptt
from otpe.rulebook.choose import stepper
from otpe.rulebook.named import rule, rules
from otpe.rulebook.ostl import Ostl
from otpe.rulebook.otpe import Otpe
from otpe.rulebook.ottt import Ottt
from otpe.rulebook.rtrl import Rtrl
from otpe.rulebook.rule import Decays, Emission, LocalRule, NonLocal, Now, PerStep, Rule, WholeSequence, cascade, scalar

__all__ = [
    "Approx", "Bptt", "Decays", "Emission", "LocalRule", "NonLocal", "Now", "Ostl", "Otpe", "Ottt", "PerStep", "Rtrl",
    "Rule", "WholeSequence", "cascade", "rule", "rules", "scalar", "stepper",
]  # fmt: skip
