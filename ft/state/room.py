"""Whether the memory of hosts suffices for snapshots: said before anything is reserved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast import _job
from holdfast.errors import ConfigError
from holdfast.ft.state.inbox import optimizers
from holdfast.ft.state.keeper import memory
from holdfast.ft.state.keeper.link import KeeperLink
from holdfast.ft.state.keeper.slots import SLOTS, SLOTS_OF_FLUSHES
from holdfast.ft.state.keeper.wire import Message
from holdfast.ft.state.members import Members
from holdfast.ft.state.places import room

_ROOM = 1 << 20
# Of a message that a keeper answers at once.
_ANSWER_S = 60.0
# State that torch's optimisers make beside each parameter, in tensors of its size.
_SLOTS = {"SGD": 1, "Adagrad": 1, "Adam": 2, "AdamW": 2}


def with_slack(nbytes: int) -> int:
    """Return what is reserved for a state: the pickled rest grows a little now and then."""
    return nbytes + nbytes // 16 + _ROOM


def to_come(state: Mapping[str, Any]) -> int:
    """Return the bytes that optimisers have not made yet.

    Parameters
    ----------
    state : mapping of str to object
        Of a job.
    """
    found = 0
    for optimizer in optimizers(state):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter not in optimizer.state:
                    local = getattr(parameter, "_local_tensor", parameter)
                    found += _SLOTS.get(type(optimizer).__name__, 2) * local.nbytes
    return found


def refuse_too_much(
    who: Members, nbytes: int, there: int, code: tuple[int, int], flush_every: int
) -> None:
    """Refuse snapshots that the memory of a host has no room for; collective.

    Parameters
    ----------
    who : Members
        All trainers.
    nbytes : int
        Of a snapshot of this rank, with slack.
    there : int
        Bytes for one that its keeper has already.
    code : tuple of (int, int)
        Parts of data and of parity of this rank's group.
    flush_every : int
        Steps; 0: nothing is flushed while training goes on.

    Raises
    ------
    ConfigError
        On all ranks, with the bytes that are needed on the host, and those that can be had.
    """
    slots = SLOTS_OF_FLUSHES if flush_every else SLOTS
    needed = 0 if nbytes <= there else slots * sum(room(*code, nbytes))
    told = who.tell((memory.shared_by(), _job.host_name(), needed, memory.available()))
    hosts: dict[str, list[tuple[str, int, int]]] = {}
    for key, *one in told:
        hosts.setdefault(key, []).append((one[0], one[1], one[2]))
    for ranks in hosts.values():
        wanted, left = sum(one[1] for one in ranks), min(one[2] for one in ranks)
        if wanted > left:
            raise ConfigError(
                f"keepers need {wanted} bytes of memory for {slots} snapshots of {len(ranks)} "
                f"ranks on host {ranks[0][0] or 'localhost'!r}, and {left} can be had; accepted: "
                "what fits; take fewer ranks to a host, a code with less parity, part of the "
                "state, or flush_every=0"
            )


class Reserved:
    """The memory that a rank's keeper has reserved for its snapshots.

    Parameters
    ----------
    flush : str
        Where the keeper writes states to; empty: nowhere.
    flush_every : int
        Steps.
    """

    def __init__(self, flush: str, flush_every: int) -> None:
        self._flushing = {"flush": flush, "flush_every": flush_every}
        self._nbytes = 0

    def none(self) -> None:
        """Take note that the keeper is another one."""
        self._nbytes = 0

    def make(self, link: KeeperLink, code: tuple[int, int], nbytes: int) -> None:
        """Have room for a body of so many bytes.

        Parameters
        ----------
        link : KeeperLink
            To the keeper.
        code : tuple of (int, int)
            Parts of data and of parity of the rank's group.
        nbytes : int
            Of a snapshot of this rank.
        """
        if nbytes <= self._nbytes:
            return
        fields = {"data": code[0], "parity": code[1], **self._flushing}
        link.send(Message("reserve", {**fields, "nbytes": with_slack(nbytes)}))
        self._nbytes = int(link.wait("reserved", _ANSWER_S).fields["capacity"])
