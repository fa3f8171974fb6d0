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
"""Number of the body it is of, first byte, and bytes."""


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
        self.sent = 0
        """Bytes of bodies for others."""

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
        self,
        wanted: Sequence[Range],
        bodies: Mapping[int, memoryview],
        holders: Mapping[int, int],
        into: memoryview,
    ) -> Iterator[None]:
        """Fetch ranges of the others' bodies, in bounded pieces; yields between them.

        Parameters
        ----------
        wanted : sequence of tuple
            What this rank wants, of any body, its own included; may be nothing.
        bodies : mapping of int to memoryview
            What this rank has, by number.
        holders : mapping of int to int
            The rank that has a body, the same on all.
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
        gives = {rank: self._given(told["wanted"], bodies, holders) for rank, told in asked.items()}
        takes: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(self.size)}
        at = 0
        for number, _, count in wanted:
            takes[holders[number]].append((at, count))
            at += count
        # The same number on all ranks: of pieces between the two that have the most.
        most = 0
        for told in asked.values():
            sums = dict.fromkeys(range(self.size), 0)
            for number, _, count in told["wanted"]:
                sums[holders[number]] += count
            most = max(most, *sums.values())
        for first in range(0, most, _PIECE):
            sent = [_slice(gives.get(rank, []), first) for rank in range(self.size)]
            places = [_places(takes[rank], first) for rank in range(self.size)]
            counts = [sum(count for _, count in parts) for parts in places]
            self.sent += sum(len(part) for rank, part in enumerate(sent) if rank != self.rank)
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

    def _given(
        self, wanted: Sequence[Any], bodies: Mapping[int, memoryview], holders: Mapping[int, int]
    ) -> list[tuple[memoryview, int, int]]:
        """Return the ranges that a rank wants of this one's bodies."""
        found = []
        for number, at, count in wanted:
            if number not in holders:
                raise ProtocolError(f"bytes of body {number} are wanted, which nobody has")
            if holders[number] != self.rank:
                continue
            body = bodies.get(number, memoryview(b""))
            if not (0 <= at <= len(body) and 0 <= count <= len(body) - at):
                raise ProtocolError(f"bytes {at} to {at + count} are wanted of {len(body)}")
            found.append((body, int(at), int(count)))
        return found


def _cut(counts: Sequence[int], first: int) -> Iterator[tuple[int, int, int]]:
    """Yield what of a row of ranges lies in the piece that begins there: which, from, to."""
    done = 0
    for number, count in enumerate(counts):
        begin, end = max(done, first), min(done + count, first + _PIECE)
        if begin < end:
            yield number, begin - done, end - done
        done += count


def _places(ranges: Sequence[tuple[int, int]], first: int) -> list[tuple[int, int]]:
    cuts = _cut([count for _, count in ranges], first)
    return [(ranges[number][0] + begin, end - begin) for number, begin, end in cuts]


def _slice(ranges: Sequence[tuple[memoryview, int, int]], first: int) -> bytes:
    found = []
    for number, begin, end in _cut([count for _, _, count in ranges], first):
        body, at, _ = ranges[number]
        found.append(bytes(body[at + begin : at + end]))
    return b"".join(found)
