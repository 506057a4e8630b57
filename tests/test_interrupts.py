"""Ctrl-C, SIGHUP and closed streams at any point of a command. stress/interrupts.py tries more moments."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_runs import TINY, arguments, steps_of

from otpe import cli
from otpe.lab import progress, signals


def press():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)  # the handler runs at the next line of Python


@pytest.fixture(autouse=True)
def not_in_the_background():
    """Child processes inherit an ignored Ctrl-C, as in a background job. Restore the handler."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def job(monkeypatch):
    """Make a verb of a function. It is imported as `tests:verb`."""

    def make(function, load=lambda: None):
        def loaded(where):
            if where.endswith(":prepare"):
                load()
                return lambda _: lambda: function() or 0
            return real(where)

        real = cli.load
        monkeypatch.setattr(cli, "load", loaded)
        return ["data", "t-randman"]

    return make


def assert_stopped(args, capsys):
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook
    assert cli.main(args) == cli.INTERRUPTED
    assert capsys.readouterr().err == "\notpe: stopped.\n"
    assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before


def test_an_import_that_swallows_ctrl_c_still_stops(job, capsys):
    def swallowing():
        try:
            press()
        except BaseException:
            pytest.fail("an import was interrupted")

    assert_stopped(job(lambda: pytest.fail("went on"), load=swallowing), capsys)


def test_an_import_that_turns_ctrl_c_into_another_error_still_stops(job, capsys):
    def confused():
        try:
            press()
        except KeyboardInterrupt:
            raise ImportError("numpy.core.multiarray failed to import") from None

    assert_stopped(job(confused), capsys)


def test_a_job_that_swallows_ctrl_c_still_stops(job, capsys):
    def deaf():
        try:
            press()
        except KeyboardInterrupt:
            return 0

    assert_stopped(job(deaf), capsys)


def test_a_callback_cannot_swallow_ctrl_c(job, capsys):
    class Leaving:
        def __del__(self):
            press()

    def job_with_callback():
        del [Leaving()][0]
        for _ in range(500):
            time.sleep(0.01)
        pytest.fail("went on")

    assert_stopped(job(job_with_callback), capsys)


def test_other_errors_of_a_callback_are_shown(job, monkeypatch):
    class Leaving:
        def __del__(self):
            raise ValueError("a bug")

    found = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: found.append(str(args.exc_value)))
    assert cli.main(job(lambda: [Leaving()].clear())) == 0
    assert found == ["a bug"]


AT_WORK = """
import os, signal, subprocess, sys, threading, time
from otpe import cli

def job():
    threading.Thread(target=time.sleep, args=(60,)).start()
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        print(child.pid, flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("once", flush=True)
        time.sleep(60)
    print("never", flush=True)

real = cli.load
cli.load = lambda where: (lambda _: job) if where.endswith(":prepare") else real(where)
sys.argv = ["otpe", "data", "t-randman"]
raise SystemExit(cli.main())
"""


def test_a_second_and_a_third_ctrl_c_end_the_process():
    """With a thread that cannot be stopped, and a child process."""
    process = subprocess.Popen(
        [sys.executable, "-c", AT_WORK], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    child = int(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "once\n"
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=10)
    assert (process.returncode, said, errors) == (130, "", "")
    until = time.monotonic() + 10  # it was killed, but the kernel ends it only when it runs next
    while running(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not running(child)


def running(process):
    """Does the process run? One that has no waiting parent can stay as a zombie."""
    status = Path(f"/proc/{process}/stat")
    return status.exists() and status.read_text().split()[2] != "Z"


HANG_UP = """
import os, signal
from otpe.lab import signals
with signals.caught() as stop_request:
    os.kill(os.getpid(), signal.SIGHUP)
    print(stop_request.number)
try:
    raise signals.StoppedError(signal.SIGHUP, "")
except KeyboardInterrupt as stop:
    print(stop.status)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
@pytest.mark.parametrize(("before", "said"), [("", "1\n129\n"), ("trap '' HUP; ", "None\n129\n")], ids=["", "nohup"])
def test_sighup_stops_a_run_unless_it_is_ignored(before, said):
    ended = subprocess.run(
        ["sh", "-c", f'{before}"$0" -c "$1"', sys.executable, HANG_UP],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # the suite itself may run under nohup
    )
    assert (ended.returncode, ended.stdout) == (0, said)
    assert "Traceback" not in ended.stderr


def test_a_signal_handler_that_is_not_pythons_stays(monkeypatch):
    monkeypatch.setattr(signals.signal, "getsignal", lambda number: None)
    monkeypatch.setattr(signals.signal, "signal", lambda *_: pytest.fail("changed it"))
    with signals.caught():
        pass


# Closed streams


def closed(streams, *args):
    command = " ".join(f'"{arg}"' for arg in (sys.executable, "-m", "otpe.cli", *args))
    return subprocess.run(["sh", "-c", f"{command} {streams}"], capture_output=True, text=True)


def test_a_run_works_without_standard_streams(tmp_path):
    out = tmp_path / "run"
    assert closed("<&- >&- 2>&-", "train", *arguments(TINY, out=out)).returncode == 0
    assert json.loads((out / "result.json").read_text())["steps"] == TINY.steps
    assert steps_of(out) == [4, 8, 12]
    assert (out / ".lock").read_text() == "", "other output must not go into a file"


@pytest.mark.parametrize(
    ("streams", "output", "errors"), [("2>&-", "otpe 0", ""), (">&-", "", ""), ("<&-", "otpe 0", "")]
)
def test_version_works_with_closed_streams(streams, output, errors):
    ended = closed(streams, "--version")
    assert (ended.returncode, ended.stdout[:6], ended.stderr) == (0, output, errors)


def test_a_refusal_works_without_standard_error():
    ended = closed("2>&-", "tarin")
    assert (ended.returncode, ended.stdout) == (2, ""), "errors must not go to standard output"


def test_progress_works_when_sys_stderr_is_none(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    bar = progress.Bar("otpe", 0, 3)
    bar.show(1, 0.5, 0.5)
    progress.say("a warning")
    line = progress.LiveLine()
    line.say("a warning")
    assert not line.due
    assert capsys.readouterr().out == ""
