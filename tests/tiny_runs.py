"""A run so small that compiling takes longer than training, and functions that read its folder."""

import hashlib
import json
from dataclasses import fields

import otpe
from otpe import tensors
from otpe.lab.runs import checkpoint

TINY = otpe.TrainConfig(
    dataset="t-randman", classes=3, units=8, dims=1, alpha=2.0, time_steps=6, standardize="fixed", hidden=(6,), threshold=0.3,
    learning_rate=0.03, batch=4, steps=12, eval_every=4, valid_samples=16, test_samples=12, seed=1,
)  # fmt: skip


def arguments(config, **change):
    """Return these settings as command line arguments."""
    changed = {f.name: getattr(config, f.name) for f in fields(config) if getattr(config, f.name) != f.default} | change
    line = []
    for name, value in changed.items():
        values = [] if value is True else value if isinstance(value, tuple) else [value]
        line += [f"--{name.replace('_', '-')}", *map(str, values)]
    return line


def fingerprints(folder):
    """Return a fingerprint of every file in the folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def state(folder, last=None):
    """Return every array of the newest checkpoint as bytes. `last`: the newest up to this step."""
    arrays, _ = tensors.read(checkpoint.newest(folder / "checkpoints", last), checkpoint.KIND)
    return {name: array.tobytes() for name, array in arrays.items()}


def steps_of(folder):
    """Return the step of each line of metrics."""
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
