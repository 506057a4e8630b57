"""Settings that the command line takes without a name, as in `otpe report runs`."""

from typing import Annotated, TypeVar

Value = TypeVar("Value")
try:
    from tyro.conf import Positional
except ImportError:  # without a command line there is nothing to tell it
    Positional = Annotated[Value, "without a name"]  # pyright: ignore[reportGeneralTypeIssues]
