"""Figures are described here, and drawn elsewhere: a stand-in takes them."""

import sys
from types import SimpleNamespace

import pytest


@pytest.fixture(autouse=True, scope="package")
def drawn():
    """What was handed over to be drawn: figure and folder."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        stand_in = SimpleNamespace(draw=lambda figure, folder: found.append((figure.name, folder)) or [])
        patch.setitem(sys.modules, "otpe.charts.draw", stand_in)
        yield found
