"""Keepers that flush again and again until all is killed, with one process as all trainers.

Each rank has a disk of its own, so that a state is that of all disks together. The process says
what the keepers have committed, step by step; `lose_power` kills it and them.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import numpy as np
from coded_files import Thread, together
from waiting import eventually

from holdfast.comm.store import DirectoryStore
from holdfast.errors import HoldfastError
from holdfast.ft.state.keeper.address import Address
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.entry import Entry
from holdfast.ft.state.layout.head import Head, layout_digest
from holdfast.ft.state.layout.plan import Reading
from holdfast.ft.state.stored import newest_stored

TILE = 1 << 20
# Not whole tiles, and of two lengths.
BYTES = (2 * TILE + 4096, TILE + 64, 2 * TILE)
WAIT_S = 60.0


def body_of(rank: int, step: int) -> np.ndarray:
    return np.random.default_rng([rank, step]).integers(0, 256, BYTES[rank], dtype=np.uint8)


def head_of(rank: int, step: int, world: int) -> Head:
    at, total = sum(BYTES[:rank]), sum(BYTES[:world])
    entry = Entry("w", "uint8", (total,), (at,), (BYTES[rank],), 0, BYTES[rank], 0)
    return Head("job", step, 1, rank, world, (entry,), (BYTES[rank], 0), BYTES[rank])


class Ranks:
    """Trainers of a job whose states are bytes.

    `every`: flushes after so many steps, 0: only when the job ends, -1: not at all.
    """

    def __init__(self, here: Path, job: str, world: int, parity: int, every: int) -> None:
        self.world = world
        self.life = f"life-{uuid.uuid4().hex}"
        store = DirectoryStore(here / self.life)
        found = [KeeperLink.find(Address(job, "", r), store, 60.0) for r in range(world)]
        self.links = [link for link, _ in found]
        self.keepers = [link.process for link in self.links]
        self.bodies = [np.zeros(BYTES[rank], np.uint8) for rank in range(world)]
        flush = {"flush_every": max(0, every), "data": world - parity, "parity": parity}
        for rank, link in enumerate(self.links):
            url = f"file://{here}/disk{rank}" if every >= 0 else ""
            link.send(Message("reserve", {**flush, "nbytes": max(BYTES), "flush": url}))
        self._wait("reserved")
        self.met = self._meet(parity)

    def _meet(self, parity: int) -> list[dict[str, Any]]:
        same = {"name": self.life, "size": self.world, "timeout_s": 60, "late": 0, "stored": 0}
        same |= {"ranks": [*range(self.world)], "parity": parity, "total": self.world}
        for rank, link in enumerate(self.links):
            link.send(Message("meet", {**same, "rank": rank}))
        return [message.fields for message in self._wait("met")]

    def _wait(self, kind: str, step: int | None = None) -> list[Message]:
        for link in self.links:
            link.send(Message("hurry"))
        return [link.wait(kind, WAIT_S, step) for link in self.links]

    def take(self, step: int) -> list[dict[str, Any]]:
        for rank, link in enumerate(self.links):
            self.bodies[rank][:] = body_of(rank, step)
            link.send(self._message(rank, step))
        self._wait("captured", step)
        for link in self.links:
            link.send(Message("fenced", {"step": step}))
        return [message.fields for message in self._wait("committed", step)]

    def _message(self, rank: int, step: int) -> Message:
        body, head = self.bodies[rank], head_of(rank, step, self.world)
        pieces = np.array([[body.ctypes.data, len(body), 0]], np.int64).tobytes()
        data = head.to_bytes()
        fields = {
            "step": step,
            "epoch": 1,
            "nbytes": len(body),
            "layout": layout_digest([head]),
            "process": os.getpid(),
            "head": len(data),
            "pieces": len(pieces),
            "copied": 0,
        }
        return Message("take", fields, data + pieces)

    def fetch(self, step: int) -> list[np.ndarray]:
        """Each rank's own body, as its keeper gives it."""
        from holdfast.ft.state.keeper.memory import mapped

        for rank, link in enumerate(self.links):
            rows = np.array([[rank, 0, BYTES[rank]]], "<i8")
            link.send(Message("fetch", {"step": step, "ranges": 1}, rows.tobytes()))
        found = self._wait("fetched")
        return [
            np.frombuffer(mapped(got.descriptors[0], got.number("nbytes")), np.uint8)
            for got in found
        ]

    def flip(self, chance: random.Random) -> tuple[Path, int, int]:
        """Flip a bit of a body or of parity in some keeper's memory; return where."""
        rank = chance.randrange(self.world)
        folder = Path(f"/proc/{self.keepers[rank]}/fd")
        memory: dict[Path, str] = {}
        for one in folder.iterdir():
            # It may have closed that one meanwhile.
            with contextlib.suppress(FileNotFoundError):
                memory[one] = one.readlink().name
        there = [one for one, name in memory.items() if "of snapshot" in name]
        path = chance.choice(sorted(there, key=lambda one: (memory[one], int(one.name))))
        most = max(BYTES) if "body" in memory[path] else path.stat().st_size
        place = (path, chance.randrange(most), chance.randrange(8))
        turn(*place)
        return place

    def leave(self) -> None:
        """Go as a trainer that is killed; the keepers stay."""
        for link in self.links:
            link.close()

    def end(self) -> None:
        for link in self.links:
            with contextlib.suppress(HoldfastError):
                link.send(Message("end"))
        for link in self.links:
            eventually(lambda link=link: link.is_gone, WAIT_S)
            link.close()


