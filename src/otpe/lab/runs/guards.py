"""What goes wrong quietly: numbers that are not finite, layers that are silent or never stop."""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from otpe import neurons
from otpe.lab.runs.loop import State
from otpe.networks import Network

PATIENCE = 3  # evaluations
ALWAYS = 1 - 1e-6  # a mean of ones in float32 is not 1 for every number of neurons


class DivergedError(FloatingPointError):
    """Weights or loss are not finite any more."""


def diverged(
    one_step: Callable[[State], tuple[State, Any]],
    before: State,
    steps: int,
    seeds: Any,
    rate: float | None,
    saved: Path | None,
) -> DivergedError:
    """The error for a block that began soundly: find the very step by taking the block again, one step at a time."""
    state, finite = before, np.ones(len(seeds), bool)
    for _ in range(steps):
        state, sound = one_step(state)
        finite = np.asarray(sound)
        if not finite.all():
            break
    which = ", ".join(str(int(seed)) for seed, sound in zip(seeds, finite, strict=True) if not sound)
    whose = f" (seed {which})" if which else ""
    now = "" if rate is None else f" (it is {rate:g})"
    last = f"the last good checkpoint is {saved}" if saved else "no checkpoint was written before"
    return DivergedError(
        f"step {int(state.step)}: weights or loss are not finite any more{whose}; {last}. Start again with a smaller"
        f" learning_rate{now}, or with clip, such as 1.0, for gradients that are too large now and then"
    )


@dataclass
class RateGuard:
    """Warns once of each layer that has gone silent, that never spikes, or that always does.

    Many networks are silent at first and learn to speak: those that never spiked are given some evaluations' time.
    """

    names: list[str | None]  # None for a layer whose neurons do not spike, which is not watched
    warn: Callable[[str], None]
    before: InitVar[Sequence[dict[str, Any]]] = ()  # lines of metrics, of which was warned then
    looks: int = 0
    well: dict[bool, Any] = field(default_factory=lambda: {False: False, True: False})  # ever unlike that, [S, layers]
    told: set[tuple[int, bool]] = field(default_factory=set)

    def __post_init__(self, before: Sequence[dict[str, Any]]) -> None:
        warn, self.warn = self.warn, lambda _: None
        for line in before:
            self.look(line["step"], np.array(line["rates"]), last=False)
        self.warn = warn

    def look(self, step: int, rates: np.ndarray, *, last: bool) -> None:
        """`rates` [S, layers]: spikes per neuron and time step. `last`: there will be no other evaluation."""
        self.looks += 1
        for always in (False, True):
            stuck = rates >= ALWAYS if always else rates <= 0
            self.well[always] |= ~stuck
            alarming = stuck & (self.well[always] | (self.looks >= PATIENCE) | last)
            for i in map(int, np.flatnonzero(alarming.any(0))):
                name = self.names[i]
                if name is not None and (i, always) not in self.told:
                    self.told.add((i, always))
                    self.warn(self._text(step, name, always, int(alarming[:, i].sum()), len(rates)))

    def _text(self, step: int, name: str, always: bool, count: int, seeds: int) -> str:
        whose = "" if seeds == 1 else f" in {count} of {seeds} networks"
        if always:
            return (
                f"step {step}: every neuron of {name} spikes at every time step{whose}, so it tells nothing. A smaller"
                " learning_rate, a higher threshold or a smaller leak may help."
            )
        silent = ": the network is silent, and silence counts as wrong" if name == "the output layer" else ""
        return (
            f"step {step}: {name} never spikes{whose}{silent}. A lower threshold, a leak closer to 1 or a smaller"
            " learning_rate may help."
        )


def watched(net: Network) -> list[str | None]:
    """The names of the layers whose neurons spike, None in place of the others."""
    names = layer_names(net.depth)
    return [name if neurons.is_spiking(each) else None for name, each in zip(names, net.neurons, strict=True)]


def layer_names(depth: int) -> list[str | None]:
    return [*(f"hidden layer {i + 1}" for i in range(depth - 1)), "the output layer"]
