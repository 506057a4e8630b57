"""What `otpe reproduce` is asked to do. Imports no jax."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from otpe.arguments import Positional


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig:
    """Every table and figure of the paper: train what they need, and write a report that shows ours beside theirs.

    Without a name, all items. What was stopped goes on where it was when the same command is given again, and what is
    finished is not run again. Offline everything is as large as in the paper; online training and searches are on a
    coarse grid, which the report states, and with --fine as in the paper: that takes days.
    """

    items: Positional[tuple[str, ...]] = ()
    """Which, by name. `otpe reproduce --list` names them all."""
    quick: bool = False
    """All items, made small: minutes on 2 CPU cores."""
    fine: bool = False
    """Online training and searches as large as in the paper too."""
    list: bool = False
    """Name the items, and stop."""
    out: Path | None = None
    """The folder for everything. By default runs/reproduce, runs/reproduce-quick or runs/reproduce-fine."""
    root: Path = Path("data/shd")
    """The spoken digits, SHD's files or others in their layout. Items that need them are left out without."""
    digits: str | None = None
    """What to call them, where they are not the official SHD files."""
    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of matrix products, on a GPU."""
    checkpoint_seconds: float = 60.0
    """Save the state of the run in training this often."""
