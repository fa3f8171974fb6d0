"""A coordinator in a process of its own, which a test may kill and start again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ports import held_port
from ranks import kill


class Coordinator:
    """A coordinator's process, at an address that stays."""

    def __init__(self, here: Path) -> None:
        self.address = f"127.0.0.1:{held_port()}"
        self.here = here
        self.record = str(here / "record")
        self.process = self.start()

    def start(self) -> subprocess.Popen[str]:
        command = ["-m", "holdfast.cli", "coordinator", "--port", self.address.split(":")[1]]
        self.process = subprocess.Popen(
            [sys.executable, *command, "--address", "127.0.0.1", "--record", self.record],
            stdout=subprocess.PIPE,
            stderr=(self.here / "coordinator.log").open("a"),
            text=True,
        )
        assert self.process.stdout is not None
        assert "listens" in self.process.stdout.readline()
        return self.process

    def kill(self) -> None:
        kill(self.process)
        self.process.wait()
