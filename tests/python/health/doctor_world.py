"""A job for the doctor: real ranks that train, a fault, and what `holdfast doctor` says of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from emulated_network import Network
from health_ranks import await_file
from ranks import start_rank

WAIT_S = 60.0


@dataclass
class Verdict:
    """What the doctor said, and how long it took for it."""

    status: int
    findings: list[dict[str, Any]]
    seconds: float
    text: str

    @property
    def accusations(self) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["sick"]]


@dataclass
class World:
    """Some ranks, started here and ended here."""

    here: Path
    size: int
    function: str = "train"
    env: dict[str, str] = field(default_factory=dict)
    network: Network | None = None
    hosts: Sequence[str] = ()
    coordinated: bool = False
    http: bool = True

    def __enter__(self) -> World:
        self.here.mkdir(parents=True, exist_ok=True)
        self.flight = self.here / "flight"
        self.flight.mkdir()
        self.others: list[subprocess.Popen[Any]] = []
        self.ranks: list[subprocess.Popen[str]] = []
        try:
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        common = {"HOLDFAST_FLIGHT_DIR": str(self.flight), **self.env}
        if self.coordinated:
            common["HOLDFAST_COORDINATOR"] = f"{self._coordinate()}/job"
        for rank in range(self.size):
            env = dict(common)
            if self.network is not None:
                address = self.network.address(rank)
                env |= {"HOLDFAST_ADDRESS": address, "HOLDFAST_HOST_ID": f"host{rank}"}
                env["HOLDFAST_HTTP"] = f"{address}:0"
                # Between these namespaces is nobody else.
                env["HOLDFAST_HTTP_INSECURE"] = "1"
            elif self.http:
                env["HOLDFAST_HTTP"] = "127.0.0.1:0"
            if self.hosts:
                env |= {"HOLDFAST_ADDRESS": "127.0.0.1", "HOLDFAST_HOST_ID": self.hosts[rank]}
            before = self.network.inside(rank) if self.network else ()
            arguments = ("doctor_ranks", self.function, rank, self.size, self.here, env, before)
            self.ranks.append(start_rank(*arguments))
        for rank in range(self.size):
            await_file(self.here / f"http.{rank}")

    def _coordinate(self) -> str:
        listens = ["--address", "127.0.0.1", "--http", "127.0.0.1:0", "--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.cli", "coordinator", *listens],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.others.append(process)
        assert process.stdout is not None
        port = re.search(r"port (\d+)", process.stdout.readline())
        pages = re.search(r"http://(\S+)", process.stdout.readline())
        assert port is not None
        assert pages is not None
        self.targets = f"http://{pages[1]}/targets"
        return f"127.0.0.1:{port[1]}"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in [*self.ranks, *self.others]:
            if process.poll() is None:
                process.kill()
        for process in [*self.ranks, *self.others]:
            process.communicate()

    def addresses(self) -> list[str]:
        return [(self.here / f"http.{rank}").read_text() for rank in range(self.size)]

    def befall(self, fault: str) -> None:
        """Let the victim suffer from now on."""
        draft = self.here / "draft"
        draft.write_text(fault)
        draft.rename(self.here / "fault")

    def signal(self, rank: int, number: signal.Signals) -> None:
        self.ranks[rank].send_signal(number)

    def hog(self, count: int, cores: set[int], nice: int = 0) -> None:
        """Processes that do nothing, on these cores, for as long as the world is there."""
        code = f"import os; os.sched_setaffinity(0, {cores!r}); os.nice({nice})\nwhile 1: pass"
        for _ in range(count):
            self.others.append(subprocess.Popen([sys.executable, "-c", code]))

    def end(self) -> None:
        """Let all ranks stop by themselves, and wait for them."""
        (self.here / "stop").touch()
        for process in self.ranks:
            assert process.wait(WAIT_S) == 0

    def doctor(self, *arguments: str, timeout_s: float = 30) -> Verdict:
        """Ask the doctor; where the ranks are, if no arguments say it."""
        before = self.network.outside() if self.network is not None else ()
        return ask(*(arguments or self.addresses()), before=before, timeout_s=timeout_s)

    def train_a_while(self, seconds: float = 1.0) -> None:
        time.sleep(seconds)


def ask(*arguments: str, before: Sequence[str] = (), timeout_s: float = 30) -> Verdict:
    """Run `holdfast doctor --json`."""
    began = time.monotonic()
    done = subprocess.run(
        [*before, sys.executable, "-m", "holdfast.cli", "doctor", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("HOLDFAST_")},
    )
    seconds = time.monotonic() - began
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    findings = json.loads(lines[-1])["findings"] if lines else []
    return Verdict(done.returncode, findings, seconds, done.stdout + done.stderr)
