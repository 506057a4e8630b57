"""The run folder: settings, metrics, checkpoints and the result of a run.

config.json          every setting, versions, commit; written first
metrics.jsonl        one line per evaluation
checkpoints/         the last few states
result.json          written last: a run that has it is finished

One process at a time works in a folder and holds its lock. A resumed run must have the settings in config.json. It may
have more steps: then the result is the same as if it had them from the start.
"""

import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

import jax
from filelock import BaseFileLock, FileLock, Timeout

import otpe
from otpe import contents, files
from otpe.lab.nested_settings import field_types
from otpe.lab.records import FORMAT, KINDS, SINGLE, checked_metrics, kind_of, read_config, read_json, read_metrics
from otpe.lab.runs import checkpoint, commit, results
from otpe.lab.settings import FREE, TrainConfig

RUNS = Path("runs")
SECONDS = 0.5  # between two writes of metrics
RESULTS = ("result.json", "compare.json", "section.json")  # one of these is in the folder of a finished run or study
MACHINE = ("device", "platform", "commit")  # recorded again, with the versions, if they differ when a run is resumed


class Resumable(Protocol):
    """Settings of work that has a folder and can be resumed in it."""

    @property
    def out(self) -> Path | None: ...
    @property
    def resume(self) -> bool: ...


Config = TypeVar("Config", bound=Resumable)
Growth = Callable[[dict[str, Any]], dict[str, Any]]  # replaces the stored number of steps by a larger one


@dataclass
class Folder:
    """An open run folder, with the lock held."""

    path: Path
    lock: BaseFileLock
    waiting: list[str] = field(default_factory=list)  # lines of metrics that are not written yet
    written: float = 0.0  # time of the last write of metrics
    old_steps: int | None = None  # number of steps before the run was made longer; None if it was not

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def read_result(self) -> dict[str, Any] | None:
        path = self.path / "result.json"
        return results.read(path) if path.exists() else None

    def write_result(self, result: dict[str, Any]) -> None:
        files.write_json(self.path / "result.json", result)

    def metrics(self) -> list[dict[str, Any]]:
        return read_metrics(self.path)

    def add(self, line: dict[str, Any]) -> None:
        """Add a line of metrics. If many come within a second, they are written together."""
        self.waiting.append(json.dumps(line) + "\n")
        if time.monotonic() - self.written > SECONDS:
            self._write()

    def flush(self) -> None:
        """Write all metrics to the disk. Called before a checkpoint, whose metrics must not get lost."""
        self._write(to_disk=True)

    def resume(self, step: int, measured: bool) -> list[str]:
        """Remove metrics after this step, and record if the machine or versions changed. Returns warnings for the user.

        `measured`: whether metrics of this step or earlier must exist.
        """
        path, (lines, damage) = self.path / "metrics.jsonl", checked_metrics(self.path)
        text = "".join(json.dumps(line) + "\n" for line in lines if line["step"] <= step)
        if path.is_file() and path.read_bytes() != text.encode():
            files.write_atomically(path, text)
        warn = damage and (measured or path.is_file())
        warnings = [f"{damage} The run continues after step {step} nevertheless."] if warn else []
        return warnings + self._record_machine(step)

    def _record_machine(self, step: int) -> list[str]:
        """Add the machine and the versions to config.json if they have changed. Returns a warning if so."""
        about, now = read_config(self.path), provenance()
        before = [about, *about.get("resumed", [])][-1]
        was = before.get("versions", {}) | {name: before.get(name) for name in MACHINE}
        current = now["versions"] | {name: now[name] for name in MACHINE}
        changed = [f"{name} is {current.get(name)}, was {old}" for name, old in was.items() if current.get(name) != old]
        if not changed:
            return []
        files.write_json(
            self.path / "config.json", about | {"resumed": [*about.get("resumed", []), {"step": step, **now}]}
        )
        return [f"other versions from step {step} on: {'; '.join(changed)}. Numbers may differ in their last digits."]

    @contextmanager
    def closed_after_error(self) -> Iterator[None]:
        """Context that closes the folder if an error comes."""
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        try:
            if self.waiting:
                self._write()
        finally:
            self.lock.release()

    def _write(self, to_disk: bool = False) -> None:
        path, lines = self.path / "metrics.jsonl", "".join(self.waiting)
        self.waiting, self.written = [], time.monotonic()
        try:
            with files.append(path) as file:
                file.write(lines)
                file.flush()
                if to_disk:
                    os.fsync(file.fileno())
        except files.NotPlainError:
            raise
        except OSError as error:
            raise OSError(f"{path} cannot be written: {error.strerror}. Make room, and go on with resume") from None


