"""Measures the links of a group: the half that sends and receives.

Hosts measure each other pair by pair, by the first rank of each, in rounds in which no two pairs
share a host. Then several flows at once show what pairs share: a host's card, a site's line. Each
rank adds what it has seen to a sum over all, so that all make the same map of it. What arrives is
timed where it arrives; the clocks of hosts are compared over the same round trips.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from holdfast.errors import ConfigError, HoldfastError
from holdfast.topology import rounds, shared_links
from holdfast.topology.rounds import Pair, Trial
from holdfast.topology.shared_links import Links, Matrix

_TAG = 0x6D617073  # kept for measurements
# A train is so many messages, one after the other; what is timed is when each has come.
_CHUNKS = 16
_LEAST_CHUNK = 1024
_MOST_TRAIN = 32 << 20
_FIRST_TRAIN = 32 << 10
# Trains that count, of which the middle one is taken.
_SAMPLES = 3
# Of a slow link, one long train; of a fast one that keeps the machine busy.
_LASTING_S = 0.12
_MOST_LONG_TRAIN = 2 << 20
_MOST_TRAINS = 24
# The least of so many round trips: what disturbs one makes it longer, never shorter.
_ROUND_TRIPS = 10
# Of the budget: what pairs get, what cards, and what sites' lines.
_PAIRS, _CARDS, _LINES = 0.5, 0.3, 0.15
_LEAST_TRIAL_S = 0.02
_MOST_TRIAL_S = 0.5
# Flows last for some round trips, or TCP is still finding its rate.
_ROUND_TRIPS_OF_FLOW = 6
# A peer that is this late is given up.
_PATIENCE_S = 10.0
_BYTES_PER_KBIT_S = 125
_MOST_BUDGET_S = 3600.0


class _Group(Protocol):
    """What measuring asks of a group."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def send(
        self, array: Any, peer: int, tag: int = ..., async_op: bool = ..., timeout: float = ...
    ) -> Any: ...
    def recv(
        self, array: Any, peer: int, tag: int = ..., async_op: bool = ..., timeout: float = ...
    ) -> Any: ...
    def all_reduce(self, array: Any, op: str = ..., *, atomic: bool = ...) -> Any: ...
    def barrier(self) -> Any: ...


def measure(
    group: _Group,
    budget: float,
    host_of: Sequence[int],
    domains: Sequence[Sequence[str]] = (),
) -> str:
    """Measure the links of a group; all its ranks call it, and send nothing else meanwhile.

    Parameters
    ----------
    group : Group
        Of two ranks at least.
    budget : float
        Seconds that it takes about; many hosts, or slow links, need more.
    host_of : sequence of int
        By rank: its host, from 0 on; -1: vacant. The same on all ranks.
    domains : sequence of sequence of str
        By rank: the names of the domains around its host, from the outside in; of the ranks of a
        host the lowest one's count. The outermost are the sites then; without names, sites are
        where a clear gap in rates or latencies is.

    Returns
    -------
    str
        The map, as JSON: the same on all ranks. Ranks that are lost on the way count as middling.

    Raises
    ------
    ConfigError
        For a budget that cannot be used.
    PeerLost
        On all ranks, for any loss, where the group is one that raises it.
    """
    if not 0 < budget <= _MOST_BUDGET_S:
        raise ConfigError(f"measure: budget = {budget}; accepted: seconds, more than 0, to 3600")
    return _Measurement(group, budget, host_of, domains).run()


@contextlib.contextmanager
def _given_up() -> Iterator[None]:
    """A peer that is lost or late leaves its pair unmeasured; the next sum tells all of a loss."""
    with contextlib.suppress(HoldfastError):
        yield


