"""The command `otpe data`: read a dataset, and write its numbers, its table and its pictures."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

from otpe import files
from otpe.lab.explore import reading, statistics
from otpe.lab.report import words
from otpe.lab.settings import DataConfig


def prepare(config: DataConfig) -> Callable[[], int]:
    """Check the settings, fetch, verify and read the data, and return the job that summarises it."""
    config = reading.checked(config)
    files.refuse_file(config.out)
    splits = reading.read(config)
    for split in splits:
        statistics.check_size(split)
    files.make_folder(config.out)
    return lambda: run(config, splits)


def run(config: DataConfig, splits: list[reading.Split]) -> int:
    found = statistics.summary(config, splits)
    text = statistics.text_summary(found)
    path = files.claim(config.out, config.name, ".json")
    files.write_json(path, found)
    files.write_atomically(path.with_suffix(".txt"), text)
    print(text)
    print(f"Numbers: {path}\nTable:   {path.with_suffix('.txt')}")
    _draw(path, config, splits[0], found)
    return 0


def _draw(path: Path, config: DataConfig, split: reading.Split, found: dict) -> None:
    if not importlib.util.find_spec("matplotlib"):
        print(f"Picture: {words.NO_MATPLOTLIB}")
        return
    from otpe.lab.explore import pictures

    for picture in pictures.draw(path, split, found, config.samples):
        print(f"Picture: {picture}")
