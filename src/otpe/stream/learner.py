"""A network that goes on learning while it works: one stream, one time step at a time, in memory that never grows.

    learner = otpe.StreamLearner(net, rule="otpe", optimizer=optax.adamax(1e-3))
    scores = learner.predict_one(x)       # class scores, as they would be with this step; changes nothing
    learner.learn_one(x, label)           # the step is taken, and the weights learn from it
    learner.observe_one(x)                # the step is taken, and nothing is learned

Numpy arrays go in and come out. After any exception, Ctrl-C too, a learner is before a step or after it, and can be
saved. Threads may share one: their calls wait for each other.
"""

from collections.abc import Mapping
from math import inf
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
from otpe.stream import described, inputs, programs
from otpe.stream.cell import Cell, Program
from otpe.stream.inputs import Waiting
from otpe.stream.programs import NO_LABEL, How, Memory, Told, at_rest, programs_for, start
from otpe.training.optimizer import ByValue

KIND = "streaming learner"
SAID = {  # in a file, of what types
    "net": dict | None, "rule": str | None, "optimizer": list | None, "begins": bool, "settings": dict, "steps": int,
    "labelled": int,
}  # fmt: skip
MORE = "more/"  # before the names of arrays in the file that are not the learner's
REMEDY = (
    "Go on from a learner that was saved before, with a smaller learning rate, or with limit, the largest size that a"
    " weight may have"
)
LOSS = Told._fields.index("loss")
BLOCKS = (1024, 128, 16, 1)  # steps in a program: few lengths are compiled, whatever blocks are given


class Learned(NamedTuple):
    """Of every step of a block."""

    scores: np.ndarray  # [T, classes] before it was learned from, as `predict_one` has them
    losses: np.ndarray  # [T] NaN where there was no label; with a delay, of the step that was learned from then
    rates: np.ndarray  # [T, layers] share of the neurons that spiked
    spikes: np.ndarray  # [T, classes] of the output neurons


class NotFiniteError(FloatingPointError):
    """Weights, membranes or traces are not finite any more."""

    def __init__(self, text: str, step: int) -> None:
        super().__init__(text)
        self.step = step  # where it was found


class _Host(NamedTuple):
    """What changes with the memory, but is not on the device."""

    waiting: Waiting
    steps: int = 0  # time steps of this life
    labelled: int = 0  # of them, those with a label
    begins: bool = False  # does a sequence begin with the next step?


