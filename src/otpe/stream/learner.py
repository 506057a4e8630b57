"""A network that continues to learn while it works: one stream, one time step at a time, in memory that never grows.

    learner = otpe.StreamLearner(net, rule="otpe", optimizer=optax.adamax(1e-3))
    scores = learner.predict_one(x)       # the class scores after this step; the state does not change
    learner.learn_one(x, label)           # advances by this step, and learns from it
    learner.observe_one(x)                # advances by this step, and learns nothing

It takes and returns numpy arrays. After any exception, Ctrl-C too, the learner has the state before a step or after it,
and can be saved. Threads may share a learner: their calls wait for each other.
"""

from collections.abc import Mapping
from dataclasses import asdict
from math import inf, prod
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe import check, contents, losses, neurons, storage, tensors
from otpe.lab.runs import checkpoint
from otpe.layers import WeightRows
from otpe.losses import LossChoice
from otpe.networks import Network
from otpe.rulebook import Rule, rules, stepper
from otpe.rulebook import rule as named_rule
from otpe.rulebook.named_rules import rule_and_loss
from otpe.stream import inputs, programs
from otpe.stream.cell import Cell, Program
from otpe.stream.inputs import Waiting
from otpe.stream.programs import NO_LABEL, Memory, ProgramSettings, StepOutput, at_rest, programs_for, start
from otpe.training.interned import interned, recognise
from otpe.training.optimizer import Optimizer

KIND = "streaming learner"
FIELDS = {  # of a saved learner, with their types
    "net": dict | None, "rule": str | None, "optimizer": list | dict | None, "begins": bool, "settings": dict,
    "steps": int, "labelled": int,
}  # fmt: skip
MORE = "more/"  # prefix of the arrays in a file that the caller of `save` added
WAITING = "waiting/"  # prefix of the steps that wait for labels
REMEDY = (
    "Go on from a learner that was saved before, with a smaller learning rate, or with limit, the largest size that a"
    " weight may have"
)
LOSS = StepOutput._fields.index("loss")
BLOCKS = (1024, 128, 16, 1)  # steps in a program: only these lengths are compiled, for any block size


class Learned(NamedTuple):
    """What a learner returns for each step of a block."""

    scores: np.ndarray  # [T, classes] before learning from the step, as `predict_one` returns them
    losses: np.ndarray  # [T] NaN without a label; with a delay, the loss of the older step then learned
    rates: np.ndarray  # [T, layers] share of the neurons that spiked
    spikes: np.ndarray  # [T, classes] of the output neurons


class NotFiniteError(FloatingPointError):
    """Weights, membranes or traces have become infinite or NaN."""

    def __init__(self, text: str, step: int) -> None:
        super().__init__(text)
        self.step = step  # where it was found


class _Host(NamedTuple):
    """The part of the state that is not on the device, but changes with it."""

    waiting: Waiting
    steps: int = 0  # time steps taken
    labelled: int = 0  # of them, those with a label
    begins: bool = False  # with a delay: whether a sequence begins with the next step


