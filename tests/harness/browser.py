"""A browser that a test drives: Chromium without a window, through its driver, which speaks W3C WebDriver over HTTP.

Both are programs of the system (Debian: chromium, chromium-driver). Where they are missing, `missing_browser` says so.
The page is asked and told by scripts; keys, clicks and drags are those of a hand, from the driver. Nothing waits for a
time: `until` asks again until the page says yes, and shows the page's picture if it does not.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

from tests.harness.waiting import wait_until

POLL_S = 0.1
START_S = 60.0
SOCKET_NAME_BYTES = 107
"""Linux's limit for the name of a Unix socket."""
LONGEST_SOCKET = "org.chromium.Chromium.XXXXXX/SingletonSocket"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "Shift": "\ue008",
    "Control": "\ue009",
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Up": "\ue013",
    "Left": "\ue012",
    "Right": "\ue014",
    "Tab": "\ue004",
}


def missing_browser() -> str:
    """What keeps a test from a browser, in a sentence; "" if nothing does."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"No page is clicked: there is no {missing[0]} (Debian: chromium, chromium-driver)." if missing else ""


class Browser:
    """One window."""

    def __init__(self, address: str, width: int = 1280, height: int = 1000) -> None:
        self._address = address
        switches = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--window-size={width},{height}",
        ]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": switches, "binary": shutil.which("chromium")}}
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {json.load(error)['value']['message'][:2000]}") from None

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of Chromium's own, such as "Emulation.setEmulatedMedia": what a reader has set in the system."""
        return self._call("POST", f"{self._session}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def close(self) -> None:
        self._call("DELETE", self._session)

    def open(self, url: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": url})

    def ask(self, script: str, *arguments: Any) -> Any:
        """What a function with this body returns on the page."""
        return self._call("POST", f"{self._session}/execute/sync", {"script": script, "args": list(arguments)})

    def until(self, script: str, *arguments: Any, timeout_s: float = 60) -> Any:
        """What the script returns as soon as that is true."""
        deadline = time.monotonic() + timeout_s
        while not (found := self.ask(script, *arguments)):
            if time.monotonic() > deadline:
                self.picture(pathlib.Path(os.environ.get("PYKRAFT_PICTURES", "build")) / "browser.png")
                raise AssertionError(f"after {timeout_s:g} s the page does not say yes to {script!r} with {arguments}")
            time.sleep(POLL_S)
        return found

    def picture(self, path: pathlib.Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def press(self, *keys: str) -> None:
        """Hold all but the last key, press that one, and let go."""
        codes = [KEYS.get(key, key) for key in keys]
        strokes = [{"type": "keyDown", "value": code} for code in codes]
        strokes += [{"type": "keyUp", "value": code} for code in reversed(codes)]
        self._act({"type": "key", "id": "keys", "actions": strokes})

    def type(self, text: str) -> None:
        """Press and let go the key of each letter."""
        strokes = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        self._act({"type": "key", "id": "keys", "actions": strokes})

    def click(self, x: float, y: float) -> None:
        self.drag((x, y), (x, y))

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press the mouse at one place of the window and let go at another."""
        at = [{"type": "pointerMove", "duration": 50, "x": round(x), "y": round(y)} for x, y in (start, end)]
        down, up = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
        self._act(
            {
                "type": "pointer",
                "id": "mouse",
                "parameters": {"pointerType": "mouse"},
                "actions": [at[0], down, at[1], up],
            }
        )

    def _act(self, source: dict[str, Any]) -> None:
        self._call("POST", f"{self._session}/actions", {"actions": [source]})


@contextlib.contextmanager
def browser(parent: pathlib.Path | None = None) -> Iterator[Browser]:
    """A window of a browser of its own. All that it keeps is in a new folder in `parent`, which is removed at the end.

    Chromium puts a Unix socket there, and exits at once if the socket's name is too long for the kernel: the driver
    says "Chrome instance exited". pytest's folders are too deep for it, so without `parent` it is the system's."""
    with tempfile.TemporaryDirectory(prefix="window-", dir=parent, ignore_cleanup_errors=True) as name:
        if len(f"{name}/{LONGEST_SOCKET}") > SOCKET_NAME_BYTES:
            raise ValueError(f"{name} is too long a name for Chromium's socket: give browser() a folder higher up")
        folder = pathlib.Path(name)
        environment = {**os.environ, "HOME": name, "TMPDIR": name, "XDG_CONFIG_HOME": name}
        log = folder / "chromedriver.log"
        with log.open("w") as said:
            driver = subprocess.Popen(["chromedriver", "--port=0"], env=environment, stdout=said, stderr=said)
        try:
            wait_until(lambda: "started successfully on port " in log.read_text(), "the driver listens", START_S)
            port = log.read_text().partition("started successfully on port ")[2].partition(".")[0]
            window = Browser(f"http://127.0.0.1:{port}")
            try:
                yield window
            finally:
                window.close()
        finally:
            driver.terminate()
            driver.wait(30)
