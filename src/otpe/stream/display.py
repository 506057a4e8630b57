"""What is shown while a stream runs: accuracy, speed, latency, spike rates, what was skipped."""

import math
from typing import Any

from otpe.stream.prequential import Prequential
from otpe.stream.saved import Place


def counts(score: Prequential, place: Place) -> dict[str, Any]:
    """What does not depend on the machine, but for the seconds."""
    return {
        "step": place.steps,
        "labelled": score.labelled,
        "accuracy": _known(score.accuracy),
        "window_accuracy": _known(score.window_accuracy),
        "sequences": score.sequences,
        "sequence_accuracy": _known(score.sequence_accuracy),
        "skipped": dict(place.skipped),
        "seconds": round(place.seconds, 3),
    }


def words(line: dict[str, Any], window: int) -> str:
    """In one line to read."""
    share = {name: "–" if line[name] is None else f"{line[name]:.3f}" for name in ("window_accuracy", "accuracy")}
    p50, p99 = line["latency_ms"]
    skipped = sum(line["skipped"].values())
    return (
        f"step {line['step']:,}  accuracy {share['window_accuracy']} (last {window:,}), {share['accuracy']} (all) "
        f" {line['steps_per_second']:,.0f} steps/s  latency {p50:.3g}/{p99:.3g} ms (p50/p99) "
        f" rates {' '.join(f'{rate:.3f}' for rate in line['rates'])}{f'  skipped {skipped:,}' if skipped else ''}"
    )


def _known(share: float) -> float | None:
    return None if math.isnan(share) else share  # JSON has no NaN
