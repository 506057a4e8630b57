"""What `otpe bench` is asked to measure. Imports no jax: these fields are the command line and its help."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

Mode = Literal["offline", "online", "step"]


@dataclass(frozen=True)
class BenchConfig:
    """Time, peak memory and state bytes of every rule, over width, time steps, batch and depth, and how they grow.

    An axis with values is swept while all else stays at the base; an axis without values (`--widths` and nothing
    behind it) is left out. Results go to a new numbered file in the folder, none is overwritten.
    """

    rules: tuple[str, ...] = ("bptt", "ostl", "ottt", "otpe", "approx-otpe", "deep-otpe", "approx-deep-otpe")
    """Names from otpe.rules(), or "all"."""
    modes: tuple[Mode, ...] = ("offline", "online", "step")
    """offline: a mini-batch's gradient; online: an Adamax update per time step; step: one time step of a stream."""

    sizes: tuple[int, ...] = (256, 256, 256, 256)
    """The base network, input to output."""
    base_steps: int = 50
    """Time steps, where they are not swept."""
    base_batch: int = 16
    """Samples side by side, where they are not swept."""

    widths: tuple[int, ...] = (64, 128, 256, 512)
    """Axis: units of every layer, input and output included, in a network as deep as the base."""
    steps: tuple[int, ...] = (25, 50, 100, 200)
    """Axis: time steps. In mode step: how many the stream has seen."""
    batches: tuple[int, ...] = (1, 4, 16, 64)
    """Axis: samples side by side."""
    depths: tuple[int, ...] = (2, 3, 4, 6)
    """Axis: layers, output included, all as wide as the base network's second size."""

    precision: Literal["float32", "tf32", "bf16"] = "float32"
    """Of matrix products, on a GPU."""
    backend: Literal["auto", "plain", "pallas", "interpret"] = "auto"
    """plain: ordinary JAX; pallas: fused GPU kernels; auto: whichever the device has."""

    seconds: float = 1.0
    """How long each point is repeated; at least three times."""
    max_gb: float = 1.0
    """Leave out points that need more memory than this, and say so. The rules of one heat are in memory together."""
    out: Path = Path("bench-results")
    """The folder for results."""
    quick: bool = False
    """About a minute on 2 cores: whatever is left at its default becomes smaller."""

    def resolved(self) -> "BenchConfig":
        """These settings with `quick` worked in."""
        if not self.quick:
            return self
        at_default = {field.name for field in fields(self) if getattr(self, field.name) == field.default}
        return replace(self, **{name: value for name, value in QUICK.items() if name in at_default})

    def command(self) -> str:
        """The line that asks for this: the settings that are not as they would be by themselves, less the folder."""
        by_itself = {field.name: field.default for field in fields(self)} | (QUICK if self.quick else {})
        words = ["otpe", "bench"]
        for name, usual in by_itself.items():
            value = getattr(self, name)
            if name not in ("quick", "out") and value != usual:
                words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value])]
        return " ".join([*words, *["--quick"] * self.quick])


QUICK: dict[str, Any] = {
    "rules": ("bptt", "ostl", "ottt", "otpe", "approx-otpe"),
    "sizes": (64, 64, 64),
    "base_steps": 20,
    "base_batch": 8,
    "widths": (64, 256),
    "steps": (20, 80),
    "batches": (8, 32),
    "depths": (2, 4),
    "seconds": 0.1,
}
