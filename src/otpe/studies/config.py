"""What a study is asked to do. Imports no jax."""

from dataclasses import dataclass

from otpe.runs.config import Settings


@dataclass(frozen=True, kw_only=True)
class WhichRules:
    """What is compared."""

    rules: tuple[str, ...] = ("otpe", "approx-otpe", "ostl", "ottt", "deep-otpe", "approx-deep-otpe")
    """Names from otpe.rules()."""


@dataclass(frozen=True, kw_only=True)
class AlignConfig(Settings, WhichRules):
    """Train by BPTT, and compare the gradients of other rules with BPTT's on the way, at every evaluation.

    The gradients are those at BPTT's own parameters, on the mini-batch that comes next: cosine and ratio of norms, per
    layer and over the whole model. The run folder is that of `otpe train --rule bptt --align ...`.
    """
