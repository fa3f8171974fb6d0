"""`Snapshots`: a state that outlives the processes that train it.

`take` tells this rank's keeper where the state lies, and returns; the keeper reads it while forward
and backward leave it alone, and an optimiser's step waits until it has. All ranks take a snapshot
at the same step boundary, and it counts when all of their keepers have their parts, or not at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

from holdfast import _job
from holdfast.compress.options import require
from holdfast.errors import ConfigError, HoldfastError, ProtocolError, SystemFailure, Timeout
from holdfast.ft.state import together
from holdfast.ft.state.bring_back import bring_back, bring_back_flushed
from holdfast.ft.state.files.schemes import absolute
from holdfast.ft.state.inbox import Inbox, Packed, message_of, optimizers
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.capture import Capture
from holdfast.ft.state.layout.flatten import flatten
from holdfast.ft.state.layout.local import Replica, kinds_of, replicas_of
from holdfast.ft.state.meeting import Meeting
from holdfast.ft.state.members import members
from holdfast.ft.state.offering import offer
from holdfast.ft.state.restart import came_through_torch
from holdfast.ft.state.room import Reserved, refuse_too_much, to_come, with_slack
from holdfast.ft.state.standing import Standing
from holdfast.ft.state.stored import is_any_stored

# A keeper that takes messages has them in less.
_HAND_OVER_S = 0.2
# Of a restore, as the choice of a snapshot names them, and as people do.
_SOURCES = {"live": "replica", "decode": "decoded"}


class Snapshots:
    """Takes snapshots of a state, and brings it back after a loss.

    Parameters
    ----------
    state : mapping of str to object
        Models, optimisers, loaders, generators (`holdfast.ft.rng`), whatever has ``state_dict`` and
        ``load_state_dict``, tensors and plain values; the same names on all ranks. DTensors are
        saved by shards, plain tensors of models and optimisers once for all ranks.
    code : tuple of (int, int), optional
        k and m: each group of k + m hosts stands the loss of any m of them, for m / k of a state's
        memory more. None: the loss of a keeper loses its part.
    flush : str
        Where states are written to by the keepers, behind the training: ``file:///folder`` or what
        fsspec knows. A job that ends, well or not, writes its newest one.
    flush_every : int
        Likewise after so many steps; 0: only at the end. Costs memory for a third snapshot.
    every : int
        `steps` takes a snapshot after so many steps.
    patience : float
        Seconds for which training waits for a keeper at most; then it goes on, and the snapshot is
        given up.
    keep_for : float
        Seconds for which a keeper without a trainer keeps its snapshots.
    job : str
        By which a later life finds them. Default: HOLDFAST_JOB, or what the launcher calls the job.

    Raises
    ------
    ConfigError
        A ValueError that names the bad value, what is accepted, and what to do.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        *,
        code: tuple[int, int] | None = None,
        flush: str = "",
        flush_every: int = 0,
        every: int = 1,
        patience: float = 30.0,
        keep_for: float = 1800.0,
        job: str = "",
    ) -> None:
        require(flush_every >= 0, "flush_every", flush_every, "steps, 0 and more")
        require(bool(flush) or not flush_every, "flush_every", flush_every, "0 without flush")
        require(every >= 1, "every", every, "1 and more")
        require(patience > 0, "patience", patience, "seconds above 0")
        require(keep_for > 0, "keep_for", keep_for, "seconds above 0")
        self._state, self._every, self._code = state, every, code
        self._flush, self._flush_every = absolute(flush), flush_every
        self._patience, self._keep_for = patience, keep_for
        self._job = job or _job.job_name()
        self._link: KeeperLink | None = None
        self._reads = self._has_some = self._is_late = False
        self._reserved = Reserved(self._flush, flush_every)
        self._capture: Capture | None = None  # of the latest snapshot
        self._has_taken = False
        self._replicas: dict[str, Replica] | None = None
        self._inbox = Inbox()
        self._packed: Packed | None = None  # until the keeper has read it
        self._taken: int | None = None  # until it is known what became of it
        self._is_between = False  # no optimizer has done a step since
        self._owed: int | None = None  # given up, and still not known
        self._hooks: list[Any] = []
        self._standing = Standing("nothing has been taken yet")
        self.step = 0
        """The step that the state is of: that of the snapshot that was brought back, or 0."""

    @property
    def committed(self) -> int:
        """Newest step that all ranks' keepers have; -1: there is none."""
        return self._standing.committed

    @property
    def unprotected(self) -> str:
        """Why a loss would cost more than the newest step; empty: it would not."""
        return self._standing.unprotected

    @property
    def waited_s(self) -> float:
        """Seconds that training has waited for its keeper, in all."""
        return self._standing.waited_s

    # ---- begin and end ---------------------------------------------------------------------------

    def __enter__(self) -> Snapshots:
        """Find the keepers, and bring back the newest state that all of them have; collective."""
        self._members = who = members()
        self._meeting = Meeting(self._job, who, self._code, self._keep_for)
        try:
            together.until_all_have(self._begin)
        except BaseException:
            self._leave(self._has_some)
            raise
        self._hooks = [
            optimizer.register_step_pre_hook(lambda *_: self._before_step())
            for optimizer in optimizers(self._state)
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the keepers, unless an exception passes: then they keep what they have."""
        for hook in self._hooks:
            hook.remove()
        with contextlib.suppress(HoldfastError):
            if error is None:
                self.fence()
                self._settle()
                self._meeting.release()
            elif isinstance(error, HoldfastError) or came_through_torch(error):
                self.fence()
                self._offer()
        self._leave(error is not None)
        self._hooks = []

    def _leave(self, is_of_use: bool) -> None:
        """Go from the keepers; this rank's ends if what it has is of no use any more."""
        self._standing.end()
        self._meeting.leave()
        self._inbox.forget()
        link, self._link = self._link, None
        if link is not None:
            if not is_of_use:
                link.send(Message("end"))
            link.close()

    def steps(self, count: int) -> Iterator[int]:
        """Yield the steps that are still to be done, and take snapshots in between.

        Parameters
        ----------
        count : int
            Steps of the whole run.

        Returns
        -------
        iterator of int
            From 0 on, or from after the state that was brought back.
        """
        for step in range(self.step, count):
            yield step
            self.step = step + 1
            if self.step % self._every == 0 or self.step == count:
                self.take(self.step)

    @property
    def keeper(self) -> int:
        """The process of this rank's keeper; 0: there is none."""
        return 0 if self._link is None else self._link.process

    def _begin(self) -> None:
        who = self._members
        self._leave(True)  # of a try before this one
        link, welcome = self._meeting.find()
        self._link = link
        self._reserved.none()
        self._reads, self._has_some = welcome.fields["reads"], bool(welcome.fields["snapshots"])
        self._standing.begin(welcome.fields["counts"])
        self._meet_states()
        # Whoever has a keeper's need not read what is in files.
        is_stored = is_any_stored(self._flush, self._job, who)
        with contextlib.suppress(SystemFailure, ProtocolError):  # it is gone: all hear of it
            self._reserve_first(int(welcome.fields["capacity"]))
        met = self._meeting.meet(link, is_stored)
        if met.fields["step"] >= 0:
            self.step = bring_back(met, link, self._state, who)
            source = str(met.fields["source"])
            self._standing.restored(self.step, _SOURCES.get(source, "keeper"))
        else:
            found = bring_back_flushed(self._flush, self._job, met, self._state, who)
            if found is not None:
                self.step = found
                self._standing.restored(found, "storage")
        self._meeting.settle(link)

    def _meet_states(self) -> None:
        """Learn which plain tensors all ranks have alike: those are saved once; collective."""
        told = self._members.tell(kinds_of(flatten(self._state)))
        self._replicas = replicas_of(told, self._members.rank)
        self._capture = None

    def _reserve_first(self, there: int) -> None:
        """Reserve what a snapshot will have, with what optimisers have not made yet; collective."""
        assert self._link is not None
        nbytes, code = self._captured().body_bytes + to_come(self._state), self._meeting.code
        refuse_too_much(self._members, with_slack(nbytes), there, code, self._flush_every)
        self._reserved.make(self._link, code, nbytes)

    # ---- a snapshot ------------------------------------------------------------------------------

    @torch.no_grad()
    def take(self, step: int) -> None:
        """Take a snapshot of the state as it is now; collective, but waits for nobody's training.

        Returns when it is known what became of the one before, and what forward may change has been
        copied. Where that one does not count, `unprotected` and a warning say why.

        Parameters
        ----------
        step : int
            Steps that the state has done; rises from call to call, the same on all ranks.

        Raises
        ------
        ConfigError
            For a state that cannot be saved, or has become larger than this host's memory.
        """
        self.fence()
        self._settle()
        with self._standing.waiting():
            if not self._has_taken:
                # By now optimisers have made their state.
                self._meet_states()
                self._has_taken = True
            try:
                self._send(step)
            except (ProtocolError, SystemFailure, Timeout) as error:
                # Of a keeper that was lost a moment ago, too, or is about to be.
                self._standing.lose(str(error))

    def fence(self) -> None:
        """Wait until the keeper has read the state; optimisers' steps do it by themselves."""
        packed, self._packed = self._packed, None
        if packed is None or self._link is None:
            return
        with self._standing.waiting():
            error = ""
            try:
                if self._link.poll("captured", self._taken) is None:
                    self._link.send(Message("hurry"))
                    self._link.wait("captured", self._patience, self._taken)
                self._inbox.is_read = True
                error = packed.problem()
            except Timeout as failure:
                error, self._owed = str(failure), self._taken
            except HoldfastError as failure:
                error = str(failure)
            with contextlib.suppress(HoldfastError):
                self._link.send(Message("fenced", {"step": self._taken, "error": error}))

    def _before_step(self) -> None:
        self.fence()
        self._is_between = False

    def _offer(self) -> None:
        """After a loss: give what replicas have, unless it has changed since the last snapshot."""
        if self._link is None or self._taken is None or not self._is_between or not self._hooks:
            return
        told = (self._job, self._taken, self._meeting.life)
        found = offer(self._state, self._members, self._replicas, told)
        if found is not None:
            message, region = found
            self._link.send(message)
            region.close()

    def _captured(self) -> Capture:
        if self._capture is None:
            who = self._members
            self._capture = Capture(self._state, who.rank, who.size, self._replicas)
        else:
            self._capture = self._capture.renewed(self._state)
        return self._capture

    def _send(self, step: int) -> None:
        if self._stands_still():
            self._standing.lose(f"this rank's keeper stands still since step {self._owed}")
            return
        capture = self._captured()
        if self._link is None or self._link.is_gone:
            self._find_another(capture.body_bytes)
        assert self._link is not None
        if self._is_late and self._link.poll("met") is None:
            why = "this rank's keeper was lost, and the next one is not in yet"
            if (failed := self._link.poll("failed")) is not None:
                why = f"{why}: {failed.fields['error']}"
                self._meeting.meet_late(self._link)
            self._standing.lose(why)
            return
        self._is_late = False
        self._reserved.make(self._link, self._meeting.code, capture.body_bytes)
        head = capture.head(self._job, step, self._meeting.life)
        packed = self._inbox.pack(capture, head, self._reads and bool(self._hooks))
        self._link.send(message_of(packed, head), _HAND_OVER_S)
        self._taken, self._packed, self._is_between = step, packed, True
        self._standing.taken(step)

    def _settle(self) -> None:
        """Learn what became of the latest snapshot."""
        step, self._taken = self._taken, None
        if step is None or self._link is None:
            return
        with self._standing.waiting():
            try:
                told = self._link.poll("committed", step)
                if told is None:
                    self._link.send(Message("hurry"))
                    # Whoever has waited for its reading in vain waits no more.
                    if self._owed == step:
                        raise Timeout(f"the keeper has not read it within {self._patience:g} s")
                    told = self._link.wait("committed", self._patience, step)
            except HoldfastError as error:
                self._owed = step
                self._standing.lose(str(error))
                return
        self._hear(step, told)

    def _hear(self, step: int, told: Message) -> None:
        """Take note of what became of a snapshot."""
        assert self._link is not None
        self._owed = None
        if told.fields["committed"]:
            self._standing.commit(step, told.fields["counts"])
            self._meeting.release()
            return
        self._standing.lose(str(told.fields["why"]), told.fields["counts"])

    def _stands_still(self) -> bool:
        """Whether the keeper has not yet said what became of a snapshot that was given up."""
        step = self._owed
        if step is None or self._link is None or self._link.is_gone:
            self._owed = None
            return False
        told = self._link.poll("committed", step)
        if told is None:
            return True
        self._link.poll("captured", step)
        self._hear(step, told)
        return False

    def _find_another(self, nbytes: int) -> None:
        """Have a keeper again, after this rank's was lost; it comes in at the others' next ones."""
        if self._link is not None:
            self._link.close()
        self._link = None
        try:
            self._link, welcome = self._meeting.another(self._patience)
            self._is_late = True
            self._reserved.none()
            self._reads = bool(welcome.fields["reads"])
            self._standing.begin(welcome.fields["counts"])
            self._reserved.make(self._link, self._meeting.code, nbytes)
        except ConfigError as error:
            raise SystemFailure(str(error)) from None
        self._meeting.meet_late(self._link)
