"""The `otpe` command. It has one verb per job; a verb is a dataclass of settings and a function that takes them.

This function checks the settings and returns the job, a function that does the work and returns an exit status. It
raises ValueError, TypeError or OSError for wrong settings. So the command can
report wrong settings in one line before anything is computed, while a bug in a job shows its traceback.

This module does not import jax. The modules of a verb are imported when the verb is called.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import otpe
from otpe import compile_cache
from otpe.lab.signals import INTERRUPTED, CtrlC


class Verb(NamedTuple):
    summary: str
    config: str  # module:name of the dataclass
    prepare: str  # module:name of the function: settings -> job
    resumable: bool = False  # with --resume, the settings in the run folder are the defaults
    users: str | None = None  # module:name of a function: a setting -> the datasets, or sources, that use it


TRAINING_USERS = "otpe.datasets.registry:users"


VERBS = {
    "train": Verb(
        "train a network by one rule, offline or online",
        config="otpe.lab.settings:TrainConfig",
        prepare="otpe.lab.verbs:prepare_train",
        resumable=True,
        users=TRAINING_USERS,
    ),
    "compare": Verb(
        "train by several rules on the same mini-batches, and compare them",
        config="otpe.lab.settings:CompareConfig",
        prepare="otpe.lab.verbs:prepare_compare",
        resumable=True,
        users=TRAINING_USERS,
    ),
    "align": Verb(
        "train by BPTT, and compare its gradients with those of other rules during training",
        config="otpe.lab.settings:AlignConfig",
        prepare="otpe.lab.verbs:prepare_align",
        resumable=True,
        users=TRAINING_USERS,
    ),
    "landscape": Verb(
        "the loss around a training run, and the path of each rule through it",
        config="otpe.lab.settings:LandscapeConfig",
        prepare="otpe.lab.verbs:prepare_landscape",
        resumable=True,
        users=TRAINING_USERS,
    ),
    "sweep": Verb(
        "train at every point of a grid over any settings, and draw maps of the accuracy",
        config="otpe.lab.settings:SweepConfig",
        prepare="otpe.lab.verbs:prepare_sweep",
        resumable=True,
        users=TRAINING_USERS,
    ),
    "reproduce": Verb(
        "every table and figure of the paper, into one report",
        config="otpe.lab.settings:ReproduceConfig",
        prepare="otpe.lab.verbs:prepare_reproduce",
    ),
    "evaluate": Verb(
        "how good a finished run is, class by class",
        config="otpe.lab.settings:EvaluateConfig",
        prepare="otpe.lab.runs.evaluate:prepare",
    ),
    "report": Verb(
        "put runs and studies into one page, beside the paper's numbers",
        config="otpe.lab.settings:ReportConfig",
        prepare="otpe.lab.report.page:prepare",
    ),
    "stream": Verb(
        "learn from a stream while it comes: events on standard input, files, worlds that change",
        config="otpe.lab.settings:StreamConfig",
        prepare="otpe.stream.session:prepare",
        resumable=True,
        users="otpe.stream.source_kinds:users",
    ),
    "bench": Verb(
        "time, memory and state of every rule, and how they grow",
        config="otpe.lab.settings:BenchConfig",
        prepare="otpe.lab.bench.bench:prepare",
    ),
    "data": Verb(
        "fetch, verify, summarise and draw a dataset",
        config="otpe.lab.settings:DataConfig",
        prepare="otpe.lab.explore.explore:prepare",
        users="otpe.datasets.registry:data_users",
    ),
}


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status. Without `args`, the arguments are those of the process.

    Without `args`, Ctrl-C also ends the process with all its threads.
    """
    ctrl_c = CtrlC(ends_process=args is None)
    try:
        status = _run_interruptible(ctrl_c, sys.argv[1:] if args is None else args)
    finally:
        if args is not None:
            ctrl_c.stop_listening()
    if args is None and ctrl_c.pressed:
        ctrl_c.leave(status)
    return status


def _run_interruptible(ctrl_c: CtrlC, args: Sequence[str]) -> int:
    """Run the command. Ctrl-C, or a lack of memory, ends it with one line instead of a traceback."""
    try:
        ctrl_c.listen()
        status = _run(ctrl_c, args)
        ctrl_c.over = True
    except KeyboardInterrupt as stop:
        return _report_stop(stop)
    except Exception as error:
        if ctrl_c.raised:
            return _report_stop(KeyboardInterrupt())
        if not _is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0].rstrip(".")
        print(
            f"otpe: there is too little memory{reason and f': {reason}'}. Use smaller settings.",
            file=sys.stderr,
        )
        return 1
    return _report_stop(KeyboardInterrupt()) if ctrl_c.pressed and status == 0 else status


