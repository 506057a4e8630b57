"""Studies describe figures and another module draws them: nothing is drawn in these tests."""

import pytest

from otpe.lab.report import drawing


@pytest.fixture(autouse=True, scope="module")
def drawn():
    """Record the figures and folders that would be drawn."""
    figures = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw", lambda figure, folder: figures.append((figure.name, folder)) or [])
        patch.setattr(drawing, "png", lambda figure: b"")
        yield figures
