"""Waits for what all ranks' keepers are about, in step with the other trainers.

Keepers meet and exchange among themselves, and a trainer that waits for its own hears nothing of
another trainer, or another keeper, that is lost meanwhile. So trainers tell each other, every now
and then, how far they are: a lost one ends the wait of all in the same call, and what one keeper
cannot do is known to all.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import HoldfastError, SystemFailure
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.members import Members

_Result = TypeVar("_Result")
# Between two rounds in which trainers tell each other how far they are.
_LOOK_S = 0.25
# Each is cut off by another loss; a code stands fewer.
_MOST_MEETINGS = 8


class CutOff(HoldfastError):
    """A meeting of the keepers has failed on some rank, and the trainers are all there."""


def wait(link: KeeperLink, kind: str, timeout_s: float, who: Members) -> Message:
    """Wait until all ranks' keepers have said something; collective.

    Parameters
    ----------
    link : KeeperLink
        To this rank's.
    kind : str
        Of the message.
    timeout_s : float
        Seconds, in all.
    who : Members
        All trainers.

    Raises
    ------
    CutOff
        Some keeper could not, or is gone; on all ranks.
    PeerLost
        A trainer is lost; on all that live.
    """
    deadline = time.monotonic() + timeout_s
    found, error = None, ""
    while True:
        if found is None and not error:
            try:
                found = link.look(kind, _LOOK_S)
            except HoldfastError as failure:
                error = f"rank {who.rank}: {failure}"
            if found is None and time.monotonic() > deadline:
                error = error or f"rank {who.rank}: no {kind!r} within {timeout_s:g} s"
        told = who.tell((found is not None, error))
        if failures := [each for _, each in told if each]:
            raise CutOff(f"the keepers could not come together: {'; '.join(failures)}")
        if found is not None and all(has for has, _ in told):
            return found


def until_all_have(meeting: Callable[[], _Result]) -> _Result:
    """Do something with all keepers, again where it is cut off; collective.

    Parameters
    ----------
    meeting : callable
        Begins anew each time.

    Raises
    ------
    SystemFailure
        It was cut off too often.
    """
    reason = ""
    for _ in range(_MOST_MEETINGS):
        try:
            return meeting()
        except CutOff as error:
            reason = str(error)
    raise SystemFailure(f"{reason}; {_MOST_MEETINGS} times; holdfast state stop ends the keepers")
