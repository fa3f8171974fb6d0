"""What measurements of links mean: sites, what pairs share, maps of it. Pure."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest

from holdfast.topology import forest, rounds, shared_links
from holdfast.topology.shared_links import Links

# What a flow's rate is off by, at most, in what is made up here.
NOISE = 0.05


@pytest.mark.parametrize("hosts", [2, 3, 4, 5, 8, 13, 32])
def test_rounds_have_each_pair_once_and_nobody_twice_at_a_time(hosts: int) -> None:
    found = rounds.rounds(hosts)
    pairs = [pair for one in found for pair in one]
    assert sorted(pairs) == list(itertools.combinations(range(hosts), 2))
    for one in found:
        busy = [host for pair in one for host in pair]
        assert len(busy) == len(set(busy))


def test_many_hosts_measure_a_sample_in_which_all_are_joined() -> None:
    found = rounds.rounds(100)
    assert len(found) == rounds.MOST_PAIRED_HOSTS - 1
    pairs = {pair for one in found for pair in one}
    assert len(pairs) == len(found) * 50
    assert {host for pair in pairs for host in pair} == set(range(100))


class Wires:
    """Cards, sites with lines, and what flows that run at once get of them."""

    def __init__(self, dice: random.Random, site_of: list[int], card: int, line: int | None):
        self.dice, self.site_of, self.card, self.line = dice, site_of, card, line

    def share(self, flows: list[tuple[int, int]]) -> list[float]:
        """By flow: what it gets, when all share what they meet evenly."""
        got = []
        for a, b in flows:
            rate = self.card / max(sum(x == a for x, _ in flows), sum(y == b for _, y in flows))
            if self.line is not None and self.site_of[a] != self.site_of[b]:
                out = [f for f in flows if self.leaves(f) and self.site_of[f[0]] == self.site_of[a]]
                into = [
                    f for f in flows if self.leaves(f) and self.site_of[f[1]] == self.site_of[b]
                ]
                rate = min(rate, self.line / max(len(out), len(into)))
            got.append(rate * self.dice.uniform(1 - NOISE, 1 + NOISE))
        return got

    def leaves(self, flow: tuple[int, int]) -> bool:
        return self.site_of[flow[0]] != self.site_of[flow[1]]

    def map(self, delay_ns: tuple[int, int]) -> dict:
        """The map that hosts make of it, one rank each."""
        hosts = len(self.site_of)
        kbit, alpha = np.zeros((hosts, hosts), np.int64), np.zeros((hosts, hosts), np.int64)
        for one in rounds.rounds(hosts):
            for flows in (one, [(b, a) for a, b in one]):
                for (a, b), rate in zip(flows, self.share(flows), strict=True):
                    kbit[a, b] = int(rate)
                    late = delay_ns[1 if self.leaves((a, b)) else 0]
                    alpha[a, b] = int(late * self.dice.uniform(0.8, 1.2))
        links = Links(kbit, alpha).bounded()
        site_of = shared_links.find_sites(links)
        own = [[host] for host in range(hosts)]
        lone, lines, cards = (
            [(trial, int(sum(self.share(list(trial.flows))))) for trial in trials]
            for trials in (
                rounds.lone_trials(own, site_of),
                rounds.line_trials(own, site_of),
                rounds.card_trials(own),
            )
        )
        links = shared_links.free_of_others(shared_links.fill(links, site_of), lone)
        host_of = list(range(hosts))
        shared = shared_links.shared_by(links, host_of, [*cards, *lines])
        return json.loads(shared_links.map_of(host_of, links, site_of, shared))


def layout(dice: random.Random, sites: int) -> list[int]:
    """Sites of two hosts or more, numbered anyhow."""
    found = [site for site in range(sites) for _ in range(dice.randint(2, 5))]
    dice.shuffle(found)
    return found


def same_groups(chart: dict, site_of: list[int]) -> bool:
    names = [path[0] for path in chart["domains"]]
    return all(
        (names[a] == names[b]) == (site_of[a] == site_of[b])
        for a, b in itertools.combinations(range(len(site_of)), 2)
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_shared_line_is_found_with_its_rate(seed: int) -> None:
    """Slower than two cards, or there would be nothing to see in pairs that are measured."""
    dice = random.Random(seed)
    site_of = layout(dice, dice.choice([2, 2, 3]))
    wires = Wires(dice, site_of, 1_000_000, dice.choice([50_000, 200_000, 400_000]))
    chart = wires.map((60_000, dice.choice([60_000, 5_000_000])))
    assert same_groups(chart, site_of)
    lines = {one["name"]: one for one in chart["shared"] if one["name"].startswith("site")}
    assert len(lines) == (2 if max(site_of) == 1 else 2 * (max(site_of) + 1))
    for one in lines.values():
        assert one["gbit_per_s"] * 1e6 == pytest.approx(wires.line, rel=0.1)
    for a, b in itertools.permutations(range(len(site_of)), 2):
        whole = wires.card if site_of[a] == site_of[b] else wires.line
        assert chart["gbit_per_s"][a][b] * 1e6 == pytest.approx(whole, rel=0.12)
    assert forest.plan(json.dumps(chart)).at.startswith('"site')


@pytest.mark.parametrize("seed", range(20))
def test_sites_with_ways_of_their_own_share_nothing(seed: int) -> None:
    dice = random.Random(seed)
    site_of = layout(dice, dice.choice([2, 3]))
    chart = Wires(dice, site_of, 100_000, None).map((60_000, 8_000_000))
    assert same_groups(chart, site_of)
    assert not [one for one in chart["shared"] if one["name"].startswith("site")]
    assert forest.plan(json.dumps(chart)).at.startswith('"host')


@pytest.mark.parametrize("seed", range(20))
def test_no_site_is_invented_where_links_are_alike(seed: int) -> None:
    dice = random.Random(seed)
    hosts = dice.randint(3, 12)
    delay = dice.choice([100_000, 5_000_000, 50_000_000])
    chart = Wires(dice, [0] * hosts, dice.choice([20_000, 1_000_000]), None).map((delay, delay))
    assert chart["domains"] == [[f"host-{host}"] for host in range(hosts)]
    # Uneven pairs are no sites either.
    values = np.array([[dice.randint(60_000, 100_000) for _ in range(hosts)] for _ in range(hosts)])
    assert set(shared_links.find_sites(Links(values, values * 5))) == {0}


def test_one_slow_card_is_no_site() -> None:
    hosts = 8
    kbit = np.full((hosts, hosts), 100_000, np.int64)
    kbit[3], kbit[:, 3] = 25_000, 25_000
    alpha = np.full((hosts, hosts), 80_000, np.int64)
    assert set(shared_links.find_sites(Links(kbit, alpha))) == {0}
    alpha[3], alpha[:, 3] = 9_000_000, 9_000_000
    assert shared_links.find_sites(Links(kbit, alpha)) == [0, 0, 0, 1, 0, 0, 0, 0]


def test_ranks_of_a_host_share_its_card() -> None:
    host_of = [0, 0, 1, 1]
    kbit = np.array([[30_000_000, 95_000], [95_000, 0]], np.int64)
    links = Links(kbit, np.full((2, 2), 70_000, np.int64))
    trials = rounds.card_trials([[0, 1], [2, 3]])
    assert [trial.flows for trial in trials[:2]] == [((0, 2), (1, 3)), ((2, 0), (3, 1))]
    shared = shared_links.shared_by(links, host_of, [(trial, 96_000) for trial in trials])
    chart = json.loads(shared_links.map_of(host_of, links, [0, 0], shared))
    assert [(one["from"], one["to"]) for one in chart["shared"]] == [
        ([0, 1], [2, 3]),
        ([2, 3], [0, 1]),
        ([2, 3], [0, 1]),
        ([0, 1], [2, 3]),
    ]
    assert chart["gbit_per_s"][0][1] == 30
    assert chart["gbit_per_s"][0][2] == 0.095


def test_pairs_that_nobody_measured_are_as_others_of_their_sites() -> None:
    site_of = [0, 0, 0, 1, 1, 1]
    same = np.equal.outer(site_of, site_of)
    kbit = np.where(same, 900_000, 50_000).astype(np.int64)
    kbit[0, 1] = kbit[0, 4] = 0
    filled = shared_links.fill(Links(kbit, kbit), site_of)
    assert filled.kbit_per_s[0, 1] == 900_000
    assert filled.kbit_per_s[0, 4] == 50_000


def test_sites_that_have_names_are_those_of_the_map() -> None:
    domains = [["west", "rack-1"], ["east"], [], ["west", "rack-2"], ["east"], []]
    site_of = shared_links.sites_of(domains)
    assert site_of == [0, 1, 2, 0, 1, 2]
    hosts = list(range(6))
    alike = np.full((6, 6), 90_000, np.int64)
    lines = [(trial, 70_000) for trial in rounds.line_trials([[r] for r in hosts], site_of)]
    text = shared_links.map_of(hosts, Links(alike, alike), site_of, lines, domains)
    chart = json.loads(text)
    assert chart["domains"] == [[*path, f"host-{host}"] for host, path in enumerate(domains)]
    ways_out = {one["name"]: one["from"] for one in chart["shared"] if "out" in one["name"]}
    assert ways_out == {"west out": [0, 3], "east out": [1, 4], "site-2 out": [2, 5]}
    assert forest.plan(text).ranks == 6


def test_a_rank_that_lies_makes_a_map_that_plans() -> None:
    kbit = np.array([[0, 2**62, -5], [0, 0, 7], [2**62, -1, 0]], np.int64)
    links = Links(kbit, kbit).bounded()
    site_of = shared_links.find_sites(links)
    chart = shared_links.map_of([0, 1, 2], shared_links.fill(links, site_of), site_of, [])
    assert forest.plan(chart).ranks == 3


def test_a_vacant_rank_is_middling() -> None:
    links = Links(np.full((2, 2), 5_000, np.int64), np.full((2, 2), 9_000, np.int64))
    chart = json.loads(shared_links.map_of([0, -1, 1], links, [0, 0], []))
    assert chart["gbit_per_s"][1] == [0.005, 0, 0.005]
    assert forest.plan(json.dumps(chart)).ranks == 3


def test_a_pace_is_not_moved_by_what_is_noticed_late() -> None:
    # 125000 bytes a millisecond: a Gbit/s.
    stamps = [k * 1_000_000 for k in range(1, 17)]
    stamps[5] += 4_000_000
    stamps[15] += 4_000_000
    assert shared_links.rate_of(stamps, 125_000) == pytest.approx(1_000_000, rel=0.01)


def test_flows_together_count_while_all_run() -> None:
    even = np.arange(1, 17, dtype=np.int64) * 1_000_000
    # The second one begins, and ends, later.
    stamps = np.stack([even, even + 3_500_000])
    assert shared_links.rate_together(stamps, [125_000, 125_000]) == pytest.approx(2e6, rel=0.1)
    assert shared_links.rate_together(np.stack([even, even * 0]), [125_000, 125_000]) == 0
