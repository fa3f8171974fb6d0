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
from holdfast.errors import ConfigError, HoldfastError, ProtocolError, SystemFailure, Timeout
from holdfast.ft.state.keeper.far_store import FarStore
from holdfast.ft.state.keeper.making import GONE, Making
from holdfast.ft.state.keeper.memory import Region
from holdfast.ft.state.keeper.ops import Ops
from holdfast.ft.state.keeper.peers import Peers
from holdfast.ft.state.keeper.slots import Slots
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.keeper.worker import Worker
from holdfast.ft.state.places import room

# A trainer that has what it waited for says within that what became of its tensors.
_VERDICT_S = 600.0
# Bodies that a trainer gets as they lie, beside what it gets of others' in one message.
_MOST_OWN = 3

Send = Callable[[Message], None]
Join = Callable[[Any, str, int, int, float], Group]
"""Meets the other keepers: store, name, rank, size, seconds."""


class Keeper:
    """One rank's.

    Parameters
    ----------
    join : callable
        How it meets the others.
    on_end : callable
        Called when its job has ended well, before the others are waited for.
    """

    def __init__(self, join: Join, on_end: Callable[[], None]) -> None:
        self._join, self._on_end = join, on_end
        self.slots = Slots()
        self.ended, self.parted = threading.Event(), threading.Event()
        self.left_at: float | None = time.monotonic()
        """When the last trainer went; None: one is there."""
        self._worker = Worker(self._failed)
        # Of the worker's tasks alone.
        self._making = Making(self.slots, self.tell, self._verdict)
        self._ops: Ops | None = None
        self._waits_empty = False  # until the others let it in
        self._is_guest = False  # there for what it has; its rank has no trainer
        self._choice: dict[str, Any] = {}  # what all go on from
        self._asked_by: Send | None = None  # the trainer that wants what is being done
        self._heard: queue.SimpleQueue[Message | None] = queue.SimpleQueue()  # its verdicts
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
            if self._waits_empty:
                # It has nothing, and waits for others who may not come: another one meets anew.
                self._give_up()
            if self.ended.is_set():
                raise SystemFailure("this keeper is about to end")
            if self._send is not None:
                raise ConfigError(
                    "this rank has a trainer already, which is alive; accepted: one process to a "
                    "rank and job; end it, or give this job another name (HOLDFAST_JOB)"
                )
            self._send = send
            self._verdicts = queue.SimpleQueue()
            self.left_at = None
        # Whoever waits in a group that has lost its trainers waits no more: they meet anew.
        if (ops := self._ops) is not None:
            ops.abort()

    def leave(self) -> None:
        """Have no trainer any more; what is committed stays."""
        with self._lock:
            self._send = None
            self.left_at = time.monotonic()
            self._verdicts.put(None)
            if self._store is not None:
                self._store.close()
        if self._is_guest and (ops := self._ops) is not None:
            ops.abort()  # a restore that has ended without an end
        self._add(self._stand_in())

    def tell(self, message: Message) -> None:
        """Tell the trainer, if it is there; whoever has gone is noticed by the socket's thread."""
        send = self._send
        # What was done for a trainer that is gone is no news to the next one.
        if send is not None and send is self._asked_by:
            with contextlib.suppress(HoldfastError):
                send(message)

    def _add(self, task: Iterator[None]) -> None:
        """Do a task of the trainer that is there now, after those before it."""
        with self._lock:
            asked_by, verdicts = self._send, self._verdicts

        def run() -> Iterator[None]:
            self._asked_by, self._heard = asked_by, verdicts
            yield from task

        self._worker.add(run())

    def take(self, message: Message) -> Message | None:
        """Take a message of the trainer's; return what is to be answered at once."""
        acts: dict[str, Callable[[Message], Message | None]] = {
            "status": lambda _: Message("status", self.status()),
            "reserve": lambda told: self._soon(self._reserve(told)),
            "meet": lambda told: self._soon(self._meet(told)),
            "attend": lambda told: self._soon(self._attend(told)),
            "settle": lambda told: self._soon(self._settle(told)),
            "take": lambda told: self._add(self._take(told)),
            "fetch": lambda told: self._add(self._fetch(told)),
            "offer": lambda told: self._add(self._making.give(told)),
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
        """Return what this keeper has, and has sent for its code, for anybody of this user."""
        return {
            "process": os.getpid(),
            "trainer": self._send is not None,
            "capacity": self.slots.body,
            "epoch": self._making.machine.standing()["epoch"],
            "ranks": max((len(one.parts) for one in self.slots.all if one.is_whole), default=0),
            "exposed": self._making.exposed,
            "counts": self._making.counts.told(),
            "snapshots": [one.told() for one in self.slots.all if one.part is not None],
        }

    def _stored(self, message: Message) -> None:
        if self._store is not None:
            self._store.answers.put(message)

    def _end(self, _: Message) -> None:
        def task() -> Iterator[None]:
            with self._lock:
                self.ended.set()
            self._on_end()
            with contextlib.suppress(HoldfastError):
                if self._making.flushing is not None and self._ops is not None:
                    self._making.flushing.now(self.slots.newest, self._ops)
            self._part(well=True)
            self.parted.set()
            yield

        self._add(task())
        self._worker.hurry()

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, HoldfastError):
            error = HoldfastError(f"{type(error).__name__}: {error}")
        self.tell(Message("failed", {"kind": type(error).__name__, "error": str(error)}))

    # ---- memory and others -----------------------------------------------------------------------

    def _reserve(self, message: Message) -> Iterator[None]:
        nbytes = message.number("nbytes")
        self._making.flush_to(message.text("flush"), message.number("flush_every"))
        data, parity = message.number("data", 255), message.number("parity", 255)
        self.slots.reserve(*room(data, parity, nbytes))
        self.tell(Message("reserved", {"capacity": nbytes}))
        yield

    def _take(self, message: Message) -> Iterator[None]:
        yield from self._making.take(message, self._ops)
        if self._making.is_out:
            # Another keeper comes in, in the place of this one: its trainer starts it.
            self._give_up()

    def _soon(self, task: Iterator[None]) -> None:
        self._add(task)
        self._worker.hurry()

    def _join_others(self, message: Message, name: str, total: int) -> Ops:
        """Meet the other keepers, as the trainer says."""
        self._part(well=False)
        rank, size = message.number("rank"), message.number("size")
        timeout_s = float(message.number("timeout_s"))
        ranks, parity = message.fields["ranks"], message.number("parity", 255)
        with self._lock:
            if self._send is None or self._send is not self._asked_by:
                raise HoldfastError("the trainer that was to meet others is gone")
            # Closed by `leave`, in which nobody can come between.
            store = self._store = FarStore(self.tell)

        def meet(which: str, member: int, members: int) -> Group:
            return self._join(store, f"{name}/code/{which}", member, members, timeout_s)

        peers = Peers(self._join(store, name, rank, total, timeout_s))
        self._ops = Ops(peers, self.slots, ranks, parity, meet, size)
        return self._ops

    def _attend(self, message: Message) -> Iterator[None]:
        """Give what this keeper has to a restore; its rank has no trainer."""
        self._is_guest = True
        total = message.number("total")
        ops = self._join_others(message, f"{message.text('name')}/all", total)
        yield
        choice = yield from self._making.begin_anew(ops, bool(message.number("stored")))
        if not choice.get("error") and not choice["fresh"]:
            ops.heads()
            if ops.sources is not None:
                yield from ops.sources.fetch(self.slots, [], memoryview(b""))
                ops.sources.forget()
        self._part(well=True)

    def _settle(self, message: Message) -> Iterator[None]:
        """After a restore with guests: be a group of those that have trainers."""
        choice = self._choice
        ops = self._join_others(message, message.text("name"), message.number("size"))
        yield
        ops.renew_guards(choice["epoch"])
        self._making.settle(ops, choice["epoch"], choice)
        self.tell(Message("settled"))

    def _meet(self, message: Message) -> Iterator[None]:
        try:
            yield from self._met(message)
        except BaseException:
            if message.fields.get("late"):
                self._give_up()
            raise

    def _met(self, message: Message) -> Iterator[None]:
        name, total = message.text("name"), message.number("total")
        self._waits_empty, self._is_guest = bool(message.number("late")), False
        has_guests = total > message.number("size")
        ops = self._join_others(message, f"{name}/all" if has_guests else name, total)
        self._waits_empty = False
        self._making.is_grouped, self._making.passed = not message.number("late"), -1
        yield
        if message.number("late"):
            # In the place of one that was lost: the others have let it in, begin anew with it, and
            # are at a snapshot that this one is too late for.
            yield from self._making.regroup(ops)
            self.tell(Message("met", {"step": -1}))
            while not self._worker.has_more and self._send is not None:
                self._making.passed = ops.idle()
                yield
            return
        choice = yield from self._making.begin_anew(ops, bool(message.number("stored")))
        self._choice = choice
        if error := choice.get("error"):
            self.tell(Message("met", {"step": -1, "error": error, "reached": choice["reached"]}))
            return
        step = -1 if choice["fresh"] else int(choice["id"][1])
        heads = ops.heads()
        lost, reason = choice.get("steps_lost", 0), choice.get("reason", "")
        kinds = {one["rank"]: one["kind"] for one in choice["sources"]}
        self._making.count(ops)
        fields = {
            "reached": choice["reached"],
            "step": step,
            "heads": {str(r): len(head) for r, head in heads.items()},
            "source": kinds.get(message.number("rank"), ""),
        }
        self.tell(
            Message("met", {**fields, "lost": lost, "reason": reason}, b"".join(heads.values()))
        )

    def _give_up(self) -> None:
        """End, with nothing that anybody needs: another keeper comes in this one's place."""
        self.ended.set()
        self.parted.set()
        self._on_end()

    def _part(self, well: bool) -> None:
        """Leave the group of keepers, if there is one."""
        ops, self._ops = self._ops, None
        if ops is not None:
            with contextlib.suppress(HoldfastError):
                ops.close(5.0 if well else 0.0)

    def _stand_in(self) -> Iterator[None]:
        """Take part in what the others do, while some of them have trainers."""
        while self._ops is not None and self._send is None:
            try:
                self._making.passed = self._ops.idle()
                if self._making.passed < 0:
                    if self._making.flushing is not None:
                        self._making.flushing.now(self.slots.newest, self._ops)
                    return
            except Timeout:
                pass  # the others have had nothing to say for long
            except HoldfastError:
                return  # the group has ended: whoever comes meets anew
            yield

    def _verdict(self, step: int) -> str:
        """Wait until the trainer has said whether its tensors stayed as they were."""
        while True:
            try:
                told = self._heard.get(timeout=_VERDICT_S)
            except queue.Empty:
                return f"the trainer has not said within {_VERDICT_S} s that its tensors stayed"
            if told is None:
                return GONE
            if told.fields.get("step") == step:
                return str(told.fields.get("error", ""))

    def _fetch(self, message: Message) -> Iterator[None]:
        if self._ops is None or (sources := self._ops.sources) is None:
            raise ProtocolError("fetch, and there is no snapshot that all could have")
        count = message.number("ranges", 1 << 24)
        rows = np.frombuffer(message.blob, "<i8")
        if len(rows) != 3 * count:
            raise ProtocolError(f"{len(message.blob)} bytes of {count} ranges; accepted: 24 each")
        wanted = [(int(r), int(at), int(n)) for r, at, n in rows.reshape(-1, 3)]
        if any(source < 0 or n < 0 for source, _, n in wanted):
            raise ProtocolError("a range of a rank that there is not, or of less than nothing")
        # What lies here the trainer reads where it lies.
        there = sources.own(self.slots) if message.fields.get("own") else {}
        ranks = sorted({r for r, _, _ in wanted} & {*there})[:_MOST_OWN]
        far = [one for one in wanted if one[0] not in ranks]
        total = sum(n for _, _, n in far)
        region = Region("restored state", max(1, total))
        try:
            yield from sources.fetch(self.slots, far, region.view)
            fields = {"nbytes": total, "own": [[r, there[r][1]] for r in ranks]}
            lent = (there[r][0].descriptor for r in ranks)
            self.tell(Message("fetched", fields, b"", (region.descriptor, *lent)))
        finally:
            region.close()
        sources.forget()
        yield from self._ops.renew_parity()