def turn(path: Path, at: int, bit: int) -> None:
    """Flip a bit of a file, or of a memory by its descriptor."""
    with path.open("r+b", buffering=0) as file:
        found = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([found[0] ^ (1 << bit)]), at)


def flipped(here: Path, job: str, count: int, chance: random.Random) -> dict[str, int]:
    """Flip bits of keepers' memory again and again; how often it was restored, and refused.

    One at a time, which the code stands, and three at a time, which it may not.
    """
    found = {"restored": 0, "refused": 0, "wrong": 0, "one was refused": 0}
    ranks = Ranks(here, job, len(BYTES), 1, -1)
    step = 0
    try:
        for number in range(count):
            if number % 10 == 0:
                step += 1
                assert all(one["committed"] for one in ranks.take(step))
            bits = 3 if number % 4 == 3 else 1
            ranks.leave()
            places = [ranks.flip(chance) for _ in range(bits)]
            ranks = Ranks(here, job, len(BYTES), 1, -1)
            said = {one["step"] for one in ranks.met}
            if len(said) > 1:
                found["wrong"] += 1
            elif said == {-1}:
                found["refused"] += 1
                found["one was refused"] += bits == 1
                # As it was: what nobody can have would stay so, and a trainer ends with an error.
                ranks.leave()
                for place in places:
                    turn(*place)
                ranks = Ranks(here, job, len(BYTES), 1, -1)
                assert {one["step"] for one in ranks.met} == {step}
            else:
                (there,) = said
                right = [body_of(rank, there) for rank in range(len(BYTES))]
                is_right = there in (step, step - 1) and all(
                    map(np.array_equal, ranks.fetch(there), right)
                )
                found["restored" if is_right else "wrong"] += 1
                step = there
    finally:
        ranks.end()
    return found


def lose_power(here: Path, job: str, first: int, chance: random.Random, within_s: float) -> int:
    """Kill trainers and keepers at a random instant; return the last step that was committed."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, *folders])}
    command = [sys.executable, __file__, str(here), job, str(first)]
    # A trainer whose keepers are killed before it says so.
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=env, text=True, **pipes) as process:
        assert process.stdout is not None
        keepers = [int(number) for number in process.stdout.readline().split()[1:]]
        said = [process.stdout.readline()]
        # It flushes for certain now.
        eventually(lambda: newest_manifest(here) >= first, WAIT_S)
        threading.Event().wait(chance.uniform(0, within_s))
        everybody = [process.pid, *keepers]
        chance.shuffle(everybody)
        for each in everybody:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        said += process.stdout.readlines()
    assert len(keepers) == 2
    return max(int(text) for text in said if text.endswith("\n"))


def newest_there(here: Path, world: int) -> tuple[int, str]:
    """What a next life goes on from: its step, and what is wrong with it."""

    def act(who: Thread) -> tuple[int, str]:
        stored, refused = newest_stored(f"file://{here}/disk{who.rank}", "job", who)
        if stored is None:
            return -1, f"nothing; {refused}"
        saved = stored.lend_heads()
        saved.heads()
        spans = [(np.array([0]), np.array([BYTES[rank]])) for rank in range(world)]
        readings = [Reading(rank, *span, ()) for rank, span in enumerate(spans)]
        stored.lend(readings)
        right = [body_of(rank, stored.step).tobytes() for rank in range(world)]
        wrong = [one.rank for one in readings if saved.gather(one) != right[one.rank]]
        return stored.step, f"others' bytes: {wrong}" if wrong else ""

    found = together(world, act)
    if any(one != found[0] or isinstance(one, Exception) for one in found):
        return -1, f"ranks differ: {found}"
    return found[0]


def newest_manifest(here: Path) -> int:
    """The newest step of which some disk has a manifest: all parts were written before."""
    names = [path.parent.name for path in here.glob("disk*/step-*/manifest.json")]
    return max((int(name[5:11]) for name in names), default=-1)


def main(here: str, job: str, first: int) -> None:
    ranks = Ranks(Path(here), job, 2, 1, 1)
    print("KEEPERS", *ranks.keepers, flush=True)
    for step in range(first, first + 1000):
        told = ranks.take(step)
        if all(one["committed"] for one in told):
            print(step, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