class StreamLearner:
    """A network, a rule that learns online, and everything they remember of a stream.

    Args:
      net: the network.
      rule: a rule that learns online, by name or as a composition of your own.
      optimizer: an `otpe.Optimizer`, or any optax optimizer. The default is Adamax with learning rate 1e-3.
      seed: of the initial weights.
      params: initial weights instead, such as those of `otpe.train`. Finite numbers.
      loss: as in `otpe.gradients`. With "mse", or a function of your own, a label may be a row of real numbers, one per
        output.
      every: number of labelled steps per update of the weights, which uses their mean gradient.
      score_leak: the share of the scores that is left after a step. The default is the leak of the output neurons, or 0
        if these do not spike. With 1.0, scores count the spikes since the last `reset`, as in the paper.
      delay: number of steps that a label may be late, see `label_late`. Predictions use the current
        weights. `delay` steps after a step, the learner learns from it, if it has a label by then.
      decay: weight decay: every update makes each weight smaller by this share. For very long streams.
      limit: the largest size of a weight.

    Raises:
      FloatingPointError: weights or membranes are not finite any more. Learning raises it at that step, `save` always.
    """

    def __init__(
        self,
        net: Network,
        rule: str | Rule = "otpe",
        optimizer: optax.GradientTransformation | Optimizer | None = None,
        seed: int = 0,
        *,
        params: Any = None,
        loss: LossChoice = None,
        every: int = 1,
        delay: int = 0,
        score_leak: float | None = None,
        decay: float = 0.0,
        limit: float | None = None,
    ) -> None:
        programs.mark_jax_used()
        optimizer = Optimizer() if optimizer is None else optimizer
        check.network(net)
        check.optimizer(optimizer)
        check.count("every", every, 2**31 - 1)
        self.delay = check.whole("delay", delay, 2**31)
        if score_leak is None:
            score_leak = net.readout_leak if neurons.is_spiking(net.neurons[-1]) else 0.0
        check.number("score_leak", score_leak, "a number from 0 to 1", lambda x: 0 <= x <= 1)
        check.number("decay", decay, "a share from 0 to below 1", lambda x: 0 <= x < 1)
        if limit is not None:
            check.number("limit", limit, "a finite number above 0", lambda x: 0 < x < inf)
        self.rule, self.loss = rule_and_loss(rule, loss)
        if self.delay and self.loss.takes_reals:
            raise ValueError(
                f"delay is {self.delay} and the loss is {self.loss.name!r}, whose targets may be real numbers. Labels"
                " that come late are whole numbers: use a loss on labels, or no delay."
            )
        check.targets(net, self.loss, np.zeros(1, int), 1)
        # Dense traces are fastest for a single stream, but not every map can have them.
        traces = "dense" if all(isinstance(layer, WeightRows) for layer in net.layers) else "auto"
        form = stepper(net, self.rule, traces=traces, loss=self.loss)
        self._optimizer = optimizer
        chosen = interned(optimizer, jax.eval_shape(lambda: net.init(jax.random.key(0), jnp.float32)))
        self._settings = ProgramSettings(net, form, chosen, every, delay > 0, float(score_leak), float(decay), limit)
        programs.check_fits(self._settings)
        self._programs = programs_for(self._settings)
        if params is None:
            params = net.init(jax.random.key(check.whole("seed", seed, 2**32)), jnp.float32)
        params = jax.tree.map(lambda w: jnp.asarray(w, jnp.float32), check.params(net, params))
        _refuse_if_not_finite("params", params)
        self._lock = RLock()  # reentrant, since a signal handler may save in the middle of a call
        host = _Host(Waiting.none(net.layers[0].in_shape))
        self._cell: Cell[Memory, _Host] = Cell(start(self._settings, params), host)

    @property
    def net(self) -> Network:
        return self._settings.net

    @property
    def steps(self) -> int:
        """The number of time steps that were taken."""
        return self._cell.host.steps

    @property
    def labelled(self) -> int:
        """The number of time steps with a label."""
        return self._cell.host.labelled

    @property
    def params(self) -> Any:
        """A copy of the current weights as numpy arrays."""
        programs.check_not_forked()
        with self._lock:
            return jax.tree.map(np.array, self._memory.params)

    @property
    def bytes(self) -> int:
        """The size of the state: weights, optimizer, membranes, traces, and with a delay the steps that wait."""
        waiting = self.delay * (4 * prod(self.net.layers[0].in_shape) + 5)
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self._memory)) + waiting

    def predict_one(self, x: Any) -> np.ndarray:
        """Return the class scores [classes] as they would be after this time step [n_in]. Changes nothing."""
        x = inputs.step(self.net, x)
        programs.check_not_forked()
        with self._lock:
            return np.asarray(self._programs.predict(self._cell.leaves, x))

    def learn_one(self, x: Any, label: Any) -> float:
        """Take this time step, and learn from its label. Returns the loss before learning."""
        x, y = inputs.step(self.net, x), inputs.label(self.net, label, self.loss)
        if self.delay:
            return float(self.learn_many(x[None], y).losses[0])
        loss = float(self._step(self._programs.learn, x, y)[LOSS])
        if loss == inf:
            raise _not_finite(self.steps, self.steps)
        return loss

    def observe_one(self, x: Any) -> None:
        """Take this time step, and learn nothing."""
        x = inputs.step(self.net, x)
        if self.delay:
            self.observe_many(x[None])
        else:
            self._step(self._programs.observe, x)

    def learn_many(self, xs: Any, labels: Any) -> Learned:
        """Take many time steps [T, n_in], with one label for all of them or one for each [T]. −1 means no label.

        The results are those of `learn_one` and `observe_one` in a loop, but many times as fast. After an exception the
        learner may be after any of the steps; `steps` tells how many were taken.
        """
        xs = inputs.steps(self.net, xs)
        labels = inputs.labels(self.net, labels, len(xs), self.loss)
        if self.delay:
            return self._delayed(xs, labels)
        some_without = labels.ndim == 1 and (labels == NO_LABEL).any()
        return self._in_blocks(self._programs.mixed_many if some_without else self._programs.learn_many, xs, labels)

    def observe_many(self, xs: Any) -> Learned:
        """Take many time steps [T, n_in], and learn nothing."""
        xs = inputs.steps(self.net, xs)
        if self.delay:
            return self._delayed(xs, np.full(len(xs), NO_LABEL, np.int32))
        return self._in_blocks(self._programs.observe_many, xs)

    def label_late(self, labels: Any, ago: int = 0) -> None:
        """Give labels to past steps without one: the last steps, or the steps before the last `ago` ones.

        One label, or one for each of several steps in the order of time; −1 means no label. The learner learns from
        them when `delay` steps have followed theirs.
        """
        labels = np.atleast_1d(np.asarray(labels))
        labels = inputs.labels(self.net, labels, len(labels))
        ago = check.whole("ago", ago, 2**31)
        programs.check_not_forked()
        with self._lock:
            host = self._cell.host
            count = len(host.waiting.labels)
            if ago + len(labels) > count:
                raise ValueError(
                    f"labels are for {len(labels)} steps, {ago} before the last one, and {count} wait for a label. Make"
                    f" the learner with a larger delay, the number of steps a label may be late; it is {self.delay}."
                )
            waiting = host.waiting.with_labels(labels, ago)
            labelled = host.labelled + waiting.labelled - host.waiting.labelled
            self._cell.replace(self._memory, host._replace(waiting=waiting, labelled=labelled))

    def reset(self) -> None:
        """Begin a new sequence: clear membranes, traces and scores, keep the weights.

        With `every`, steps since the last update make an update first, even if there are fewer than `every`.
        """
        programs.check_not_forked()
        with self._lock:
            host = self._cell.host
            if self.delay:  # waiting steps belong to the old sequence, so only the present is cleared now
                self._cell.replace(self._memory._replace(present=at_rest(self.net)), host._replace(begins=True))
            else:
                self._cell.run(self._programs.reset, host=host)

    def clone(self) -> "StreamLearner":
        """Return an independent copy."""
        programs.check_not_forked()
        other = object.__new__(StreamLearner)
        with self._lock:
            cell = Cell(jax.tree.map(jnp.copy, self._memory), self._cell.host)
        other.__dict__ = {**self.__dict__, "_lock": RLock(), "_cell": cell}
        return other

    def __deepcopy__(self, _: Any) -> "StreamLearner":
        return self.clone()

    def save(self, path: str | Path, *, arrays: Mapping[str, np.ndarray] | None = None, **more: Any) -> Path:
        """Write everything to a file, also in the middle of a sequence. A loaded learner continues bit for bit.

        `arrays` and `more` are other things to put into the file, by name; `more` as plain JSON. If weights or traces
        are not finite, this raises an error and writes no file.
        """
        programs.check_not_forked()
        settings, path = self._settings, Path(path)
        with self._lock:
            host, memory = self._cell.host, checkpoint.to_arrays(self._memory)
        bad = _first_not_finite({name: a for name, a in memory.items() if not name.startswith("opt_state")})
        if bad is not None:
            text = f"{path} was not written: {bad} has numbers that are not finite. {REMEDY}"
            raise NotFiniteError(text, host.steps)
        about = more | {
            "net": storage.network_to_json(settings.net),
            "rule": self.rule.name if self.rule.name in rules() and named_rule(self.rule.name) == self.rule else None,
            "optimizer": _optimizer_to_json(recognise(self._optimizer, self._memory.params)),
            "begins": host.begins,
            "settings": {
                "every": settings.every,
                "delay": self.delay,
                "score_leak": settings.score_leak,
                "decay": settings.decay,
                "limit": settings.limit,
            },
            "loss": storage.loss_to_json(self.loss),
            "steps": host.steps,
            "labelled": host.labelled,
        }
        memory |= {f"{WAITING}{name}": array for name, array in host.waiting._asdict().items()}
        memory |= {f"{MORE}{name}": array for name, array in (arrays or {}).items()}
        tensors.write(path, KIND, memory, about)
        return path

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        net: Network | None = None,
        rule: str | Rule | None = None,
        optimizer: optax.GradientTransformation | Optimizer | None = None,
        loss: LossChoice = None,
    ) -> "StreamLearner":
        """Return the learner that `save` wrote. Pass `net`, `rule`, `optimizer` or `loss` if they are your own."""
        path = Path(path)
        arrays, about = tensors.read(path, KIND, FIELDS)
        about = {"loss": storage.loss_to_json(losses.DEFAULT), **about}  # version 0.1 had no other loss
        for name, given in (("net", net), ("rule", rule), ("optimizer", optimizer), ("loss", loss)):
            if given is None and about[name] is None:
                raise ValueError(
                    f"{path} was saved with {name} of your own, which a file cannot hold. Hand it over:"
                    f" otpe.StreamLearner.load({str(path)!r}, {name}=...)."
                )
        if net is not None:
            check.network(net)
        if optimizer is not None:
            check.optimizer(optimizer)
        rule = None if rule is None else named_rule(rule)
        with contents.reading(path):
            learner = cls(
                storage.network_from_json(about["net"]) if net is None else net,
                about["rule"] if rule is None else rule,
                _optimizer_from_json(about["optimizer"]) if optimizer is None else optimizer,
                loss=losses.Loss(**about["loss"]) if loss is None else loss,
                **about["settings"],
            )
            waiting = Waiting(*(arrays.pop(f"{WAITING}{name}") for name in Waiting._fields))
        arrays = {_current_name(name): array for name, array in arrays.items() if not name.startswith(MORE)}
        memory: Memory | None = checkpoint.from_arrays(arrays, learner._memory)
        if memory is None:
            raise ValueError(f"{path} was saved with another network, rule or optimizer than the ones given.")
        _refuse_if_not_finite(str(path), memory.params)
        learner._cell.replace(memory, _Host(waiting, about["steps"], about["labelled"], about["begins"]))
        return learner

    @property
    def _memory(self) -> Memory:
        return self._cell.memory

    def _step(self, program: Program, *arrays: np.ndarray) -> tuple[Any, ...]:
        """Take one time step, with a label if there is a second array. Returns the fields of `StepOutput`."""
        programs.check_not_forked()
        with self._lock:
            waiting, steps, labelled, begins = self._cell.host
            after = _Host(waiting, steps + 1, labelled + len(arrays) - 1, begins)
            return self._cell.run(program, *arrays, host=after)

    def _delayed(self, xs: np.ndarray, labels: np.ndarray) -> Learned:
        """Advance the present by these steps, and learn from older steps that have waited for `delay` steps."""
        with self._lock:
            host, begins = self._cell.host, np.zeros(len(xs), bool)
            begins[0] = host.begins
            # As many steps can still wait. After them, each further step makes the oldest waiting one due.
            free = min(max(self.delay - len(host.waiting.labels), 0), len(xs))
            found = []
            if free:
                found.append(self._in_blocks(self._programs.ahead_many, xs[:free], labels[:free], begins[:free]))
            if free < len(xs):
                found.append(self._in_blocks(self._programs.late_many, xs[free:], labels[free:], begins[free:]))
        return _joined(found)

    def _in_blocks(self, program: Program, *arrays: np.ndarray) -> Learned:
        """Run the program on blocks of a few lengths. The output of a block is checked while the next one runs."""
        programs.check_not_forked()
        running: list[tuple[int, Any]] = []
        learned, at, steps = [], 0, len(arrays[0])
        with self._lock:
            while at < steps:
                size = next(size for size in BLOCKS if size <= steps - at)
                before = self._cell.host.steps
                running.append((before, self._block(program, [array[at : at + size] for array in arrays])))
                at += size
                if len(running) > 1:
                    learned.append(self._checked(*running.pop(0)))
            learned += [self._checked(*block) for block in running]
        return _joined(learned)

    def _checked(self, before: int, output: Any) -> Learned:
        """Return the output of a block if it is finite. `before` is the number of steps before the block."""
        learned = Learned(*map(np.asarray, output))
        bad = np.isinf(learned.losses)
        if bad.any():
            raise _not_finite(before + 1 + int(bad.argmax()), self._cell.host.steps)
        return learned

    def _block(self, program: Program, arrays: list[np.ndarray]) -> tuple[Any, ...]:
        waiting, steps, labelled, begins = self._cell.host
        count = len(arrays[0])
        if len(arrays) > 1:
            labelled += count if arrays[1].ndim > 1 else int((arrays[1] != NO_LABEL).sum())
        if self.delay:
            due, waiting = waiting.append(Waiting(*arrays), self.delay)
            arrays, begins = [arrays[0], *due] if len(due.xs) else [arrays[0]], False
        return self._cell.run(program, *arrays, host=_Host(waiting, steps + count, labelled, begins))


