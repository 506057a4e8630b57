"""A line of metrics.jsonl: one evaluation. Numbers that are not finite, such as the cosine to nothing, are null."""

from typing import Any

import jax
import numpy as np

from otpe.analysis import Alignment
from otpe.runs.loop import Row


def line(row: Row, steps: int, seconds: float) -> dict[str, Any]:
    """`steps`: mini-batches since the evaluation before; `seconds`: of training until now."""
    measured = {
        "step": int(row.step),
        "loss": (row.loss / steps).tolist(),
        "valid_loss": row.scores.loss.tolist(),
        "valid_accuracy": row.scores.accuracy.tolist(),
        "rates": row.scores.rates.tolist(),
        "seconds": round(seconds, 3),
    }
    aligned = {name: _aligned(found) for name, found in row.alignment.items()}
    return {**measured, "alignment": aligned} if aligned else measured


def _aligned(found: Alignment) -> dict[str, Any]:
    """Per layer, from the first to the output, and over all: one number per seed."""
    return {
        "cosine": {"layers": _layers(found.layers), "model": _numbers(found.model)},
        "size": {"layers": _layers(found.size), "model": _numbers(found.model_size)},
    }


def _layers(layers: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [
        {
            jax.tree_util.keystr(place, simple=True): _numbers(x)
            for place, x in jax.tree_util.tree_leaves_with_path(layer)
        }
        for layer in layers
    ]


def _numbers(values: Any) -> list[float | None]:
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in np.asarray(values)]
