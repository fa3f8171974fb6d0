"""Shared state: tensors that become bit-identical on all ranks.

Every rank hashes its state chunk by chunk (XXH3, 128 bits); the ranks vote, and those that differ
fetch the chunks that differ from several holders at the same time, and check each against its hash
before a byte of it is written.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from holdfast import _core
from holdfast.comm.chunks import CHUNK_BYTES, RUN_CHUNKS, State, hash_of
from holdfast.errors import ConfigError, PeerLost, ProtocolError, Timeout

# Of one fetcher under way: bounds its memory.
_RUNS_AT_ONCE = 8
# Holders die, or their memory changes under way: others are asked.
_ROUNDS = 4
# Tag of its messages; a user's are below.
TAG = 2**31 - 1
# What a rank may say of its state's structure.
_MAX_TEXT = 1 << 26
_LOOK_S = 1.0


class SyncReport(NamedTuple):
    """What a sync did on this rank."""

    digest: str
    """Of the whole state, the same on every rank afterwards."""
    chunks: int
    """Chunks of the state."""
    fetched: int
    """Those that were fetched, because they differed here."""
    bytes: int
    """Bytes of the state."""
    source: int
    """Lowest rank whose state it is."""


class Messages(Protocol):
    """The collectives that a sync needs; a group's, or a torch process group's."""

    @property
    def rank(self) -> int:
        """Own rank."""

    def gather(self, mine: bytes) -> dict[int, bytes]:
        """Return what every rank gives; all give the same number of bytes."""

    def send(self, peer: int, address: int, size: int) -> Callable[[], object]:
        """Start to send bytes; the result waits, and raises what went wrong."""

    def recv(self, peer: int, address: int, size: int) -> Callable[[], object]:
        """Start to receive bytes; as with send()."""


class GroupMessages:
    """Those of a :class:`holdfast.Group`, marked as part of a newcomer's arrival.

    Parameters
    ----------
    native : _core.Communicator
        The group.
    """

    def __init__(self, native: _core.Communicator) -> None:
        self._native = native
        self.rank = native.rank

    def gather(self, mine: bytes) -> dict[int, bytes]:
        """Return what every rank that is there gives; all give the same number of bytes."""
        size = self._native.size
        own = np.frombuffer(mine, np.uint8).copy()
        all_of_them = np.zeros(size * len(own), np.uint8)
        blocks = [(all_of_them.ctypes.data + r * len(own), len(own)) for r in range(size)]
        call = _core.Call(
            "all_gather", "u8", "sum", [(own.ctypes.data, len(own))], blocks, at_entrance=True
        )
        outcome = self._native.run(call).outcome
        rows = all_of_them.reshape(size, len(own))
        return {rank: rows[rank].tobytes() for rank in outcome[1]}

    def send(self, peer: int, address: int, size: int) -> Callable[[], object]:
        """Start to send bytes; the result waits, and raises what went wrong."""
        return self._message("send", peer, address, size)

    def recv(self, peer: int, address: int, size: int) -> Callable[[], object]:
        """Start to receive bytes; as with send()."""
        return self._message("recv", peer, address, size)

    def _message(self, kind: str, peer: int, address: int, size: int) -> Callable[[], object]:
        block = [(address, size)]
        empty: list[tuple[int, int]] = []
        call = _core.Call(
            kind,
            "u8",
            "sum",
            block if kind == "send" else empty,
            block if kind == "recv" else empty,
            peer=peer,
            tag=TAG,
            at_entrance=True,
        )
        work = self._native.start(call, ())

        def wait() -> None:
            while not work.done():
                # Its own time limit ends it; this one lets signals through.
                with contextlib.suppress(Timeout):
                    work.wait(_LOOK_S)
            work.wait(0.0)

        return wait


def texts(messages: Messages, mine: bytes) -> dict[int, bytes]:
    """Return what every rank gives, of any length.

    Parameters
    ----------
    messages : Messages
        Of the group.
    mine : bytes
        What this rank gives.

    Returns
    -------
    dict of int to bytes
        By rank, those that are there.

    Raises
    ------
    ProtocolError
        For a text that is too long, naming its rank; on all of them.
    """
    lengths = messages.gather(len(mine).to_bytes(8, "little"))
    longest, rank = max((int.from_bytes(n, "little"), r) for r, n in lengths.items())
    if longest > _MAX_TEXT:
        raise ProtocolError(
            f"sync: rank {rank} describes its state in {longest} bytes; accepted: {_MAX_TEXT}; "
            "give fewer, larger tensors"
        )
    padded = messages.gather(mine.ljust(max(1, longest), b"\0"))
    return {
        rank: text[: int.from_bytes(lengths[rank], "little")]
        for rank, text in padded.items()
        if rank in lengths
    }


def _same_shape(label: str, rank: int, manifests: dict[int, bytes]) -> None:
    """Require that all ranks have the same tensors; name the first that differs."""
    if len(set(manifests.values())) == 1:
        return
    mine = {row[0]: row[1:] for row in json.loads(manifests[rank])}
    for other, text in sorted(manifests.items()):
        theirs = {row[0]: row[1:] for row in json.loads(text)}
        for name in sorted(mine.keys() | theirs.keys()):
            if mine.get(name) != theirs.get(name):
                raise ConfigError(
                    f"sync of {label}: {name!r} is {_shape(mine.get(name))} here and "
                    f"{_shape(theirs.get(name))} on rank {other}; all ranks need the same names, "
                    "dtypes and shapes"
                )


def _shape(row: list[Any] | None) -> str:
    return "absent" if row is None else f"{row[0]} {tuple(row[1])}"


def elect(ballots: dict[int, tuple[bool, bytes]]) -> bytes:
    """Return the digest that most ranks have, of equals the lowest rank's.

    Newcomers only listen, unless there is nobody else: a group that begins.

    Parameters
    ----------
    ballots : dict of int to (bool, bytes)
        By rank: whether it is a newcomer, and its digest.

    Returns
    -------
    bytes
        The digest.
    """
    voters = {rank: digest for rank, (new, digest) in ballots.items() if not new}
    if not voters:
        voters = {rank: digest for rank, (_, digest) in ballots.items()}
    counts = Counter(voters.values())
    lowest = {digest: rank for rank, digest in sorted(voters.items(), reverse=True)}
    return min(counts, key=lambda digest: (-counts[digest], lowest[digest]))


class _Take(NamedTuple):
    run: list[int]
    staged: np.ndarray[Any, Any]
    wait: Callable[[], object]


class _Fetch:
    """The exchange of chunks: who sends what to whom follows from the hashes, on every rank."""

    def __init__(
        self, messages: Messages, state: State, hashes: dict[int, bytes], right: bytes
    ) -> None:
        self._messages = messages
        self._state = state
        self._right = right
        self._hashes = hashes  # by rank
        self.fetched = 0

    def missing(self, hashes: bytes) -> list[int]:
        """Numbers of the chunks that are not as elected."""
        if hashes == self._right:
            return []
        count = len(self._state.chunks)
        mine = np.frombuffer(hashes, np.uint64).reshape(count, 2)
        want = np.frombuffer(self._right, np.uint64).reshape(count, 2)
        return [int(n) for n in np.flatnonzero((mine != want).any(axis=1))]

    def keep(self, ranks: Collection[int]) -> None:
        """Ask only these from now on."""
        self._hashes = {rank: theirs for rank, theirs in self._hashes.items() if rank in ranks}

    def plan(self, wanted: dict[int, list[int]], turn: int) -> list[tuple[int, int, list[int]]]:
        """Return (from, to, run) for all runs that are wanted, spread over their holders."""
        result = []
        for to, numbers in sorted(wanted.items()):
            for i, run in enumerate(self._state.runs(numbers)):
                holders = [
                    rank
                    for rank, hashes in sorted(self._hashes.items())
                    if rank != to
                    and all(hash_of(hashes, n) == hash_of(self._right, n) for n in run)
                ]
                if holders:
                    result.append((holders[(to + i + turn) % len(holders)], to, run))
        return result

    def round(self, plan: list[tuple[int, int, list[int]]]) -> list[int]:
        """Carry out this rank's part; return the chunks that did not come right."""
        me = self._messages.rank
        sends = [
            self._messages.send(to, *self._state.span(run))
            for source, to, run in plan
            if source == me
        ]
        wrong: list[int] = []
        under_way: deque[_Take] = deque()
        spare: list[np.ndarray[Any, Any]] = []
        for source, run in [(source, run) for source, to, run in plan if to == me]:
            if len(under_way) == _RUNS_AT_ONCE:
                wrong += self._take(under_way[0])
                spare.append(under_way.popleft().staged)
            staged = spare.pop() if spare else np.empty(RUN_CHUNKS * CHUNK_BYTES, np.uint8)
            _, size = self._state.span(run)
            wait = self._messages.recv(source, staged.ctypes.data, size)
            under_way.append(_Take(run, staged, wait))
        for take in under_way:
            wrong += self._take(take)
        for wait in sends:
            # Whom it was for is no member any more.
            with contextlib.suppress(PeerLost):
                wait()
        return wrong

    def _take(self, take: _Take) -> list[int]:
        run, staged, wait = take
        try:
            wait()
        except PeerLost:
            return run
        wrong = self._state.accept(run, staged, self._right)
        self.fetched += len(run) - len(wrong)
        return wrong


