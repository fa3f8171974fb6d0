"""What keepers do together: tell each other, agree, and exchange bytes.

All of it is collective over their group, in one order, and its outcome is the same on all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from holdfast.comm.group import Group
from holdfast.errors import ProtocolError

# Of one rank, in one exchange: heads of images, and what is wanted of them.
_MOST_TOLD = 1 << 28
# Between two ranks at a time.
_PIECE = 4 << 20

Range = tuple[int, int, int]
"""Rank whose body it is of, first byte, and bytes."""


class Told(NamedTuple):
    """What keepers have told each other.

    Parameters
    ----------
    by_rank : dict of int to bytes
        Of those that are there.
    missing : tuple of int
        Ranks whose keeper was lost, or has never been there.
    """

    by_rank: dict[int, bytes]
    missing: tuple[int, ...]


class Peers:
    """The keepers of a job.

    Parameters
    ----------
    group : Group
        Whose holes are zeros.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        self.rank, self.size = group.rank, group.size

    def tell(self, mine: bytes) -> Told:
        """Tell all others some bytes, of any number.

        Raises
        ------
        HoldfastError
            When the group has ended.
        """
        if len(mine) > _MOST_TOLD:
            raise ProtocolError(f"{len(mine)} bytes to tell; accepted: {_MOST_TOLD}")
        # One more than there are: a rank without a keeper has zeros.
        lengths = np.zeros(self.size, np.int64)
        self.group.all_gather(lengths, np.array([len(mine) + 1], np.int64))
        missing = set(self.group.outcome.missing if self.group.outcome else ())
        most = min(int(lengths.max()), _MOST_TOLD + 1)
        own = np.zeros(most, np.uint8)
        own[: len(mine)] = np.frombuffer(mine, np.uint8)
        rows = np.zeros((self.size, most), np.uint8)
        self.group.all_gather(rows.reshape(-1), own)
        missing |= set(self.group.outcome.missing if self.group.outcome else ())
        there = [rank for rank in range(self.size) if rank not in missing and lengths[rank]]
        found = {rank: rows[rank, : int(lengths[rank]) - 1].tobytes() for rank in there}
        return Told(found, tuple(sorted(set(range(self.size)) - set(there))))

    def tell_json(self, mine: Mapping[str, Any]) -> tuple[dict[int, Any], tuple[int, ...]]:
        """Tell all others fields of JSON; return everybody's, and who is missing."""
        told = self.tell(json.dumps(mine).encode())
        return {rank: json.loads(text) for rank, text in told.by_rank.items()}, told.missing

    def exchange(
        self, wanted: Sequence[Range], body: memoryview, into: memoryview
    ) -> Iterator[None]:
        """Fetch ranges of the others' bodies, in bounded pieces; yields between them.

        Parameters
        ----------
        wanted : sequence of tuple
            What this rank wants, of any rank, its own included; may be nothing.
        body : memoryview
            What this rank has.
        into : memoryview
            Gets the ranges one after the other.

        Raises
        ------
        PeerLost
            Some rank has it no more.
        ProtocolError
            Somebody wants what is not there.
        """
        asked, _ = self.tell_json({"wanted": [list(one) for one in wanted]})
        gives = {
            rank: _ranges(told["wanted"], self.rank, len(body)) for rank, told in asked.items()
        }
        takes: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(self.size)}
        at = 0
        for source, _, count in wanted:
            takes[source].append((at, count))
            at += count
        # The same number on all ranks: of pieces between the two that have the most.
        most = max(
            (
                sum(count for source, _, count in told["wanted"] if source == rank)
                for told in asked.values()
                for rank in range(self.size)
            ),
            default=0,
        )
        for first in range(0, most, _PIECE):
            sent = [_slice(body, gives.get(rank, []), first) for rank in range(self.size)]
            places = [_places(takes[rank], first) for rank in range(self.size)]
            counts = [sum(count for _, count in parts) for parts in places]
            output = np.empty(sum(counts), np.uint8)
            self.group.all_to_all(
                output,
                np.frombuffer(b"".join(sent), np.uint8),
                counts,
                [len(part) for part in sent],
                on_hole="raise",
            )
            done = 0
            for place, count in (part for parts in places for part in parts):
                into[place : place + count] = output[done : done + count].data
                done += count
            yield


def _ranges(wanted: Sequence[Any], own: int, nbytes: int) -> list[tuple[int, int]]:
    """Return the ranges that a rank wants of this one's body."""
    found = [(int(at), int(count)) for source, at, count in wanted if int(source) == own]
    for at, count in found:
        if not (0 <= at <= nbytes and 0 <= count <= nbytes - at):
            raise ProtocolError(f"bytes {at} to {at + count} are wanted of a body of {nbytes}")
    return found


def _places(ranges: Sequence[tuple[int, int]], first: int) -> list[tuple[int, int]]:
    """Return what of a row of ranges lies in the piece that begins there."""
    found, done = [], 0
    for at, count in ranges:
        begin, end = max(done, first), min(done + count, first + _PIECE)
        if begin < end:
            found.append((at + begin - done, end - begin))
        done += count
    return found


def _slice(body: memoryview, ranges: Sequence[tuple[int, int]], first: int) -> bytes:
    return b"".join(bytes(body[at : at + count]) for at, count in _places(ranges, first))
