"""A member's stand-in: when its computation is late by more than a grace, and who acts then.

A thread of the member's own process waits until the member is due at the next exchange, by what the
fastest member has told of its speed, and for the grace; then it does what the trainer says. It goes
by what this process knows, and nobody agrees on anything: a member may begin an exchange with
weight 0 at any time, and begins the same ones in the same order, whichever thread does.
Why: docs/decisions/0183-a-late-member-has-a-stand-in.md
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator

import torch

from holdfast.compress.options import require
from holdfast.ft.outer.late import Meeting
from holdfast.ft.outer.pace import Pace
from holdfast.ft.outer.saved import Saved
from holdfast.ft.outer.turn import Turn

# How long the thread waits at a time where nothing is due, and how long it is waited for at its
# end: it may be inside an exchange, which has a limit of its own.
_LOOK_S, _END_S = 60.0, 2.0


class StandIn:
    """Of one member; its thread begins with the first step that is expected.

    Parameters
    ----------
    grace_s : float
        Seconds that a member may be late.
    clock : callable
        Returns seconds that go on.

    Raises
    ------
    ConfigError
        For another grace than a number of seconds.
    """

    def __init__(self, grace_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        is_number = isinstance(grace_s, int | float) and not isinstance(grace_s, bool)
        fits = is_number and math.isfinite(grace_s) and grace_s >= 0
        accepted = "seconds, 0 and more, or None, with which late members are waited for"
        require(fits, "grace_s", grace_s, accepted)
        self.grace_s = float(grace_s)
        self._clock = clock
        self._lock = threading.RLock()
        self._wake = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None
        self._is_open = True
        # A forked process has no such thread, and perhaps a lock that nobody gives back.
        self._pid = os.getpid()
        # When the member's round began, waits left out, and seconds after which the fastest one is
        # at the next exchange; None: nothing is due.
        self._begun = clock()
        self._due_s: float | None = None
        self._paused_at: float | None = None
        self._error: Exception | None = None
        self.has_acted = False
        """Whether it has done something since the member's latest step."""

    # ---- the member ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def kept_away(self) -> Iterator[float]:
        """Have nothing done meanwhile, nor afterwards until `expect`.

        Gives the seconds until it was so, and those since `pause`.
        """
        asked = self._clock()
        with self._lock:
            self._due_s = None
            paused_s = 0.0 if self._paused_at is None else asked - self._paused_at
            self._paused_at = None
            self._begun += paused_s
            yield self._clock() - asked + paused_s

    @contextlib.contextmanager
    def passing(self, ends_round: bool) -> Iterator[None]:
        """Count no time in which rows are passed as computation.

        Parameters
        ----------
        ends_round : bool
            Whether the next round begins with it.
        """
        begun = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            self._begun = now if ends_round else self._begun + now - begun

    def expect(self, due_s: float | None, member: StoodIn) -> None:
        """Go by this from now on; the lock is held.

        Parameters
        ----------
        due_s : float or None
            Seconds of computation since the round began, after which the member is due.
        member : object
            Who is expected; only referred to.
        """
        self._due_s = due_s
        if due_s is None or not self._is_open:
            return
        if self._thread is None:
            arguments = (self, weakref.ref(member))
            self._thread = threading.Thread(
                target=_watch, args=arguments, name="holdfast-stand-in", daemon=True
            )
            self._thread.start()
        self._wake.notify_all()

    def pause(self) -> None:
        """Count no time as computation until the member is here again."""
        self._paused_at = self._clock()

    def comes_back(self) -> Exception | None:
        """Say that the member is here again; return what has failed meanwhile."""
        error, self._error = self._error, None
        self.has_acted = False
        return error

    # ---- the thread ------------------------------------------------------------------------------

    @property
    def late_s(self) -> float:
        """By how much the member is late now; 0 where nothing is due."""
        return 0.0 if self._due_s is None else max(0.0, self._clock() - self._begun - self._due_s)

    @property
    def left_s(self) -> float | None:
        """Seconds until something is to be done; None: nothing is due."""
        if self._due_s is None:
            return None
        # Who is late in one round has no grace in the next.
        grace = 0.0 if self.has_acted else self.grace_s
        return self._begun + self._due_s + grace - self._clock()

    def is_due(self) -> bool:
        """Wait until something is to be done; false when it is closed."""
        with self._wake:
            while self._is_open:
                left = self.left_s
                if left is not None and left <= 0:
                    return True
                self._wake.wait(_LOOK_S if left is None else min(left, _LOOK_S))
        return False

    def act(self, what: Callable[[], None]) -> None:
        """Do something, if it is due still; what fails is told to the member."""
        with self._lock:
            left = self.left_s
            if left is None or left > 0:
                return
            try:
                what()
            except Exception as error:
                self._error = error
                self.has_acted = True
                self._due_s = None

    def close(self) -> None:
        """End the thread; any thread may call it, and more than once."""
        self._is_open = False
        if os.getpid() != self._pid or self._thread is None:
            return
        if self._lock.acquire(timeout=_END_S):
            try:
                self._wake.notify_all()
            finally:
                self._lock.release()
        if self._thread is not threading.current_thread():
            self._thread.join(_END_S)


