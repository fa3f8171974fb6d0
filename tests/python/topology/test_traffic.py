"""A map that follows the traffic: what is blamed, what is left alone, and when."""

from __future__ import annotations

import random

import pytest

from holdfast.topology.traffic import Change, Path, Watch, changed, find_changes

MBIT = 1_000_000 // 8  # bytes a second
RANKS = 6


def chart() -> dict:
    """Six ranks with cards of 100 Mbit/s, three in a site whose line has 200."""
    everybody = list(range(RANKS))
    shared = [
        {"name": f"out {r}", "gbit_per_s": 0.1, "from": [r], "to": [p for p in everybody if p != r]}
        for r in everybody
    ]
    shared.append({"name": "line", "gbit_per_s": 0.2, "from": [0, 1, 2], "to": [3, 4, 5]})
    rates = [[0 if a == b else 1 for b in everybody] for a in everybody]
    return {"format": 1, "ranks": RANKS, "gbit_per_s": rates, "alpha_us": 100, "shared": shared}


def full(mbit: float) -> Path:
    return Path(50_000_000, 1_000_000, int(mbit * MBIT))


def idle(mbit: float) -> Path:
    return Path(1_100_000, 1_000_000, int(mbit * MBIT))


def ring(mbit_of) -> list[dict[int, Path]]:
    return [{(r + 1) % RANKS: full(mbit_of(r))} for r in range(RANKS)]


def test_what_the_map_says_is_left_alone():
    assert find_changes(chart(), ring(lambda _r: 95)) == []
    assert find_changes(chart(), [{p: idle(3) for p in range(RANKS)} for _ in range(RANKS)]) == []


def test_several_slow_pairs_of_a_rank_are_its_card():
    paths = ring(lambda _r: 95)
    paths[4] = {0: full(12), 5: full(13)}
    (change,) = find_changes(chart(), paths)
    assert change == Change(4, '"out 4"', 100_000, 25_000)
    assert str(change) == '"out 4": 25 Mbit/s were seen where the map says 100'
    new = changed(chart(), [change])
    assert new["shared"][4]["gbit_per_s"] == 0.025
    assert find_changes(new, paths) == []


def test_a_single_slow_pair_is_blamed_alone():
    paths = ring(lambda r: 20 if r == 4 else 95)
    (change,) = find_changes(chart(), paths)
    assert (change.capacity, change.seen_kbit_per_s) == ((4, 5), 20_000)
    new = changed(chart(), [change])
    assert new["gbit_per_s"][4][5] == 0.02
    assert find_changes(new, paths) == []


def test_slow_pairs_across_the_line_are_the_line():
    paths = [{p: full(15) for p in (3, 4, 5)} if r < 3 else {} for r in range(RANKS)]
    (change,) = find_changes(chart(), paths)
    assert (change.name, change.seen_kbit_per_s) == ('"line"', 135_000)


def test_a_full_card_explains_what_is_slow_behind_it():
    paths: list[dict[int, Path]] = [{p: full(20) for p in range(1, RANKS)}, *({} for _ in range(5))]
    assert find_changes(chart(), paths) == []  # five times 20 are what the card has


def test_a_capacity_that_does_more_is_raised():
    (change,) = find_changes(chart(), [{1: full(400)}, *({} for _ in range(5))])
    assert change == Change(0, '"out 0"', 100_000, 400_000)


def test_one_look_changes_nothing_and_a_change_rests():
    watch, now = Watch(), chart()
    slow = ring(lambda r: 20 if r == 4 else 95)
    assert watch.look(now, slow) == []
    assert watch.look(now, ring(lambda r: 25 if r == 4 else 95)) == []
    (change,) = watch.look(now, slow)
    assert change.seen_kbit_per_s == 25_000  # the most of them
    now = changed(now, [change])
    assert watch.look(now, slow) == []
    slower = ring(lambda r: 5 if r == 4 else 95)
    waited = 1
    while not watch.look(now, slower):
        waited += 1
    assert waited == 4


@pytest.mark.parametrize("seed", range(20))
def test_ten_minutes_of_healthy_noise_change_at_most_one_capacity(seed: int):
    dice = random.Random(seed)
    watch, now, count = Watch(), chart(), 0
    for _ in range(600):
        paths = ring(lambda _r: dice.uniform(78, 99))
        for rank in range(RANKS):
            if dice.random() < 0.1:
                paths[rank] = {(rank + 1) % RANKS: idle(dice.uniform(1, 99))}
            elif dice.random() < 0.02:  # now and then somebody is held up for a moment
                paths[rank] = {(rank + 1) % RANKS: full(dice.uniform(20, 99))}
        changes = watch.look(now, paths)
        now = changed(now, changes)
        count += len(changes)
    assert count <= 1
