"""A library in another Python: its contestants run there, in turn with all others, over a pipe.

The other interpreter runs `python -m contestants.elsewhere LIBRARY PROBLEM.npz`. It announces its contestants in one
line of JSON, then answers each line it reads, `run I` or `kernels I FILE`, by one line of JSON once it is done.
"""

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from contestants.base import Contestant, Problem


class Elsewhere:
    """The side that asks."""

    def __init__(self, library: str, python: str, problem: Problem):
        self.folder = tempfile.TemporaryDirectory()
        file = Path(self.folder.name) / "problem.npz"
        problem.save(file)
        command = [python, "-m", "contestants.elsewhere", library, str(file)]
        home = Path(__file__).resolve().parent.parent
        self.process = subprocess.Popen(command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.close)

    def contestants(self) -> tuple[str, list[Contestant]]:
        """The library's version there, and its contestants."""
        hello = self.answer()
        made = [
            Contestant(c["name"], c["rule"], partial(self.ask, f"run {i}"), partial(self.kernels, i), c["note"])
            for i, c in enumerate(hello["contestants"])
        ]
        return hello["version"], made

    def kernels(self, index: int, _: Any) -> list[np.ndarray]:
        file = Path(self.folder.name) / "kernels.npz"
        self.ask(f"kernels {index} {file}")
        with np.load(file) as f:
            return [f[key] for key in f]

    def ask(self, question: str) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": f"it ended with exit code {self.process.wait()}."}
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def close(self) -> None:
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()  # the other side reads the end of its input, and ends
            self.process.wait()
            self.folder.cleanup()


def serve(name: str, file: Path) -> None:
    from contestants import RIVALS

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints must not get in between the answers

    def say(answer: dict[str, Any]) -> None:
        out.write(json.dumps(answer) + "\n")
        out.flush()

    try:
        made = RIVALS[name].contestants(Problem.load(file))
    except Exception as error:
        return say({"error": f"{type(error).__name__}: {error}"})
    listed = [{"name": c.name, "rule": c.rule, "note": c.note} for c in made]
    say({"version": RIVALS[name].version(), "contestants": listed})
    results: dict[int, Any] = {}
    for line in sys.stdin:
        verb, index, *rest = line.split(maxsplit=2)
        try:
            if verb == "run":
                results[int(index)] = made[int(index)].run()
            else:
                np.savez(rest[0].strip(), *made[int(index)].kernels(results[int(index)]))
            say({})
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]))
