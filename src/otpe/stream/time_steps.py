"""One time step of a stream, and what becomes of input that cannot be used."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import nan
from typing import Any, Literal, NamedTuple

import numpy as np

from otpe import check, contents
from otpe.datasets import Binning
from otpe.datasets.events import LARGEST
from otpe.stream.programs import NO_LABEL

OnBad = Literal["raise", "skip"]
ADVICE = "Repair the source, or leave the like of it out with on_bad='skip'."


class Step(NamedTuple):
    """What a learner is given at once."""

    x: np.ndarray  # [units] float32, how often each spiked
    label: int = NO_LABEL
    time: float = 0.0  # seconds at which it begins
    reset: bool = False  # a new sequence begins with it


class Bad:
    """Input that cannot be used: an error, or a skip that is counted by kind, and logged once for each kind."""

    def __init__(self, on_bad: OnBad = "raise", log: Callable[[str], object] | None = None) -> None:
        check.one_of("on_bad", on_bad, ("raise", "skip"))
        self.on_bad: OnBad = on_bad
        self.skipped: dict[str, int] = {}
        self.log = log

    @classmethod
    def of(cls, given: "OnBad | Bad", log: Callable[[str], object] | None) -> "Bad":
        """One may be shared, so that all that is skipped on the way of a stream is counted together."""
        return given if isinstance(given, Bad) else cls(given, log)

    def found(self, kind: str, message: str, on_bad: OnBad | None = None, advice: str = ADVICE) -> None:
        """`on_bad`: what this kind calls for, where that differs. Whoever skips already needs no advice to do so."""
        if (on_bad or self.on_bad) == "raise":
            raise ValueError(f"{message} {advice}")
        if kind not in self.skipped and self.log is not None:
            self.log(f"Skipped: {message} Others like it are counted.")
        self.skipped[kind] = self.skipped.get(kind, 0) + 1


def seconds(given: Any) -> float:
    """NaN for what is no number."""
    if type(given) is float:
        return given
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        return nan
    try:
        return float(given)
    except OverflowError:  # a whole number larger than any float
        return nan


def whole(given: Any) -> int:
    """The number, if it is whole, even where its type is not; −2, which nothing may be, for anything else."""
    if type(given) is int or isinstance(given, np.integer):
        return int(given)
    real = isinstance(given, float | np.floating)
    return int(given) if real and float(given).is_integer() else -2


# --------------------
# Events to time steps, on the fly: which unit spiked how often in which dt, in memory that never grows.
#
#     binner = Binner(700, dt=0.01)
#     for step in binner.steps([(0.001, 3), (0.002, 3, 7), (0.031, 5)]):      # time in seconds, unit[, label]
#         ...                                                                 # four steps, two of them silent
#
# Bins lie on whole multiples of dt. A sequence begins with the bin of its first event, and every bin after it makes a
# step, with events or without. An event whose unit is None tells only that time has come so far: a live stream that is
# silent sends such ones, and one at time 0 makes a recording begin there.


LATEST = 9_000_000_000.0  # seconds; after that a double no longer tells one microsecond from the next
RESET = "reset"  # among events: a new sequence begins


class Event(NamedTuple):
    """Any tuple like it will do."""

    time: Any  # seconds
    unit: Any  # None: nothing spiked
    label: Any = None  # None: says nothing about it, −1: there is none from here on


class Binner:
    """Takes events in the order of time, and makes time steps of them.

    Args:
      units: how many there are, counted from 0.
      dt: seconds of a time step, in whole millionths.
      classes: labels run from 0 to below it; without it they are not held against anything.
      binary: 1 for any number of spikes, instead of the number.
      pool: as many neighbouring units become one.
      labels: "hold": a label stands for the bin of its event and all that follow, until another one or a reset comes.
        "bin": only for the bin of its event. The last one counts where a bin has several.
      max_gap: seconds of silence that are filled with empty steps.
      on_bad: "raise" an error, or "skip" and count, see `skipped`. Nothing changes either way: the next event goes on.
      late: the same for events of bins that are over; by default as `on_bad`.
      gap: the same for events after more than `max_gap` of silence; "reset" begins a new sequence there.
        After a real pause "skip" would skip all that follows; after a wrong time "reset" would make it late.
      log: is told of the first skip of every kind.
    """

    def __init__(
        self,
        units: int,
        dt: float,
        *,
        classes: int | None = None,
        binary: bool = False,
        pool: int = 1,
        labels: Literal["hold", "bin"] = "hold",
        max_gap: float = 10.0,
        on_bad: OnBad | Bad = "raise",
        late: OnBad | None = None,
        gap: Literal["raise", "skip", "reset"] | None = None,
        log: Callable[[str], object] | None = None,
    ) -> None:
        self.units = check.count("units", units)
        binning = Binning(dt=dt, binary=binary, pool=pool).checked(self.units)
        self.classes = None if classes is None else check.count("classes", classes)
        check.one_of("labels", labels, ("hold", "bin"))
        check.number("max_gap", max_gap, f"seconds, 0 to {LATEST:,.0f}", lambda x: 0 <= x <= LATEST)
        if late is not None:
            check.one_of("late", late, ("raise", "skip"))
        if gap is not None:
            check.one_of("gap", gap, ("raise", "skip", "reset"))
        self.max_gap, self.bad = max_gap, Bad.of(on_bad, log)
        self.late: OnBad | None = late
        self.gap: Literal["raise", "skip", "reset"] | None = gap
        self.dt, self.width = float(binning.dt or 0), self.units // binning.pool  # `width`: numbers in a step
        self.events = 0  # that came, good or bad
        self._hold, self._binary, self._pool = labels == "hold", binning.binary, binning.pool
        self._microseconds = round(self.dt * 1e6)  # of a bin
        self._most = round(max_gap * 1e6) // self._microseconds  # empty bins in a row
        self._largest = LARGEST if self.classes is None else self.classes - 1
        self._silence = np.zeros(self.width, np.float32)
        self._silence.flags.writeable = False  # many steps share it
        self._begin()

    @property
    def skipped(self) -> dict[str, int]:
        """Events by what was wrong with them: "time", "unit", "label", "late" or "gap"."""
        return self.bad.skipped

    def steps(self, events: Iterable[Any]) -> Iterator[Step]:
        """All steps of these events, among which `RESET` may be. The last one comes when they end."""
        for event in events:
            if isinstance(event, str) and event == RESET:
                yield from self.reset()
            elif isinstance(event, tuple | list) and 2 <= len(event) <= 3:
                yield from self.add(*event)
            else:
                self.events += 1
                self._refuse("event", contents.shown(event), "(time, unit), (time, unit, label) or 'reset'")
        yield from self.reset()

    def add(self, time: Any, unit: Any, label: Any = None) -> Iterable[Step]:
        """The steps that are over with this event: none as long as its bin is the present one."""
        self.events += 1
        at = seconds(time)
        if not 0 <= at <= LATEST:
            return self._refuse(
                "time", f"the time {contents.shown(time)}", f"seconds, a finite number, 0 to {LATEST:,.0f}"
            )
        place = 0 if unit is None else whole(unit)
        if not 0 <= place < self.units:
            return self._refuse(
                "unit", f"the unit {contents.shown(unit)}", f"a whole number from 0 to {self.units - 1}"
            )
        if label is not None:
            given, label = label, whole(label)
            if not NO_LABEL <= label <= self._largest:
                expected = f"a whole number from 0 to {self._largest}, or −1 for none"
                return self._refuse("label", f"the label {contents.shown(given)}", expected)
        number, over = round(at * 1e6) // self._microseconds, ()
        if number != self._bin:
            if self._bin is not None:
                now = self._bin * self._microseconds / 1e6
                if number < self._bin:
                    return self._refuse_late(at, now)
                if number - self._bin - 1 > self._most and self.gap != "reset":
                    return self._refuse_gap(at, now)
            over = self._move_to(number)
        if unit is not None:
            self._x[place // self._pool] = 1 if self._binary else self._x[place // self._pool] + 1
        if label is not None:
            self._label = label
        return over

    def reset(self) -> Iterable[Step]:
        """The sequence is over, and so is its last step. Time may start anew."""
        over = () if self._bin is None else (self._step(self._bin),)
        self._begin()
        return over

    def _begin(self) -> None:
        self._bin: int | None = None  # the present one
        self._first = True  # no step of this sequence has been made yet
        self._label = NO_LABEL
        self._x = np.zeros(self.width, np.float32)

    def _move_to(self, number: int) -> Iterable[Step]:
        if self._bin is None:
            over = ()
        elif number - self._bin - 1 > self._most:
            over = self.reset()
        else:
            over, silent = (self._step(self._bin),), range(self._bin + 1, number)
            over = chain(over, self._silent(silent, self._label)) if silent else over
        self._bin = number
        return over

    def _step(self, number: int) -> Step:
        step = Step(self._x, self._label, number * self._microseconds / 1e6, self._first)
        self._x, self._first = np.zeros(self.width, np.float32), False
        self._label = self._label if self._hold else NO_LABEL
        return step

    def _silent(self, numbers: range, label: int) -> Iterator[Step]:
        return (Step(self._silence, label, number * self._microseconds / 1e6, False) for number in numbers)

    def _refuse(self, kind: str, given: str, expected: str) -> tuple[()]:
        self.bad.found(kind, f"event {self.events} has {given}, expected {expected}.")
        return ()

    def _refuse_late(self, at: float, now: float) -> tuple[()]:
        self.bad.found(
            "late",
            f"event {self.events} has the time {at} s, but the present bin began at {now} s.",
            self.late,
            "Sort events by time, send a reset where time starts anew, use a larger dt, or leave late events out with"
            " late='skip'.",
        )
        return ()

    def _refuse_gap(self, at: float, now: float) -> tuple[()]:
        self.bad.found(
            "gap",
            f"event {self.events} has the time {at} s, but the present bin began at {now} s, and max_gap is"
            f" {self.max_gap:g} s.",
            self.gap if self.gap != "reset" else None,
            "Give times in seconds. If this pause is meant, begin a new sequence with gap='reset', or raise max_gap; if"
            " it is not, leave such events out with gap='skip'.",
        )
        return ()
