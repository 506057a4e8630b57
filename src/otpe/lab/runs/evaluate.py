"""`otpe.evaluate` and `otpe evaluate`: the answers of trained networks on data, class by class."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from otpe import check, files, memory
from otpe.choices import Backend, Precision
from otpe.datasets import Dataset, registry
from otpe.datasets.dataset import SpikeBatch, shape_of
from otpe.lab.report import words
from otpe.lab.runs import custom, folder, loop, saved_weights, task
from otpe.lab.runs.loop import Networks
from otpe.lab.runs.results import Result
from otpe.lab.settings import EvaluateConfig, TrainConfig
from otpe.losses import predict
from otpe.networks import Network
from otpe.tables import Table, as_text

FEW = 100  # samples. With fewer, one sample is more than a percentage point
MOST_CLASSES = 24  # of a confusion matrix that is printed


@dataclass(frozen=True)
class Evaluation:
    """The predictions of each network of a run on some data."""

    run: str
    data: str  # the name of the data, for the text
    names: tuple[str, ...]  # of the classes
    confusion: (
        np.ndarray
    )  # [networks, classes, classes + 1]: samples by label and by answer; the last column is silence

    @property
    def samples(self) -> int:
        return int(self.confusion[0].sum())

    @property
    def accuracy(self) -> np.ndarray:
        """The share of samples with the right answer, for each network. Silence is wrong."""
        return self._right.sum(1) / self.samples

    @property
    def standard_error(self) -> np.ndarray:
        """The standard error of each accuracy: how much it would differ with other samples, the same number of them."""
        return np.sqrt(self.accuracy * (1 - self.accuracy) / self.samples)

    @property
    def per_class(self) -> np.ndarray:
        """The share of right answers for each class, as a mean over networks. NaN for a class without samples."""
        counts = self.confusion.sum(2)[0]
        return np.divide(self._right.mean(0), counts, out=np.full(len(self.names), np.nan), where=counts > 0)

    @property
    def silent(self) -> np.ndarray:
        """The share of samples without any output, for each network."""
        return self.confusion[:, :, -1].sum(1) / self.samples

    @property
    def chance(self) -> float:
        """The accuracy of always giving the most frequent class."""
        return float(self.confusion[0].sum(1).max() / self.samples)

    @property
    def _right(self) -> np.ndarray:
        return np.diagonal(self.confusion, axis1=1, axis2=2)

    def as_json(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "data": self.data,
            "samples": self.samples,
            "accuracy": self.accuracy.tolist(),
            "standard_error": self.standard_error.tolist(),
            "silent": self.silent.tolist(),
            "chance": self.chance,
            "classes": list(self.names),
            "per_class": [None if np.isnan(share) else share for share in self.per_class.tolist()],
            "confusion": self.confusion.tolist(),
        }

    def __repr__(self) -> str:
        return f"<Evaluation of {self.run} on {self.data}: accuracy {words.mean_text(self.accuracy)}>"

    def __str__(self) -> str:
        """All numbers as text."""
        lines = [f"{self.run} on {self.data}: {self.samples:,} samples, {len(self.names)} classes", ""]
        lines += [f"  accuracy      {words.mean_text(self.accuracy)}{self._over_networks}"]
        errors = f"{self.standard_error.mean():.3f}"
        lines += [f"  uncertainty   ± {errors}  (standard error, from the number of samples)"]
        lines += [f"  chance        {self.chance:.3f}  (always the most frequent class)"]
        lines += [f"  silent        {self.silent.mean():.3f}  (no output spike: counted as wrong)"]
        if self.samples < FEW:
            lines += ["", f"  Few samples: one of them is {1 / self.samples:.1%}."]
        return "\n".join([*lines, "", self._classes(), *self._matrix()])

    @property
    def _over_networks(self) -> str:
        count = len(self.confusion)
        return f"  (mean and standard deviation of {count} networks)" if count > 1 else ""

    def _classes(self) -> str:
        counts, mistakes = self.confusion[0].sum(1), self.confusion.mean(0)
        np.fill_diagonal(mistakes, 0)
        rows = []
        for i, (name, count, share) in enumerate(zip(self.names, counts, self.per_class, strict=True)):
            worst = int(mistakes[i].argmax())
            answer = (*self.names, "silence")[worst]
            mostly = f"{answer} ({mistakes[i, worst] / count:.0%})" if mistakes[i].any() else "–"
            rows.append([name, str(int(count)), "–" if np.isnan(share) else f"{share:.3f}", mostly])
        return as_text(Table(columns=["class", "samples", "accuracy", "most frequent mistake"], rows=rows), left=(0, 3))

    def _matrix(self) -> list[str]:
        if len(self.names) > MOST_CLASSES:
            return [f"\n  The confusion matrix has {len(self.names)}² entries. It is in the file of --json."]
        numbers = [str(i) for i in range(len(self.names))]
        rows = [
            [number, name, *(f"{x:.0f}" if x else "·" for x in row)]
            for number, name, row in zip(numbers, self.names, self.confusion.mean(0), strict=True)
        ]
        table = Table(columns=["", "label \\ answer", *numbers, "silence"], rows=rows)
        of = "" if len(self.confusion) == 1 else ", mean of the networks"
        return [f"\n  Samples by label and answer{of}:", as_text(table, left=(0, 1))]


def evaluate(
    run: str | Path | Result, data: Dataset | None = None, *, split: Literal["train", "valid", "test"] = "test"
) -> Evaluation:
    """Return the predictions of the networks of a finished run.

    Args:
      run: a run folder, or a `Result` of `otpe.train` or `otpe.load`.
      data: a dataset, such as `otpe.datasets.folder(...)` makes. The default is the data of the run. For data
        that is drawn, the number of samples is that of the run's test.
      split: which part of the data of the run. Drawn data has "valid" and "test" only.
    """
    result = run if isinstance(run, Result) else saved_weights.load(run)
    check.one_of("split", split, task.SPLITS)
    config = folder.stored(TrainConfig, result.folder)
    name = split if data is None else "the data given"
    dataset = _of_run(config, result, split) if data is None else data
    return _evaluated(result, config, dataset, "valid" if split == "valid" else "test", name)


def prepare(config: EvaluateConfig) -> Any:
    """Check everything, and return the job of `otpe evaluate`."""
    result = saved_weights.load(config.run)
    trained = folder.stored(TrainConfig, result.folder)
    _check_binning(config, trained)
    settings, name = trained, config.split
    if config.data is not None:
        if registry.is_drawn(trained.dataset):
            raise ValueError(f"data is {str(config.data)!r}, but the run is of {trained.dataset}, which has no files.")
        settings = replace(trained, root=config.data)
        if trained.dataset == "folder" and trained.units is None and not trained.shape:
            settings = replace(settings, units=int(np.prod(result.net.in_shape)) * trained.pool)
        name = f"{config.split} in {config.data}"
    dataset = _of_run(settings, result, config.split)

    def job() -> int:
        exam_of = "valid" if config.split == "valid" else "test"
        found = _evaluated(result, trained, dataset, exam_of, name)
        print(found)
        if config.json is not None:
            files.write_json(config.json, found.as_json())
            print(f"\nNumbers: {config.json}")
        return 0

    return job


def _check_binning(config: EvaluateConfig, trained: TrainConfig) -> None:
    """Raise ValueError for time steps that the networks were not trained on."""
    for name in ("bins", "dt"):
        value, known = getattr(config, name), getattr(trained, name)
        if value is not None and registry.is_drawn(trained.dataset):
            raise ValueError(f"{name} is {value}, but the run is of {trained.dataset}, which has no use for it.")
        if name == "bins" and known is None and trained.dt is None:
            known = 50
        if value is not None and value != known:
            raise ValueError(
                f"{name} is {value}, but the run was trained with {name} {known}: its networks know time steps of that"
                f" length only. Leave {name} out, or train with it."
            )


def _of_run(config: TrainConfig, result: Result, split: str) -> Dataset:
    """Return a part of the data that the run was trained on."""
    if config.dataset not in registry.DATASETS:
        raise ValueError(
            f"{result.folder} was trained on data of your own ({config.dataset!r}), which is not in the folder. Pass"
            " it: otpe.evaluate(run, data)."
        )
    if split == "train" and registry.is_drawn(config.dataset):
        raise ValueError(
            f"split is 'train', but {config.dataset} draws new samples for every mini-batch. Use test or valid."
        )
    return getattr(task.shaped_for_network(config, task.named(config), custom.NONE), split)


def _evaluated(result: Result, config: TrainConfig, data: Dataset, split: str, name: str) -> Evaluation:
    net, shape, classes = result.net, shape_of(data), len(data.names)
    if shape != net.in_shape and int(np.prod(shape)) == int(np.prod(net.in_shape)) and len(net.in_shape) == 1:
        data = task.flattened(task.Splits(data, data, data)).test
        shape = shape_of(data)
    if shape != net.in_shape:
        raise ValueError(
            f"the data has the shape {list(shape)}, but the networks of {result.folder} take {list(net.in_shape)}. Use"
            " data of that shape."
        )
    if classes > net.classes:
        raise ValueError(
            f"the data has {classes} classes, but the networks of {result.folder} have {net.classes} outputs."
        )
    seed, samples = (task.VALID, config.valid_samples) if split == "valid" else (task.TEST, config.test_samples)
    evaluation_set = task.evaluation_set(data, seed, samples, config.batch)
    params = jax.tree.map(lambda *leaves: jnp.stack(leaves), *result.params)
    number = jnp.arange(result.seeds, dtype=jnp.uint32)
    draws = number // (result.seeds // config.draws) if config.draws > 1 and hasattr(data, "on") else None
    networks = Networks(result.seed + number, draws)
    widest = max(int(np.prod(layer.out_shape)) for layer in net.layers)
    memory.check_fits(
        "the spikes of a layer",
        result.seeds * data.steps * evaluation_set.size * widest,
        {"batch": evaluation_set.size},
    )
    how = _How(net, config.precision, config.backend, evaluation_set)
    confusion = np.asarray(_confusion(how, data, networks, params))
    names = tuple(map(str, data.names)) + tuple(f"output {i}" for i in range(classes, net.classes))
    return Evaluation(str(result.folder), f"{config.data_name}, {name}", names, confusion)


@dataclass(frozen=True)
class _How:
    """The part of an evaluation that the compiled program depends on."""

    net: Network
    precision: Precision
    backend: Backend
    evaluation_set: task.EvaluationSet


@partial(jax.jit, static_argnums=0)
def _confusion(how: _How, data: Dataset, networks: Networks, params: Any) -> jax.Array:
    """Return samples by label and answer [S, C, C + 1]."""
    net = how.net

    def one(network: Networks, params: Any) -> jax.Array:
        def add(i: Any, total: jax.Array) -> jax.Array:
            batch, counted = loop.evaluation_batch(how.evaluation_set, network.sees(data), i)
            labels, answers, counted = _answers(how, params, batch, counted)
            return total.at[labels, jnp.where(answers < 0, net.classes, answers)].add(counted.astype(int))

        zero = jnp.zeros((net.classes, net.classes + 1), int)
        return jax.lax.fori_loop(0, how.evaluation_set.batches, add, zero)

    return loop.each_network(len(networks.seed), one)(networks, params)


def _answers(how: _How, params: Any, batch: SpikeBatch, counted: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return labels, answers, and a mask of those to count: one per sample, or per time step if labels are [T, B]."""
    own = counted if batch.lengths is None else counted & batch.mask
    outputs = how.net.run(params, batch.spikes, precision=how.precision, backend=how.backend)
    if batch.labels.ndim == 1:
        return batch.labels, predict(outputs, own), own.any(0)
    return batch.labels, jnp.where((outputs != 0).any(-1), outputs.argmax(-1), -1), own
