"""The loss around BPTT's training, and where every rule went."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from otpe import files
from otpe.paper.finished import Finished
from otpe.runs import settings, snapshots
from otpe.runs.config import TrainConfig
from otpe.runs.task import Splits
from otpe.studies import landscape, planes

SAMPLES = 1024


def section(
    runs: Mapping[str, Finished | None], config: TrainConfig, splits: Splits, grid: int, out: Path, name: str
) -> dict[str, Any]:
    """From the weights that the runs kept; all arrays go to landscape.npz."""
    if not runs.get(planes.REFERENCE):
        return {"lead": "There is no run by BPTT, whose plane it is."}
    net = settings.network(config, splits.train.units, len(splits.train.names))
    batch = landscape.validation(config, splits, SAMPLES)
    try:
        kept = {rule: snapshots.read(run.path, net) for rule, run in runs.items() if run}
        seen = planes.look(net, kept, batch, grid=grid, precision=config.precision, backend=config.backend)
    except (planes.NoPlaneError, FileNotFoundError) as error:
        return {"lead": f"There is no plane to look at: {error}"}
    files.write_atomically(out / "landscape.npz", planes.npz(seen))
    told = landscape.section(seen, title=f"Loss landscape of {name}")
    return {part: getattr(told, part) for part in ("lead", "figures", "tables", "remarks")}
