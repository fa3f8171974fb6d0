"""The ledger of samples: its core under simulated churn, its shuffle, and torch's DataLoader."""

from __future__ import annotations

import copy
import os
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from holdfast.errors import ConfigError, ProtocolError
from holdfast.ft.data import ledger
from holdfast.ft.data.permutation import permuted

# Simulated epochs; more by hand, as HOLDFAST_TEST_EPOCHS=10000.
EPOCHS = int(os.environ.get("HOLDFAST_TEST_EPOCHS", "5000"))
SHARES = 10
# Rounds after which an epoch that is not over never will be.
MOST_ROUNDS = 2000


# ---- simulated churn -----------------------------------------------------------------------------


class Member:
    """One member's side: how much it has trained on, and what of it each fragment has not sent."""

    def __init__(self, fragments: int) -> None:
        self.unsent: list[list[int]] = [[] for _ in range(fragments)]
        self.trained = 0


class World:
    """Members that train, die, come, and start again from a checkpoint; no clock, no group."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.size = self.chance.randint(1, 60)
        self.fragments = self.chance.choice([1, 1, 2, 3])
        self.most = self.chance.randint(1, 20)
        self.state = ledger.begun(self.size, self.fragments)
        self.members = {rank: Member(self.fragments) for rank in range(self.chance.randint(1, 5))}
        self.committed: list[int] = []
        # What is under way: fragment, samples by rank, ranks that have dropped their progress.
        self.flights: list[tuple[int, dict[int, list[int]], set[int]]] = []
        # By fragment, what is in its shared parameters.
        self.inside: list[set[int]] = [set() for _ in range(self.fragments)]
        self.saved: Any = None

    def become(self, new: ledger.Ledger, commits: bool) -> None:
        """Note what an event has committed: what was held before and is not now."""
        assert new.is_sound
        assert ledger.read(new.words()) == new
        gone = places(self.state) - places(new)
        assert places(new) <= places(self.state)
        assert commits or not gone
        assert all(gone <= inside for inside in self.inside)
        self.committed += sorted(gone)
        self.state = new

    def train(self) -> None:
        for rank, member in self.members.items():
            held = [n for each in self.state.leases[rank].ranges for n in range(*each)]
            more = held[member.trained :][: self.chance.randint(0, self.most)]
            member.trained += len(more)
            for unsent in member.unsent:
                unsent += more

    def begin(self, fragment: int) -> None:
        counts, dropped = {}, set()
        for rank, member in self.members.items():
            counts[rank], member.unsent[fragment] = member.unsent[fragment], []
            if self.chance.random() < 0.03:
                dropped.add(rank)
                member.unsent = [[] for _ in range(self.fragments)]
        self.flights.append((fragment, counts, dropped))

    def end(self) -> None:
        fragment, sent, dropped = self.flights.pop(0)
        # One that has died since may have died before its part was with all.
        sent = {r: n for r, n in sent.items() if r in self.members or self.chance.random() < 0.5}
        for rank in sent.keys() - dropped:
            self.inside[fragment] |= set(sent[rank])
        held = {rank: ledger.length(lease.ranges) for rank, lease in self.state.leases.items()}
        counts = {rank: len(samples) for rank, samples in sent.items()}
        self.become(self.state.arrived(fragment, counts, dropped), commits=True)
        for rank, member in self.members.items():
            member.trained -= held[rank] - ledger.length(self.state.leases[rank].ranges)
            assert member.trained >= 0

    def boundary(self, turn: int, joined: set[int], is_first: bool = False) -> None:
        while self.flights:
            self.end()
        self.members |= {rank: Member(self.fragments) for rank in joined}
        there = {*self.members} if is_first else {*self.state.leases, *joined}
        new = self.state.leased(sorted(there), joined, self.most, turn)
        self.become(new, commits=False)

    def churn(self) -> set[int]:
        """Kill some, and return ranks that come in; a rank's next member may do so at once."""
        joined = set()
        for rank in list(self.members):
            if len(self.members) > 1 and self.chance.random() < 0.05:
                del self.members[rank]
                joined |= {rank} if self.chance.random() < 0.3 else set()
        if self.chance.random() < 0.08:
            joined |= {rank for rank in range(6) if rank not in self.members}
        return joined

    def checkpoint(self) -> None:
        """Save, or end all members and go on, in any number, from what was saved."""
        while self.flights:
            self.end()
        if self.saved is None or self.chance.random() < 0.7:
            now = (self.state, self.committed, self.inside, self.members)
            self.saved = copy.deepcopy(now)
            return
        self.state, self.committed, self.inside, members = copy.deepcopy(self.saved)
        there = range(self.chance.randint(1, 6))
        self.members = {rank: members.get(rank, Member(self.fragments)) for rank in there}
        self.boundary(self.state.turn, set(), is_first=True)

    def epoch(self) -> list[int]:
        self.boundary(0, set(), is_first=True)
        for turn in range(1, MOST_ROUNDS):
            for fragment in range(self.fragments):
                self.train()
                joined = self.churn()
                if fragment == self.fragments - 1:
                    self.boundary(turn, joined)
                elif joined:
                    self.boundary(turn - 1, joined)
                self.begin(fragment)
                while self.flights and self.chance.random() < 0.5:
                    self.end()
            if self.chance.random() < 0.05:
                self.checkpoint()
            if not self.state.left:
                break
        return self.committed