def _watch(stand_in: StandIn, whose: weakref.ref[StoodIn]) -> None:
    while stand_in.is_due():
        member = whose()
        if member is None:
            return
        stand_in.act(member._stand_in_now)
        del member


class StoodIn(Saved):
    """What a trainer has for its stand-in, if it has one."""

    _stand_in: StandIn | None
    _turn: Turn
    _pace: Pace
    # Of a member that was late: the row at which the others have waited for all by themselves.
    _waited_at: int | None = None
    # Whether the others expect it: it has made a step, or has come in.
    _is_expected = False

    @abstractmethod
    def _pass_row(self, row: int) -> None:
        """Do what the table says after a row."""

    @property
    def _was_late(self) -> bool:
        return self._stand_in is not None and self._stand_in.has_acted

    @contextlib.contextmanager
    def _by_member(self) -> Iterator[None]:
        """Keep the stand-in away while the member itself does something."""
        if self._stand_in is None:
            yield
            return
        with self._stand_in.kept_away() as waited:
            self._pace.waited(waited)
            yield

    def _passing(self, ends_round: bool) -> contextlib.AbstractContextManager[None]:
        own = self._stand_in
        return contextlib.nullcontext() if own is None else own.passing(ends_round)

    def _expect(self) -> None:
        if self._stand_in is not None:
            self._is_expected = True
            # Where the others wait for all by themselves, it is to do so next.
            waits = self._waited_at == self.steps
            due_s = None if waits else self._turn.due_s(self._next_begin())
            self._stand_in.expect(due_s, self)

    def _next_begin(self) -> int:
        """Return the next row of the round in which an exchange begins."""
        place = self.steps % self.rounds.inner_steps
        begins = (event.step for event in self.rounds.events if event.act == "begin")
        return next(step for step in begins if step > place)

    @torch.no_grad()
    def _stand_in_now(self) -> None:
        """Pass the rows up to the next exchange, and begin it, for a member that is late."""
        own = self._stand_in
        assert own is not None
        begin = self._next_begin()
        meeting = Meeting(self._seat.exchange, self._flats[0].device, own.late_s)
        last = self.steps + begin - self.steps % self.rounds.inner_steps
        own.has_acted = True
        if (waiting := meeting.wait().row) is None:
            self._meeting = meeting
        else:
            # The others are no further, and wait for the member itself.
            last, self._waited_at = waiting, waiting
        ends_round = last % self.rounds.inner_steps == 0 and waiting is None
        with self._absence.on(), own.passing(ends_round):
            while self.steps < last:
                self.shared["steps"][0] += 1
                self._pass_row((self.steps - 1) % self.rounds.inner_steps + 1)
        own.expect(self._turn.due_s(self._next_begin()) if waiting is None else None, self)

    def _come_back(self) -> None:
        """Be where the others are, and raise what has failed meanwhile."""
        assert self._stand_in is not None
        self._catch_up()
        self._turn.go_to(self.steps)
        self._meeting = None
        self._pace.goes_on()
        if (error := self._stand_in.comes_back()) is not None:
            raise error

    @contextlib.contextmanager
    def _by_hand(self, is_back: bool = True) -> Iterator[None]:
        own = self._stand_in
        if own is None:
            yield
            return
        with self._by_member(), own.passing(False):
            if own.has_acted and is_back:
                self._come_back()
            own.comes_back()
            yield
            own.pause()

    def _wait_for_all(self) -> None:
        """Have the stand-in of a member that is late hear that all wait here; collective."""
        if self._stand_in is None or not self._is_expected:
            return
        if self._waited_at != self.steps:
            Meeting(self._seat.exchange, self._flats[0].device, row=self.steps).wait()
        self._waited_at = None

    def pause(self) -> None:
        """Have nobody stand in for this member until its next `step`, and wait for it instead.

        Before an evaluation, or what else takes long between two steps; on all members at the same
        place. `advance`, `finish` and `state_dict` do so themselves. Without `grace_s` nothing.
        """
        with self._by_hand():
            pass
