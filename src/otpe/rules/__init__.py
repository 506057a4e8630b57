"""The learning rules. README.md in this folder has the derivation."""

from otpe.rules.approx import Approx
from otpe.rules.base import Blank, Decays, Emission, LocalRule, Now, PerStep, Rule, WholeSequence
from otpe.rules.bptt import Bptt
from otpe.rules.choose import stepper
from otpe.rules.named import rule, rules
from otpe.rules.ostl import Ostl
from otpe.rules.otpe import Otpe
from otpe.rules.ottt import Ottt
from otpe.rules.rtrl import Rtrl

__all__ = [
    "Approx", "Blank", "Bptt", "Decays", "Emission", "LocalRule", "Now", "Ostl", "Otpe", "Ottt", "PerStep", "Rtrl",
    "Rule", "WholeSequence", "rule", "rules", "stepper",
]  # fmt: skip
