"""Figures are described here, and drawn elsewhere: a stand-in takes them."""

import sys
from types import SimpleNamespace

import pytest

from otpe import charts


@pytest.fixture(autouse=True, scope="package")
def drawn():
    """What was handed over to be drawn: figure and folder."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        stand_in = SimpleNamespace(
            draw=lambda figure, folder: found.append((figure.name, folder)) or [], png=lambda figure: b""
        )
        patch.setitem(sys.modules, "otpe.charts.draw", stand_in)
        patch.setattr(charts, "draw", stand_in, raising=False)
        yield found
