"""A run that version 0.1 stopped in the middle: it resumes as if that version had gone on.

Commit 6ad647d wrote the folder tests/golden/runs/adamw, of the run below, and the checkpoint beside it, of the same run
to its end. On the machine that wrote them, the resumed run equals that checkpoint bit for bit.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import otpe
from otpe import tensors
from otpe.datasets import from_arrays
from otpe.lab.runs import checkpoint

pytestmark = pytest.mark.filterwarnings("ignore:other versions")
FILES = Path(__file__).parents[1] / "golden" / "runs"
OPTIMIZER = {
    "learning_rate": 0.03,
    "weight_decay": 0.01,
    "clip": 0.05,
    "schedule": "cosine",
    "final_rate": 0.1,
    "warmup": 3,
}
CONFIG = otpe.TrainConfig(
    dataset="mine", hidden=(6,), threshold=0.3, batch=4, steps=12, eval_every=4, seed=1, checkpoint_seconds=0,
    optimizer="adamw", **OPTIMIZER,
)  # fmt: skip


def splits():
    rng = np.random.default_rng(0)
    data = from_arrays((rng.random((6, 12, 8)) < 0.4).astype(np.uint8), np.arange(12) % 3)
    return otpe.Splits(data, data, data)


def arrays(path):
    return tensors.read(path, checkpoint.KIND)[0]


def resumed(path, config, **given):
    """Return the state at the end of the run."""
    out = shutil.copytree(FILES / "adamw", path)
    assert [path.name for path in (out / "checkpoints").iterdir()] == [checkpoint.name(4)]
    otpe.train(replace(config, out=out, resume=True), data=splits(), **given)
    return arrays(out / "checkpoints" / checkpoint.name(12))


def test_a_stopped_run_with_a_schedule_resumes(tmp_path):
    found, expected = resumed(tmp_path / "run", CONFIG), arrays(FILES / "adamw-end.safetensors")
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-5, err_msg=name)
    np.testing.assert_allclose(found["opt_state.rate"], [0.03 * 0.1], rtol=1e-6)
    plain = replace(CONFIG, **{name: getattr(otpe.TrainConfig, name) for name in ("optimizer", *OPTIMIZER)})
    by_name = resumed(tmp_path / "by name", plain, optimizer=otpe.Optimizer("adamw", **OPTIMIZER))
    assert {name: array.tobytes() for name, array in by_name.items()} == {
        name: array.tobytes() for name, array in found.items()
    }, "the fields of an otpe.Optimizer are settings"
