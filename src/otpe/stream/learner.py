"""A network that goes on learning while it works: one stream, one time step at a time, in memory that never grows.

    learner = otpe.StreamLearner(net, rule="otpe", optimizer=optax.adamax(1e-3))
    scores = learner.predict_one(x)       # class scores, as they would be with this step; changes nothing
    learner.learn_one(x, label)           # the step is taken, and the weights learn from it
    learner.observe_one(x)                # the step is taken, and nothing is learned

Numpy arrays go in and come out.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from otpe import check, files, tensors
from otpe.network import Network
from otpe.rulebook import Rule, rules, stepper
from otpe.rulebook import rule as named_rule
from otpe.runs import checkpoint
from otpe.stream import described, inputs
from otpe.stream.late import Waiting
from otpe.stream.programs import NO_LABEL, How, Memory, at_rest, programs, start
from otpe.training.optimizer import ByValue

KIND = "streaming learner"
SAID = {  # in a file, of what types
    "net": dict | None, "rule": str | None, "optimizer": list | None, "begins": bool, "settings": dict, "steps": int,
    "labelled": int,
}  # fmt: skip
BLOCKS = (1024, 128, 16, 1)  # steps in a program: few lengths are compiled, whatever blocks are given


class Learned(NamedTuple):
    """Of every step of a block."""

    scores: np.ndarray  # [T, classes] before it was learned from, as `predict_one` has them
    losses: np.ndarray  # [T] NaN where there was no label; with a delay, of the step that was learned from then
    rates: np.ndarray  # [T, layers] share of the neurons that spiked
    spikes: np.ndarray  # [T, classes] of the output neurons


class StreamLearner:
    """A network, a rule that learns online, and all they remember of a stream.

    Args:
      net: the network.
      rule: a rule that learns online, by name or as a composition of your own.
      optimizer: any optax optimizer; by default Adamax with learning rate 1e-3.
      seed: of the initial weights.
      params: initial weights, such as those of `otpe.train`, instead.
      every: update the weights after this many steps with a label, by their mean gradient.
      score_leak: what is left of the scores after a step; by default the leak of the output neurons. 1.0: spikes are
        counted from the last `reset` on, as the paper does.
      delay: labels may come as many steps late, see `label_late`. The network of now predicts; each step is learned
        from when so many have followed it, with the label it has got by then.
      decay: share of every weight that an update takes away, for long lives.
      limit: the largest size that a weight may have.
    """

    def __init__(
        self,
        net: Network,
        rule: str | Rule = "otpe",
        optimizer: optax.GradientTransformation | None = None,
        seed: int = 0,
        *,
        params: Any = None,
        every: int = 1,
        delay: int = 0,
        score_leak: float | None = None,
        decay: float = 0.0,
        limit: float | None = None,
    ) -> None:
        optimizer = optax.adamax(1e-3) if optimizer is None else optimizer
        check.network(net)
        check.optimizer(optimizer)
        check.count("every", every, 2**31 - 1)
        self.delay = check.whole("delay", delay, 2**31)
        leak = net.readout_leak if score_leak is None else score_leak
        check.number("score_leak", leak, "a number from 0 to 1", lambda x: 0 <= x <= 1)
        check.number("decay", decay, "a share from 0 to below 1", lambda x: 0 <= x < 1)
        if limit is not None:
            check.number("limit", limit, "a finite number above 0", lambda x: 0 < x < float("inf"))
        self.rule = named_rule(rule)
        form = stepper(net, self.rule, traces="dense")
        self._how = How(net, form, ByValue(optimizer), every, delay > 0, float(leak), float(decay), limit)
        self._run = programs(self._how)
        if params is None:
            params = net.init(jax.random.key(check.whole("seed", seed, 2**32)), jnp.float32)
        params = jax.tree.map(lambda w: jnp.asarray(w, jnp.float32), check.params(net, params))
        self._memory: Memory = start(self._how, params)
        self._waiting = Waiting.none(net.layers[0].in_shape)
        self._begins = False  # does a sequence begin with the next step?
        self.steps = 0  # time steps of this life
        self.labelled = 0  # of them, those with a label

    @property
    def net(self) -> Network:
        return self._how.net

    @property
    def params(self) -> Any:
        """The weights of now, as numpy arrays of their own."""
        return jax.tree.map(np.array, self._memory.params)

    @property
    def bytes(self) -> int:
        """What the learner keeps: weights, optimizer, membranes and traces, and with a delay that many steps."""
        waiting = self.delay * (4 * int(np.prod(self.net.layers[0].in_shape)) + 5)
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self._memory)) + waiting

    def predict_one(self, x: Any) -> np.ndarray:
        """The class scores [classes] as they would be after this time step [n_in]. Changes nothing."""
        return np.asarray(self._run.predict(self._memory, inputs.step(self.net, x)))

    def learn_one(self, x: Any, label: Any) -> float:
        """Take this time step, and learn from its label. Returns the loss, which is of before."""
        x, y = inputs.step(self.net, x), inputs.label(self.net, label)
        if self.delay:
            return float(self.learn_many(x[None], y).losses[0])
        self._memory, told = self._run.learn(self._memory, x, y)
        self.steps, self.labelled = self.steps + 1, self.labelled + 1
        return float(told.loss)

    def observe_one(self, x: Any) -> None:
        """Take this time step, and learn nothing."""
        x = inputs.step(self.net, x)
        if self.delay:
            self.observe_many(x[None])
            return
        self._memory, _ = self._run.observe(self._memory, x)
        self.steps += 1

    def learn_many(self, xs: Any, labels: Any) -> Learned:
        """Many time steps [T, n_in] at once, with a label for all of them or for each [T]; −1 for none.

        The same numbers as `learn_one` and `observe_one` in a loop, many times as fast.
        """
        xs = inputs.steps(self.net, xs)
        labels = inputs.labels(self.net, labels, len(xs))
        self.labelled += int((labels != NO_LABEL).sum())
        if self.delay:
            return self._later(xs, labels)
        run = self._run.mixed_many if (labels == NO_LABEL).any() else self._run.learn_many
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
        waiting = len(self._waiting.labels)
        if ago + len(labels) > waiting:
            raise ValueError(
                f"labels are for {len(labels)} steps, {ago} before the last one, and {waiting} wait for a label. Make"
                f" the learner with a larger delay, how many steps late a label may come; it is {self.delay}."
            )
        before = self._waiting.known
        self._waiting = self._waiting.labelled(labels, ago)
        self.labelled += self._waiting.known - before

    def reset(self) -> None:
        """A new sequence begins: membranes, traces and scores are cleared, weights stay.

        Where updates are made after every k steps, what is left of a group makes one first.
        """
        if self.delay:  # what waits belongs to the sequence that is over, and is learned from as such
            self._memory, self._begins = self._memory._replace(present=at_rest(self.net)), True
            return
        if int(self._memory.labelled):
            self._memory = self._run.settle(self._memory)
        self._memory = self._run.rest(self._memory)

    def clone(self) -> "StreamLearner":
        """One that is the same in everything, and goes its own way from here on."""
        other = object.__new__(StreamLearner)
        other.__dict__ = {**self.__dict__, "_memory": jax.tree.map(jnp.copy, self._memory)}
        return other

    def save(self, path: str | Path, **more: Any) -> Path:
        """Everything, in the middle of a sequence too: `load` goes on as if nothing had happened, bit for bit.

        `more`: what else is to be in the file, as plain JSON.
        """
        how, path = self._how, Path(path)
        said = more | {
            "net": described.network(how.net),
            "rule": self.rule.name if self.rule.name in rules() and named_rule(self.rule.name) == self.rule else None,
            "optimizer": described.optimizer(how.optimizer.value),
            "begins": self._begins,
            "settings": {
                "every": how.every,
                "delay": self.delay,
                "score_leak": how.score_leak,
                "decay": how.decay,
                "limit": how.limit,
            },
            "steps": self.steps,
            "labelled": self.labelled,
        }
        arrays = {name: np.asarray(leaf) for name, leaf in _plain(self._memory).items()}
        arrays |= {f"waiting/{name}": array for name, array in self._waiting._asdict().items()}
        tensors.write(path, KIND, arrays, said)
        return path

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        net: Network | None = None,
        rule: str | Rule | None = None,
        optimizer: optax.GradientTransformation | None = None,
    ) -> "StreamLearner":
        """What `save` wrote. `net`, `rule`, `optimizer`: needed where they are of your own making."""
        path = Path(path)
        arrays, said = tensors.read(path, KIND, SAID)
        for name, given in (("net", net), ("rule", rule), ("optimizer", optimizer)):
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
        with files.reading(path):
            net = described.network_of(said["net"]) if net is None else net
            optimizer = described.optimizer_of(said["optimizer"]) if optimizer is None else optimizer
            learner = cls(net, said["rule"] if rule is None else rule, optimizer, **said["settings"])
            learner._waiting = Waiting(*(arrays.pop(f"waiting/{name}") for name in Waiting._fields))
        learner._begins = said["begins"]
        shapes = {name: (leaf.shape, leaf.dtype) for name, leaf in _plain(learner._memory).items()}
        if {name: (a.shape, a.dtype) for name, a in arrays.items()} != shapes:
            raise ValueError(f"{path} was saved with another network, rule or optimizer than the ones given.")
        leaves = [checkpoint.like_leaf(arrays[n], leaf) for n, leaf in checkpoint.named(learner._memory).items()]
        learner._memory = jax.tree.unflatten(jax.tree.structure(learner._memory), leaves)
        learner.steps, learner.labelled = said["steps"], said["labelled"]
        return learner

    def _later(self, xs: np.ndarray, labels: np.ndarray) -> Learned:
        """The present goes on with these steps, and what has waited long enough is learned from."""
        begins = np.zeros(len(xs), bool)
        begins[0], self._begins = self._begins, False
        then, self._waiting = self._waiting.join(Waiting(xs, labels, begins), self.delay)
        alone = len(xs) - len(then.xs)  # in the beginning, none has waited long enough
        parts = [self._in_blocks(self._run.look_many, xs[:alone])] if alone else []
        parts += [self._in_blocks(self._run.late_many, xs[alone:], *then)] if alone < len(xs) else []
        return Learned(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _in_blocks(self, run: Any, *of_each: np.ndarray) -> Learned:
        """In programs of a few lengths."""
        told, at, steps = [], 0, len(of_each[0])
        while at < steps:
            size = next(size for size in BLOCKS if size <= steps - at)
            self._memory, more = run(self._memory, *(part[at : at + size] for part in of_each))
            told.append(jax.tree.map(np.asarray, more))
            at += size
        self.steps += steps
        return Learned(*(np.concatenate(parts) for parts in zip(*told, strict=True)))


def _plain(memory: Memory) -> dict[str, Any]:
    """Every leaf by its place, as numbers: some optimizers keep random keys."""
    return {name: checkpoint.numbers(leaf) for name, leaf in checkpoint.named(memory).items()}