# --------------------
# Opening a folder.


def opened(
    config: Resumable,
    names: Sequence[str],
    identity: dict[str, Any],
    *,
    kind: str = "train",
    about: Mapping[str, Any] = MappingProxyType({}),
    growth: Growth | None = None,
) -> Folder:
    """Make a new folder for a run, or open the folder of the run to resume. Returns it locked.

    Args:
      config: the settings.
      names: joined, the name of a new folder if the settings have no `out`.
      identity: what must be equal to the stored settings of a resumed run, as plain JSON.
      kind: the verb that works in the folder.
      about: more entries for config.json.
      growth: replaces the stored number of steps by a larger one. None: more steps are an error.
    """
    stem = files.short_name(re.sub(r"[^\w.-]+", "-", "-".join(names)).lstrip(".-"))
    if config.out is None and config.resume:
        raise ValueError(
            "resume is given without out: which run do you want to continue? Name its folder, such as"
            f" {RUNS / stem}-001."
        )
    path = files.claim_folder(RUNS, stem) if config.out is None else Path(config.out)
    files.make_folder(path)
    check_not_foreign(path, "run")
    lock = locked(path)
    try:
        old_steps = None
        if not (path / "config.json").exists():
            files.remove_partial(path)
            settings = {"format": FORMAT, "kind": kind, **plain(config), **identity, **about, **provenance()}
            files.write_json(path / "config.json", settings)
        else:
            _check(path, config, identity, kind, growth)
            files.remove_partial(path)
            old_steps = None if growth is None else _store_steps(path, identity["steps"])
    except BaseException:
        lock.release()
        raise
    return Folder(path, lock, old_steps=old_steps)


def locked(path: Path) -> BaseFileLock:
    """Lock a folder for this process and return the lock. The system releases it when the process ends or is killed."""
    name = path / ".lock"
    with files.append(name) as file:  # raises for a link, a pipe, a folder and a file with a second name
        if os.fstat(file.fileno()).st_size:  # filelock before 3.30 empties the file
            raise files.NotPlainError(f"{name} is not empty, but a lock file of otpe is always empty. Move it away.")
    lock = FileLock(name, timeout=0, thread_local=False)  # threads prepare runs, and another thread releases the lock
    try:
        lock.acquire()
    except Timeout:
        raise FileExistsError(
            f"out is {str(path)!r}, where another process is at work. Wait for it, or stop it."
        ) from None
    return lock


def check_not_foreign(path: Path, what: str) -> None:
    """Raise FileExistsError if a folder has files but no run. Called before a lock file is written there."""
    others = sorted(p.name for p in path.iterdir() if not p.name.startswith("."))
    if others and not (path / "config.json").exists():
        raise FileExistsError(
            f"out is {str(path)!r}, which has other files ({', '.join(others[:3])}), but no {what}. Name another"
            " folder."
        )


def _check(path: Path, config: Resumable, identity: dict[str, Any], kind: str, growth: Growth | None) -> None:
    """Raise FileExistsError if the folder holds another run, or this run and `resume` is not set."""
    stored_kind = kind_of(read_config(path)) or kind
    if stored_kind != kind and not {stored_kind, kind} <= {*SINGLE}:
        raise FileExistsError(
            f"out is {str(path)!r}, which holds {KINDS[stored_kind]}, not {KINDS[kind]}. Name another folder."
        )
    known = read_settings(type(config), path)
    check_same(str(path), known if growth is None else growth(known), identity)
    if not config.resume:
        finished, newest = any((path / name).exists() for name in RESULTS), checkpoint.newest(path / "checkpoints")
        at = "which is finished" if finished else f"saved at {newest.stem}" if newest else "which is not finished"
        raise FileExistsError(
            f"out is {str(path)!r}, which already has this run, {at}. Use resume to"
            f" {'see its result' if finished else 'continue it'}, or name another folder."
        )


