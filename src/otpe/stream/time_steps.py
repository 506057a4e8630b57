"""Time steps of a stream, and how events become time steps in memory that does not grow.

    binner = Binner(700, dt=0.01)
    for step in binner.steps([(0.001, 3), (0.002, 3, 7), (0.031, 5)]):      # time in seconds, unit[, label]
        ...                                                                 # four steps, two of them silent

Bins begin at whole multiples of dt. A sequence begins with the bin of its first event. Every bin after it makes a step,
also without events. If the unit of an event is None, nothing spikes, but time advances to it. A live stream sends
such events while it is silent, and one at time 0 makes a recording begin there.
"""

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
ADVICE = "Repair the source, or skip and count such input with on_bad='skip'."
LATEST = 9_000_000_000.0  # seconds; a later time in a double is not exact to a microsecond
RESET = "reset"  # among events: a new sequence begins


class Step(NamedTuple):
    """The input of a learner for one time step."""

    x: np.ndarray  # [units] float32, how often each unit spiked
    label: int = NO_LABEL
    time: float = 0.0  # seconds at which the step begins
    reset: bool = False  # whether a new sequence begins with it


class Event(NamedTuple):
    """A spike of a unit, or a label. Any tuple with the same content is an event too."""

    time: Any  # seconds
    unit: Any  # None: nothing spiked
    label: Any = None  # None: does not change the label; −1: there is no label from here on


class Bad:
    """What to do with unusable input: raise an error, or skip it, count it by kind, and log the first of each kind."""

    def __init__(self, on_bad: OnBad = "raise", log: Callable[[str], object] | None = None) -> None:
        check.one_of("on_bad", on_bad, ("raise", "skip"))
        self.on_bad: OnBad = on_bad
        self.skipped: dict[str, int] = {}
        self.log = log

    @classmethod
    def of(cls, given: "OnBad | Bad", log: Callable[[str], object] | None) -> "Bad":
        """Return the same `Bad`, or make one. The parts of a stream may share one, which counts for all of them."""
        return given if isinstance(given, Bad) else cls(given, log)

    def found(self, kind: str, message: str, on_bad: OnBad | None = None, advice: str = ADVICE) -> None:
        """Raise ValueError with the message and the advice, or skip. `on_bad` overrides the choice for all kinds."""
        if (on_bad or self.on_bad) == "raise":
            raise ValueError(f"{message} {advice}")
        if kind not in self.skipped and self.log is not None:
            self.log(f"Skipped: {message} Others like it are counted.")
        self.skipped[kind] = self.skipped.get(kind, 0) + 1


def seconds(given: Any) -> float:
    """Return a time as a float. NaN for anything that is not a number."""
    if type(given) is float:
        return given
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        return nan
    try:
        return float(given)
    except OverflowError:  # a whole number larger than any float
        return nan


def whole(given: Any) -> int:
    """Return a whole number of any numeric type as an int. −2, which is never allowed, for anything else."""
    if type(given) is int or isinstance(given, np.integer):
        return int(given)
    real = isinstance(given, float | np.floating)
    return int(given) if real and float(given).is_integer() else -2


