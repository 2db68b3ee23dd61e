"""Chromium driven over a pipe by its DevTools protocol: pages as a reader uses them, without a driver to install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--allow-file-access-from-files",
)


class Browser:
    """A page of a headless Chromium; ``errors`` of its console and addresses that it ``requested`` are kept.

    Raises:
        RuntimeError: the browser does not start, or an expression raises.
    """

    def __init__(self, folder: Path, width: int = 1280, height: int = 900) -> None:
        to_browser, self._writes = os.pipe()
        self._reads, from_browser = os.pipe()
        command = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"'
        profile = f"--user-data-dir={folder / 'profile'}"
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command, str(CHROMIUM), *FLAGS, "--remote-debugging-pipe", profile],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._rest = 0, b""
        self.errors: list[str] = []
        self.requested: list[str] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._writes)
        self._process.kill()
        self._process.wait()
        os.close(self._reads)

    def call(self, method: str, **arguments: object) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._reads, 1 << 20)
            if not read:
                raise RuntimeError("Chromium ended")
            self._rest += read
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            self.requested.append(facts["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.errors.append(str(facts["exceptionDetails"].get("exception", facts)))
        elif event == "Log.entryAdded" and facts["entry"]["level"] in ("error", "warning"):
            self.errors.append(facts["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and facts["type"] in ("error", "warning", "assert"):
            self.errors.append(str(facts["args"]))

    def open(self, page: Path) -> None:
        """Load a page and wait until it has been loaded."""
        self.call("Page.navigate", url=page.as_uri())
        self.wait("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """Value of a JavaScript expression on the page."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{expression}: {done['exceptionDetails']['exception'].get('description')}")
        return done["result"].get("value")

    def wait(self, expression: str, seconds: float = 60) -> None:
        """Wait until an expression is true.

        Raises:
            TimeoutError: it does not become true in time.
        """
        end = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"{expression}: not true after {seconds:g} s")
            time.sleep(0.05)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Drag with the left button, in pixels of the window."""
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        steps = [("mouseMoved", start, 0), ("mousePressed", start, 1), ("mouseMoved", middle, 1)]
        steps += [("mouseMoved", end, 1), ("mouseReleased", end, 0)]
        for kind, (x, y), buttons in steps:
            button = "none" if kind == "mouseMoved" and not buttons else "left"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, buttons=buttons, clickCount=1)
