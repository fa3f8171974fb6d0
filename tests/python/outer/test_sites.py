"""Sites of sharded models: the same numbers as without sharding, and outer steps as a whole."""

from __future__ import annotations

import json
import signal

import pytest

pytest.importorskip("torch", reason="waits for torch: trainers are made of it")

from coordinators import Coordinator
from ranks import finish, run_ranks, start_rank


def test_two_sites_of_two_ranks_are_two_members_however_they_shard(tmp_path):
    run_ranks("site_ranks", "parity", 4, tmp_path)


def test_a_site_commits_an_outer_step_as_a_whole_or_not_at_all(tmp_path):
    run_ranks("site_ranks", "commit", 4, tmp_path)


def test_all_ranks_of_a_site_count_or_none_and_replicas_stay_alike(tmp_path):
    run_ranks("site_ranks", "alike", 4, tmp_path)


def test_what_cannot_work_is_refused_on_all_ranks_of_a_site(tmp_path):
    run_ranks("site_ranks", "refused", 4, tmp_path)


FAST = {"HOLDFAST_TIMEOUT": "30", "HOLDFAST_HEARTBEAT": "0.05", "HOLDFAST_SILENCE": "2"}
# Seconds; two are promised, on a machine that has nothing else to do.
LONGEST_STEP = 10


@pytest.fixture
def address(tmp_path, monkeypatch):
    for name in ("HOLDFAST_HEARTBEAT", "HOLDFAST_SILENCE"):
        monkeypatch.setenv(name, FAST[name])
    coordinator = Coordinator(tmp_path)
    yield coordinator.address
    coordinator.kill()


@pytest.mark.parametrize(
    ("within", "method", "on_loss"),
    [("gloo", "diloco", "continue"), ("holdfast", "streaming", "raise")],
)
def test_a_lost_rank_takes_its_site_out_and_the_site_comes_back_bit_equal(
    within, method, on_loss, tmp_path, request
):
    def start(site: int, place: int, again: int):
        env = {**FAST, "SITE": str(site), "PLACE": str(place), "AGAIN": str(again)}
        env |= {"WITHIN": within, "METHOD": method, "URL": url}
        env["HOLDFAST_ON_PEER_LOSS"] = on_loss
        return start_rank("site_ranks", "lives", 2 * site + place, 4, tmp_path, env)

    # Ranks that are numbered, and peers of elastic groups, one for each shard.
    elastic = method == "streaming"
    url = f"holdfast://{request.getfixturevalue('address')}" if elastic else ""
    stays = [start(0, place, 0) for place in range(2)]
    first = [start(1, place, 0) for place in range(2)]
    died = finish(first, 60)
    assert died[1].status == -signal.SIGKILL, died
    # The other rank of the site ends by itself, with an error.
    assert died[0].status not in (0, -signal.SIGKILL), died
    assert "did not end" not in died[0].output, died
    outcomes = finish([*stays, *(start(1, place, 1) for place in range(2))], 60)
    assert all(outcome.status == 0 for outcome in outcomes), outcomes
    ends, longest = [], []
    for outcome in outcomes:
        for line in outcome.output.splitlines():
            if line.startswith("END "):
                ends.append(json.loads(line.removeprefix("END ")))
            if line.startswith("LONGEST "):
                longest.append(float(line.split()[1]))
    # Each shard has the same bits in both sites, and no step was lost.
    assert ends[0] == ends[2]
    assert ends[1] == ends[3]
    assert ends[0]["bits"] == ends[0]["shared"] != ends[1]["shared"]
    assert all(end["members"] == [0, 1] for end in ends)
    assert all(end["seen"] == end["steps"] for end in ends)
    assert max(longest[:2]) < LONGEST_STEP, longest