class StreamLearner:
    """A network, a rule that learns online, and all they remember of a stream.

    Args:
      net: the network.
      rule: a rule that learns online, by name or as a composition of your own.
      optimizer: any optax optimizer; by default Adamax with learning rate 1e-3.
      seed: of the initial weights.
      params: initial weights, such as those of `otpe.train`, instead. Finite numbers.
      loss: as in `otpe.gradients`. With "mse", or a function of your own, a label may be a row of real numbers, one per
        output.
      every: update the weights after this many steps with a label, by their mean gradient.
      score_leak: what is left of the scores after a step; by default the leak of the output neurons, and 0 for outputs
        that do not spike. 1.0: spikes are counted from the last `reset` on, as the paper does.
      delay: labels may come as many steps late, see `label_late`. The network of now predicts; each step is learned
        from when so many have followed it, with the label it has got by then.
      decay: share of every weight that an update takes away, for long lives.
      limit: the largest size that a weight may have.

    Raises:
      FloatingPointError: weights or membranes are not finite any more. Learning raises it at that step, `save` always.
    """

    def __init__(
        self,
        net: Network,
        rule: str | Rule = "otpe",
        optimizer: optax.GradientTransformation | None = None,
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
        optimizer = optax.adamax(1e-3) if optimizer is None else optimizer
        check.network(net)
        check.optimizer(optimizer)
        check.count("every", every, 2**31 - 1)
        self.delay = check.whole("delay", delay, 2**31)
        usual = net.readout_leak if neurons.is_spiking(net.neurons[-1]) else 0.0
        leak = usual if score_leak is None else score_leak
        check.number("score_leak", leak, "a number from 0 to 1", lambda x: 0 <= x <= 1)
        check.number("decay", decay, "a share from 0 to below 1", lambda x: 0 <= x < 1)
        if limit is not None:
            check.number("limit", limit, "a finite number above 0", lambda x: 0 < x < float("inf"))
        self.rule, self.loss = rule_and_loss(rule, loss)
        if self.delay and self.loss.takes_reals:
            raise ValueError(
                f"delay is {self.delay} and the loss is {self.loss.name!r}, whose targets may be real numbers. Labels"
                " that come late are whole numbers: use a loss on labels, or no delay."
            )
        check.targets(net, self.loss, np.zeros(1, int), 1)
        form = stepper(net, self.rule, traces=_traces(net, self.rule), loss=self.loss)
        self._how = How(net, form, ByValue(optimizer), every, delay > 0, float(leak), float(decay), limit)
        programs.check_fits(self._how)
        self._run = programs_for(self._how)
        if params is None:
            params = net.init(jax.random.key(check.whole("seed", seed, 2**32)), jnp.float32)
        params = jax.tree.map(lambda w: jnp.asarray(w, jnp.float32), check.params(net, params))
        _refuse_if_not_finite("params", params)
        self._lock = RLock()  # a signal handler may save in the middle of a call
        self._cell: Cell[Memory, _Host] = Cell(start(self._how, params), _Host(Waiting.none(net.layers[0].in_shape)))

    @property
    def net(self) -> Network:
        return self._how.net

    @property
    def steps(self) -> int:
        """Time steps of this life."""
        return self._cell.host.steps

    @property
    def labelled(self) -> int:
        """Of them, those with a label."""
        return self._cell.host.labelled

    @property
    def params(self) -> Any:
        """The weights of now, as numpy arrays of their own."""
        programs.check_not_forked()
        with self._lock:
            return jax.tree.map(np.array, self._memory.params)

    @property
    def bytes(self) -> int:
        """What the learner keeps: weights, optimizer, membranes and traces, and with a delay that many steps."""
        waiting = self.delay * (4 * int(np.prod(self.net.layers[0].in_shape)) + 5)
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self._memory)) + waiting

    def predict_one(self, x: Any) -> np.ndarray:
        """The class scores [classes] as they would be after this time step [n_in]. Changes nothing."""
        x = inputs.step(self.net, x)
        programs.check_not_forked()
        with self._lock:
            return np.asarray(self._run.predict(self._cell.leaves, x))

    def learn_one(self, x: Any, label: Any) -> float:
        """Take this time step, and learn from its label. Returns the loss, which is of before."""
        x, y = inputs.step(self.net, x), inputs.label(self.net, label, self.loss)
        if self.delay:
            return float(self.learn_many(x[None], y).losses[0])
        loss = float(self._step(self._run.learn, x, y)[LOSS])
        if loss == inf:
            raise _not_finite(self.steps, self.steps)
        return loss

    def observe_one(self, x: Any) -> None:
        """Take this time step, and learn nothing."""
        x = inputs.step(self.net, x)
        if self.delay:
            self.observe_many(x[None])
        else:
            self._step(self._run.observe, x)

    def learn_many(self, xs: Any, labels: Any) -> Learned:
        """Many time steps [T, n_in] at once, with a label for all of them or for each [T]; −1 for none.

        The same numbers as `learn_one` and `observe_one` in a loop, many times as fast. An exception may leave the
        learner behind any of the steps; `steps` tells how many were taken.
        """
        xs = inputs.steps(self.net, xs)
        labels = inputs.labels(self.net, labels, len(xs), self.loss)
        if self.delay:
            return self._later(xs, labels)
        some_without = labels.ndim == 1 and (labels == NO_LABEL).any()
        run = self._run.mixed_many if some_without else self._run.learn_many
        return self._in_blocks(run, xs, labels)

    def observe_many(self, xs: Any) -> Learned:
        """Many time steps [T, n_in] at once, from which nothing is learned."""
        xs = inputs.steps(self.net, xs)
        if self.delay:
            return self._later(xs, np.full(len(xs), NO_LABEL, np.int32))
        return self._in_blocks(self._run.observe_many, xs)

    def label_late(self, labels: Any, ago: int = 0) -> None:
        """Labels of steps that were taken without one: of the last ones, or of those that ended `ago` steps before.

        One label, or one for each of several steps in the order of time; −1 for none. They are learned from when
        `delay` steps have followed theirs.
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
                    " the learner with a larger delay, how many steps late a label may come; it is"
                    f" {self.delay}."
                )
            waiting = host.waiting.labelled(labels, ago)
            labelled = host.labelled + waiting.known - host.waiting.known
            self._cell.replace(self._memory, host._replace(waiting=waiting, labelled=labelled))

    def reset(self) -> None:
        """A new sequence begins: membranes, traces and scores are cleared, weights stay.

        Where updates are made after every k steps, what is left of a group makes one first.
        """
        programs.check_not_forked()
        with self._lock:
            host = self._cell.host
            if self.delay:  # what waits belongs to the sequence that is over, and is learned from as such
                self._cell.replace(self._memory._replace(present=at_rest(self.net)), host._replace(begins=True))
            else:
                self._cell.run(self._run.rest, host=host)

    def clone(self) -> "StreamLearner":
        """One that is the same in everything, and goes its own way from here on."""
        programs.check_not_forked()
        other = object.__new__(StreamLearner)
        with self._lock:
            cell = Cell(jax.tree.map(jnp.copy, self._memory), self._cell.host)
        other.__dict__ = {**self.__dict__, "_lock": RLock(), "_cell": cell}
        return other

    def __deepcopy__(self, _: Any) -> "StreamLearner":
        return self.clone()

    def save(self, path: str | Path, *, arrays: Mapping[str, np.ndarray] | None = None, **more: Any) -> Path:
        """Everything, in the middle of a sequence too: `load` goes on as if nothing had happened, bit for bit.

        `arrays`, `more`: what else is to be in the file, by name; `more` as plain JSON. Where weights or traces are not
        finite, no file is written, and an error says so.
        """
        programs.check_not_forked()
        how, path = self._how, Path(path)
        with self._lock:
            host, memory = self._cell.host, {name: np.array(leaf) for name, leaf in _plain(self._memory).items()}
        unsound = [name for name, array in memory.items() if not name.startswith("opt_state") and not _finite(array)]
        if unsound:
            text = f"{path} was not written: {unsound[0]} has numbers that are not finite. {REMEDY}"
            raise NotFiniteError(text, host.steps)
        said = more | {
            "net": storage.network_to_json(how.net),
            "rule": self.rule.name if self.rule.name in rules() and named_rule(self.rule.name) == self.rule else None,
            "optimizer": described.optimizer(how.optimizer.value),
            "begins": host.begins,
            "settings": {
                "every": how.every,
                "delay": self.delay,
                "score_leak": how.score_leak,
                "decay": how.decay,
                "limit": how.limit,
            },
            "loss": storage.loss_to_json(self.loss),
            "steps": host.steps,
            "labelled": host.labelled,
        }
        waiting = {f"waiting/{name}": array for name, array in host.waiting._asdict().items()}
        given = {f"{MORE}{name}": array for name, array in (arrays or {}).items()}
        tensors.write(path, KIND, memory | waiting | given, said)
        return path

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        net: Network | None = None,
        rule: str | Rule | None = None,
        optimizer: optax.GradientTransformation | None = None,
        loss: LossChoice = None,
    ) -> "StreamLearner":
        """What `save` wrote. `net`, `rule`, `optimizer`, `loss`: needed where they are of your own making."""
        path = Path(path)
        arrays, said = tensors.read(path, KIND, SAID)
        said = {"loss": storage.loss_to_json(losses.DEFAULT), **said}
        for name, given in (("net", net), ("rule", rule), ("optimizer", optimizer), ("loss", loss)):
            if given is None and said[name] is None:
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
            net = storage.network_from_json(said["net"]) if net is None else net
            optimizer = described.optimizer_of(said["optimizer"]) if optimizer is None else optimizer
            loss = losses.Loss(**said["loss"]) if loss is None else loss
            learner = cls(net, said["rule"] if rule is None else rule, optimizer, loss=loss, **said["settings"])
            waiting = Waiting(*(arrays.pop(f"waiting/{name}") for name in Waiting._fields))
        arrays = {_current(name): array for name, array in arrays.items() if not name.startswith(MORE)}
        shapes = {name: (leaf.shape, leaf.dtype) for name, leaf in _plain(learner._memory).items()}
        if {name: (a.shape, a.dtype) for name, a in arrays.items()} != shapes:
            raise ValueError(f"{path} was saved with another network, rule or optimizer than the ones given.")
        leaves = [checkpoint.like_leaf(arrays[n], leaf) for n, leaf in checkpoint.named_leaves(learner._memory).items()]
        memory: Memory = jax.tree.unflatten(jax.tree.structure(learner._memory), leaves)
        _refuse_if_not_finite(str(path), memory.params)
        learner._cell.replace(memory, _Host(waiting, said["steps"], said["labelled"], said["begins"]))
        return learner

    @property
    def _memory(self) -> Memory:
        return self._cell.memory

    def _step(self, program: Program, *arrays: np.ndarray) -> tuple[Any, ...]:
        """One time step, with a label where there is a second array. Returns the fields of `Told`."""
        programs.check_not_forked()
        with self._lock:
            waiting, steps, labelled, begins = self._cell.host
            after = _Host(waiting, steps + 1, labelled + len(arrays) - 1, begins)
            return self._cell.run(program, *arrays, host=after)

    def _later(self, xs: np.ndarray, labels: np.ndarray) -> Learned:
        """The present goes on with these steps, and what has waited long enough is learned from."""
        with self._lock:
            begins = np.zeros(len(xs), bool)
            begins[0] = self._cell.host.begins
            waiting = len(self._cell.host.waiting.labels)
            alone = min(max(self.delay - waiting, 0), len(xs))  # in the beginning, none has waited long enough
            parts = [Waiting(xs[:alone], labels[:alone], begins[:alone])] if alone else []
            parts += [Waiting(xs[alone:], labels[alone:], begins[alone:])] if alone < len(xs) else []
            runs = [self._run.look_many] * (alone > 0) + [self._run.late_many] * (alone < len(xs))
            told = [self._in_blocks(run, *part) for run, part in zip(runs, parts, strict=True)]
        return Learned(*(np.concatenate(each) for each in zip(*told, strict=True)))

    def _in_blocks(self, run: Program, *of_each: np.ndarray) -> Learned:
        """In programs of a few lengths. Each is looked at while the next one runs."""
        programs.check_not_forked()
        running: list[tuple[int, Any]] = []
        told, at, steps = [], 0, len(of_each[0])
        with self._lock:
            while at < steps:
                size = next(size for size in BLOCKS if size <= steps - at)
                before = self._cell.host.steps
                running.append((before, self._block(run, [part[at : at + size] for part in of_each])))
                at += size
                if len(running) > 1:
                    told.append(self._looked_at(*running.pop(0)))
            told += [self._looked_at(*each) for each in running]
        return Learned(*(np.concatenate(parts) for parts in zip(*told, strict=True)))

    def _looked_at(self, before: int, told: Any) -> Learned:
        """The numbers of a block, if they are finite. `before`: steps taken before it."""
        learned = Learned(*map(np.asarray, told))
        bad = np.isinf(learned.losses)
        if bad.any():
            raise _not_finite(before + 1 + int(bad.argmax()), self._cell.host.steps)
        return learned

    def _block(self, run: Program, of_each: list[np.ndarray]) -> tuple[Any, ...]:
        waiting, steps, labelled, begins = self._cell.host
        count = len(of_each[0])
        if len(of_each) > 1:
            labelled += count if of_each[1].ndim > 1 else int((of_each[1] != NO_LABEL).sum())
        if self.delay:
            xs = of_each[0]
            then, waiting = waiting.join(Waiting(*of_each), self.delay)
            of_each, begins = [xs, *then] if len(then.xs) else [xs], False
        return self._cell.run(run, *of_each, host=_Host(waiting, steps + count, labelled, begins))


def _traces(net: Network, rule: Rule) -> Any:
    """Dense traces win for a single stream, where every map can hold them."""
    return "dense" if all(isinstance(layer, WeightRows) for layer in net.layers) else "auto"


def _current(name: str) -> str:
    """The place of an array as it is called now; version 0.1 called some otherwise."""
    if name.startswith("state.layers."):
        for old, new in ((".u", ".neurons"), (".ρ", ".A")):
            name = name.removesuffix(old) + new if name.endswith(old) else name
    return name


def _plain(memory: Memory) -> dict[str, Any]:
    """Every leaf by its place, as numbers: some optimizers keep random keys."""
    return {name: checkpoint.numbers(leaf) for name, leaf in checkpoint.named_leaves(memory).items()}


def _finite(array: Any) -> bool:
    return not np.issubdtype(array.dtype, np.floating) or bool(np.isfinite(array).all())


def _refuse_if_not_finite(what: str, params: Any) -> None:
    for name, leaf in checkpoint.named_leaves(params).items():
        if not _finite(np.asarray(leaf)):
            raise ValueError(f"{what} has weights that are not finite, in {name}. Use finite ones, of an earlier step.")


def _not_finite(step: int, last: int) -> NotFiniteError:
    return NotFiniteError(
        f"step {step:,}: weights or membranes are not finite any more (the learner is at step {last:,}). {REMEDY}", step
    )
