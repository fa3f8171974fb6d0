"""A long path between two places on one machine: two network namespaces, and between them a rate, a
delay, jitter and losses, for each direction.

What shapes it is path_emulator.cpp, over TUN devices; it needs no module of the kernel.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from emulated_network import Unavailable

_SOURCE = Path(__file__).with_name("path_emulator.cpp")
_PATIENCE_S = 60.0
# Who reads this: 198.51.100.0/24 is kept for documentation and tests (RFC 5737).
_ADDRESSES = ("198.51.100.1", "198.51.100.2")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False, text=True)
    if done.returncode != 0:
        raise Unavailable(f"waits for {' '.join(command[:4])}: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one direction: what arrived, and packets that did not."""

    packets: int
    bytes: int
    lost: int  # at random, or while the path was still
    dropped: int  # at a full queue


class LongPath:
    """Two places, and the path between them; `with` makes it and removes it.

    Raises
    ------
    Unavailable
        Where namespaces, TUN devices or a compiler are missing; the text says which.
    """

    def __init__(self) -> None:
        self.places = [f"hfp{os.getpid()}{end}" for end in "ab"]
        self._emulator: subprocess.Popen[str] | None = None

    def address(self, place: int) -> str:
        return _ADDRESSES[place]

    def inside(self, place: int) -> tuple[str, ...]:
        """A command that runs the rest of its arguments in a place."""
        return ("ip", "netns", "exec", self.places[place])

    def __enter__(self) -> LongPath:
        for tool in ("ip", "c++"):
            if shutil.which(tool) is None:
                raise Unavailable(f"waits for {tool} (Debian packages iproute2, g++)")
        if not Path("/dev/net/tun").exists():
            raise Unavailable("waits for /dev/net/tun")
        try:
            self._begin()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _begin(self) -> None:
        for place in self.places:
            _run("ip", "netns", "add", place)
        with tempfile.TemporaryDirectory() as folder:
            program = f"{folder}/path_emulator"
            _run("c++", "-std=c++20", "-O2", "-pthread", str(_SOURCE), "-o", program)
            self._emulator = subprocess.Popen(
                [program, *self.places],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                bufsize=1,
            )
            if (said := self._hear()) != "ready":
                raise Unavailable(f"waits for TUN devices in namespaces: {said}")
        for place, space in enumerate(self.places):
            here = ("ip", "-n", space)
            _run(*here, "address", "add", f"{self.address(place)}/24", "dev", "wan")
            # Else the kernel looks for routers, over a path that shall carry what tests send alone.
            _run(*self.inside(place), "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
            _run(*here, "link", "set", "wan", "up")
            _run(*here, "link", "set", "lo", "up")

    def _hear(self) -> str:
        assert self._emulator is not None
        assert self._emulator.stdout is not None
        readable, _, _ = select.select([self._emulator.stdout], [], [], _PATIENCE_S)
        return self._emulator.stdout.readline().strip() if readable else "no answer"

    def set(self, direction: Literal["ab", "ba", "both"], **values: float) -> None:
        """Change the path at once: mbit, delay_ms, jitter_ms, loss, queue_ms, still."""
        assert self._emulator is not None
        assert self._emulator.stdin is not None
        for name, value in values.items():
            self._emulator.stdin.write(f"{direction} {name} {value}\n")
        self._emulator.stdin.flush()

    def counts(self) -> tuple[Counts, Counts]:
        """What happened from the first place to the second, and back."""
        assert self._emulator is not None
        assert self._emulator.stdin is not None
        self._emulator.stdin.write("counts\n")
        self._emulator.stdin.flush()
        numbers = [int(word) for word in self._hear().split()]
        return Counts(*numbers[:4]), Counts(*numbers[4:])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._emulator is not None:
            assert self._emulator.stdin is not None
            assert self._emulator.stdout is not None
            self._emulator.stdin.close()
            self._emulator.wait(_PATIENCE_S)
            self._emulator.stdout.close()
        for place in self.places:
            subprocess.run(
                ["ip", "netns", "delete", place], capture_output=True, timeout=20, check=False
            )
