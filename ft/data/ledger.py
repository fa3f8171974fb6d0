"""Which samples are free, leased to whom, and committed: a value that agreed events change.

No clock, no group, no tensor: all members that hear of the same events in the same order have the
same ledger. Samples are places in one stream, epoch after epoch; a ledger has ranges of places, so
it is as small for a trillion samples as for ten. What is neither free nor leased is committed.
Why: docs/decisions/0180-data-is-leased.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from holdfast.errors import ConfigError, ProtocolError

Range = tuple[int, int]
"""First place, and the one behind the last."""
Ranges = tuple[Range, ...]

# A ledger's words travel to newcomers, in a tensor of fixed size: 256 KiB, enough for a thousand
# members that hold a few ranges each.
MOST_WORDS = 1 << 15
_HEAD = 6


class Lease(NamedTuple):
    """What a member holds, in the order in which it trains on it."""

    ranges: Ranges
    """Of the stream."""
    taken: tuple[int, ...]
    """By fragment: how many from the first on are in a mean that has arrived."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Who holds what of the stream.

    Parameters
    ----------
    end : int
        The stream has the places 0 to `end` - 1.
    fragments : int
        Parts of a model whose means arrive each at its time: a sample is committed with the last.
    free : tuple of (int, int)
        What nobody holds, rising.
    leases : dict of int to Lease
        By rank.
    turn : int
        Number of the latest round at whose boundary all members were given more.
    """

    end: int
    fragments: int
    free: Ranges
    leases: Mapping[int, Lease]
    turn: int = -1

    # ---- what it says ----------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The lowest place that is not committed; `end` where there is none."""
        held = [begin for lease in self.leases.values() for begin, _ in lease.ranges]
        return min([begin for begin, _ in self.free] + held + [self.end])

    @property
    def left(self) -> int:
        """Places that are not committed."""
        held = sum(length(lease.ranges) for lease in self.leases.values())
        return length(self.free) + held

    @property
    def is_sound(self) -> bool:
        """Whether nothing is held twice, and everything is of the stream."""
        held = [each for lease in self.leases.values() for each in lease.ranges]
        whole = sorted([*self.free, *held])
        ends = [0, *(end for _, end in whole)]
        rising = all(end <= begin < after for end, (begin, after) in zip(ends, whole, strict=False))
        return rising and ends[-1] <= self.end

    # ---- agreed events ---------------------------------------------------------------------------

    def opened(self, end: int) -> Ledger:
        """Return it with a longer stream.

        Parameters
        ----------
        end : int
            Not below the present one.
        """
        return replace(self, end=end, free=merged([*self.free, (self.end, end)]))

    def arrived(
        self, fragment: int, counts: Mapping[int, int], dropped: Collection[int] = ()
    ) -> Ledger:
        """Return it after the mean of a fragment has arrived.

        Parameters
        ----------
        fragment : int
            Which one.
        counts : mapping of int to int
            Samples by rank since its last one, of all who were there; others that hold something
            are lost, and it is free again. Views tell of a loss sooner to some than to others.
        dropped : collection of int
            Ranks that have dropped what they did, in all fragments: so many samples of theirs are
            free again.
        """
        leases = {rank: lease for rank, lease in self.leases.items() if rank in counts}
        lost = self.leases.keys() - leases.keys()
        back = [*self.free, *(each for rank in lost for each in self.leases[rank].ranges)]
        for rank, count in sorted(counts.items()):
            if rank not in leases:
                continue
            ranges, taken = leases[rank]
            told = list(taken)
            told[fragment] = min(taken[fragment] + count, length(ranges))
            if rank in dropped:
                gone, rest = split(ranges, told[fragment])
                back += gone
                leases[rank] = Lease(rest, (0,) * self.fragments)
            else:
                done = min(told)
                rest = split(ranges, done)[1]
                leases[rank] = Lease(rest, tuple(each - done for each in told))
        return replace(self, free=merged(back), leases=leases)

    def leased(
        self, members: Iterable[int], joined: Collection[int], most: int, turn: int
    ) -> Ledger:
        """Return it after a step boundary: what the lost held is free, and members hold enough.

        Each turn fills all members once; who has come in is filled at once. Where less is free than
        they would take, those who hold least get it.

        Parameters
        ----------
        members : iterable of int
            Ranks that are there.
        joined : collection of int
            Of these, who has come in: whoever had the rank before is lost.
        most : int
            Places that a member holds.
        turn : int
            Number of the round.
        """
        stay = {rank: self.leases[rank] for rank in self.leases if rank not in joined}
        leases = {rank: stay.get(rank, Lease((), (0,) * self.fragments)) for rank in members}
        lost = [rank for rank in self.leases if rank not in stay or rank not in leases]
        back = [each for rank in lost for each in self.leases[rank].ranges]
        filled = sorted(leases if turn > self.turn else leases.keys() - stay.keys())
        free = merged([*self.free, *back])
        has = [length(leases[rank].ranges) for rank in filled]
        for rank, more in zip(filled, shares(has, length(free), most), strict=True):
            given, free = split(free, more)
            ranges = joined_up([*leases[rank].ranges, *given])
            leases[rank] = leases[rank]._replace(ranges=ranges)
        return replace(self, free=free, leases=leases, turn=max(turn, self.turn))

    # ---- as numbers ------------------------------------------------------------------------------

    def words(self) -> list[int]:
        """Return it as numbers, the first of which is a digest of the others.

        Raises
        ------
        ConfigError
            When it has more ranges than fit.
        """
        flat = [self.end, self.turn, self.fragments, len(self.free), len(self.leases)]
        flat += [place for each in self.free for place in each]
        for rank, (ranges, taken) in sorted(self.leases.items()):
            flat += [rank, len(ranges), *taken, *(place for each in ranges for place in each)]
        if 1 + len(flat) > MOST_WORDS:
            raise ConfigError(
                f"the ledger has {1 + len(flat)} numbers, of {len(self.leases)} members and "
                f"{len(self.free)} free ranges; accepted: {MOST_WORDS}; take a larger lease"
            )
        return [_digest(flat), *flat]


