"""One life of a job's snapshots: its trainers, their keepers, and those that nobody has any more.

A keeper whose rank has no trainer now is a **guest**: it is found by a trainer of its host, gives
what it has when the state is brought back, and keeps it until the next snapshot is committed. So a
job goes on in any number of ranks.
"""

from __future__ import annotations

import contextlib
import socket
import uuid
import warnings
from collections.abc import Iterable
from typing import Any

from holdfast import _core, _job
from holdfast.errors import HoldfastError
from holdfast.ft.state import together
from holdfast.ft.state.keeper.address import Address
from holdfast.ft.state.keeper.link import KeeperLink, Search
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.members import Members

# Keepers meet within that, and so much later all of them have settled.
_MEETING_S = 120.0
_GUEST_S = 10.0


class Meeting:
    """Of one trainer.

    Parameters
    ----------
    job : str
        Whose keepers.
    who : Members
        All trainers.
    code : tuple of (int, int), optional
        As for `Snapshots`.
    keep_for : float
        Seconds for which a keeper without a trainer stays.
    """

    def __init__(
        self, job: str, who: Members, code: tuple[int, int] | None, keep_for: float
    ) -> None:
        self._job, self._who, self._wanted = job, who, code
        address = Address(job, _job.host_name(), who.seat)
        self._search = Search(address, who.store, keep_for)
        self.life = 0
        """The epoch of what is taken from now on."""
        self.ranks, self.parity = [who.rank], 0
        """This rank's code group."""
        self._name, self._total = "", who.size
        self._guests: list[KeeperLink] = []
        self._first = who.size  # of this trainer's guests, among the keepers

    @property
    def code(self) -> tuple[int, int]:
        """Parts of data and of parity of this rank's code group."""
        return len(self.ranks) - self.parity, self.parity

    def find(self) -> tuple[KeeperLink, Message]:
        """Find this rank's keeper and, where ranks are gone, theirs; collective.

        Returns
        -------
        tuple of KeeperLink and Message
            And its welcome.
        """
        link, welcome = self._search.find()
        try:
            self._find_others(welcome)
        except BaseException:
            link.close()
            raise
        return link, welcome

    def _find_others(self, welcome: Message) -> None:
        who = self._who
        here = (_job.host_name(), socket.gethostname())
        ranks, epoch = int(welcome.fields["ranks"]), int(welcome.fields["epoch"])
        mine = (str(uuid.uuid4()), epoch, _job.domain_name(), ranks, here, who.seat)
        told = who.tell(mine)
        self.life = 1 + max(one[1] for one in told)
        self._name = f"{self._job}/{told[0][0]}"
        is_fewer = max(who.world, *(one[3] for one in told)) > who.size
        self._find_group([one[2] for one in told], is_fewer)
        seats = max(who.size, *(max(one[3], 1 + one[5]) for one in told))
        on_host = {one[5] for one in told if one[4] == here}
        is_first = who.rank == min(rank for rank, one in enumerate(told) if one[4] == here)
        self._guests = self._found(set(range(seats)) - on_host) if is_first else []
        counts = who.tell(len(self._guests))
        self._first = who.size + sum(counts[: who.rank])
        self._total = who.size + sum(counts)

    def another(self, within_s: float) -> tuple[KeeperLink, Message]:
        """Find another keeper, in the place of one that was lost; come in with `meet_late`."""
        self._total = self._who.size
        return self._search.find(within_s)

    def meet(self, link: KeeperLink, stored: bool) -> Message:
        """Have all keepers meet, and return what they have; collective.

        Raises
        ------
        CutOff
            Some keeper was lost meanwhile; on all ranks.
        """
        with contextlib.suppress(HoldfastError):  # one is gone: all hear of it
            for number, guest in enumerate(self._guests):
                at = self._first + number
                fields = {"rank": at, "ranks": [at], "parity": 0, "stored": int(stored)}
                guest.send(Message("attend", {**self._fields(), **fields}))
            link.send(Message("meet", {**self._fields(), "stored": int(stored)}))
        return together.wait(link, "met", _MEETING_S, self._who)

    def meet_late(self, link: KeeperLink) -> None:
        """Have a keeper come in that is in the place of a lost one; it says when it has."""
        link.send(Message("meet", {**self._fields(), "late": 1}))

    def settle(self, link: KeeperLink) -> None:
        """Have the trainers' keepers be a group of their own, after all is brought back."""
        if self._total > self._who.size:
            with contextlib.suppress(HoldfastError):
                link.send(Message("settle", self._fields()))
            together.wait(link, "settled", _MEETING_S, self._who)

    def release(self) -> None:
        """End the keepers of ranks that are gone: a newer state than theirs is committed."""
        for guest in self._guests:
            with contextlib.suppress(HoldfastError):
                guest.send(Message("end"))
        self.leave()

    def leave(self) -> None:
        """Leave the keepers of ranks that are gone, with what they have."""
        for guest in self._guests:
            guest.close()
        self._guests = []

    def _find_group(self, domains: list[str], is_fewer: bool) -> None:
        """Find who guards this rank's part; where ranks are gone, by a code for those that stay."""
        rank, code, hosts = self._who.rank, self._wanted, len(set(domains))
        if code is None:
            return
        less = ""
        if is_fewer and hosts < sum(code):
            text = f"code {code} has {hosts} hosts now"
            if hosts <= code[1]:
                self._warn(f"{text}: it guards nothing, and a lost host takes its part along")
                return
            code = _core.code_for_hosts(hosts, *code)
            less = f"{text}, and is {code}"
        groups, said = _core.code_groups(domains, *code)
        self._warn("; ".join(text for text in (less, said) if text))
        self.ranks, self.parity = next(one for one in groups if rank in one[0])

    def _warn(self, text: str) -> None:
        if text and self._who.rank == 0:
            warnings.warn(text, RuntimeWarning, stacklevel=6)

    def _found(self, seats: Iterable[int]) -> list[KeeperLink]:
        """Return the keepers of this host that have a snapshot and no trainer."""
        found = []
        for seat in sorted(seats):
            with contextlib.suppress(HoldfastError):
                connection = Address(self._job, _job.host_name(), seat).connect(_GUEST_S)
                if connection is None:
                    continue
                connection.settimeout(None)
                link = KeeperLink(connection, self._who.store())
                if _has_snapshot(link):
                    found.append(link)
                else:
                    link.close()
        return found

    def _fields(self) -> dict[str, Any]:
        return {
            "name": self._name,
            "rank": self._who.rank,
            "size": self._who.size,
            "total": self._total,
            "timeout_s": int(_MEETING_S),
            "late": 0,
            "stored": 0,
            "ranks": self.ranks,
            "parity": self.parity,
        }


def _has_snapshot(guest: KeeperLink) -> bool:
    """Greet a keeper; one that has nothing is ended, one that has a trainer is left alone."""
    try:
        welcome = guest.hello(_GUEST_S)
    except HoldfastError:
        return False
    if any(one["whole"] or one["left"] for one in welcome.fields["snapshots"]):
        return True
    guest.send(Message("end"))
    return False
