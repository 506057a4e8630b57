"""Folders of runs that were not trained: their files are written by hand."""

import json
from dataclasses import asdict

import pytest
from sample_sections import NAN, section

from otpe.lab.report import content
from otpe.lab.settings import CompareConfig, TrainConfig

MACHINE = {"device": "cpu: cpu", "platform": "Linux", "versions": {"otpe": "0.1.0"}, "commit": "abc"}


class Runs:
    """Makes run folders inside one folder."""

    def __init__(self, path):
        self.path = path

    def write(self, name, **content):
        folder = self.path / name
        folder.mkdir(parents=True, exist_ok=True)
        for stem, what in content.items():
            name = {"metrics": "metrics.jsonl"}.get(stem, f"{stem}.json")
            (folder / name).write_text(what if isinstance(what, str) else json.dumps(what, default=str))
        return folder

    def study(self, name, **change):
        return self.write(name, section=content.to_json(section(name, **change)))

    def train(self, name, finished=True, measured=(4, 8), **change):
        about = {"format": 1, **asdict(TrainConfig(steps=8, seeds=2, dataset="r-randman")), **MACHINE} | change
        lines = [
            {"step": step, "loss": [1 / step, NAN if step == 4 else 1.0], "valid_accuracy": [0.5, 0.7]}
            for step in measured
        ]
        content = {"config": about, "metrics": "".join(json.dumps(line) + "\n" for line in lines)}
        numbers = {"seed": 0, "seeds": 2, "seconds": 3.0, "steps_per_second": 2.5, "test_accuracy": [0.5, 0.7]}
        lists = {name: [1, 2] for name in ("test_loss", "valid_accuracy", "best_step", "loss")}
        return self.write(name, **content, **({"result": {"format": 1, **numbers, **lists}} if finished else {}))

    def comparison(self, name):
        return self.write(name, config={"format": 1, **asdict(CompareConfig())})


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path / "runs")