def places(state: ledger.Ledger) -> set[int]:
    held = [each for lease in state.leases.values() for each in lease.ranges]
    found = [place for each in [*state.free, *held] for place in range(*each)]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("share", range(SHARES))
def test_every_sample_is_committed_once_whoever_dies_comes_or_starts_again(share):
    for seed in range(share, EPOCHS, SHARES):
        world = World(seed)
        assert sorted(world.epoch()) == list(range(world.size)), f"seed {seed}"


def test_a_ledger_is_as_small_for_a_trillion_samples():
    state = ledger.begun(10**12, 1)
    for turn in range(200):
        state = state.leased(range(64), (), 100_000, turn)
        state = state.arrived(0, {rank: 10_000 + rank for rank in range(64)})
    assert len(state.words()) < 3000
    assert 10**12 - state.left == 200 * sum(10_000 + rank for rank in range(64))


def test_what_is_under_way_is_committed_with_the_last_fragment():
    state = ledger.begun(100, 2).leased([0, 1], (), 20, 0)
    state = state.arrived(0, {0: 8, 1: 5})
    assert state.left == 100
    state = state.arrived(1, {0: 6, 1: 0})
    assert (state.left, state.leases[0].ranges, state.leases[0].taken) == (94, ((6, 20),), (2, 0))


def test_what_a_lost_member_held_is_given_out_again_and_first():
    state = ledger.begun(100, 1).leased([0, 1, 2], (), 10, 0).arrived(0, {0: 0, 1: 4, 2: 0})
    assert state.arrived(0, {0: 0, 2: 0}) == state.leased([0, 2], (), 10, 0)
    state = state.leased([0, 2], (), 10, 0)
    assert state.free == ((14, 20), (30, 100))
    assert state.leased([0, 2, 3], {3}, 10, 0).leases[3].ranges == ((14, 20), (30, 34))


def test_a_rank_that_was_claimed_again_before_anybody_saw_it_vacant_begins_anew():
    state = ledger.begun(100, 1).leased([0, 1], (), 10, 0).arrived(0, {0: 0, 1: 4})
    state = state.leased([0, 1], {1}, 10, 0)
    assert ledger.length(state.leases[1].ranges) == 10
    assert state.left == 96


def test_a_rank_whose_progress_was_dropped_gives_back_what_it_had_trained_on():
    state = ledger.begun(40, 2).leased([0, 1], (), 20, 0).arrived(0, {0: 5, 1: 0})
    state = state.arrived(1, {0: 9, 1: 2}, dropped=[0])
    assert state.free == ((0, 9),)
    assert state.leases[0] == ledger.Lease(((9, 20),), (0, 0))


def test_a_boundary_in_mid_round_gives_those_who_are_there_nothing():
    state = ledger.begun(100, 1).leased([0, 1], (), 10, 3).arrived(0, {0: 4, 1: 4})
    assert state.leased([0, 1], (), 10, 3) == state
    assert state.leased([0, 1], (), 10, 4).left == state.left
    assert ledger.length(state.leased([0, 1], (), 10, 4).leases[0].ranges) == 10


