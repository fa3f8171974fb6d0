"""A rank's part in a group that may lose and admit ranks: who is there, and how it goes on."""

from __future__ import annotations

from holdfast import _core
from holdfast.comm.outcome import Outcome, View


class Membership:
    """What every group knows about its ranks.

    Parameters
    ----------
    native : _core.Communicator
        The native communicator.
    """

    def __init__(self, native: _core.Communicator) -> None:
        self._native = native
        self._rank = native.rank
        self._size = native.size
        self._last: _core.Work | None = None
        self._label = f"group {native.name}, rank {self._rank} of {self._size}"

    @property
    def rank(self) -> int:
        """Number of this process, 0 to size - 1."""
        return self._rank

    @property
    def size(self) -> int:
        """Number of ranks, vacant ones included."""
        return self._size

    @property
    def epoch(self) -> int:
        """Number of the view."""
        return self._native.epoch

    @property
    def name(self) -> str:
        """Name of the group."""
        return self._native.name

    @property
    def live_ranks(self) -> tuple[int, ...]:
        """Ranks that have a member in the current view."""
        return tuple(self._native.live_ranks)

    @property
    def outcome(self) -> Outcome | None:
        """What the last blocking collective's result is made of; None before the first."""
        return None if self._last is None else Outcome(*self._last.outcome)

    @property
    def transports(self) -> tuple[str, ...]:
        """What carries data to each rank: ``"shm"``, ``"tcp"``, or ``"self"``."""
        return tuple(self._native.transports)

    def advance(self, timeout: float | None = None) -> View:
        """Pass a step boundary: all ranks come here, and ranks that wait to come in are admitted.

        No op may be under way. A newcomer's first call, before any op, returns at once: it has come
        in at this boundary. After a loss with ``on_peer_loss="raise"`` the group is usable
        again from here on.

        Parameters
        ----------
        timeout : float, optional
            Seconds; default: the group's.

        Returns
        -------
        View
            Its epoch, and the ranks that are there.

        Raises
        ------
        Timeout, NotMember
            When the members could not agree in time; when this process was voted out.
        """
        epoch, ranks = self._native.advance(0.0 if timeout is None else timeout)
        return View(epoch, ranks)
