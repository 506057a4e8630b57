"""The datasets that have a name on the command line.

A named dataset is a module and one entry here. The module has

    from_settings(settings) -> a dataset, or a tuple of three: train, valid, test
    expected_shape(settings) -> (time steps, shape of the units, number of classes), known before the data is made

where `settings` has the fields of `otpe.lab.settings.DataSettings`. A module that makes its datasets without
delay needs no `expected_shape`. Both raise ValueError for wrong settings. This module does not import jax.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, NamedTuple

RANDMAN = ("manifolds", "draws", "standardize", "classes", "dims", "alpha", "time_steps", "units")
SHAPES = ("time_steps", "label", "size", "noise")
RECORDINGS = ("root", "bins", "dt", "max_steps", "binary", "pool")
LOOK_AT_RECORDINGS = ("root", "keep_empty", "bins", "dt", "steps", "binary", "pool", "remainder")
LOOK_AT_ARCHIVES = (*LOOK_AT_RECORDINGS, "download", "verify")
DRAWN_SAMPLES = ("valid_samples", "test_samples")


class TrainingDefaults(NamedTuple):
    """The values of training settings that are not given: the paper's for Randman, if nothing else is said.

    They were measured with Adamax and the fast sigmoid: docs/how-to/train-and-resume.md.
    """

    slope: float | None = None  # None: the default of the surrogate, 25 for fast-sigmoid
    learning_rate: float = 1e-3
    online_learning_rate: float = 1e-3  # mode online


RECORDED = TrainingDefaults(slope=2.0, learning_rate=5e-3, online_learning_rate=3e-4)


@dataclass(frozen=True)
class NamedDataset:
    """An entry of the registry."""

    name: str
    module: str
    uses: tuple[str, ...]  # settings of training that some datasets do not use
    data_uses: tuple[str, ...] = ()  # settings of `otpe data` that some datasets do not use
    drawn: bool = True  # samples are drawn at random, in any number, instead of recorded
    training: TrainingDefaults = TrainingDefaults()
    title: str = ""  # of pictures and tables of a drawn dataset
    about: str = ""  # for the help

    def from_settings(self, settings: Any) -> tuple[Any, Any, Any]:
        """Return the datasets for training, validation and test. A drawn dataset is used for all three."""
        made = import_module(self.module).from_settings(settings)
        return made if isinstance(made, tuple) else (made, made, made)

    def expected_shape(self, settings: Any) -> tuple[int, tuple[int, ...], int]:
        """Return time steps, shape of the units and number of classes. For recordings these are lower bounds."""
        module = import_module(self.module)
        if hasattr(module, "expected_shape"):
            return module.expected_shape(settings)
        made = module.from_settings(settings)
        return made.steps, tuple(made.shape), len(made.names)


ENTRIES = (
    NamedDataset("t-randman", "otpe.datasets.manifolds", RANDMAN, ("seed", "standardize"), title="T-Randman"),
    NamedDataset("r-randman", "otpe.datasets.manifolds", RANDMAN, ("seed", "standardize"), title="R-Randman"),
    NamedDataset(
        "moving-shapes", "otpe.datasets.shapes", SHAPES, ("seed", "label", "size", "noise"), title="Moving shapes"
    ),
    NamedDataset(
        "shd",
        "otpe.datasets.heidelberg",
        (*RECORDINGS, "validation"),
        LOOK_AT_ARCHIVES,
        drawn=False,
        training=RECORDED,
    ),
    NamedDataset("ssc", "otpe.datasets.heidelberg", RECORDINGS, LOOK_AT_ARCHIVES, drawn=False, training=RECORDED),
    NamedDataset(
        "folder",
        "otpe.datasets.heidelberg",
        (*RECORDINGS, "units", "shape", "validation"),
        (*LOOK_AT_RECORDINGS, "units", "shape"),
        drawn=False,
        training=RECORDED,
        about="any folder of .h5 files in SHD's layout",
    ),
)
DATASETS = {entry.name: entry for entry in ENTRIES}


def users(setting: str) -> tuple[str, ...]:
    """Return the names of the datasets that use a setting of training. Empty if it applies to all."""
    return tuple(
        name for name, entry in DATASETS.items() if setting in (*entry.uses, *(DRAWN_SAMPLES if entry.drawn else ()))
    )


def data_users(setting: str) -> tuple[str, ...]:
    """Return the names of the datasets that use a setting of `otpe data`. Empty if it applies to all."""
    return tuple(name for name, entry in DATASETS.items() if setting in entry.data_uses)


def is_drawn(name: str) -> bool:
    """Return whether samples are drawn at random. False for recordings, and for unknown names."""
    return name in DATASETS and DATASETS[name].drawn


def listed() -> str:
    """Return all names with their descriptions, for the help."""
    return ", ".join(f"{name}: {entry.about}" if entry.about else name for name, entry in DATASETS.items())


def check_use(dataset: str, config: Any, users: Callable[[str], Sequence[str]] = users) -> None:
    """Raise ValueError for an unknown name, and for a setting that this dataset does not use."""
    from otpe import check

    check.one_of("dataset", dataset, DATASETS)
    for field in fields(config):
        value, names = getattr(config, field.name), users(field.name)
        if value != field.default and names and dataset not in names:
            shown = repr(value) if isinstance(value, bool | int | float) else repr(str(value))
            *first, last = names
            text = f"{', '.join(first)} and {last}" if first else last
            raise ValueError(f"{field.name} is {shown}, but {dataset} has no use for it: it is for {text}.")
