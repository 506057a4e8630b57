"""Folders of finished runs that were not trained: their files are written by hand."""

import json
from dataclasses import replace

from otpe.lab.paper.plan import read_run
from otpe.lab.runs import folder
from otpe.lab.settings import TrainConfig

MACHINE = {"device": "gpu: H1", "platform": "Linux", "versions": {"otpe": "0.1.0"}, "commit": "abc"}


def write(path, config, valid, *, test=(0.5,), loss=None, every=10, alignment=None, best=None):
    """Write a run with these losses and validation accuracies: a list per evaluation, with a number per network."""
    lines = [
        {"step": every * (i + 1), "valid_accuracy": v, "loss": [1.0] * len(v) if loss is None else loss[i]}
        for i, v in enumerate(valid)
    ]
    if alignment:
        lines = [{**line, "alignment": aligned_rules} for line, aligned_rules in zip(lines, alignment, strict=True)]
    config = replace(config, steps=every * len(valid), seeds=len(valid[0]))
    names = ("rule", "mode", "dataset", "steps", "seeds", "seed", "learning_rate")
    result = {"format": 1, **{name: getattr(config, name) for name in names}, "test_accuracy": test, "seconds": 2.0}
    result["valid_accuracy"] = [0.5] * len(valid[0]) if best is None else best
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps({"format": 1, **folder.plain(config), **MACHINE}))
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "result.json").write_text(json.dumps(result))


def run(path, rule, valid, *, test=(0.5,), loss=None, every=10, alignment=None, best=None, **settings):
    """Write such a run and read it again."""
    where = path / f"{len(list(path.iterdir()))}-{rule}"
    config = TrainConfig(**{"rule": rule, "learning_rate": 1e-3, **settings})
    write(where, config, valid, test=test, loss=loss, every=every, alignment=alignment, best=best)
    return read_run(where)


def aligned(rules):
    """The alignment in a line of metrics, from kernel cosines [S, L] of each rule. Biases have half the cosine, sizes twice."""
    return {rule: {"cosine": _parts(kernels, 1), "size": _parts(kernels, 2)} for rule, kernels in rules.items()}


def _parts(kernels, times):
    layers = [
        {part: [None if x is None else x * times * share for x in layer] for part, share in (("kernel", 1), ("bias", 0.5))}
        for layer in zip(*kernels, strict=True)
    ]  # fmt: skip
    return {"layers": layers, "model": [None if row[0] is None else row[0] * times / 10 for row in kernels]}
