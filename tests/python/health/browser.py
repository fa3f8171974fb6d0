"""A headless Chromium, driven by its DevTools protocol over a pipe: no package, no port."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

WAIT_S = 30.0


class Browser:
    """One page in a browser of its own.

    Parameters
    ----------
    here : path
        A folder for its profile and its log.
    """

    def __init__(self, here: Path) -> None:
        reads, to_browser = os.pipe()
        from_browser, writes = os.pipe()
        self._to = to_browser
        self._from = from_browser
        self._number = 0
        self._rest = b""
        self.trouble: list[str] = []  # exceptions of scripts, refused requests
        self.asked_for: list[str] = []  # realms for which a password was asked
        self._answers: list[tuple[str, str]] = []
        command = [
            *("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-dev-shm-usage", "--disable-background-networking", "--disable-extensions"),
            *("--remote-debugging-pipe", f"--user-data-dir={here / 'profile'}", "about:blank"),
        ]
        # It reads 3 and writes 4.
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "bash", *command],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=(here / "chromium.log").open("w"),
        )
        os.close(reads)
        os.close(writes)
        pages = self._ask("Target.getTargets", {}, "")["targetInfos"]
        (page,) = [p["targetId"] for p in pages if p["type"] == "page"][:1]
        answer = self._ask("Target.attachToTarget", {"targetId": page, "flatten": True}, "")
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol on the page."""
        return self._ask(method, parameters, self._session)

    def open(self, url: str) -> None:
        """Go to a page, and wait until all of its text has come: before, it may have no body."""
        self.ask("Page.navigate", url=url)
        self.until("document.readyState !== 'loading'")

    def will_answer(self, *answers: tuple[str, str]) -> None:
        """Answer each prompt for a password with the next user and password; then cancel it."""
        self._answers = list(answers)
        self.ask("Fetch.enable", handleAuthRequests=True)

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression gives, by JSON."""
        answer = self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, timeout_s: float = WAIT_S) -> float:
        """Wait until an expression is true; seconds that it took."""
        began = time.monotonic()
        while not self.value(expression):
            passed = time.monotonic() - began
            assert passed < timeout_s, f"not within {timeout_s} s: {expression}"
            time.sleep(0.01)
        return time.monotonic() - began

    def picture(self, path: Path) -> None:
        """Write a PNG of the whole page."""
        answer = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def _send(self, method: str, parameters: dict[str, Any], session: str) -> int:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        return self._number

    def _on_prompt(self, told: dict[str, Any]) -> None:
        self.asked_for.append(told["authChallenge"]["realm"])
        answer = {"response": "CancelAuth"}
        if self._answers:
            user, password = self._answers.pop(0)
            answer = {"response": "ProvideCredentials", "username": user, "password": password}
        ask = {"requestId": told["requestId"], "authChallengeResponse": answer}
        self._send("Fetch.continueWithAuth", ask, self._session)

    def _ask(self, method: str, parameters: dict[str, Any], session: str) -> dict[str, Any]:
        number = self._send(method, parameters, session)
        while True:
            heard = self._hear()
            if heard.get("id") == number:
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result
            if heard.get("method") == "Fetch.requestPaused":
                request = {"requestId": heard["params"]["requestId"]}
                self._send("Fetch.continueRequest", request, self._session)
            if heard.get("method") == "Fetch.authRequired":
                self._on_prompt(heard["params"])
            if heard.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.trouble.append(json.dumps(heard["params"]))

    def _hear(self) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser says nothing"
            part = os.read(self._from, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(text)
        return heard
