"""Boundaries at which sites come in one rank after the other, with threads as ranks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from thread_exchange import Alone, Meeting, ThreadExchange  # noqa: E402

from holdfast.comm.outcome import View  # noqa: E402
from holdfast.errors import ConfigError, PeerLost, Timeout  # noqa: E402
from holdfast.ft.outer import inside  # noqa: E402
from holdfast.ft.outer.inside import Inside  # noqa: E402
from holdfast.ft.outer.site import Site  # noqa: E402

LIMIT_S = 30
CPU = torch.device("cpu")


class Shard:
    """A group across: whom each of its boundaries lets in is written down before."""

    def __init__(self, size: int, first: set[int], boundaries: list[set[int]]) -> None:
        self.size = size
        self.members = set(first)
        self.boundaries = boundaries
        self.passed = 0
        self.joined: set[int] = set()
        self.brought: dict[int, torch.Tensor] = {}
        self.turn = 0
        self.changed = threading.Condition()

    def meet(self, rank: int, mine: torch.Tensor, at_end=lambda: None) -> dict[int, torch.Tensor]:
        """Wait for all members; the last one does what is to be done."""
        with self.changed:
            turn = self.turn
            self.brought[rank] = mine.clone()
            if set(self.brought) == self.members:
                self.last = self.brought
                self.brought = {}
                at_end()
                self.turn += 1
                self.changed.notify_all()
            elif not self.changed.wait_for(lambda: self.turn > turn, LIMIT_S):
                raise TimeoutError(f"rank {rank} waited for {self.members - set(self.brought)}")
            return self.last

    def let_in(self) -> None:
        here = self.boundaries[self.passed] if self.passed < len(self.boundaries) else set()
        self.passed += 1
        self.joined = here
        self.members |= here

    def advance(self, rank: int) -> View:
        self.meet(rank, torch.zeros(1), self.let_in)
        return self.view()

    def view(self) -> View:
        return View(self.passed, tuple(sorted(self.members)), tuple(sorted(self.joined)))

    def come_in(self, rank: int) -> View:
        """As who comes in: wait for the boundary that lets it in."""
        with self.changed:
            if not self.changed.wait_for(lambda: rank in self.members, LIMIT_S):
                raise TimeoutError(f"rank {rank} was not let in")
            return self.view()


class Done:
    def wait(self) -> None:
        pass


class Across:
    """A rank's exchange over a shard."""

    def __init__(self, shard: Shard, rank: int) -> None:
        self.shard, self.rank, self.size = shard, rank, shard.size
        self.members: tuple[int, ...] = ()

    def regroup(self, members) -> None:
        self.members = tuple(members)

    def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Done:
        for rank, row in self.shard.meet(self.rank, own).items():
            rows[rank] = row
        return Done()

    def sum(self, tensor: torch.Tensor) -> Done:
        tensor.copy_(sum(self.shard.meet(self.rank, tensor).values()))
        return Done()


def run(shards: list[Shard], comes: dict[int, list[int]], sites: int) -> list[list[object]]:
    """What each rank of each site has: a view, or an error. `comes`: its shards, by site."""
    meetings = [Meeting(len(shards)) for _ in range(sites)]

    def rank(site: int, place: int) -> object:
        within = ThreadExchange(meetings[site], place)
        here = Inside(within, None, CPU)
        shard = shards[place]
        across = Across(shard, site)
        try:
            if site in comes:
                if place not in comes[site]:
                    return None
                view = shard.come_in(site)
            else:
                view = shard.advance(site)
            return here.whole(view, across, lambda: shard.advance(site))
        except Timeout as error:
            return error

    with ThreadPoolExecutor(sites * len(shards)) as pool:
        calls = [
            [pool.submit(rank, site, place) for place in range(len(shards))]
            for site in range(sites)
        ]
        return [[call.result(LIMIT_S) for call in of] for of in calls]


@pytest.fixture(autouse=True)
def no_pace(monkeypatch):
    monkeypatch.setattr(inside, "_PACE_S", 0.0)


@pytest.mark.parametrize(
    "orders",
    [
        [[{2}], [{2}]],
        [[{2}], [set(), set(), {2}]],
        [[{2}, {3}], [{3}, set(), {2}]],
        [[{2, 3}], [set(), {3}, {2}]],
        [[set(), {2}], [{3}, {2}, set()], [{2, 3}]],
    ],
)
def test_all_ranks_have_the_same_sites_in_whatever_order_these_come_in(orders):
    # A third shard of the last: who lets nobody in at first waits for a boundary, too.
    if len(orders) == 3:
        orders[0].append({3})
    shards = [Shard(4, {0, 1}, order) for order in orders]
    there = set().union(*(part for order in orders for part in order))
    comes = {site: list(range(len(shards))) for site in there}
    views = run(shards, comes, 2 + len(there))
    for site in views:
        for view in site:
            assert view.ranks == (0, 1, *sorted(there))
            assert view.joined == tuple(sorted(there))


def test_a_boundary_without_newcomers_asks_nothing_across():
    shards = [Shard(2, {0, 1}, []) for _ in range(2)]
    views = run(shards, {}, 2)
    assert all(view == View(1, (0, 1)) for site in views for view in site)
    assert [shard.turn for shard in shards] == [1, 1]


def test_a_site_that_comes_in_in_part_is_told_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr(inside, "_LIMIT_S", 0.02)
    shards = [Shard(3, {0, 1}, [{2}]), Shard(3, {0, 1}, [])]
    views = run(shards, {2: [0]}, 3)
    assert isinstance(views[2][0], Timeout)
    assert "start the site again" in str(views[2][0])
    for site in views[:2]:
        assert [view.ranks for view in site] == [(0, 1, 2), (0, 1)]


def test_a_rank_that_is_gone_is_named_and_makes_no_sum_without_it():
    meeting = Meeting(2)

    class Hole(ThreadExchange):
        def gather(self, rows: torch.Tensor, own: torch.Tensor) -> Done:
            rows.zero_()
            rows[0] = own
            return Done()

    with pytest.raises(PeerLost, match="lost its rank 1") as lost:
        Inside(Hole(meeting, 0), None, CPU)
    assert lost.value.ranks == (1,)


def test_a_site_needs_ranks_of_its_own():
    with pytest.raises(ConfigError, match="within = a NoneType"):
        Site(Alone(), None)
    assert Site(Alone, Alone()).across.size == 1
