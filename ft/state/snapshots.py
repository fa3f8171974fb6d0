"""`Snapshots`: a state that outlives the processes that train it.

`take` tells this rank's keeper where the state lies, and returns; the keeper reads it while forward
and backward leave it alone, and an optimiser's step waits until it has. All ranks take a snapshot
at the same step boundary, and it counts when all of their keepers have their parts, or not at all.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import torch

from holdfast import _job
from holdfast.compress.options import require
from holdfast.errors import HoldfastError, ProtocolError, SystemFailure, Timeout
from holdfast.ft.state import together
from holdfast.ft.state.bring_back import bring_back, bring_back_stored
from holdfast.ft.state.inbox import Packed, message_of, optimizers, pack
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.layout.capture import Capture
from holdfast.ft.state.layout.flatten import flatten
from holdfast.ft.state.layout.local import Replica, kinds_of, replicas_of
from holdfast.ft.state.meeting import Meeting
from holdfast.ft.state.members import members
from holdfast.ft.state.offering import offer
from holdfast.ft.state.stored import newest_stored

# Of a message that a keeper answers at once.
_ANSWER_S = 60.0
_ROOM = 1 << 20


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
        self._flush, self._flush_every = flush, flush_every
        self._patience, self._keep_for = patience, keep_for
        self._job = job or _job.job_name()
        self._link: KeeperLink | None = None
        self._reads = False
        self._is_late = False
        self._capacity = 0
        self._capture: Capture | None = None  # of the latest snapshot
        self._has_taken = False
        self._replicas: dict[str, Replica] | None = None
        self._packed: Packed | None = None  # until the keeper has read it
        self._taken: int | None = None  # until it is known what became of it
        self._is_between = False  # no optimizer has done a step since
        self._hooks: list[Any] = []
        self.step = 0
        """The step that the state is of: that of the snapshot that was brought back, or 0."""
        self.committed = -1
        """Newest step that all ranks' keepers have; -1: there is none."""
        self.unprotected = "nothing has been taken yet"
        """Why a loss would cost more than the newest step; empty: it would not."""
        self.waited_s = 0.0
        """Seconds that training has waited for the keeper in all, in `take` and before optimisers'
        steps."""

    # ---- begin and end ---------------------------------------------------------------------------

    def __enter__(self) -> Snapshots:
        """Find the keepers, and bring back the newest state that all of them have; collective."""
        self._members = who = members()
        self._meeting = Meeting(self._job, who, self._code, self._keep_for)
        try:
            together.until_all_have(self._begin)
        except BaseException:
            self._let_go()
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
        link, self._link = self._link, None
        if link is None:
            return
        ends = self._meeting.leave if error is not None else self._meeting.release
        with contextlib.suppress(HoldfastError):
            if error is None:
                self._link = link
                self.fence()
                self._settle()
                self._link = None
                link.send(Message("end"))
            elif isinstance(error, HoldfastError):
                self._link = link
                self.fence()
                self._link = None
                self._offer(link)
        ends()
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
        self._let_go()
        link, self._reads = self._meeting.find()
        self._link, self._capacity = link, 0
        self._meet_states()
        stored, refused = newest_stored(self._flush, self._job, who)
        with contextlib.suppress(SystemFailure, ProtocolError):  # it is gone: all hear of it
            self._reserve(self._expected_bytes())
        met = self._meeting.meet(link, bool(stored))
        error = met.fields.get("error", "")
        if not stored and (error or (refused and met.fields["step"] < 0)):
            flushed = (
                f"of what was flushed {'; '.join(refused)}" if refused else "nothing was flushed"
            )
            raise SystemFailure(
                f"the state of job {self._job!r} is lost: {error or 'keepers have nothing'}; "
                f"{flushed} (flush=); to begin anew end its keepers: holdfast state stop"
                + (", and give another folder" if refused else "")
            )
        if met.fields["step"] >= 0:
            self.step = bring_back(met, link, self._state, who)
            self.committed, self.unprotected = self.step, ""
        elif stored:
            self.step = bring_back_stored(stored, self._state, who)
            if who.rank == 0:
                warnings.warn(self._gone_back(met, error, refused), RuntimeWarning, stacklevel=4)
        self._meeting.settle(self._link)

    def _gone_back(self, met: Message, error: str, refused: list[str]) -> str:
        """Say that the state is an older one, of files."""
        lost = int(met.fields.get("reached", 0)) - self.step
        steps = f"{lost} steps are lost" if lost > 0 else "keepers know of no later step"
        why = "; ".join([error or "keepers have nothing", *refused])
        return f"the state is that of step {self.step}, from {self._flush}: {steps}; {why}"

    def _let_go(self) -> None:
        """Leave the keepers, or this process's next try would find a trainer there."""
        link, self._link = self._link, None
        if link is not None:
            link.close()
        self._meeting.leave()

    def _meet_states(self) -> None:
        """Learn which plain tensors all ranks have alike: those are saved once; collective."""
        told = self._members.tell(kinds_of(flatten(self._state)))
        self._replicas = replicas_of(told, self._members.rank)
        self._capture = None

    def _expected_bytes(self) -> int:
        """Return what a snapshot will have, with what optimisers have not made yet."""
        to_come = 0
        for optimizer in optimizers(self._state):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter not in optimizer.state:
                        local = getattr(parameter, "_local_tensor", parameter)
                        to_come += _SLOTS.get(type(optimizer).__name__, 2) * local.nbytes
        return self._captured().body_bytes + to_come

    def _reserve(self, nbytes: int) -> None:
        assert self._link is not None
        if nbytes <= self._capacity:
            return
        # The rest, which is pickled, grows a little now and then.
        ranks, parity = self._meeting.ranks, self._meeting.parity
        fields = {
            "data": len(ranks) - parity,
            "parity": parity,
            "flush": self._flush,
            "flush_every": self._flush_every,
        }
        self._link.send(Message("reserve", {**fields, "nbytes": nbytes + nbytes // 16 + _ROOM}))
        self._capacity = int(self._link.wait("reserved", _ANSWER_S).fields["capacity"])

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
        begun = time.monotonic()
        try:
            if not self._has_taken:
                # By now optimisers have made their state.
                self._meet_states()
                self._has_taken = True
            self._send(step)
        except (SystemFailure, Timeout) as error:
            self._lose(str(error))
        finally:
            self.waited_s += time.monotonic() - begun

    def fence(self) -> None:
        """Wait until the keeper has read the state; optimisers' steps do it by themselves."""
        packed, self._packed = self._packed, None
        if packed is None or self._link is None:
            return
        begun = time.monotonic()
        error = ""
        try:
            if self._link.poll("captured", self._taken) is None:
                self._link.send(Message("hurry"))
                self._link.wait("captured", self._patience, self._taken)
            if moved := packed.moved():
                error = (
                    f"tensor {moved[0]!r} was written between take() and the optimizer's step, "
                    f"{len(moved)} in all; leave parameters alone until then, or put what forward "
                    "changes into buffers"
                )
        except HoldfastError as failure:
            error = str(failure)
        with contextlib.suppress(HoldfastError):
            self._link.send(Message("fenced", {"step": self._taken, "error": error}))
        self.waited_s += time.monotonic() - begun

    def _before_step(self) -> None:
        self.fence()
        self._is_between = False

    def _offer(self, link: KeeperLink) -> None:
        """After a loss: give what replicas have, unless it has changed since the last snapshot."""
        if self._taken is None or not self._is_between or not self._hooks:
            return
        told = (self._job, self._taken, self._meeting.life)
        found = offer(self._state, self._members, self._replicas, told)
        if found is not None:
            message, region = found
            link.send(message)
            region.close()

    def _captured(self) -> Capture:
        if self._capture is None:
            who = self._members
            self._capture = Capture(self._state, who.rank, who.size, self._replicas)
        else:
            self._capture = self._capture.renewed(self._state)
        return self._capture

    def _send(self, step: int) -> None:
        capture = self._captured()
        if self._link is None or self._link.is_gone:
            self._find_another(capture.body_bytes)
        assert self._link is not None
        if self._is_late and self._link.poll("met") is None:
            self._lose("this rank's keeper was lost, and the next one is not in yet")
            return
        self._is_late = False
        self._reserve(capture.body_bytes)
        head = capture.head(self._job, step, self._meeting.life)
        packed = pack(capture, head.objects[0], self._reads and bool(self._hooks))
        try:
            self._link.send(message_of(packed, head))
        finally:
            if packed.inbox is not None:
                packed.inbox.close()
        self._taken, self._packed, self._is_between = step, packed, True

    def _settle(self) -> None:
        """Learn what became of the latest snapshot."""
        step, self._taken = self._taken, None
        if step is None or self._link is None:
            return
        begun = time.monotonic()
        try:
            told = self._link.poll("committed", step)
            if told is None:
                self._link.send(Message("hurry"))
                told = self._link.wait("committed", self._patience, step)
        except HoldfastError as error:
            self._lose(str(error))
        else:
            if told.fields["committed"]:
                self.committed, self.unprotected = step, ""
                self._meeting.release()
            else:
                self._lose(str(told.fields["why"]))
        finally:
            self.waited_s += time.monotonic() - begun

    def _lose(self, why: str) -> None:
        """Go on without protection, and say so, once for each reason."""
        if why != self.unprotected:
            have = "nothing" if self.committed < 0 else f"step {self.committed}"
            warnings.warn(
                f"the state is unprotected: {why}; keepers have {have}",
                RuntimeWarning,
                stacklevel=3,
            )
        self.unprotected = why

    def _find_another(self, nbytes: int) -> None:
        """Have a keeper again, after this rank's was lost; it comes in at the others' next ones."""
        if self._link is not None:
            self._link.close()
        self._link, self._reads = self._meeting.another()
        self._capacity, self._is_late = 0, True
        self._reserve(nbytes)
        self._meeting.meet_late(self._link)


# State that torch's optimisers make beside each parameter, in tensors of its size.
_SLOTS = {"SGD": 1, "Adagrad": 1, "Adam": 2, "AdamW": 2}
