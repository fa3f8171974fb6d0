"""Maps from measurements: who measures whom when, sites, what is shared. Pure."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest

from holdfast.topology import measured, partition
from holdfast.topology.measured import Flows


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 13, 32])
def test_rounds_have_each_pair_once_and_nobody_twice_at_a_time(count: int):
    found = measured.rounds(count)
    assert len(found) == count - 1 + count % 2
    pairs = [pair for one in found for pair in one]
    assert sorted(pairs) == list(itertools.combinations(range(count), 2))
    for one in found:
        busy = [host for pair in one for host in pair]
        assert len(busy) == len(set(busy))


def noisy(dice: random.Random, hosts: int, value_of, spread: float = 0.2) -> np.ndarray:
    values = np.zeros((hosts, hosts), np.int64)
    for a, b in itertools.permutations(range(hosts), 2):
        values[a, b] = int(value_of(a, b) * dice.uniform(1 - spread, 1 + spread))
    return values


@pytest.mark.parametrize("seed", range(20))
def test_no_site_is_invented_where_links_are_alike(seed: int):
    dice = random.Random(seed)
    hosts = dice.randint(3, 12)
    rate = dice.choice([20_000, 200_000, 1_000_000])
    delay = dice.choice([100_000, 5_000_000, 50_000_000])
    kbit = noisy(dice, hosts, lambda _a, _b: rate)
    alpha = noisy(dice, hosts, lambda _a, _b: delay)
    assert measured.sites(kbit, alpha) == [0] * hosts


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_host_is_no_site_boundary_among_the_others(seed: int):
    dice = random.Random(seed)
    slow = dice.randrange(6)
    kbit = noisy(dice, 6, lambda a, b: 20_000 if slow in (a, b) else 100_000)
    site_of = measured.sites(kbit, noisy(dice, 6, lambda _a, _b: 1_000_000))
    # It is alone behind its own line, which is true; all others are together.
    assert len({s for h, s in enumerate(site_of) if h != slow}) == 1


@pytest.mark.parametrize("by", ["rate", "latency"])
@pytest.mark.parametrize("seed", range(20))
def test_sites_are_found_whatever_the_numbering(seed: int, by: str):
    dice = random.Random(seed)
    true = [s for s in range(dice.randint(2, 3)) for _ in range(dice.randint(2, 4))]
    dice.shuffle(true)

    def rate(a: int, b: int) -> int:
        return 1_000_000 if true[a] == true[b] or by == "latency" else 200_000

    def delay(a: int, b: int) -> int:
        return 200_000 if true[a] == true[b] or by == "rate" else 10_000_000

    hosts = len(true)
    found = measured.sites(noisy(dice, hosts, rate), noisy(dice, hosts, delay))
    numbers = {t: n for n, t in enumerate(dict.fromkeys(true))}
    assert found == [numbers[t] for t in true]


def test_pairs_that_crowded_a_line_are_given_what_one_got_alone():
    site_of = [0, 0, 1, 1]
    kbit = np.array([[0, 190, 25, 24], [190, 0, 23, 26], [25, 24, 0, 30], [26, 25, 30, 0]])
    alone = np.array([[0, 48], [47, 0]])
    assert measured.uncrowded(kbit, site_of, alone).tolist() == [
        *([0, 190, 30, 30], [190, 0, 30, 30]),  # the other site's cards do no more
        *([30, 30, 0, 30], [30, 30, 30, 0]),
    ]
    assert (measured.uncrowded(kbit, site_of, 0 * alone) == kbit).all()


def test_a_way_out_is_tried_by_as_many_flows_as_there_are():
    assert measured.crossings([0, 0, 1, 1, 1]) == [[(0, 2), (1, 3)], []]
    assert measured.crossings([0, 1, 2]) == [[], [], []]
    three = measured.crossings([0, 0, 1, 1, 2, 2])
    assert three[2] == [(4, 0), (5, 1)]


@pytest.mark.parametrize("seed", range(20))
def test_a_shared_way_out_is_in_the_map_and_no_other(seed: int):
    dice = random.Random(seed)
    shares = dice.random() < 0.5
    host_of = [0, 0, 1, 1, 2, 2, 3, 3]
    site_of = [0, 0, 1, 1]
    kbit = noisy(dice, 4, lambda a, b: 1_000_000 if site_of[a] == site_of[b] else 200_000, 0.05)
    alpha = noisy(dice, 4, lambda _a, _b: 1_000_000)
    alone = int(kbit[0, 2] + kbit[1, 3])
    got = int((200_000 if shares else 390_000) * dice.uniform(0.95, 1.02))
    chart = measured.chart_of(host_of, kbit, alpha, site_of, [Flows((0, 1), (2, 3), got, alone)])
    read = json.loads(chart)
    lines = [one for one in read["shared"] if one["name"].startswith("line")]
    assert len(lines) == shares
    if shares:
        assert (lines[0]["from"], lines[0]["to"]) == ([0, 1, 2, 3], [4, 5, 6, 7])
        assert lines[0]["gbit_per_s"] == pytest.approx(0.2, rel=0.06)
    cards = {one["name"]: one for one in read["shared"]}
    assert cards["host-2 out"]["gbit_per_s"] == kbit[2, 3] / 1e6
    assert cards["host-2 out"]["from"] == [4, 5]
    parts = partition(chart)
    assert (parts.names, parts.shape) == (("site", "host", "rank"), (2, 2, 2))


def test_what_was_not_measured_is_middling():
    kbit = np.array([[0, 100_000, 0], [100_000, 0, 80_000], [0, 80_000, 0]])
    alpha = np.array([[0, 1_000_000, 0], [1_000_000, 0, 2_000_000], [0, 2_000_000, 0]])
    read = json.loads(measured.chart_of([0, 1, -1, 2], kbit, alpha, [0, 0, 0], []))
    assert read["domains"] == [["host-0"], ["host-1"], ["host-of-rank-2"], ["host-2"]]
    assert read["gbit_per_s"][0] == [0, 0.1, 0.09, 0.09]
    assert read["alpha_us"][3] == [1500, 2000, 1500, 0]
