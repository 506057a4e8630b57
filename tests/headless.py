"""A headless Chromium, controlled through its DevTools protocol over a pipe. It needs no other package."""

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60  # seconds: the longest time for an answer, on a loaded machine


def executable():
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of one browser. `events` holds the messages that it sent without a command."""

    def __init__(self, profile):
        here, theirs = os.pipe(), os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (here[0], theirs[1])]

        def connect():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--hide-scrollbars",
            "--no-first-run", "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen([executable(), *options], close_fds=False, preexec_fn=connect, **quiet)
        for fd in (*ends, here[0], theirs[1]):
            os.close(fd)
        self.write, self.read = here[1], theirs[0]
        self.rest, self.last, self.events, self.session = b"", 0, [], {}
        (page,) = [each for each in self.ask("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method, **params):
        """Send one command and return its answer."""
        self.last += 1
        os.write(
            self.write,
            json.dumps({"id": self.last, "method": method, "params": params, **self.session}).encode() + b"\0",
        )
        answer = self._wait(lambda message: message.get("id") == self.last)
        assert "result" in answer, answer
        return answer["result"]

    def open(self, address, width=1280, height=900, **media):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", **media)
        self.events.clear()
        self.ask("Page.navigate", url=address)
        if not any(message.get("method") == "Page.loadEventFired" for message in self.events):
            self._wait(lambda message: message.get("method") == "Page.loadEventFired")

    def evaluate(self, script):
        """Return the value of this JavaScript expression."""
        result = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def messages(self, *methods):
        return [event for event in self.events if event.get("method") in methods]

    def close(self):
        with contextlib.suppress(OSError, AssertionError):
            self.session = {}
            self.ask("Browser.close")
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        os.close(self.write)
        os.close(self.read)

    def _wait(self, condition):
        until = time.monotonic() + SECONDS
        while True:
            *whole, self.rest = self.rest.split(b"\0")
            result = [json.loads(text) for text in whole]
            self.events += result
            for message in result:
                if condition(message):
                    return message
            ready, _, _ = select.select([self.read], [], [], max(0, until - time.monotonic()))
            content = os.read(self.read, 2**20) if ready else b""
            assert content, "the browser has ended or does not answer"
            self.rest += content
