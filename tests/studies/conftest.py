"""Figures are described here, and drawn elsewhere: nothing is drawn in these tests."""

import pytest

from otpe.lab.report import drawing


@pytest.fixture(autouse=True, scope="module")
def drawn():
    """What was handed over to be drawn: figure and folder."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw", lambda figure, folder: found.append((figure.name, folder)) or [])
        patch.setattr(drawing, "png", lambda figure: b"")
        yield found