class Binner:
    """Makes time steps of events, which must come in the order of time.

    Args:
      units: number of units. Events count them from 0.
      dt: seconds of a time step, in whole millionths.
      classes: number of classes. Labels are from 0 to classes − 1. Without it, every label is accepted.
      binary: replace spike counts by 0 or 1.
      pool: number of neighbouring units that become one.
      labels: "hold": a label applies to the bin of its event and all that follow, until another label or a reset.
        "bin": only to the bin of its event. If a bin has several labels, the last one counts.
      max_gap: the longest silence, in seconds, that is filled with empty steps.
      on_bad: "raise" an error, or "skip" the event and count it, see `skipped`. In both cases nothing changes, and the
        next event may follow.
      late: the same for events of bins that are over. By default as `on_bad`.
      gap: the same for events after a silence longer than `max_gap`; "reset" begins a new sequence there.
        After a real pause, "skip" would skip everything that follows. After a wrong, much too large time, "reset" would
        make everything that follows late.
      log: is called with a message for the first skip of every kind.
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
        self.dt, self.width = float(binning.dt or 0), self.units // binning.pool  # `width`: length of x in a step
        self.events = 0  # number of events so far, including bad ones
        self._hold, self._binary, self._pool = labels == "hold", binning.binary, binning.pool
        self._microseconds = round(self.dt * 1e6)  # length of a bin
        self._longest_gap = round(max_gap * 1e6) // self._microseconds  # number of bins
        self._largest_label = LARGEST if self.classes is None else self.classes - 1
        self._silence = np.zeros(self.width, np.float32)
        self._silence.flags.writeable = False  # many steps share it
        self._begin()

    @property
    def skipped(self) -> dict[str, int]:
        """Number of skipped events by what was wrong with them: "time", "unit", "label", "late" or "gap"."""
        return self.bad.skipped

    def steps(self, events: Iterable[Any]) -> Iterator[Step]:
        """Return the steps of these events, which may include `RESET`. The last step comes when the events end."""
        for event in events:
            if isinstance(event, str) and event == RESET:
                yield from self.reset()
            elif isinstance(event, tuple | list) and 2 <= len(event) <= 3:
                yield from self.add(*event)
            else:
                self.events += 1
                expected = "expected (time, unit), (time, unit, label) or 'reset'"
                self._refuse("event", f"{contents.shown(event)}, {expected}")
        yield from self.reset()

    def add(self, time: Any, unit: Any, label: Any = None) -> Iterable[Step]:
        """Return the steps that this event ends: none if it is in the present bin."""
        self.events += 1
        at = seconds(time)
        if not 0 <= at <= LATEST:
            expected = f"expected seconds, a finite number, 0 to {LATEST:,.0f}"
            return self._refuse("time", f"the time {contents.shown(time)}, {expected}")
        place = 0 if unit is None else whole(unit)
        if not 0 <= place < self.units:
            expected = f"expected a whole number from 0 to {self.units - 1}"
            return self._refuse("unit", f"the unit {contents.shown(unit)}, {expected}")
        if label is not None:
            given, label = label, whole(label)
            if not NO_LABEL <= label <= self._largest_label:
                expected = f"expected a whole number from 0 to {self._largest_label}, or −1 for none"
                return self._refuse("label", f"the label {contents.shown(given)}, {expected}")
        number, ended = round(at * 1e6) // self._microseconds, ()
        if self._bin is None:
            self._bin = number
        elif number < self._bin:
            return self._refuse_late(at)
        elif number > self._bin:
            is_gap = number - self._bin - 1 > self._longest_gap
            if is_gap and self.gap != "reset":
                return self._refuse_gap(at, self.gap)
            ended = self.reset() if is_gap else self._until(self._bin, number)
            self._bin = number
        if unit is not None:
            self._x[place // self._pool] = 1 if self._binary else self._x[place // self._pool] + 1
        if label is not None:
            self._label = label
        return ended

    def reset(self) -> Iterable[Step]:
        """End the sequence, and return its last step. The next event may have any time."""
        last = () if self._bin is None else (self._step(self._bin),)
        self._begin()
        return last

    def _begin(self) -> None:
        self._bin: int | None = None  # number of the present bin
        self._first = True  # is the next step the first of its sequence?
        self._label = NO_LABEL
        self._x = np.zeros(self.width, np.float32)

    def _until(self, present: int, number: int) -> Iterable[Step]:
        """Return the step of the present bin, and silent steps up to the bin with this number."""
        step, label = self._step(present), self._label
        silent = (Step(self._silence, label, self._begins(k), False) for k in range(present + 1, number))
        return (step,) if number == present + 1 else chain((step,), silent)

    def _step(self, number: int) -> Step:
        step = Step(self._x, self._label, self._begins(number), self._first)
        self._x, self._first = np.zeros(self.width, np.float32), False
        self._label = self._label if self._hold else NO_LABEL
        return step

    def _begins(self, number: int) -> float:
        """Return the time at which a bin begins."""
        return number * self._microseconds / 1e6

    def _refuse(self, kind: str, what: str, on_bad: OnBad | None = None, advice: str = ADVICE) -> tuple[()]:
        self.bad.found(kind, f"event {self.events} has {what}.", on_bad, advice)
        return ()

    def _refuse_late(self, at: float) -> tuple[()]:
        advice = (
            "Sort events by time, send a reset where time starts anew, use a larger dt, or leave late events out with"
            " late='skip'."
        )
        what = f"the time {at} s, but the present bin began at {self._begins(self._bin or 0)} s"
        return self._refuse("late", what, self.late, advice)

    def _refuse_gap(self, at: float, gap: OnBad | None) -> tuple[()]:
        advice = (
            "Give times in seconds. If this pause is meant, begin a new sequence with gap='reset', or raise max_gap; if"
            " it is not, leave such events out with gap='skip'."
        )
        began = f"the present bin began at {self._begins(self._bin or 0)} s"
        what = f"the time {at} s, but {began}, and max_gap is {self.max_gap:g} s"
        return self._refuse("gap", what, gap, advice)
