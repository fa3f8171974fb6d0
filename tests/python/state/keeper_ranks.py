"""Ranks of test_keeper_ranks.py: trainers of plain bytes, each with a keeper."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from holdfast.comm.store import DirectoryStore
from holdfast.ft.state.keeper.address import Address
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.wire import Message

BYTES = 3_500_001
WAIT_S = 60.0


class Trainer:
    """A rank that has an array, and puts it into its keeper."""

    def __init__(self, life: str) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        job = os.environ["HOLDFAST_JOB"]
        store = DirectoryStore(Path(os.environ["HOLDFAST_STORE"].removeprefix("file://")) / life)
        self.address = Address(job, "", self.rank)
        self.link, welcome = KeeperLink.find(self.address, store, 60.0)
        self.welcome = welcome.fields
        self.link.send(
            Message(
                "reserve", {"nbytes": BYTES, "data": 1, "parity": 0, "flush": "", "flush_every": 0}
            )
        )
        self.link.wait("reserved", WAIT_S)
        meet = {
            "name": life,
            "rank": self.rank,
            "size": self.size,
            "total": self.size,
            "timeout_s": 60,
            "late": 0,
            "stored": 0,
        }
        meet |= {"ranks": [self.rank], "parity": 0}
        self.link.send(Message("meet", meet))
        self.met = self.link.wait("met", WAIT_S)
        self.body = np.zeros(BYTES, np.uint8)

    def fill(self, step: int) -> None:
        self.body[:] = contents(self.rank, step)

    def take(self, step: int, until: str = "committed") -> dict:
        pieces = np.array([[self.body.ctypes.data, BYTES, 0]], np.int64).tobytes()
        head = f"head of {self.rank}".encode()
        fields = {
            "step": step,
            "epoch": 1,
            "nbytes": BYTES,
            "layout": "0123456789abcdef",
            "process": os.getpid(),
            "head": len(head),
            "pieces": len(pieces),
            "copied": 0,
        }
        self.link.send(Message("take", fields, head + pieces))
        if until == "sent":
            return {}
        self.link.wait("captured", WAIT_S, step)
        self.link.send(Message("fenced", {"step": step}))
        if until == "captured":
            return {}
        return self.link.wait("committed", WAIT_S, step).fields

    def fetch(self, step: int, rank: int) -> np.ndarray:
        from holdfast.ft.state.keeper.memory import mapped

        rows = np.array([[rank, 7, BYTES - 7]], "<i8")
        self.link.send(Message("fetch", {"step": step, "ranges": 1}, rows.tobytes()))
        got = self.link.wait("fetched", WAIT_S)
        count = got.number("nbytes")
        return np.frombuffer(mapped(got.descriptors[0], count), np.uint8, count)

    def fetch_own(self, step: int, other: int) -> tuple[np.ndarray, np.ndarray]:
        """This rank's body, read where it lies, and bytes of another one's."""
        from holdfast.ft.state.keeper.memory import mapped

        rows = np.array([[self.rank, 7, 1], [other, 7, 9]], "<i8")
        fields = {"step": step, "ranges": 2, "own": 1}
        self.link.send(Message("fetch", fields, rows.tobytes()))
        got = self.link.wait("fetched", WAIT_S)
        assert got.fields["own"] == [[self.rank, BYTES]], got.fields
        assert got.number("nbytes") == 9, "one's own bytes are not copied"
        far, own = map(mapped, got.descriptors, (9, BYTES))
        return np.frombuffer(own, np.uint8, BYTES), np.frombuffer(far, np.uint8, 9)


def contents(rank: int, step: int) -> np.ndarray:
    return np.random.default_rng([rank, step]).integers(0, 256, BYTES, np.uint8)


def commits_and_goes_back() -> None:
    """Two lives: in the second all read what the first had committed, each its neighbour's."""
    first = Trainer("first")
    assert first.met.fields["step"] == -1
    for step in (3, 4):
        first.fill(step)
        told = first.take(step)
        assert told["committed"], told
    # Of step 5 not all are there: it counts nowhere.
    first.fill(5)
    first.take(5, "sent" if first.rank == 1 else "captured")
    if first.rank == 1:
        first.link.wait("captured", WAIT_S, 5)
        first.link.send(Message("fenced", {"step": 5, "error": "tensor w changed"}))
    told = first.link.wait("committed", WAIT_S, 5).fields
    why = "tensor w changed" if first.rank == 1 else "rank 1 did not capture it"
    assert not told["committed"], told
    assert why in told["why"], told
    first.link.close()

    second = Trainer("second")
    assert second.met.fields["step"] == 4, second.met.fields
    assert second.met.blob.decode() == "".join(f"head of {r}" for r in range(second.size))
    neighbour = (second.rank + 1) % second.size
    assert (second.fetch(4, neighbour) == contents(neighbour, 4)[7:]).all()
    own, far = second.fetch_own(4, neighbour)
    assert (own == contents(second.rank, 4)).all()
    assert (far == contents(neighbour, 4)[7:16]).all()
    process = second.welcome["process"]
    second.link.send(Message("end"))
    while not second.link.is_gone:
        time.sleep(0.01)
    print("KEEPER", process, flush=True)


def dies_in_a_copy() -> None:
    """Rank 1 is killed when it has begun a snapshot: the others hear that it does not count."""
    here = Trainer("first")
    here.fill(1)
    assert here.take(1)["committed"]
    here.fill(2)
    if here.rank == 1:
        here.take(2, "sent")
        os.kill(os.getpid(), signal.SIGKILL)
    told = here.take(2)
    assert not told["committed"], told
    assert "rank 1" in told["why"], told
    print("GOES ON", flush=True)
    # Once more: its keeper stands in for it.
    here.fill(3)
    told = here.take(3)
    assert not told["committed"], told
    assert "rank 1 did not capture it" in told["why"], told
    sys.stdout.flush()


def comes_back() -> None:
    here = Trainer("second")
    assert here.met.fields["step"] == 1, here.met.fields
    assert (here.fetch(1, here.rank) == contents(here.rank, 1)[7:]).all()
    here.link.send(Message("end"))
    while not here.link.is_gone:
        time.sleep(0.01)
