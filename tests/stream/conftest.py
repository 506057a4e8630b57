"""A file of events, and the folder of its run."""

import pytest
from tiny_streams import events


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("".join(events()))
    return path


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"
