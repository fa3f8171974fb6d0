"""Shared state: tensors that become bit-identical on all ranks.

Every rank hashes its state chunk by chunk (XXH3, 128 bits); the ranks vote, and those that differ
fetch the chunks that differ from several holders at the same time, and check each against its hash
before a byte of it is written.
"""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from holdfast import _core, _layer_metrics
from holdfast.comm.state.chunks import HASH_BYTES, State, hash_of
from holdfast.comm.state.memory import Room
from holdfast.comm.state.messages import Messages, descriptions, texts
from holdfast.comm.state.state_sender import StateSender
from holdfast.errors import ConfigError, PeerLost, ProtocolError

# Of one fetcher under way: bounds its memory.
_RUNS_AT_ONCE = 8
# Holders die, or their memory changes under way: others are asked.
_ROUNDS = 4
# In the place of a digest: of a rank that only listens.
_UNHASHED = bytes(HASH_BYTES)


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
    room: Room
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
        self._sender = StateSender(messages, state)
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

    def give(self, plan: list[tuple[int, int, list[int]]]) -> None:
        """Start to send this rank's part."""
        me = self._messages.rank
        self._sender.give([(to, run) for source, to, run in plan if source == me])

    def settle(self) -> None:
        """Wait until all that this rank gives has gone."""
        self._sender.settle()

    def take(self, plan: list[tuple[int, int, list[int]]]) -> list[int]:
        """Receive this rank's part; return the chunks that did not come right."""
        try:
            return self._take_all(plan)
        except BaseException:
            self._sender.stop()
            raise

    def _take_all(self, plan: list[tuple[int, int, list[int]]]) -> list[int]:
        me = self._messages.rank
        wrong: list[int] = []
        under_way: deque[_Take] = deque()
        spare: dict[int, list[Room]] = {}  # by the memory that they are for
        for source, run in [(source, run) for source, to, run in plan if to == me]:
            if len(under_way) == _RUNS_AT_ONCE:
                wrong += self._take(under_way[0])
                done = under_way.popleft()
                spare.setdefault(id(self._state.memory(done.run[0])), []).append(done.room)
            rooms = spare.get(id(self._state.memory(run[0])))
            room = rooms.pop() if rooms else self._state.room(run)
            _, size = self._state.span(run)
            wait = self._messages.recv(source, room.address, size, room.owner)
            under_way.append(_Take(run, room, wait))
        for take in under_way:
            wrong += self._take(take)
        return wrong

    def _take(self, take: _Take) -> list[int]:
        run, room, wait = take
        try:
            wait()
        except PeerLost:
            return run
        _layer_metrics.sync(received=self._state.span(run)[1])
        wrong = self._state.accept(run, room, self._right)
        self.fetched += len(run) - len(wrong)
        return wrong


