"""Learners saved by version 0.1, before user neurons: they load and continue as in that version.

Commit d403745 wrote the files in tests/golden/learners after 12 steps of `stream`. The numbers
are the results of that commit's `learn_many` for the same 12 steps again.
"""

from pathlib import Path

import jax
import numpy as np
import pytest

import otpe

FILES = Path(__file__).parents[1] / "golden" / "learners"
#                     scores after these steps, then the sum of each parameter
EXPECTED = {
    "otpe": (
        [8.770724, 0.0, 0.098477],
        [1.516091, -0.090834, -0.364014, -0.059782, -0.593895, -0.137142],
    ),
    "approx-deep-otpe": (
        [8.770724, 0.0, 0.098477],
        [1.494493, -0.12463, -0.409537, -0.067423, -0.592333, -0.136952],
    ),
    "f-deep-otpe": (
        [2.374165, 0.0, 3.227967],
        [3.629314, 0.291405, -0.024799, -0.024562, -0.469102, -0.057508],
    ),
}


def stream():
    rng = np.random.default_rng(0)
    return (rng.random((12, 6)) < 0.5).astype(np.float32), np.arange(12) % 3


@pytest.mark.parametrize("rule", EXPECTED)
def test_a_learner_saved_by_version_0_1_resumes(rule, tmp_path):
    learner = otpe.StreamLearner.load(FILES / f"{rule}.safetensors")
    assert (learner.steps, learner.rule.name, learner.loss) == (12, rule, otpe.Loss())
    again = otpe.StreamLearner.load(learner.save(tmp_path / "again.safetensors"))
    scores, sums = EXPECTED[rule]
    for each in (learner, again):
        np.testing.assert_allclose(each.learn_many(*stream()).scores[-1], scores, rtol=1e-5, atol=1e-6)
        totals = [float(np.sum(leaf)) for leaf in jax.tree.leaves(each.params)]
        np.testing.assert_allclose(totals, sums, rtol=1e-4, atol=1e-5)
