"""`otpe.report`, and the verb."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from otpe import files
from otpe.reporting import find, page

if TYPE_CHECKING:
    from otpe.reporting.config import ReportConfig  # needs tyro, which only the command line does


def report(
    folders: str | Path | Sequence[str | Path] = "runs", out: str | Path = "report.html", title: str = "OTPE: results"
) -> Path:
    """Put the runs and studies of these folders into one page, and return it.

    The page is a single file; the folder STEM-files beside it has every figure as SVG, PNG and CSV. Runs that are not
    finished, damaged or of another version are shown as such.

    Raises:
      OSError: there is nothing to show, or the page cannot be written; an older one then is as it was.
    """
    given = [folders] if isinstance(folders, str | Path) else folders
    found, out = _checked([Path(folder) for folder in given], Path(out))
    _write(found, out, title)
    return out


def prepare(config: ReportConfig) -> Callable[[], int]:
    """Look for the runs, and return the job."""
    found, out = _checked(config.folders, config.out)
    return lambda: _run(config, found, out)


def _checked(folders: Sequence[Path], out: Path) -> tuple[list[find.Found], Path]:
    if out.is_dir() or not out.suffix:
        raise IsADirectoryError(f"out is {str(out)!r}, expected a file, such as {out / 'report.html'}.")
    found = find.search(folders)
    files.folder(out.parent)
    return found, out


def _write(found: list[find.Found], out: Path, title: str) -> list[find.Found]:
    """What was found, as the page shows it."""
    folder = out.with_name(f"{out.stem}-files")
    files.folder(folder)
    made = page.page(title, found, folder)
    files.write_atomically(out, made.html)
    return made.found


def _run(config: ReportConfig, found: list[find.Found], out: Path) -> int:
    found = _write(found, out, config.title)
    for each in found:
        if each.state != "finished":
            print(f"otpe: {each.path}: {each.state}. {each.note}", file=sys.stderr)
    states = Counter(each.state for each in found)
    print(f"{', '.join(f'{count} {state}' for state, count in states.items())}\nReport: {out}")
    if config.open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
    return 0
