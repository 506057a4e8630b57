"""How much clients of the live page slow a learner down. Takes about two minutes:

    python stress/live_page.py                  # --slices and --learner change how it is measured

Clients run in other processes, which are stopped and continued in turn. The table has medians of both. Where
Linux allows it, learner and server share one CPU core, and the clients have the others: so the learner's loss is due
to the server, not to the work of the clients. Speed is steps per CPU second of this process, so that other
programs on the machine count less. Ends with status 1 if the server thread takes more of the core than allowed, or
if the learner loses more than --most of its speed in three quarters of the slices (others may disturb some slices).
"""

import argparse
import collections
import contextlib
import os
import select
import signal
import socket
import statistics
import subprocess
import sys
import time

SLICE = 0.4  # seconds
NOW = "GET /now HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
ASKS = {
    "now": NOW + "\r\n",
    "bad host": "GET /now HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    "bad path": "GET /etc/passwd HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "bad method": "POST /now HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n",
    "other site": NOW + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n\r\n",
    "garbage": "\0\1\2\3\n\r\n",
}
# The kinds of requests, and the number of client processes.
CASES = [
    ("a page that is open", "page", 1),
    *((f"{n} that loop", "now", n) for n in (1, 2, 8)),
    *((f"8 × {name}", name, 8) for name in ("bad host", "bad path", "bad method", "other site", "garbage")),
    ("2 floods of connections", "flood", 2),
    ("slow clients", "slow", 1),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--slices", type=int, default=10, help="slices of a second per kind, nearly half of each with clients"
    )
    parser.add_argument("--learner", choices=LEARNERS, default="jax", help="a StreamLearner, or a loop in Python")
    parser.add_argument("--most", type=float, default=0.1, help="share of its speed that the learner may lose")
    parser.add_argument("--client", nargs=2, metavar=("KIND", "PORT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client:
        return client(given.client[0], int(given.client[1]))
    return measure(given.slices, given.learner, given.most)


def measure(slices: int, learner: str, most: float) -> int:
    cores = apart()
    from otpe.stream.page import serve as serving

    live, step = LEARNERS[learner]()
    until(step, 2.0)  # compile, and give the page something to show
    share = getattr(serving, "SHARE", 1.0) + getattr(serving, "AHEAD", 0.0) / SLICE + 0.005
    failed = False
    print(f"{'clients':26} {'alone':>8} {'beside':>8} {'lost':>6}  {'server':>6}  served/s refused/s lost/s")
    with serving.serve(live) as server:
        for name, kind, processes in CASES:
            with clients(kind, processes, server.port, cores) as these:
                measurements = [measured(server, step, these) for _ in range(slices)]
            alone, beside, spent = (statistics.median(column) for column in list(zip(*measurements, strict=True))[:3])
            losses = sorted(1 - each[1] / each[0] for each in measurements)
            lost = statistics.median(losses)
            wrong = spent > share or losses[len(losses) // 4] > most
            failed |= wrong
            counts = [
                sum(each[3][what] for each in measurements) / slices / SLICE for what in ("served", "refused", "lost")
            ]
            print(
                f"{name:26} {alone:8,.0f} {beside:8,.0f} {lost:6.1%}  {spent:6.1%}  {counts[0]:8,.0f} {counts[1]:9,.0f}"
                f" {counts[2]:6,.0f}{'  TOO MUCH' if wrong else ''}",
                flush=True,
            )
    return int(failed)


def measured(server, step, these) -> tuple[float, float, float, collections.Counter]:
    """Return the speed alone and with clients, the server's share of a core, and the counts of connections."""
    halt(these, signal.SIGSTOP)
    until(step, 0.1)
    alone = until(step, SLICE)
    halt(these, signal.SIGCONT)
    until(step, 0.1)
    counts, cpu = collections.Counter(server.counts), getattr(server, "cpu_seconds", 0.0)
    beside = until(step, SLICE)
    spent = (getattr(server, "cpu_seconds", 0.0) - cpu) / SLICE
    return alone, beside, spent, collections.Counter(server.counts) - counts


def halt(these, how: int) -> None:
    for each in these:
        each.send_signal(how)


def apart() -> set[int]:
    """Keep this process and its threads on one core. Return the other cores, for clients."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        return set(cores)
    os.sched_setaffinity(0, cores[:1])
    return set(cores[1:])


def until(step, seconds: float) -> float:
    """Return steps per second of CPU time, including the server's time."""
    began, spent, taken = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < seconds:
        taken += step()
    return taken / (time.process_time() - spent)


def of_jax():
    import numpy as np
    import optax

    import otpe
    from otpe.stream.page.live_state import Live
    from otpe.stream.prequential import Prequential, blocks
    from otpe.stream.time_steps import Step

    learner = otpe.StreamLearner(otpe.dense([50, 128, 128, 10]), rule="otpe", optimizer=optax.adam(1e-4), seed=0)
    rng, size = np.random.default_rng(0), 16
    some = [Step((rng.random(50) < 0.2).astype(np.float32), int(rng.integers(10))) for _ in range(1000)]
    live, score = Live([50, 128, 128, 10], learner_bytes=learner.bytes), Prequential(10)
    taken = blocks(learner, (some[i % len(some)] for i in range(10**12)), score, size=size)

    def step() -> int:
        live(next(taken), score, 1e-3)
        return size

    return live, step


def of_python():
    """A learner that never releases the interpreter lock."""
    live, block = of_jax()
    block()

    def step() -> int:
        sum(i * i for i in range(2000))
        return 1

    return live, step


LEARNERS = {"jax": of_jax, "python": of_python}


@contextlib.contextmanager
def clients(kind: str, processes: int, port: int, cores: set[int]):
    command = [sys.executable, __file__, "--client", kind, str(port)]
    began = [subprocess.Popen(command) for _ in range(processes)]
    try:
        for each in began if cores else ():
            os.sched_setaffinity(each.pid, cores)
        time.sleep(0.5)  # until the clients work
        yield began
    finally:
        for each in began:
            each.kill()
        for each in began:
            each.wait()


def client(kind: str, port: int) -> int:
    """Send requests until it is killed, or for a minute."""
    end, address = time.monotonic() + 60, ("127.0.0.1", port)
    if kind in ("flood", "slow"):
        return crowd(kind, address, end)
    content = ASKS.get(kind, ASKS["now"]).format(port=port).encode()
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(address, 2) as link:
            link.sendall(content)
            while link.recv(65536):
                pass
        if kind == "page":
            time.sleep(0.25)
    return 0


def crowd(kind: str, address: tuple[str, int], end: float) -> int:
    """Open many silent connections at once, or hold them and send single bytes."""
    held: list[socket.socket] = []
    while time.monotonic() < end:
        link = socket.socket()
        link.setblocking(False)
        link.connect_ex(address)
        held.append(link)
        if kind == "flood":
            time.sleep(0.0005)
            if len(held) == 200:
                held.pop(0).close()
            continue
        time.sleep(0.05)
        _, ready, _ = select.select([], held, [], 0)
        for each in ready:
            with contextlib.suppress(OSError):
                each.send(b"G")
        if len(held) == 64:
            held.pop(0).close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
