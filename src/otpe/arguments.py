"""The type of positional settings: the command line takes them without a flag, as in `otpe report runs`."""

from typing import Annotated, TypeVar

Value = TypeVar("Value")
try:
    from tyro.conf import Positional
except ImportError:  # tyro is not installed, so there is no command line
    Positional = Annotated[Value, "without a name"]  # pyright: ignore[reportGeneralTypeIssues]
