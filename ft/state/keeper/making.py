"""A snapshot in the making: the state machine's decisions, and what is done about them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any

from holdfast import _core
from holdfast.errors import HoldfastError, NotMember, ProtocolError, SystemFailure
from holdfast.ft.state.keeper import wire
from holdfast.ft.state.keeper.counts import Counts
from holdfast.ft.state.keeper.flushing import Flushing
from holdfast.ft.state.keeper.intake import take_in
from holdfast.ft.state.keeper.ops import Ops
from holdfast.ft.state.keeper.replicas import Offer, complete
from holdfast.ft.state.keeper.slots import SLOTS, SLOTS_OF_FLUSHES, Id, Slot, Slots, digest_of
from holdfast.ft.state.keeper.wire import Message

# What `verdict` returns where there is no trainer any more.
GONE = "the trainer is gone"


class Making:
    """Of one keeper; its methods are parts of the worker's tasks.

    Parameters
    ----------
    slots : Slots
        The keeper's memory.
    tell : callable
        Tells the trainer.
    verdict : callable
        Waits until the trainer has said whether its tensors stayed as they were at a step; returns
        why not.
    """

    def __init__(
        self, slots: Slots, tell: Callable[[Message], None], verdict: Callable[[int], str]
    ) -> None:
        self.slots, self._tell, self._verdict = slots, tell, verdict
        self.machine = _core.Generations(slots=SLOTS)
        self.counts = Counts()
        self.flushing: Flushing | None = None
        self.is_grouped = True
        self.is_out = False
        """Whether the others have gone on without this keeper, which stood still."""
        self.passed = -1
        """The others' step, when this keeper had nothing for it."""
        self.exposed = ""
        """Why a loss may cost more than the newest step."""
        self.offer: Offer | None = None
        self._read = -1  # step whose state has been read
        self._ended: tuple[bool, str] | None = None  # what became of the snapshot, and why

    def flush_to(self, url: str, every: int) -> None:
        """Flush to a place, after so many steps; the first call that names one counts."""
        if url and self.flushing is None:
            self.flushing = Flushing(url)
            self.slots.count = SLOTS_OF_FLUSHES if every else SLOTS
            self.machine = _core.Generations(slots=self.slots.count, flush_every=every)

    def begin_anew(self, ops: Ops, is_elsewhere: bool) -> Generator[None, None, dict[str, Any]]:
        """Agree on what all have, and make again what is lost; collective.

        What cannot be made again is an error, unless the state is elsewhere, in storage or with
        trainers that live: then what keepers have is given up.
        """
        yield from complete(ops.peers, self.slots, self.offer)
        standing = self.machine.standing()
        refused: list[Id] = []
        while True:
            epoch, choice = ops.choose(standing["epoch"], standing["reached"], refused)
            if choice.get("error") and not is_elsewhere:
                return choice
            if not refused and not ops.has_guests:
                ops.renew_guards(epoch)
            if ops.is_well((yield from ops.rebuild(choice))):
                break
            refused.append(tuple(choice["id"]))
        if not ops.has_guests:
            self.settle(ops, epoch, choice)
        return {**choice, "epoch": epoch}

    def settle(self, ops: Ops, epoch: int, choice: dict[str, Any]) -> None:
        """Have nothing but what all go on from, and begin an epoch of these keepers."""
        if self.flushing is not None:
            # A keeper that has come in place of another will never say that it has written its.
            self._learn(self.machine.flush_ended(self.flushing.abandon(), "begun anew", _now()))
        settled = None if choice["fresh"] else tuple(choice["id"])
        for slot in self.slots.all:
            slot.is_committed = slot.is_whole and slot.id == settled
            if not slot.is_committed:
                slot.clear()
        self._learn(
            self.machine.begun(epoch, ops.peers.rank, ops.peers.size, settled, None, _now())
        )
        self.offer = None
        if settled is not None:
            self._guard(settled)

    def _guard(self, id: Id) -> None:
        """Put a snapshot where the state machine overwrites nothing before the next one counts."""
        kept = self.slots.with_id(id)
        if kept is None:
            return
        every, states = self.slots.all, self.machine.standing()["slots"]
        committed = [n for n, one in enumerate(states) if one["state"] == "committed"]
        # The first one is for the next snapshot.
        last = len(every) - 1
        place = max(committed, key=lambda n: tuple(states[n]["id"]), default=last)
        at = every.index(kept)
        every[at], every[place] = every[place], every[at]

    def give(self, message: Message) -> Iterator[None]:
        """Have what a trainer offers after a loss, until all have begun anew."""
        self.offer = Offer(message)
        yield

    def take(self, message: Message, ops: Ops | None) -> Iterator[None]:
        """Take a snapshot with the others; the trainer hears what became of it.

        Parameters
        ----------
        message : Message
            What the trainer has sent.
        ops : Ops, optional
            Of the keepers; None: they have not met.
        """
        step = message.number("step")
        self._ended = None
        try:
            if ops is None:
                raise ProtocolError("take, before the keepers have met")
            if not self.is_grouped:
                yield from self.regroup(ops)
            for id, why in self.flushing.ended() if self.flushing else ():
                nbytes = next((len(one.body) for one in self.slots.all if one.id == id), 0)
                self.counts.flush_ended(id[1], nbytes, why)
                self._learn(self.machine.flush_ended(id, why, _now()))
            layout = int(message.text("layout")[:16] or "0", 16)
            is_late = step <= self.passed
            due = deque([] if is_late else self.machine.take(step, layout, _now()))
            while due:
                due.extend((yield from self._do(due.popleft(), message, ops)))
        except HoldfastError as error:
            # An op of the group that failed: whoever goes on meets anew.
            self.is_grouped = False
            self._learn(self.machine.keepers_lost([], _now()))
            self._ended = (False, str(error))
            self.is_out = isinstance(error, NotMember)
        finally:
            wire.close_all(message.descriptors)
        committed, why = self._ended or (False, self.exposed)
        if self._read != step:
            # Nobody reads the trainer's tensors: it need not wait.
            self._tell(Message("captured", {"step": step, "error": why}))
        if ops is not None:
            self.count(ops)
        told = {"step": step, "committed": committed, "why": why, "counts": self.counts.told()}
        self._tell(Message("committed", told))

    def count(self, ops: Ops) -> None:
        """Count what ops have sent, and found damaged."""
        self.counts.sent += ops.take_sent()
        self.counts.damaged += ops.damaged
        ops.damaged = 0

    def regroup(self, ops: Ops) -> Iterator[None]:
        """After a keeper was lost: go on with the one that has come in its place."""
        view = ops.peers.group.advance()
        if len(view.ranks) == ops.peers.size:
            # The trainers live, and have the state: nothing is lost that nobody can make again.
            yield from self.begin_anew(ops, True)
            self.is_grouped = True

    def _do(
        self, action: dict[str, Any], message: Message, ops: Ops
    ) -> Generator[None, None, list[dict[str, Any]]]:
        """Do what the state machine says; return what it says next."""
        machine, number = self.machine, int(action["slot"])
        if action["do"] == "capture":
            slot = self.slots.all[number]
            error = yield from self._captured(slot, message)
            slot.id = (action["epoch"], action["step"])
            slot.seat = ops.seat
            step = message.number("step")
            if error:
                return machine.capture_failed(step, error, _now())
            slot.is_whole = True
            return machine.captured(step, digest_of(slot.hashes), _now())
        if action["do"] == "tell":
            names = ("step", "ok", "layout", "hashes")
            part = {name: action[name] for name in names}
            said = self.flushing.said() if self.flushing else None
            rows, missing, told = ops.tell_part({**part, "written": said})
            if said is not None and self.flushing is not None:
                self.flushing.heard(told, ops.peers.size)
            yield
            return machine.gathered(rows, missing, _now())
        if action["do"] == "code":
            why, slot = "", self.slots.all[number]
            # Others may commit it, and be lost before this one hears of it.
            slot.parts = machine.standing()["slots"][number]["parts"]
            try:
                yield from ops.code(slot)
            except HoldfastError as error:
                why = str(error)
            return machine.coded([], why, _now())
        if action["do"] == "close":
            missing, ok, flushing = ops.close_op(action["ok"], action["flushing"])
            yield
            return machine.closed(missing, ok, flushing, _now())
        self._learn([action])
        return []

    def _learn(self, actions: list[dict[str, Any]]) -> None:
        """Take note of what the state machine has decided."""
        for action in actions:
            if action["do"] == "committed":
                self._ended = (True, "")
                standing = self.machine.standing()["slots"][action["slot"]]
                slot = self.slots.all[action["slot"]]
                slot.is_committed, slot.parts = True, standing["parts"]
            elif action["do"] == "dropped":
                self._ended = (False, action["reason"])
                if 0 <= action["slot"] < len(self.slots.all):
                    self.slots.all[action["slot"]].drop()
            elif action["do"] == "flush" and self.flushing is not None:
                self.counts.flush_begun()
                self.flushing.begin(self.slots.all[action["slot"]])
            elif action["do"] in ("exposed", "protected"):
                self.exposed = action["reason"]
                self.is_grouped = self.is_grouped and "was lost" not in action["reason"]

    def _captured(self, slot: Slot, message: Message) -> Generator[None, None, str]:
        """Read the trainer's state into a slot; return why it is not there."""
        step = message.number("step")
        try:
            yield from take_in(message, slot)
            self._read = step
            self.counts.captured += len(slot.body)
            self._tell(Message("captured", {"step": step}))
            why = self._verdict(step)
            # Replicas have the tensors as well, and what only this one had is copied.
            slot.left = "early" if why == GONE and slot.early else ""
            return why
        except SystemFailure as failure:
            slot.left = "early" if slot.early else ""
            return str(failure)
        except HoldfastError as failure:
            return str(failure)


def _now() -> float:
    return time.monotonic()