class _Measurement:
    """One measurement, on one rank."""

    def __init__(
        self,
        group: _Group,
        budget: float,
        host_of: Sequence[int],
        domains: Sequence[Sequence[str]],
    ) -> None:
        hosts = max(host_of, default=-1) + 1
        self._group = group
        self._budget = budget
        self._host_of = list(host_of)
        self._ranks_of = [[r for r, h in enumerate(host_of) if h == n] for n in range(hosts)]
        self._domains = [list(domains[own[0]]) if domains else [] for own in self._ranks_of]
        self._kbit = np.zeros((hosts, hosts), np.int64)
        self._alpha = np.zeros((hosts, hosts), np.int64)
        # By two hosts: how far the second one's clock is ahead.
        self._ahead = np.zeros((hosts, hosts), np.int64)

    def run(self) -> str:
        pairs = rounds.rounds(len(self._ranks_of))
        inside = [own for own in self._ranks_of if len(own) > 1]
        # Both directions of each pair, after its round trips.
        flow_s = self._budget * _PAIRS / max(1, 2 * (len(pairs) + bool(inside)))
        # Round trips first, while nothing else is under way: a full line is late.
        for try_pair in (self._delay, functools.partial(self._rate, flow_s)):
            for one in pairs:
                self._group.barrier()
                for a, b in one:
                    self._if_mine(try_pair, self._ranks_of[a][:1], self._ranks_of[b][:1])
            if inside:
                self._group.barrier()
                for own in inside:
                    self._if_mine(try_pair, own[:1], own[1:2])
        self._share()
        links = Links(self._kbit, self._alpha).bounded()
        named = any(self._domains)
        site_of = shared_links.sites_of(self._domains) if named else shared_links.find_sites(links)
        links = shared_links.fill(links, site_of)
        lone, lines, cards = self._trials(links, site_of)
        links = shared_links.free_of_others(links, lone)
        shared = shared_links.shared_by(links, self._host_of, [*cards, *lines])
        return shared_links.map_of(
            self._host_of, links, site_of, shared, self._domains if named else ()
        )

    def _share(self) -> None:
        """Add up what ranks have seen, and forget ranks that are lost, alike on all."""
        present = np.zeros(self._group.size, np.int64)
        present[self._group.rank] = 1
        matrices = [self._kbit, self._alpha, self._ahead]
        whole = np.concatenate([*(m.ravel() for m in matrices), present])
        # In one piece: all of it is of the same ranks.
        self._group.all_reduce(whole, atomic=True)
        for number, matrix in enumerate(matrices):
            matrix[...] = whole[number * matrix.size :][: matrix.size].reshape(matrix.shape)
        self._keep(whole[-len(present) :])

    def _keep(self, present: npt.NDArray[np.int64]) -> None:
        self._ranks_of = [[r for r in own if present[r] == 1] for own in self._ranks_of]

    # ---- pairs ----

    def _if_mine(
        self, try_pair: Callable[[int, int], None], first: Sequence[int], second: Sequence[int]
    ) -> None:
        if first and second and self._group.rank in (first[0], second[0]):
            with _given_up():
                try_pair(first[0], second[0])

    def _delay(self, first: int, second: int) -> None:
        if self._group.rank == second:
            return self._pong(first)
        a, b = self._host_of[first], self._host_of[second]
        spent, ahead = self._ping(second)
        self._alpha[a, b] = self._alpha[b, a] = max(1, spent // 2)
        if a != b:
            self._ahead[a, b], self._ahead[b, a] = ahead, -ahead
        return None

    def _rate(self, seconds: float, first: int, second: int) -> None:
        a, b = self._host_of[first], self._host_of[second]
        if self._group.rank == first:
            self._send_trains(second, seconds)
            if a != b:
                self._kbit[b, a] = self._take_trains(second)
        else:
            self._kbit[a, b] = self._take_trains(first)
            if a != b:
                self._send_trains(first, seconds)

    def _ping(self, peer: int) -> Pair:
        """Nanoseconds of the fastest round trip, and how far the peer's clock is ahead."""
        word = np.zeros(1, np.int64)
        found = []
        for _ in range(_ROUND_TRIPS):
            start = time.monotonic_ns()
            self._send(word, peer)
            self._take(word, peer)
            end = time.monotonic_ns()
            found.append((end - start, int(word[0]) - (start + end) // 2))
        return min(found)

    def _pong(self, peer: int) -> None:
        word = np.zeros(1, np.int64)
        for _ in range(_ROUND_TRIPS):
            self._take(word, peer)
            word[0] = time.monotonic_ns()
            self._send(word, peer)

    def _send_trains(self, peer: int, seconds: float) -> None:
        """Send longer and longer trains until they last, then some more of that length."""
        end = time.monotonic() + seconds
        word = np.zeros(2, np.int64)
        size, counted = _FIRST_TRAIN, 0
        for _ in range(_MOST_TRAINS):
            chunk = max(_LEAST_CHUNK, size // _CHUNKS)
            word[:] = (chunk, 0)
            self._send(word, peer)
            train = np.zeros(chunk, np.uint8)
            works = [self._send(train, peer, True) for _ in range(_CHUNKS)]
            for work in works:
                work.wait()
            self._take(word, peer)
            spent = max(1e-6, int(word[0]) / 1e9)
            left = end - time.monotonic()
            lasting = seconds / (_SAMPLES + 0.5)
            if size / spent * _LASTING_S <= _MOST_LONG_TRAIN:
                # It says more than three short ones: the machine is late by milliseconds.
                lasting = min(0.7 * seconds, max(lasting, _LASTING_S))
            if spent >= 0.7 * lasting or size == _MOST_TRAIN:
                counted += 1
            else:
                wanted = size * lasting / spent
                size = min(_MOST_TRAIN, int(min(wanted, 8 * size)))
            if counted == _SAMPLES or left < spent:
                break
        word[:] = 0
        self._send(word, peer)

    def _take_trains(self, peer: int) -> int:
        """Kbit/s: of the trains as long as the longest, or nearly, the middle one."""
        word = np.zeros(2, np.int64)
        found: list[Pair] = []
        for _ in range(_MOST_TRAINS + 1):
            self._take(word, peer)
            # What a peer says is bounded before memory is asked for.
            chunk = min(int(word[0]), _MOST_TRAIN // _CHUNKS)
            if chunk <= 0:
                break
            start = time.monotonic_ns()
            stamps = np.zeros(_CHUNKS, np.int64)
            for work in self._expect(peer, chunk, stamps):
                work.wait()
            found.append((chunk, shared_links.rate_of(stamps.tolist(), chunk)))
            word[:] = (int(stamps[-1]) - start, 0)
            self._send(word, peer)
        longest = max((chunk for chunk, _ in found), default=0)
        rates = [rate for chunk, rate in found if 2 * chunk >= longest]
        return int(statistics.median(rates)) if rates else 0

    def _expect(self, peer: int, chunk: int, stamps: npt.NDArray[np.int64]) -> list[Any]:
        """Begin to receive a train; when each part has come is written down."""

        def note(number: int) -> None:
            stamps[number] = time.monotonic_ns()

        works = []
        for number in range(_CHUNKS):
            work = self._take(np.empty(chunk, np.uint8), peer, True)
            work._native.on_done(functools.partial(note, number))
            works.append(work)
        return works

    def _send(self, array: npt.NDArray[Any], peer: int, under_way: bool = False) -> Any:
        return self._group.send(array, peer, _TAG, async_op=under_way, timeout=_PATIENCE_S)

    def _take(self, array: npt.NDArray[Any], peer: int, under_way: bool = False) -> Any:
        return self._group.recv(array, peer, _TAG, async_op=under_way, timeout=_PATIENCE_S)

    # ---- several at once ----

    def _trials(self, links: Links, site_of: Sequence[int]) -> list[list[tuple[Trial, int]]]:
        """Try what pairs share; by kind of trial, what each of them found."""
        # Where there are no sites, cards have the lines' time.
        cards = _CARDS if max(site_of, default=0) > 0 else _CARDS + _LINES
        kinds = [
            (rounds.lone_trials(self._ranks_of, site_of), _LINES / 2),
            (rounds.line_trials(self._ranks_of, site_of), _LINES / 2),
            (rounds.card_trials(self._ranks_of), cards),
        ]
        all_trials = [trial for trials, _ in kinds for trial in trials]
        flows = sum(len(trial.flows) for trial in all_trials)
        stamps = np.zeros((flows, _CHUNKS), np.int64)
        chunks: list[list[int]] = []
        row = 0
        for trials, part in kinds:
            for trial in trials:
                seconds = self._budget * part / len(trials)
                chunks.append(self._chunks(trial, links, seconds))
                self._group.barrier()
                self._run_trial(trial, chunks[-1], stamps[row : row + len(trial.flows)])
                row += len(trial.flows)
        if flows:
            self._group.all_reduce(stamps, atomic=True)
        found: list[list[tuple[Trial, int]]] = []
        row, number = 0, 0
        for trials, _ in kinds:
            found.append([])
            for trial in trials:
                seen = self._by_one_clock(trial, stamps[row : row + len(trial.flows)])
                rate = shared_links.rate_together(seen, chunks[number])
                found[-1].append((trial, min(rate, shared_links.MOST_KBIT)))
                row, number = row + len(trial.flows), number + 1
        return found

    def _chunks(self, trial: Trial, links: Links, seconds: float) -> list[int]:
        """Bytes of a message of each flow, so that the trial lasts so long if they share all."""
        hosts = [(self._host_of[a], self._host_of[b]) for a, b in trial.flows]
        rates = [int(links.kbit_per_s[pair]) for pair in hosts]
        seconds = min(max(seconds, _LEAST_TRIAL_S), _MOST_TRIAL_S)
        if trial.is_card:
            # Together they have what the best of them has alone, if the card is all they share.
            seconds *= max(rates) / sum(rates)
        latest = max(int(links.alpha_ns[pair]) for pair in hosts)
        seconds = min(max(seconds, 2 * latest / 1e9 * _ROUND_TRIPS_OF_FLOW), _MOST_TRIAL_S)
        most = _MOST_TRAIN // _CHUNKS
        sizes = [int(rate * _BYTES_PER_KBIT_S * seconds) // _CHUNKS for rate in rates]
        return [min(max(size, _LEAST_CHUNK), most) for size in sizes]

    def _run_trial(self, trial: Trial, chunks: Sequence[int], stamps: Matrix) -> None:
        expected, sent = [], []
        for number, (a, b) in enumerate(trial.flows):
            if self._group.rank == b:
                with _given_up():
                    expected += self._expect(a, chunks[number], stamps[number])
        for number, (a, b) in enumerate(trial.flows):
            if self._group.rank == a:
                train = np.zeros(chunks[number], np.uint8)
                with _given_up():
                    sent += [self._send(train, b, True) for _ in range(_CHUNKS)]
        for work in [*expected, *sent]:
            with _given_up():
                work.wait()

    def _by_one_clock(self, trial: Trial, stamps: Matrix) -> Matrix:
        """Times as the first host has them that is there."""
        first = next((h for h, own in enumerate(self._ranks_of) if own), 0)
        seen: Matrix = stamps.copy()
        for row, (_, receiver) in zip(seen, trial.flows, strict=True):
            row[row > 0] -= self._ahead[first, self._host_of[receiver]]
        return seen
