"""The summary as text: a column for each split."""

from pathlib import Path
from typing import Any

from otpe.tables import columns

AXES = {1: "N", 3: "C, H, W"}  # of a time step, by how many there are
OFFICIAL = {True: "yes", False: "no", None: "unknown"}


def text(found: dict[str, Any]) -> str:
    parts = [_head(found), _numbers(found), _classes(found["splits"]), *_warnings(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(found: dict[str, Any]) -> str:
    return f"{found['title']}\n{found['about']}\notpe {found['otpe']}, {found['date'][:10]}"


def _numbers(found: dict[str, Any]) -> str:
    cells = [_cells(split, found) for split in found["splits"]]
    names = [name for name in cells[0] if any(column[name] for column in cells)]
    rows = [["", *(split["name"] for split in found["splits"])]]
    rows += [[name, *(column[name] for column in cells)] for name in names]
    return columns(rows, left=(0,)) + "\n\n  three numbers: smallest / median / largest"


def _cells(split: dict[str, Any], found: dict[str, Any]) -> dict[str, str]:
    """What the rows say of one split; empty where there is nothing to say."""
    frames, recorded = split["frames"], split["file"] is not None
    per_class = [each["recordings"] for each in split["classes"]]
    steps = frames["steps_per_recording"]
    return {
        "file": Path(split["file"]).name if recorded else "",
        "official archive": OFFICIAL[split["official"]] if _has_archives(found) else "",
        "recordings" if recorded else "samples": f"{split['recordings']:,}",
        "classes": f"{len(per_class):,}",
        "speakers": "" if split["speakers"] is None else f"{len(split['speakers']):,}",
        "spikes": f"{split['spikes']:,}",
        "spikes of each": _spread(split["spikes_per_recording"], ",.0f"),
        f"{found['time_unit']}, first to last spike": _spread(split["duration"], ".3f" if recorded else ",.0f"),
        f"frames [T, {AXES.get(len(frames['shape']), '…')}]": str([frames["steps"], *frames["shape"]]),
        "time steps of each": "" if steps is None else _spread(steps, ",.0f"),
        "zeros in the frames": f"{100 * frames['zeros']:.2f} %",
        "mean count per unit and step": f"{frames['mean']:.4f}",
        "mean count where not zero": f"{frames['mean_where_not_zero']:.3f}",
        "largest count": f"{frames['largest']:,}",
        "spikes left out of the frames": f"{frames['spikes_left_out']:,}" if frames["spikes_left_out"] else "",
    }


def _classes(splits: list[dict[str, Any]]) -> str:
    """Recordings of each class. Splits may name theirs differently, then each has a table of its own."""
    together = len({tuple(each["name"] for each in split["classes"]) for split in splits}) == 1
    groups = [splits] if together else [[split] for split in splits]
    return "\n\n".join(_class_table(group) for group in groups)


def _class_table(splits: list[dict[str, Any]]) -> str:
    rows = [["label", "class", *(split["name"] for split in splits)]]
    for label, each in enumerate(splits[0]["classes"]):
        counts = (split["classes"][label]["recordings"] for split in splits)
        rows.append([str(label), each["name"], *(f"{count:,}" for count in counts)])
    return f"{'Recordings' if splits[0]['file'] else 'Samples'} of each class\n\n{columns(rows, left=(1,))}"


def _warnings(found: dict[str, Any]) -> list[str]:
    """What is not official, or may not be, is never to be taken for the original."""
    if not _has_archives(found):
        return []
    name, said = found["config"]["name"].upper(), []
    others, unknown = (
        [Path(split["file"]).name for split in found["splits"] if split["official"] is official]
        for official in (False, None)
    )
    if others:
        said.append(f"NOT OFFICIAL: {', '.join(others)}. Results from these files are not {name} results.")
    if unknown:
        said.append(
            f"Not known to be official: {', '.join(unknown)}. An md5 is known of the archives only; before you call"
            f" results {name} results,\nkeep the .zip and use --verify."
        )
    return said


def _has_archives(found: dict[str, Any]) -> bool:
    return found["config"]["name"] in ("shd", "ssc")


def _spread(of: dict[str, float], form: str) -> str:
    return " / ".join(format(of[which], form) for which in ("min", "median", "max"))
