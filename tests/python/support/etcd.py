"""A real etcd, of one member, which a test may stop, kill and start again."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from ports import held_port
from waiting import eventually


class Etcd:
    """Its process and its client's port; the data outlive the process.

    Parameters
    ----------
    here : Path
        Of its files.
    certificate, client : dict of str, optional
        Its own and a client's, as `authority.Authority.issue` makes them: it speaks TLS then, to
        clients that have one.
    """

    def __init__(
        self,
        here: Path,
        certificate: dict[str, str] | None = None,
        client: dict[str, str] | None = None,
    ) -> None:
        self.here = here
        self._tls: list[str] = []
        self._context: ssl.SSLContext | None = None
        if certificate and client:
            authority = certificate["HOLDFAST_TLS_CA"]
            self._tls = ["--client-cert-auth", "--trusted-ca-file", authority]
            self._tls += ["--cert-file", certificate["HOLDFAST_TLS_CERT"]]
            self._tls += ["--key-file", certificate["HOLDFAST_TLS_KEY"]]
            self._context = ssl.create_default_context(cafile=authority)
            self._context.load_cert_chain(client["HOLDFAST_TLS_CERT"], client["HOLDFAST_TLS_KEY"])
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{held_port()}"
        self._peers = f"http://127.0.0.1:{held_port()}"
        self.start()

    @staticmethod
    def is_there() -> bool:
        """Whether this machine has one."""
        return shutil.which("etcd") is not None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = subprocess.Popen(
            [
                "etcd",
                *("--data-dir", str(self.here / "etcd")),
                *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                *("--listen-peer-urls", self._peers),
                *("--initial-advertise-peer-urls", self._peers),
                *("--initial-cluster", f"default={self._peers}"),
                *self._tls,
            ],
            stdout=subprocess.DEVNULL,
            stderr=(self.here / "etcd.log").open("a"),
        )
        eventually(self._answers)

    def _answers(self) -> bool:
        try:
            self.ask("/v3/kv/range", {"key": _text("none")})
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False
        return True

    def kill(self) -> None:
        """End it the hard way."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        """Let it answer nobody."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it answer again."""
        os.kill(self.process.pid, signal.SIGCONT)

    def ask(self, path: str, question: dict[str, Any]) -> Any:
        """Ask it, as anybody may."""
        request = urllib.request.Request(self.url + path, json.dumps(question).encode())
        with urllib.request.urlopen(request, timeout=5, context=self._context) as answer:
            return json.load(answer)

    def entries(self, prefix: str) -> dict[str, dict[str, Any]]:
        """Return what it keeps under keys that begin so: value, version and so on."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        found = self.ask("/v3/kv/range", {"key": _text(prefix), "range_end": _text(end)})
        return {
            base64.b64decode(entry["key"]).decode(): {
                **entry,
                "value": base64.b64decode(entry["value"]).decode(),
            }
            for entry in found.get("kvs", [])
        }

    def forget(self, prefix: str) -> None:
        """Remove all keys that begin so."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        self.ask("/v3/kv/deleterange", {"key": _text(prefix), "range_end": _text(end)})


def _text(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