def check_same(where: str, stored: dict[str, Any], identity: dict[str, Any]) -> None:
    """Raise FileExistsError if stored settings differ from those of this run. The message names both."""
    own = (name for name in stored if name.startswith("own_") and name not in identity)  # such as own_net
    differing = [name for name in (*identity, *own) if stored.get(name) != identity.get(name)]
    if differing:
        listed = "; ".join(
            f"{name} was {contents.shown(stored.get(name))}, now is {contents.shown(identity.get(name))}"
            for name in differing[:4]
        )
        more = f"; and {len(differing) - 4} more" if len(differing) > 4 else ""
        raise FileExistsError(
            f"{where} belongs to a run with other settings: {listed}{more}. Use the same ones, or another folder."
        )


# --------------------
# A run that is made longer.


def check_growth(config: TrainConfig, identity: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return the stored settings. If the only difference is a larger number of steps, with that number."""
    old_steps = stored.get("steps")
    others = [name for name in identity if name != "steps" and stored.get(name) != identity[name]]
    if not (config.resume and isinstance(old_steps, int) and old_steps < config.steps) or others:
        return stored
    if config.schedule != "constant":
        raise ValueError(
            f"steps was {old_steps}, now is {config.steps}, but the {config.schedule} schedule reaches its final rate"
            " at the last step, so a longer run differs from its first step on. Train it in another folder. To continue"
            " from the weights of this run, use start."
        )
    return {**stored, "steps": config.steps}


def _store_steps(path: Path, steps: int) -> int | None:
    """Store a larger number of steps and remove the earlier result. Returns the earlier number of steps, if it differs.

    The settings are written first. If the process ends before it has removed the result, the next call removes it.
    """
    found, old_steps = read_config(path), None
    if found["steps"] != steps:
        old_steps = found["steps"]
        longer = [*found.get("made_longer", []), {"from": old_steps, "to": steps}]
        files.write_json(path / "config.json", found | {"steps": steps, "made_longer": longer})
    if (path / "result.json").is_file() and read_json(path / "result.json").get("steps", steps) != steps:
        (path / "result.json").unlink()
    return old_steps


def growth_note(config: TrainConfig, old_steps: int) -> list[str]:
    """Return a warning if a run with all steps from the start would not be evaluated after `old_steps` steps."""
    if old_steps % config.eval_every == 0:
        return []
    return [
        f"the run had {old_steps:,} steps, and was evaluated at their end. A run of {config.steps:,} steps from the"
        f" start has no evaluation there, since eval_every is {config.eval_every:,}."
    ]


# --------------------
# Settings as JSON, and from it.


def identity(config: Resumable, free: Sequence[str] = FREE) -> dict[str, Any]:
    """Return the settings that a resumed run must not change, as plain JSON."""
    return {name: value for name, value in plain(config).items() if name not in free}


def plain(config: Any) -> dict[str, Any]:
    """Return settings as plain JSON."""
    return json.loads(json.dumps(asdict(config), default=str))


def provenance() -> dict[str, Any]:
    """Return the versions, the commit and the machine, as config.json has them."""
    packages = ("jax", "jaxlib", "optax", "numpy", "safetensors")
    device = jax.devices()[0]
    return {
        "versions": {"otpe": otpe.__version__, "python": platform.python_version()}
        | {name: metadata.version(name) for name in packages},
        "commit": commit.of(Path(otpe.__file__).parent),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": f"{device.platform}: {device.device_kind}",
    }


def read_settings(kind: type[Resumable], path: Path) -> dict[str, Any]:
    """Return config.json, with defaults for settings that otpe did not have yet when it was written.

    `kind`: the class of settings.
    """
    found, where = read_config(path), path / "config.json"
    with contents.reading(where, "Name another folder."):
        contents.typed(found, {name: hint for name, hint in field_types(kind).items() if name in found})
    return {**plain(kind()), **found}


def stored(kind: type[Config], path: Path) -> Config:
    """Return the settings of the run in this folder."""
    if not os.path.exists(path / "config.json"):
        raise FileNotFoundError(f"{path} holds no run: there is no config.json in it. Name the folder of a run.")
    found = read_settings(kind, path)
    known: dict[str, Any] = {field.name: found[field.name] for field in fields(cast(Any, kind))}
    known = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
    paths = {name: Path(known[name]) for name in ("root", "start") if known.get(name) is not None}
    return kind(**{**known, **paths, "out": path, "resume": False})
