"""What was measured, as one JSON file that is whole after every heat."""

import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

import otpe
from otpe import contents, files
from otpe.bench.config import BenchConfig
from otpe.bench.growth import AXES, Form, expected, exponent, form
from otpe.bench.points import Point, Program
from otpe.bench.timing import Times

# How a point says what grows, and which of the theory's columns belongs to it, by mode.
QUANTITIES = {
    "time": lambda point: point["seconds"]["median"],
    "peak": lambda point: point["peak_bytes"],
    "working": lambda point: point["bytes"]["working"],
    "state": lambda point: point["state_bytes"],
}
MEMORY: dict[str, str] = {"offline": "working", "online": "state", "step": "state", "steps": "state"}


def blank(config: BenchConfig) -> dict[str, Any]:
    device = jax.devices()[0]
    return {
        "format": 1,
        "finished": False,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "otpe": otpe.__version__,
        "jax": jax.__version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "backend": device.platform,
        "device": device.device_kind,
        "seconds": 0.0,
        "config": {name: str(value) if isinstance(value, Path) else value for name, value in asdict(config).items()},
        "points": [],
        "left_out": [],
        "growth": [],
    }


def save(path: Path, results: dict[str, Any]) -> None:
    results["growth"] = growth(results["points"])
    files.write_atomically(path, json.dumps(results, indent=1) + "\n")


def checked(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """What was found in a file, if it is what `save` wrote."""
    with contents.reading(path, "Name another folder."):
        contents.typed(found, {"config": dict, "seconds": float, "finished": bool, "points": list, "left_out": list})
        for point in (*found["points"], *found["left_out"]):
            contents.typed(point, {"rule": str, "mode": str, "sizes": list[int], "steps": int, "batch": int})
        for point in found["left_out"]:
            contents.typed(point, {"why": str})
        for point in found["points"]:
            contents.typed(
                point, {"axes": dict, "peak_bytes": int, "state_bytes": int | None, "seconds": dict, "bytes": dict}
            )
            contents.typed(point["axes"], dict.fromkeys(point["axes"], int))
            contents.typed(point["seconds"], {"median": float, "min": float})
            contents.typed(point["bytes"], {"working": int})
        found["growth"] = growth(found["points"])
    return found


def entry(
    point: Point, axes: dict[Any, int], program: Program, first: float, times: Times, state: int | None
) -> dict[str, Any]:
    return {
        **asdict(point),
        "axes": axes,
        "seconds": times._asdict(),
        "first_call_seconds": first,
        "peak_bytes": program.bytes.peak,
        "bytes": program.bytes._asdict(),
        "state_bytes": state,
        "device_peak_bytes": _device_peak(),
    }


def growth(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fitted exponents of every quantity, for every mode and rule over every axis, beside those of theory."""
    found = []
    for mode, rule in dict.fromkeys((point["mode"], point["rule"]) for point in points):
        own = [point for point in points if (point["mode"], point["rule"]) == (mode, rule)]
        as_form = form(mode, own[0].get("options", {}))
        for axis in AXES:
            on_axis = sorted((p for p in own if axis in p["axes"]), key=lambda p: p["axes"][axis])
            values = [point["axes"][axis] for point in on_axis]
            for quantity, of in QUANTITIES.items():
                measured = [of(point) for point in on_axis]
                fitted = None if None in measured else exponent(values, measured)
                if fitted is not None:
                    found.append({"mode": mode, "rule": rule, "axis": axis, "quantity": quantity, "values": values,
                                  "exponent": fitted, "theory": theory(as_form, rule, axis, quantity)})  # fmt: skip
    return found


def theory(as_form: Form, rule: str, axis: str, quantity: str) -> int | None:
    known = expected(rule, as_form)
    if known is None or quantity not in ("time", MEMORY[as_form]):
        return None
    powers = known.time if quantity == "time" else known.memory
    return None if powers is None else getattr(powers, axis)


def _device_peak() -> int | None:
    """The most that the device ever had in use in this process, where it counts: a GPU does, a CPU does not."""
    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