def _run(ctrl_c: CtrlC, args: Sequence[str]) -> int:
    _open_missing_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # do not fail on characters that the terminal cannot show
    verb, *rest = [*args] or ["--help"]
    if ctrl_c.ends_process and compile_cache.FLAG not in rest:
        compile_cache.enable()
    rest = [word for word in rest if word != compile_cache.FLAG]
    if verb in ("-h", "--help"):
        print(usage())
        return 0
    if verb == "--version":
        print(f"otpe {otpe.__version__}")
        return 0
    try:
        job = prepare(verb, rest, ctrl_c)
    except BrokenPipeError:  # the reader has closed the pipe, as in `otpe train --help | head`
        return _discard_output()
    except (ValueError, TypeError, OSError) as error:
        if ctrl_c.raised:  # Ctrl-C interrupted an import, which then raised this error
            raise
        print(f"otpe: {_message(error)}", file=sys.stderr)
        return 2
    from otpe import contents

    try:
        status = job()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        return _discard_output()
    except (OSError, contents.ContentError) as error:  # not a bug, but for example a full disk or a damaged file
        print(f"otpe: {_message(error).rstrip('.')}. What was written until then is kept.", file=sys.stderr)
        return 1
    except FloatingPointError as error:  # for example, infinite weights
        print(f"otpe: {error}.", file=sys.stderr)
        return 1


def prepare(verb: str, args: list[str], ctrl_c: CtrlC) -> Callable[[], int]:
    """Return the job of a verb with these arguments. Raises ValueError, TypeError or OSError for wrong arguments."""
    if verb not in VERBS:
        from otpe import check

        check.one_of("verb", verb, VERBS)
    if not find_spec("tyro"):
        raise OSError("the command line needs tyro, which is not installed. Use: pip install 'otpe[cli]'")
    ctrl_c.waiting = True
    from otpe.datasets import registry
    from otpe.lab import options

    entry = VERBS[verb]
    kind, users = load(entry.config), load(entry.users) if entry.users else None
    options.check_synonyms(kind, args)
    args = options.flat_arguments(kind, args)
    stored = load("otpe.lab.verbs:stored") if entry.resumable and "--resume" in args else None
    ctrl_c.check()
    defaults = None if stored is None else stored(kind, args)
    config = options.parse(verb, kind, args, defaults, users, registry.listed())
    ctrl_c.waiting = True
    make_job = load(entry.prepare)
    ctrl_c.check()
    return make_job(config)


def usage() -> str:
    """Return the text of `otpe --help`."""
    verbs = "\n".join(f"  {name:10} {verb.summary}" for name, verb in VERBS.items())
    return f"""usage: otpe VERB [OPTIONS]

Online training of spiking neural networks.

{verbs}

`otpe VERB --help` lists the options of a verb, `otpe --version` the version.
Compiled programs are kept for the next command. {compile_cache.FLAG}, or OTPE_COMPILATION_CACHE=off, turns this off."""


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether Python, numpy or a device ran out of memory."""
    return isinstance(error, MemoryError) or (
        type(error).__name__ == "JaxRuntimeError" and "RESOURCE_EXHAUSTED" in str(error)
    )


def _message(error: Exception) -> str:
    """Return the message of an error. For an error of the system it starts with the name of the file."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}."
    return str(error)


def _discard_output() -> int:
    """Connect standard output to nothing, so that Python does not fail when it flushes it at the end. Returns 0."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _open_missing_streams() -> None:
    """Connect standard streams that are closed to nothing.

    Otherwise the next file that is opened would get their number, and messages would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _report_stop(stop: KeyboardInterrupt) -> int:
    """Print one line about an interruption and return the exit status."""
    with suppress(OSError):  # the terminal may be closed
        print(f"\notpe: {stop if stop.args else 'stopped.'}", file=sys.stderr, flush=True)
    return getattr(stop, "status", INTERRUPTED)


def load(path: str) -> Any:
    """Import an object, given as module:name."""
    module, name = path.split(":")
    return getattr(import_module(module), name)


if __name__ == "__main__":
    raise SystemExit(main())
