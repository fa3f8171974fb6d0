"""Ranks in levels by a map: who shares what, what crosses slow links, and what is refused."""

from __future__ import annotations

import json
import random

import pytest

from holdfast import cli
from holdfast.errors import ConfigError
from holdfast.topology import partition

SITES = {
    "format": 1,
    "levels": [
        {"name": "site", "count": 2, "gbit_per_s": 0.2, "alpha_us": 10000},
        {"name": "host", "count": 2, "gbit_per_s": 1, "alpha_us": 100},
        {"name": "rank", "count": 2, "gbit_per_s": 10, "alpha_us": 10},
    ],
}


def placed(paths: list[list[str]], rate_of) -> str:
    """A map of ranks at these places; `rate_of` gives the rate of two paths."""
    ranks = len(paths)
    rates = [
        [0 if a == b else rate_of(paths[a], paths[b]) for b in range(ranks)] for a in range(ranks)
    ]
    return json.dumps(
        {
            "format": 1,
            "ranks": ranks,
            "domains": paths,
            "gbit_per_s": rates,
            "alpha_us": 100,
        }
    )


def test_three_levels_are_the_maps_own():
    parts = partition(json.dumps(SITES))
    assert parts.names == ("site", "host", "rank")
    assert parts.shape == (2, 2, 2)
    assert parts.order == tuple(range(8))
    assert parts.gbit_per_s == (0.05, 0.5, 10.0)  # four ranks share a line, two a card
    assert parts.groups(parts.parameters) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert parts.groups(parts.gradients) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert parts.groups("site") == ((0, 4), (1, 5), (2, 6), (3, 7))


def test_fewer_levels_are_those_that_take_the_least_time():
    two = partition(json.dumps(SITES), 2)
    assert (two.names, two.shape) == (("site", "host_rank"), (2, 4))
    assert two.gbit_per_s == (0.05, 0.5)  # the slower of those that were joined
    # Hosts that are nearly alone at the end of a slow line, in sites that hardly matter.
    alike = json.loads(json.dumps(SITES))
    alike["levels"][0]["gbit_per_s"], alike["levels"][1]["gbit_per_s"] = 0.2, 0.1
    two = partition(json.dumps(alike), 2)
    assert (two.names, two.shape) == (("site_host", "rank"), (4, 2))
    flat = partition(json.dumps(SITES), 1)
    assert (flat.names, flat.shape) == (("rank",), (8,))
    assert flat.groups(flat.optimizer) == (tuple(range(8)),)


def test_any_numbering_gives_the_same_domains():
    dice = random.Random(4)
    paths = [[f"s-{s}", f"h-{s}{h}"] for s in range(3) for h in range(2) for _ in range(4)]
    for _ in range(20):
        dice.shuffle(paths)
        text = placed(paths, lambda a, b: 10 if a == b else 1 if a[0] == b[0] else 0.1)
        parts = partition(text)
        assert parts.shape == (3, 2, 4)
        for level, depth in (("rank", 2), (("h", "rank"), 1)):
            for group in parts.groups(level):
                assert len({tuple(paths[rank][:depth]) for rank in group}) == 1
        assert sorted(parts.order) == list(range(24))
        assert parts.order[0] == 0


def test_a_level_that_parts_nobody_is_left_out():
    paths = [["s-0", f"h-{h}"] for h in range(4)]
    parts = partition(placed(paths, lambda _a, _b: 1), 1)
    assert (parts.names, parts.shape) == (("rank",), (4,))
    with pytest.raises(ConfigError, match="accepted: 1 to 1, as the map has h"):
        partition(placed(paths, lambda _a, _b: 1), 2)


def test_bytes_by_level_are_those_of_rings():
    parts = partition(json.dumps(SITES))
    assert parts.bytes_out(800) == {"site": 800, "host": 800, "rank": 1200}
    assert parts.bytes_out(800, 400, outermost=0.25) == {"site": 100, "host": 600, "rank": 1000}


def test_stages_are_cut_at_the_slowest_level():
    parts = partition(json.dumps(SITES), across="pipeline")
    assert parts.names == ("stage", "host", "rank")
    assert parts.groups(("host", "rank")) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert parts.bytes_out(800)["stage"] == 0


def test_stages_keep_cards_of_one_kind_together():
    # Four hosts, numbered alternately; two have cards that do not speak to those of the others.
    kinds = {"h-0": 100, "h-1": 50, "h-2": 100, "h-3": 50}
    paths = [[host] for host in kinds for _ in range(2)]

    def rate(a: list[str], b: list[str]) -> float:
        if a == b:
            return 400
        same = kinds[a[0]] == kinds[b[0]]
        return kinds[a[0]] if same else 10

    parts = partition(placed(paths, rate), 3, across="pipeline")
    assert parts.shape == (2, 2, 2)
    assert parts.groups(("h", "rank")) == ((0, 1, 4, 5), (2, 3, 6, 7))
    # So do cards that speak to each other, at the rate of the slower one.
    mixed = partition(
        placed(paths, lambda a, b: 400 if a == b else min(kinds[a[0]], kinds[b[0]])),
        across="pipeline",
    )
    assert mixed.groups(("h", "rank")) == ((0, 1, 4, 5), (2, 3, 6, 7))


@pytest.mark.parametrize(
    ("change", "levels", "told"),
    [
        ({}, 4, "levels 4; accepted: 1 to 3, as the map has site, host, rank"),
        ({}, 0, "levels 0; accepted: 1 to 3"),
        ({"levels": None, "ranks": 2, "gbit_per_s": 1, "alpha_us": 1}, 1, "rank 0 is"),
        ({"format": 2}, 3, "format: 2; accepted: 1"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(change, levels, told):
    chart = {k: v for k, v in {**SITES, **change}.items() if v is not None}
    with pytest.raises(ConfigError, match=told):
        partition(json.dumps(chart), levels)


def test_unequal_domains_are_refused_by_name():
    paths = [["a"]] * 3 + [["b"]] * 2
    text = placed(paths, lambda a, b: 10 if a == b else 1)
    with pytest.raises(ConfigError, match="level rank: a has 3, b has 2; accepted: domains of one"):
        partition(text, 2)
    assert partition(text, 1).shape == (5,)
    with pytest.raises(ConfigError, match="across 'both'; accepted: replicate, pipeline"):
        partition(text, 1, across="both")


def test_the_command_says_who_shares_what(tmp_path, capsys):
    path = tmp_path / "map.json"
    path.write_text(json.dumps(SITES))
    assert cli.main(["topology", "partition", str(path), "--gigabytes", "8"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 x site: replicas; 8 GB a step out of each, 320 s at 0.05 Gbit/s a rank",
        "2 x host: shards gradients, optimiser; 8 GB a step out of each, 64 s at 0.5 Gbit/s a rank",
        "2 x rank: shards parameters, gradients, optimiser; 12 GB a step out of each, "
        "9.6 s at 10 Gbit/s a rank",
        "ranks in this order: 0 1 2 3 4 5 6 7",
    ]
    assert cli.main(["topology", "partition", str(path), "--levels", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["names"], shown["shape"]) == (["site", "host_rank"], [2, 4])
    assert shown["bytes_out"]["site"] == 1e9
    assert cli.main(["topology", "partition", str(path), "--gigabytes", "0"]) == 2
    assert "--gigabytes 0; accepted" in capsys.readouterr().err
