"""What a keeper does, message by message.

The socket's thread takes messages and answers what can be answered at once; everything that touches
the generations, or the other keepers, is a task of one worker, in the order of its messages.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from holdfast.comm.group import Group
from holdfast.errors import ConfigError, HoldfastError, ProtocolError, Timeout
from holdfast.ft.state.keeper import capture, wire
from holdfast.ft.state.keeper.far_store import FarStore
from holdfast.ft.state.keeper.generation import Generations, Snapshot
from holdfast.ft.state.keeper.memory import Region, mapped
from holdfast.ft.state.keeper.peers import Peers
from holdfast.ft.state.keeper.rounds import Rounds
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.keeper.worker import Worker

# A trainer that has what it waited for says within that what became of its tensors.
_VERDICT_S = 600.0

Send = Callable[[Message], None]
Join = Callable[[Any, str, int, int, float], Group]
"""Meets the other keepers: store, name, rank, size, seconds."""


class Keeper:
    """One rank's.

    Parameters
    ----------
    join : callable
        How it meets the others.
    """

    def __init__(self, join: Join) -> None:
        self._join = join
        self.generations = Generations()
        self.ended = threading.Event()
        self.left_at: float | None = time.monotonic()
        """When the last trainer went; None: one is there."""
        self._worker = Worker(self._failed)
        self._peers: Peers | None = None
        self._rounds: Rounds | None = None
        self._lock = threading.Lock()  # guards what is below
        self._send: Send | None = None  # to the trainer that is there
        self._store: FarStore | None = None
        self._verdicts: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

    # ---- the trainer -----------------------------------------------------------------------------

    def arrive(self, send: Send) -> None:
        """Have a trainer; there is one at a time.

        Raises
        ------
        ConfigError
            Another one is there.
        """
        with self._lock:
            if self._send is not None:
                raise ConfigError(
                    "this rank has a trainer already, which is alive; accepted: one process to a "
                    "rank and job; end it, or give this job another name (HOLDFAST_JOB)"
                )
            self._send = send
            self._verdicts = queue.SimpleQueue()
            self.left_at = None

    def leave(self) -> None:
        """Have no trainer any more; what is committed stays."""
        with self._lock:
            self._send = None
            self.left_at = time.monotonic()
            self._verdicts.put(None)
            if self._store is not None:
                self._store.answers.put(None)
        self._worker.add(self._stand_in())

    def tell(self, message: Message) -> None:
        """Tell the trainer, if it is there; whoever has gone is noticed by the socket's thread."""
        send = self._send
        if send is not None:
            with contextlib.suppress(HoldfastError):
                send(message)

    def take(self, message: Message) -> Message | None:
        """Take a message of the trainer's; return what is to be answered at once."""
        acts: dict[str, Callable[[Message], Message | None]] = {
            "status": lambda _: Message("status", self.status()),
            "reserve": self._later(self._reserve),
            "meet": self._meet_soon,
            "take": self._later(self._take),
            "fetch": self._later(self._fetch),
            "hurry": lambda _: self._worker.hurry(),
            "fenced": lambda told: self._verdicts.put(told),
            "stored": self._stored,
            "end": self._end,
        }
        if message.kind not in acts:
            raise ProtocolError(
                f"message {message.kind!r} to a keeper; accepted: {', '.join(sorted(acts))}"
            )
        return acts[message.kind](message)

    def status(self) -> dict[str, Any]:
        """Return what this keeper has, for anybody of this user."""
        return {
            "process": os.getpid(),
            "trainer": self._send is not None,
            "capacity": self.generations.capacity,
            "snapshots": [one.told() for one in self.generations.all if one.step >= 0],
        }

    def _later(
        self, task: Callable[[Message], Iterator[None]]
    ) -> Callable[[Message], Message | None]:
        def add(message: Message) -> None:
            self._worker.add(task(message))

        return add

    def _stored(self, message: Message) -> None:
        if self._store is not None:
            self._store.answers.put(message)

    def _end(self, _: Message) -> None:
        def task() -> Iterator[None]:
            self._part(well=True)
            self.ended.set()
            yield

        self._worker.add(task())
        self._worker.hurry()

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, HoldfastError):
            error = HoldfastError(f"{type(error).__name__}: {error}")
        self.tell(Message("failed", {"kind": type(error).__name__, "error": str(error)}))

    # ---- memory and others -----------------------------------------------------------------------

    def _reserve(self, message: Message) -> Iterator[None]:
        self.generations.reserve(message.number("nbytes"))
        self.tell(Message("reserved", {"capacity": self.generations.capacity}))
        yield

    def _meet_soon(self, message: Message) -> None:
        # Whoever waits in a group that has lost its trainers waits no more.
        if self._peers is not None:
            self._peers.group.abort("the keepers meet anew")
        self._worker.add(self._meet(message))
        self._worker.hurry()

    def _meet(self, message: Message) -> Iterator[None]:
        self._part(well=False)
        name, rank = message.text("name"), message.number("rank")
        size, timeout_s = message.number("size"), float(message.number("timeout_s"))
        self._store = FarStore(self.tell)
        group = self._join(self._store, name, rank, size, timeout_s)
        self._peers = Peers(group)
        self._rounds = Rounds(self._peers, self.generations)
        yield
        if message.number("late"):
            return  # in the place of one that was lost, when the others go on
        step, heads = self._rounds.choose()
        self.tell(
            Message(
                "met",
                {"step": step, "heads": {str(r): len(head) for r, head in heads.items()}},
                b"".join(heads.values()),
            )
        )

    def _part(self, well: bool) -> None:
        """Leave the group of keepers, if there is one."""
        peers, self._peers, self._rounds = self._peers, None, None
        if peers is not None:
            with contextlib.suppress(HoldfastError):
                peers.group.close(5.0 if well else 0.0)

    def _stand_in(self) -> Iterator[None]:
        """Take part in what the others do, while some of them have trainers."""
        while self._rounds is not None and self._send is None:
            try:
                if not self._rounds.idle():
                    return
            except Timeout:
                pass  # the others have had nothing to say for long
            except HoldfastError:
                return  # the group has ended: whoever comes meets anew
            yield

    # ---- snapshots -------------------------------------------------------------------------------

    def _take(self, message: Message) -> Iterator[None]:
        head, pieces, copied = _segments(message, "head", "pieces", "copied")
        snapshot = Snapshot(
            message.number("step"),
            message.number("epoch"),
            message.number("nbytes"),
            message.text("layout"),
            head,
        )
        generation, error = self.generations.free(), ""
        try:
            if snapshot.nbytes > self.generations.capacity:
                raise ConfigError(
                    f"a snapshot of {snapshot.nbytes} bytes; reserved: {self.generations.capacity}"
                )
            generation.begin(snapshot)
            yield from _fill(message, generation.region.view, snapshot.nbytes, pieces, copied)
            tiles = capture.Tiles(generation.body)
            rows = capture.pieces_of(pieces, snapshot.nbytes)
            for upto in capture.read(message.number("process"), rows, generation.region.view):
                tiles.complete(upto)
                yield
            tiles.complete(snapshot.nbytes)
            generation.hashes = tiles.hashes
            self.tell(Message("captured", {"step": snapshot.step}))
            error = self._verdict(snapshot.step)
        except HoldfastError as failure:
            error = str(failure)
            self.tell(Message("captured", {"step": snapshot.step, "error": error}))
        finally:
            wire.close_all(message.descriptors)
        generation.is_whole = not error
        yield
        if self._rounds is None:
            committed, why = not error, error or "there is no other keeper"
            generation.is_committed = committed
        else:
            committed, why = self._rounds.commit(generation, error)
        self.tell(
            Message("committed", {"step": snapshot.step, "committed": committed, "why": why})
        )

    def _verdict(self, step: int) -> str:
        """Wait until the trainer has said whether its tensors stayed as they were."""
        while True:
            try:
                told = self._verdicts.get(timeout=_VERDICT_S)
            except queue.Empty:
                return f"the trainer has not said within {_VERDICT_S} s that its tensors stayed"
            if told is None:
                return "the trainer is gone"
            if told.fields.get("step") == step:
                return str(told.fields.get("error", ""))

    def _fetch(self, message: Message) -> Iterator[None]:
        if self._rounds is None:
            raise ProtocolError("fetch, before the keepers have met")
        count = message.number("ranges", 1 << 24)
        rows = np.frombuffer(message.blob, "<i8")
        if len(rows) != 3 * count:
            raise ProtocolError(f"{len(message.blob)} bytes of {count} ranges; accepted: 24 each")
        wanted = [(int(r), int(at), int(n)) for r, at, n in rows.reshape(-1, 3)]
        if any(not 0 <= source < self._rounds.peers.size or n < 0 for source, _, n in wanted):
            raise ProtocolError("a range of a rank that there is not, or of less than nothing")
        total = sum(n for _, _, n in wanted)
        region = Region("restored state", max(1, total))
        try:
            yield from self._rounds.fetch(message.number("step"), wanted, region.view)
            self.tell(Message("fetched", {"nbytes": total}, b"", (region.descriptor,)))
        finally:
            region.close()


def _segments(message: Message, *names: str) -> list[bytes]:
    """Cut a blob into the parts that its fields give the lengths of."""
    lengths = [message.number(name) for name in names]
    if sum(lengths) != len(message.blob):
        raise ProtocolError(f"parts of {lengths} bytes in a blob of {len(message.blob)}")
    found, at = [], 0
    for length in lengths:
        found.append(message.blob[at : at + length])
        at += length
    return found


def _fill(
    message: Message, view: memoryview, nbytes: int, pieces: bytes, copied: bytes
) -> Iterator[None]:
    """Put what the trainer has copied itself into its place."""
    del pieces
    rows = capture.pieces_of(copied, nbytes)
    if not len(rows):
        return
    if not message.descriptors:
        raise ProtocolError("what the trainer has copied itself is not there")
    size = message.number("inbox")
    inbox = memoryview(mapped(os.dup(message.descriptors[0]), size))
    for address, count, at in rows.tolist():
        # Places in the inbox begin at 1: 0 is no address.
        if address - 1 > size or count > size - (address - 1):
            raise ProtocolError(f"{count} bytes at {address - 1} of an inbox of {size}")
        view[at : at + count] = inbox[address - 1 : address - 1 + count]
        yield