@pytest.mark.parametrize(
    ("has", "free", "most", "want"),
    [
        ([0, 0], 100, 10, [10, 10]),
        ([0, 6], 100, 10, [10, 4]),
        ([0, 6], 8, 10, [7, 1]),
        ([0, 6], 4, 10, [4, 0]),
        ([3, 3, 3], 2, 10, [1, 1, 0]),
        ([12, 0], 3, 10, [0, 3]),
        ([], 5, 10, []),
    ],
)
def test_the_last_samples_go_to_those_who_hold_least(has, free, most, want):
    assert ledger.shares(has, free, most) == want


def test_damaged_words_are_no_ledger():
    words = ledger.begun(100, 2).leased([0, 5], (), 10, 0).words()
    chance = random.Random(1)
    for _ in range(2000):
        other = list(words)
        at = chance.randrange(len(other))
        other[at] = chance.choice([-1, 0, 1, 2**62, other[at] + 1, -(2**63)])
        if other != words:
            with pytest.raises(ProtocolError, match="no ledger's"):
                ledger.read(other[: chance.choice([len(other), at])])


# ---- the shuffle ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9, 10, 17, 1000, 4096, 4097, 99_991])
def test_a_shuffle_has_every_index_once_and_another_order_for_each_key(size):
    found = [permuted(np.arange(size), size, key) for key in ("0 0", "0 1", "1 0")]
    for each in found:
        assert sorted(each.tolist()) == list(range(size))
    if size >= 1000:
        assert not any(
            np.array_equal(a, b) for a, b in ((found[0], found[1]), (found[0], found[2]))
        )


