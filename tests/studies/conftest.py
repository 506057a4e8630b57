"""Studies describe figures and another module draws them: nothing is drawn in these tests."""

import pytest

from otpe.charts import draw


@pytest.fixture(autouse=True, scope="module")
def drawn():
    """Record the figures and folders that would be drawn."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "draw", lambda figure, folder: found.append((figure.name, folder)) or [])
        patch.setattr(draw, "png", lambda figure: b"")
        yield found
