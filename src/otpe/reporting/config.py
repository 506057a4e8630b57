"""What `otpe report` is asked for. Imports no jax: these fields are the command line and its help."""

from dataclasses import dataclass
from pathlib import Path

from otpe.arguments import Positional


@dataclass(frozen=True)
class ReportConfig:
    """Put runs and studies into one page to read: figures, tables, the paper's numbers beside ours.

    FOLDER is that of a run or a study, or one that holds several. The page is a single file that needs no network; the
    folder beside it has every figure as SVG, PNG and CSV. Runs that are not finished, or damaged, are shown as such.
    """

    folders: Positional[tuple[Path, ...]] = (Path("runs"),)
    """Of runs; each is searched."""
    out: Path = Path("report.html")
    """The page. An older one is replaced when the new one is complete."""
    title: str = "OTPE: results"
    """What stands at the top of the page."""
    open: bool = False
    """Show the page in the browser at the end."""
