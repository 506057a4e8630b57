"""Guards against silent failures: numbers that are not finite, and layers that never spike or always spike."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from otpe import neurons
from otpe.lab.runs.loop import State
from otpe.networks import Network

PATIENCE = 3  # evaluations
ALWAYS = 1 - 1e-6  # in float32, the mean of ones is not exactly 1 for every number of neurons


class DivergedError(FloatingPointError):
    """The weights or the loss have become infinite or NaN."""


def diverged(
    one_step: Callable[[State], tuple[State, Any]],
    before: State,
    steps: int,
    seeds: Any,
    rate: float | None,
    saved: Path | None,
) -> DivergedError:
    """Return the error for a block of steps after which numbers are not finite.

    It repeats the block one step at a time from the state `before`, which is finite, to find the step.
    """
    state, finite = before, np.ones(len(seeds), bool)
    for _ in range(steps):
        state, found = one_step(state)
        finite = np.asarray(found)
        if not finite.all():
            break
    names = ", ".join(str(int(seed)) for seed in np.asarray(seeds)[~finite])
    whose = f" (seed {names})" if names else ""
    now = "" if rate is None else f" (it is {rate:g})"
    last = f"the last good checkpoint is {saved}" if saved else "no checkpoint was written before"
    return DivergedError(
        f"step {int(state.step)}: weights or loss are not finite any more{whose}; {last}. Start again with a smaller"
        f" learning_rate{now}, or with clip, such as 1.0, for gradients that are sometimes too large"
    )


@dataclass
class RateGuard:
    """Warns once of each layer that goes silent or that always spikes.

    Many networks are silent at first and learn to spike. So a layer that never spiked is reported only after PATIENCE
    evaluations.

    """

    names: list[str | None]  # None for a layer whose neurons do not spike, which is not watched
    warn: Callable[[str], None]
    # Lines of metrics from before a resume. Warnings about them were given then, and are not repeated.
    before: InitVar[Sequence[dict[str, Any]]] = ()
    evaluations: int = 0
    # Keys: False for silent, True for always spiking. Values [S, layers]: whether the layer was ever not so.
    normal: dict[bool, Any] = field(default_factory=lambda: {False: False, True: False})
    warned: set[tuple[int, bool]] = field(default_factory=set)

    def __post_init__(self, before: Sequence[dict[str, Any]]) -> None:
        for line in before:
            list(self._warnings(line["step"], np.array(line["rates"]), last=False))

    def look(self, step: int, rates: np.ndarray, *, last: bool) -> None:
        """Check the spikes per neuron and time step [S, layers] of an evaluation. `last`: whether it is the last."""
        for text in self._warnings(step, rates, last):
            self.warn(text)

    def _warnings(self, step: int, rates: np.ndarray, last: bool) -> Iterator[str]:
        self.evaluations += 1
        for always in (False, True):
            stuck = rates >= ALWAYS if always else rates <= 0
            self.normal[always] |= ~stuck
            alarming = stuck & (self.normal[always] | (self.evaluations >= PATIENCE) | last)
            for i, name in enumerate(self.names):
                if name is not None and alarming[:, i].any() and (i, always) not in self.warned:
                    self.warned.add((i, always))
                    yield _warning(step, name, always, int(alarming[:, i].sum()), len(rates))


def _warning(step: int, name: str, always: bool, count: int, seeds: int) -> str:
    whose = "" if seeds == 1 else f" in {count} of {seeds} networks"
    if always:
        return (
            f"step {step}: every neuron of {name} spikes at every time step{whose}, so it carries no information. A"
            " smaller learning_rate, a higher threshold or a smaller leak may help."
        )
    silent = ": the network is silent, and silence counts as wrong" if name == "the output layer" else ""
    return (
        f"step {step}: {name} never spikes{whose}{silent}. A lower threshold, a leak closer to 1 or a smaller"
        " learning_rate may help."
    )


def watched(net: Network) -> list[str | None]:
    """Return the name of each layer whose neurons spike, and None for the others."""
    names = layer_names(net.depth)
    return [name if neurons.is_spiking(each) else None for name, each in zip(names, net.neurons, strict=True)]


def layer_names(depth: int) -> list[str | None]:
    """Return the names of the layers of a network, for messages."""
    return [*(f"hidden layer {i + 1}" for i in range(depth - 1)), "the output layer"]
