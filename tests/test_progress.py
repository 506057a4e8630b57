"""The progress display, on a terminal, and the percentiles that benchmarks and streams report."""

import fcntl
import os
import pty
import struct
import sys
import termios

import numpy as np
import pytest

from otpe.lab import progress
from otpe.lab.percentiles import percentiles

SCRIPT = """
from otpe.lab.progress import Bar, LiveLine, PartOfBar, say
bar = Bar("otpe offline", 2, 4)
bar.begin()
bar.advance(3)
bar.show(3, 0.5, 0.25)
say("a message")
bar.close()
whole = Bar("", 0, 4.0, unit=None)
part = PartOfBar(whole, "first", 1.0)
run = part("ignored", 1, 2)
for step in (1, 2):
    run.advance(step)
    run.show(step, 0.5, 0.25)
whole.close()
line = LiveLine()
line.draw("live")
line.say("a message that stays")
line.close()
"""


def on_a_terminal(script):
    """Run a script on a terminal of 100 columns and return what it writes."""
    pid, terminal = pty.fork()
    if not pid:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        os.execv(sys.executable, [sys.executable, "-c", script])
    output = b""
    try:
        while part := os.read(terminal, 4096):
            output += part
    except OSError:  # Linux reports the end so
        pass
    assert os.waitpid(pid, 0)[1] == 0, output.decode()
    return output.decode()


def test_bars_and_lines_on_a_terminal():
    output = on_a_terminal(SCRIPT)
    assert "otpe offline, compiling:  50%" in output
    assert "otpe offline:  75%" in output
    assert "loss 0.500, accuracy 0.250" in output
    assert "a message\r\n" in output
    assert "first  25%" in output, "half of a part of one quarter would be 12 %, and the whole part is 25 %"
    assert "first  12%" in output
    assert output.rstrip().endswith("\x1b[Ka message that stays")


def test_without_tqdm_evaluations_are_lines():
    output = on_a_terminal(NO_TQDM + SCRIPT)
    assert "3/4  loss 0.500, accuracy 0.250\r\n" in output
    assert "%|" not in output


NO_TQDM = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "tqdm" else find(name, *more)
"""


def test_nothing_is_drawn_without_a_terminal(capsys):
    bar = progress.Bar("otpe", 0, 2)
    bar.begin()
    bar.show(1, 0.5, 0.5)
    bar.close()
    assert capsys.readouterr().err == ""


def test_percentiles_are_those_of_numpy():
    values = [3.0, 1.0, 2.0, 10.0]
    assert percentiles(values, 25, 50, 99) == pytest.approx(np.percentile(values, [25, 50, 99]).tolist())
    assert percentiles(np.array([7]), 50) == [7.0]