def test_a_shuffle_leaves_no_order():
    """Places and indices are uncorrelated, neighbours are spread, as of a uniform permutation."""
    size = 100_000
    found = permuted(np.arange(size), size, "7 3").astype(float)
    assert abs(np.corrcoef(np.arange(size), found)[0, 1]) < 0.015
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.015
    counts = Counter((found[:1000] // 10_000).astype(int).tolist())
    assert all(60 < counts[part] < 140 for part in range(10))


def test_a_shuffle_is_the_same_in_parts_and_of_large_datasets():
    size = 10**12 + 7
    places = np.array([0, 1, size - 1, 123_456_789_012])
    whole = permuted(places, size, "5 0")
    assert [int(permuted(places[n : n + 1], size, "5 0")[0]) for n in range(4)] == whole.tolist()
    assert len(set(whole.tolist())) == 4
    assert 0 <= whole.min() <= whole.max() < size


# ---- torch's Sampler -----------------------------------------------------------------------------

torch = pytest.importorskip("torch", reason="waits for torch: the sampler is torch's")

from torch.utils.data import DataLoader  # noqa: E402

from holdfast.ft import DataLedger  # noqa: E402


class Numbers(torch.utils.data.Dataset):
    """Sample n is n."""

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> int:
        return index


def alone(size: int = 1000, lease: int = 400, **more) -> DataLedger:
    made = DataLedger(size, lease, **more)
    made.seat(0)
    made.boundary(0, [0])
    return made


def one_round(made: DataLedger, turn: int, count: int) -> None:
    made.arrived(0, {0: count})
    made.boundary(turn, [0])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_each_index_once_and_what_it_fetched_ahead_does_not_count(workers):
    made = alone()
    loader = DataLoader(Numbers(), batch_size=32, sampler=made, num_workers=workers)
    seen: list[int] = []
    for turn, batch in enumerate(loader, 1):
        seen += batch.tolist()
        made.done(len(batch))
        if turn == 4:
            assert int(made.trained) == len(batch)
            assert made.left == 1000 - 3 * 32
        one_round(made, turn, len(batch))
    assert sorted(seen) == list(range(1000))
    assert seen != sorted(seen)
    assert made.is_over
    assert len(made) == 0


def test_a_new_iteration_begins_behind_what_was_trained_on():
    made = alone()
    first = iter(DataLoader(Numbers(), batch_size=10, sampler=made, num_workers=2))
    want = [next(first).tolist() for _ in range(3)]
    made.done(10)
    again = iter(DataLoader(Numbers(), batch_size=10, sampler=made))
    assert next(again).tolist() == want[1]
    one_round(made, 1, 10)
    assert next(again).tolist() == want[2]


def test_epochs_follow_each_other_each_with_its_own_shuffle():
    made = alone(100, 40, epochs=3)
    seen, it = [], iter(made)
    for turn in range(1, 31):
        seen += [next(it) for _ in range(10)]
        made.done(10)
        assert made.epoch == (turn - 1) // 10
        one_round(made, turn, 10)
    assert next(it, None) is None
    epochs = [seen[:100], seen[100:200], seen[200:]]
    assert all(sorted(one) == list(range(100)) for one in epochs)
    assert len({tuple(one) for one in epochs}) == 3


def test_set_epoch_opens_the_next_one_and_no_other():
    made = alone(50, 50, shuffle=False)
    assert len(made) == 50
    made.set_epoch(0)
    for epoch in range(3):
        made.set_epoch(epoch)
        for turn, batch in enumerate(made.batches(DataLoader(Numbers(), 25, sampler=made))):
            assert batch.tolist() == list(range(25 * turn, 25 * turn + 25))
            made.done(25)
            one_round(made, 2 * epoch + turn + 1, 25)
    for wrong in (1, 4, -1, 0.5):
        with pytest.raises(ConfigError, match=f"epoch = {wrong}; accepted: 3 to 3"):
            made.set_epoch(wrong)


def test_a_member_without_samples_waits_for_the_others_with_none():
    made = DataLedger(30, 10)
    made.seat(1)
    made.boundary(0, [0, 1])
    seen = []
    for turn, batch in enumerate(made.batches(DataLoader(Numbers(), 5, sampler=made)), 1):
        count = 0 if batch is None else len(batch)
        seen += [] if batch is None else batch.tolist()
        made.done(count)
        # The other one is lost in the end, with what it held.
        made.arrived(0, {0: 1 * (turn < 6), 1: count} if turn < 10 else {1: count})
        made.boundary(turn, made.members)
    assert made.is_over
    assert len(seen) == 30 - 5


def test_a_saved_ledger_goes_on_where_it_was():
    made = alone()
    it = iter(made)
    want = [next(it) for _ in range(30)]
    made.done(17)
    other = alone(1000, 400)
    stale = iter(other)
    next(stale)
    other.load_state_dict(made.state_dict())
    assert other.digest == made.digest
    assert [n for n, _ in zip(other, range(13), strict=False)] == want[17:]
    with pytest.raises(ConfigError, match="iteration"):
        list(stale)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: DataLedger(0, 1), ["size = 0", "1 and more"]),
        (lambda: DataLedger(10, 0.5), ["lease = 0.5", "a whole number"]),
        (lambda: DataLedger(10, 5, epochs=0), ["epochs = 0"]),
        (lambda: DataLedger(10**15, 5, epochs=10**5), ["epochs = 100000", "at most 4611"]),
        (lambda: DataLedger(10, 5, seed="a"), ["seed = 'a'"]),
        (lambda: next(iter(DataLedger(10, 5))), ["trainer.attach(ledger)", "each_round=True"]),
        (lambda: list(alone(100, 10)), ["lease = 10 samples", "two rounds"]),
        (lambda: alone().done(1), ["samples = 1", "0 to 0"]),
        (lambda: alone().done(0.5), ["samples = 0.5", "whole number"]),
        (
            lambda: list(
                alone(7).batches(DataLoader(Numbers(), 8, sampler=alone(7), drop_last=True))
            ),
            ["no batch of the 7 samples", "drop_last=False"],
        ),
        (
            lambda: ledger.Ledger(
                10**6, 1, tuple((n, n + 1) for n in range(0, 10**5, 2)), {}
            ).words(),
            ["100006 numbers", "accepted: 32768", "a larger lease"],
        ),
        (lambda: alone().load_state_dict({}), ["state of a ledger"]),
        (
            lambda: alone().load_state_dict(alone(seed=2).state_dict()),
            ["seed=2", "seed=0", "make the ledger as the saved one"],
        ),
    ],
)
def test_what_a_ledger_cannot_use_is_refused_with_what_it_can(act, words):
    with pytest.raises(ConfigError) as refused:
        act()
    assert all(word in str(refused.value) for word in words), str(refused.value)