def begun(end: int, fragments: int) -> Ledger:
    """Return the ledger of a stream of which nothing is leased.

    Parameters
    ----------
    end : int
        Its length.
    fragments : int
        Of the model.
    """
    return Ledger(end, fragments, merged([(0, end)]), {})


def read(words: Sequence[int]) -> Ledger:
    """Return the ledger that `Ledger.words` has told; numbers behind it are ignored.

    Parameters
    ----------
    words : sequence of int
        They.

    Raises
    ------
    ProtocolError
        When it is none.
    """
    at = _HEAD
    try:
        digest, end, turn, fragments, free_count, lease_count = words[:_HEAD]
        if not (1 <= fragments < len(words) and 0 <= lease_count < len(words)):
            raise ValueError
        free, at = _ranges(words, at, free_count)
        leases: dict[int, Lease] = {}
        for _ in range(lease_count):
            rank, count = words[at : at + 2]
            taken = tuple(words[at + 2 : at + 2 + fragments])
            ranges, at = _ranges(words, at + 2 + fragments, count)
            leases[rank] = Lease(ranges, taken)
        found = Ledger(end, fragments, free, leases, turn)
        if found.words() == [digest, *words[1:at]] and found.is_sound:
            return found
    except (ValueError, OverflowError):
        pass
    raise ProtocolError(
        f"{len(words)} numbers are no ledger's; accepted: what a ledger of the same stream has said"
    )


def _ranges(words: Sequence[int], at: int, count: int) -> tuple[Ranges, int]:
    if not 0 <= count <= (len(words) - at) // 2:
        raise ValueError
    flat = words[at : at + 2 * count]
    return tuple(zip(flat[::2], flat[1::2], strict=True)), at + 2 * count


def _digest(words: Sequence[int]) -> int:
    packed = b"".join(word.to_bytes(8, "little", signed=True) for word in words)
    return int.from_bytes(hashlib.blake2b(packed, digest_size=8).digest(), "little") >> 1


# ---- ranges --------------------------------------------------------------------------------------


def length(ranges: Iterable[Range]) -> int:
    """Return how many places ranges have."""
    return sum(end - begin for begin, end in ranges)


def merged(ranges: Iterable[Range]) -> Ranges:
    """Return disjoint ranges rising, neighbours as one, without empty ones."""
    return joined_up(sorted(ranges))


def joined_up(ranges: Iterable[Range]) -> Ranges:
    """Return ranges in their order, those that go on where the one before ends as one with it."""
    found: list[Range] = []
    for begin, end in ranges:
        if begin == end:
            continue
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return tuple(found)


def split(ranges: Ranges, count: int) -> tuple[Ranges, Ranges]:
    """Return the first `count` places of ranges, and the rest."""
    head: list[Range] = []
    for number, (begin, end) in enumerate(ranges):
        if count < end - begin:
            cut = begin + count
            head += [(begin, cut)] * (count > 0)
            return tuple(head), ((cut, end), *ranges[number + 1 :])
        head.append((begin, end))
        count -= end - begin
    return tuple(head), ()


def shares(has: Sequence[int], free: int, most: int) -> list[int]:
    """Return how much more each member gets.

    Parameters
    ----------
    has : sequence of int
        What each holds.
    free : int
        What there is to give.
    most : int
        What a member holds in the end, if there is enough.
    """
    # The highest level to which all who are below it can be filled.
    low, high = 0, most
    while low < high:
        level = (low + high + 1) // 2
        enough = sum(max(0, level - each) for each in has) <= free
        low, high = (level, high) if enough else (low, level - 1)
    more = [max(0, low - each) for each in has]
    rest = free - sum(more)
    for number, each in enumerate(has):
        if low < most and each <= low and rest:
            more[number] += 1
            rest -= 1
    return more