def _joined(parts: list[Learned]) -> Learned:
    return Learned(*(np.concatenate(field) for field in zip(*parts, strict=True)))


def _optimizer_to_json(optimizer: Optimizer | None) -> list[Any] | dict[str, Any] | None:
    """Return name and learning rate, as version 0.1 wrote it, or all fields if others are set."""
    if optimizer is None or optimizer != Optimizer(optimizer.name, optimizer.learning_rate):
        return None if optimizer is None else asdict(optimizer)
    return [optimizer.name, optimizer.learning_rate]


def _optimizer_from_json(found: list[Any] | dict[str, Any]) -> Optimizer:
    return Optimizer(**found) if isinstance(found, dict) else Optimizer(*found)


def _current_name(name: str) -> str:
    """Return the current name of an array. Version 0.1 had other names for some."""
    if name.startswith("state.layers."):
        for old, new in ((".u", ".neurons"), (".ρ", ".A")):
            name = name.removesuffix(old) + new if name.endswith(old) else name
    return name


def _first_not_finite(arrays: Mapping[str, np.ndarray]) -> str | None:
    """Return the name of the first array with numbers that are not finite. None if all are finite."""
    floats = {name: array for name, array in arrays.items() if np.issubdtype(array.dtype, np.floating)}
    return next((name for name, array in floats.items() if not np.isfinite(array).all()), None)


def _refuse_if_not_finite(what: str, params: Any) -> None:
    bad = _first_not_finite(checkpoint.to_arrays(params))
    if bad is not None:
        raise ValueError(f"{what} has weights that are not finite, in {bad}. Use finite ones, of an earlier step.")


def _not_finite(step: int, last: int) -> NotFiniteError:
    return NotFiniteError(
        f"step {step:,}: weights or membranes are not finite any more (the learner is at step {last:,}). {REMEDY}", step
    )
