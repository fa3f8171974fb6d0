"""Snapshots' state machines, from Python: plain values in and out."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import _core
from holdfast.errors import ConfigError, PeerLost


def done(actions: list[dict[str, Any]]) -> list[str]:
    return [action["do"] for action in actions]


def test_code_groups_are_plain_lists():
    groups, said = _core.code_groups(["a", "a", "b", "b", "c", "c"], 2, 1)
    assert groups == [([0, 2, 4], 1), ([1, 3, 5], 1)]
    assert said == ""
    with pytest.raises(ConfigError, match=r"code \(3, 1\) needs 4 hosts, there are 3"):
        _core.code_groups(["a", "b", "c"], 3, 1)
    assert _core.code_for_hosts(3, 3, 1) == (2, 1)


def test_places_and_sizes_of_a_code():
    places = _core.code_places(2, 1)
    assert [len(row) for row in places] == [3, 3, 3]
    assert [places[i][i] for i in range(3)] == [(True, 0)] * 3
    sizes = _core.code_sizes(2, 1, 10, [45, 12, 0])
    assert sizes["slice_tiles"] == 3
    assert sizes["slices"][0] == [(0, 30), (30, 45)]
    assert sum(sizes["parity_bytes"]) == sum(sizes["row_bytes"])
    with pytest.raises(ConfigError, match="2 bodies for code"):
        _core.code_sizes(2, 1, 10, [1, 2])


def test_a_keeper_commits_when_all_have_closed():
    keeper = _core.Generations(slots=2, patience_s=5.0, flush_every=1)
    keeper.begun(1, 0, 2, None, None, 0.0)
    assert done(keeper.take(1, 77, 0.0)) == ["return", "capture"]
    (told,) = keeper.captured(1, 10, 0.1)
    assert (told["do"], told["step"], told["ok"]) == ("tell", 1, True)
    assert (told["layout"], told["hashes"]) == (77, 10)
    assert done(keeper.gathered([(1, True, 77, 10), (1, True, 77, 20)], [], 0.2)) == ["code"]
    assert done(keeper.coded([], "", 0.3)) == ["close"]
    assert keeper.take(2, 77, 0.4) == []
    assert keeper.standing()["next_at"] == pytest.approx(5.4)
    assert done(keeper.closed([], True, False, 0.5)) == [
        "committed",
        "protected",
        "flush",
        "return",
        "capture",
    ]
    standing = keeper.standing()
    assert standing["committed"] == (1, 1)
    assert standing["slots"][0]["parts"] == [10, 20]
    assert standing["slots"][0]["digest"] == _core.snapshot_digest((1, 1), [10, 20])


def report(rank: int, **other: Any) -> dict[str, Any]:
    parts = [10, 20]
    return {
        "holder": rank,
        "place": "memory",
        "id": (1, 8),
        "committed": True,
        "rank": rank,
        "group": [0, 1],
        "parity": 1,
        "slice_tiles": 1,
        "parts": parts,
        "has_body": True,
        "hashes": parts[rank],
        "damaged": [],
        "rows": [True],
        "damaged_rows": [],
        **other,
    }


def test_a_choice_names_sources_and_what_is_lost():
    choice = _core.choose_snapshot([report(0)], [], 9)
    assert choice["id"] == (1, 8)
    assert [source["kind"] for source in choice["sources"]] == ["keeper", "decode"]
    assert choice["sources"][1]["givers"] == [(0, 0, "memory")]
    assert choice["steps_lost"] == 1
    with pytest.raises(PeerLost, match="no state can be restored of the steps up to 8"):
        _core.choose_snapshot([report(0, hashes=11)], [], 0)
    live = _core.choose_snapshot([report(0)], [(0, (1, 9), 2, [0, 1])], 9)
    assert live["id"] == (1, 9)
    assert _core.choose_snapshot([], [], 0)["fresh"]
    with pytest.raises(PeerLost):
        _core.choose_snapshot([report(0)], [], 9, refused=[(1, 8)])
    with pytest.raises(KeyError, match="rows is missing"):
        _core.choose_snapshot([{k: v for k, v in report(0).items() if k != "rows"}], [], 0)


def test_a_flush_ends_in_its_order():
    order = _core.FlushOrder((1, 8))
    steps = [order.what]
    while steps[-1] not in ("done", "failed"):
        steps.append(order.done())
    assert steps.index("sync_files") < steps.index("rename_manifest")
    assert steps[-3:] == ["agree", "remove_older", "done"]
    full = _core.FlushOrder((1, 8))
    assert full.done("no room") == "remove_own"
    assert full.done() == "agree"
    assert full.done() == "failed"
    assert full.why == "no room"