class Sync:
    """A state on its way to be the same on all ranks; see :meth:`holdfast.Group.sync`.

    When it is made, the ranks have voted, and those that differ have fetched what they miss; what
    the others send may still be under way. Collective, as is :meth:`finish`.

    Parameters
    ----------
    messages : Messages
        Of the group.
    state : mapping of str to array
        NumPy arrays, torch tensors, arrays in a GPU's memory.
    label : str
        Names the group in errors.
    newcomer : bool
        Whether this rank only listens to the vote.
    node : _core.Node, optional
        Opens GPUs; default: only host memory is taken.
    """

    def __init__(
        self,
        messages: Messages,
        state: Mapping[str, Any],
        label: str,
        *,
        newcomer: bool,
        node: _core.Node | None = None,
    ) -> None:
        began = time.monotonic()
        self._messages = messages
        self._label = label
        self._fetch: _Fetch | None = None
        self._wrong: list[int] = []
        self._is_settled = False
        self._is_done = False
        manifests = descriptions(messages, label, lambda: self._describe(state, node))
        _same_shape(label, messages.rank, manifests)
        # A newcomer that would only listen hashes nothing yet: it will hardly have the right state.
        self._ballots = self._vote(newcomer, listens=newcomer)
        if all(new for new, _ in self._ballots.values()):
            self._ballots = self._vote(newcomer, listens=False)
        self._elected = elect(self._ballots)
        # A state of no bytes is the same everywhere, whatever a newcomer that only listens says.
        differs = any(digest != self._elected for _, digest in self._ballots.values())
        if differs and self._state.chunks:
            self._begin(listens=newcomer and self._ballots[messages.rank][1] == _UNHASHED)
        _layer_metrics.sync(seconds=time.monotonic() - began)

    def _describe(self, state: Mapping[str, Any], node: _core.Node | None) -> bytes:
        self._state = State(state, self._label, node)
        return json.dumps(self._state.manifest()).encode()

    def _vote(self, newcomer: bool, *, listens: bool) -> dict[int, tuple[bool, bytes]]:
        digest = _UNHASHED if listens else self._state.digest(self._state.hashes)
        ballot = bytes([newcomer]) + digest
        return {r: (b[0] == 1, b[1:]) for r, b in self._messages.gather(ballot).items()}

    def _begin(self, *, listens: bool) -> None:
        state = self._state
        nothing = bytes(HASH_BYTES * len(state.chunks))
        hashes = self._messages.gather(nothing if listens else state.hashes)
        holders = [r for r, theirs in hashes.items() if state.digest(theirs) == self._elected]
        if not holders:
            raise ProtocolError(
                f"sync of {self._label}: all ranks that had the elected state are lost"
            )
        right = hashes[holders[0]]
        self._fetch = fetch = _Fetch(self._messages, state, hashes, right)
        own = nothing if listens and state.looks_strange(right) else state.hashes
        self._wanted = self._tell(fetch.missing(own))
        self._turn = 0
        self._exchange()
        if self._wrong:
            self._settle()

    def _tell(self, numbers: list[int]) -> dict[int, list[int]]:
        """Tell what this rank misses; return what all miss that are there and miss anything."""
        assert self._fetch is not None
        said = texts(self._messages, json.dumps(numbers).encode())
        self._fetch.keep(said)
        return {r: wanted for r, text in said.items() if (wanted := json.loads(text))}

    def _exchange(self) -> None:
        """Fetch what this rank misses; begin to send what others do."""
        assert self._fetch is not None
        plan = self._fetch.plan(self._wanted, self._turn)
        self._fetch.give(plan)
        asked = {number for _, to, run in plan if to == self._messages.rank for number in run}
        mine = self._wanted.get(self._messages.rank, [])
        self._wrong = self._fetch.take(plan) + [n for n in mine if n not in asked]
        self._turn += 1
        if mine and not self._wrong:
            self._state.store()

    @property
    def report(self) -> SyncReport:
        """What was done here."""
        state = self._state
        source = min(r for r, (_, digest) in self._ballots.items() if digest == self._elected)
        fetched = 0 if self._fetch is None else self._fetch.fetched
        return SyncReport(self._elected.hex(), len(state.chunks), fetched, state.bytes, source)

    def finish(self) -> None:
        """Wait until the state is the same everywhere.

        Raises
        ------
        ProtocolError
            When all holders were lost, or tensors changed meanwhile.
        """
        if self._is_done:
            return
        began = time.monotonic()
        self._settle()
        self._is_done = True
        _layer_metrics.sync(ended=1, seconds=time.monotonic() - began)

    def _settle(self) -> None:
        fetch = self._fetch
        if fetch is None or self._is_settled:
            return
        while True:
            fetch.settle()
            self._wanted = self._tell(self._wrong)
            if not self._wanted:
                break
            if self._turn == _ROUNDS:
                raise ProtocolError(
                    f"sync of {self._label}: chunks still differ after {_ROUNDS} rounds on ranks "
                    f"{sorted(self._wanted)}: their holders are gone, or tensors were written to "
                    "meanwhile"
                )
            self._exchange()
        self._is_settled = True