def run(messages: Messages, state: Mapping[str, Any], label: str, *, newcomer: bool) -> SyncReport:
    """Make the state the same on all ranks; see :meth:`holdfast.Group.sync`.

    Parameters
    ----------
    messages : Messages
        Of the group.
    state : mapping of str to array
        NumPy arrays or CPU tensors.
    label : str
        Names the group in errors.
    newcomer : bool
        Whether this rank only listens to the vote.

    Returns
    -------
    SyncReport
        What was done here.
    """
    mine = State(state, label)
    manifests = texts(messages, json.dumps(mine.manifest()).encode())
    _same_shape(label, messages.rank, manifests)
    ballot = bytes([newcomer]) + mine.digest(mine.hashes)
    ballots = {r: (b[0] == 1, b[1:]) for r, b in messages.gather(ballot).items()}
    elected = elect(ballots)
    if all(digest == elected for _, digest in ballots.values()):
        return _report(mine, elected, ballots, 0)
    hashes = messages.gather(mine.hashes)
    holders = [r for r, theirs in hashes.items() if mine.digest(theirs) == elected]
    if not holders:
        raise ProtocolError(f"sync of {label}: all ranks that had the elected state are lost")
    fetch = _Fetch(messages, mine, hashes, hashes[holders[0]])
    wanted = {r: missing for r, theirs in hashes.items() if (missing := fetch.missing(theirs))}
    for turn in range(_ROUNDS):
        plan = fetch.plan(wanted, turn)
        wrong = fetch.round(plan)
        asked = {number for _, to, run in plan if to == messages.rank for number in run}
        wrong += [n for n in wanted.get(messages.rank, []) if n not in asked]
        left = texts(messages, json.dumps(wrong).encode())
        fetch.keep(left)
        wanted = {r: numbers for r, text in left.items() if (numbers := json.loads(text))}
        if not wanted:
            mine.store()
            return _report(mine, elected, ballots, fetch.fetched)
    raise ProtocolError(
        f"sync of {label}: chunks still differ after {_ROUNDS} rounds on ranks {sorted(wanted)}: "
        "their holders are gone, or tensors were written to meanwhile"
    )


def _report(
    state: State, elected: bytes, ballots: dict[int, tuple[bool, bytes]], fetched: int
) -> SyncReport:
    source = min(rank for rank, (_, digest) in ballots.items() if digest == elected)
    return SyncReport(elected.hex(), len(state.chunks), fetched, state.bytes, source)
