"""Groups that go by a map of links: right results, over losses too, and one map for all."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from ranks import Process, all_end_well, finish, run_ranks, start_rank


def write_map(folder: Path, ranks: int, slow: float = 0.025) -> Path:
    """Cards of 100 Mbit/s, but for the last rank's."""
    everybody = list(range(ranks))
    shared = []
    for rank in everybody:
        others = [r for r in everybody if r != rank]
        rate = slow if rank == ranks - 1 else 0.1
        shared.append({"name": f"out {rank}", "gbit_per_s": rate, "from": [rank], "to": others})
        shared.append({"name": f"into {rank}", "gbit_per_s": rate, "from": others, "to": [rank]})
    chart = {"format": 1, "ranks": ranks, "gbit_per_s": 1, "alpha_us": 50, "shared": shared}
    path = folder / f"map-{slow}.json"
    path.write_text(json.dumps(chart))
    return path


def over_sockets(path: Path, **more: str) -> dict[str, str]:
    return {"HOLDFAST_TOPOLOGY": str(path), "HOLDFAST_TRANSPORTS": "tcp", **more}


@pytest.mark.parametrize("ranks", [2, 4, 5])
def test_results_are_right_whatever_way_they_take(ranks, tmp_path) -> None:
    run_ranks(
        "map_ranks", "run_everything", ranks, tmp_path, env=over_sockets(write_map(tmp_path, ranks))
    )


def test_groups_of_some_ranks_go_by_their_part(tmp_path) -> None:
    pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
    environment = over_sockets(write_map(tmp_path, 4))
    run_ranks("map_ranks", "run_torch_groups", 4, tmp_path, env=environment)


def test_a_loss_amid_trees_is_repaired(tmp_path) -> None:
    environment = over_sockets(write_map(tmp_path, 4))
    processes = [start_rank("map_ranks", "lose_one", r, 4, tmp_path, environment) for r in range(4)]
    outcomes = finish(processes, 60)
    assert outcomes[1].status == -signal.SIGKILL
    survivors = [outcome for outcome in outcomes if outcome.rank != 1]
    for outcome in survivors:
        assert outcome.status == 0, outcome.output


def test_ranks_with_other_maps_are_told(tmp_path) -> None:
    paths = [write_map(tmp_path, 3), write_map(tmp_path, 3), write_map(tmp_path, 3, slow=0.05)]
    processes = [
        start_rank("map_ranks", "run_with_others_maps", r, 3, tmp_path, over_sockets(path))
        for r, path in enumerate(paths)
    ]
    for outcome in finish(processes, 60):
        assert outcome.status == 0, outcome.output
        assert "REFUSED" in outcome.output
        assert "topology" in outcome.output


def test_a_map_of_another_size_is_refused(tmp_path) -> None:
    environment = over_sockets(write_map(tmp_path, 4))
    processes = [
        start_rank("map_ranks", "run_with_others_maps", r, 2, tmp_path, environment)
        for r in range(2)
    ]
    for outcome in finish(processes, 60):
        assert outcome.status == 0, outcome.output
        assert "2 ranks; accepted: 4, as the map of the option topology has" in outcome.output


@pytest.mark.parametrize("ranks", [2, 4])
def test_maps_are_taken_while_ops_run(ranks, tmp_path) -> None:
    run_ranks("map_ranks", "take_maps", ranks, tmp_path, env={"HOLDFAST_TRANSPORTS": "tcp"})


def test_maps_that_cannot_be_used_are_refused_on_all_ranks(tmp_path) -> None:
    run_ranks("map_ranks", "refuse_maps", 3, tmp_path, env={"HOLDFAST_TRANSPORTS": "tcp"})


@pytest.mark.parametrize("after_ms", [0, 3, 10, 30, 100])
def test_survivors_of_a_loss_amid_taking_have_one_map(after_ms, tmp_path) -> None:
    environment = {"HOLDFAST_TRANSPORTS": "tcp", "KILL_AFTER_S": str(after_ms / 1e3)}
    processes = [
        start_rank("map_ranks", "lose_the_giver", r, 4, tmp_path, environment) for r in range(4)
    ]
    outcomes = finish(processes, 60)
    assert outcomes[3].status == -signal.SIGKILL
    for outcome in outcomes[:3]:
        assert outcome.status == 0, outcome.output


def test_a_rank_that_comes_back_is_given_the_map(tmp_path) -> None:
    environment = {"HOLDFAST_TRANSPORTS": "tcp"}
    processes = [
        start_rank("map_ranks", "come_back", r, 3, tmp_path, environment) for r in range(3)
    ]
    first_life = processes[1]
    assert first_life.wait(60) == -signal.SIGKILL
    processes[1] = start_rank("map_ranks", "come_back", 1, 3, tmp_path, environment)
    for outcome in finish(processes, 60):
        assert outcome.status == 0, outcome.output


def start_on_host(function: str, folder: Path, rank: int, hosts: int = 3) -> Process:
    """One of three ranks, which measure."""
    env = {
        "HOLDFAST_TRANSPORTS": "tcp",
        "HOLDFAST_MEASURE": "0.3",
        "HOLDFAST_HOST_ID": f"host{rank % hosts}",
        "HOSTS": str(hosts),
    }
    return start_rank("map_ranks", function, rank, 3, folder, env)


@pytest.mark.parametrize("hosts", [3, 1])
def test_the_option_measure_makes_a_map_of_several_hosts_before_the_first_op(
    hosts, tmp_path
) -> None:
    all_end_well([start_on_host("begin_measured", tmp_path, r, hosts) for r in range(3)], 60)


def test_hosts_are_in_the_domains_that_the_option_names(tmp_path) -> None:
    processes = []
    for rank in range(4):
        env = {
            "HOLDFAST_TRANSPORTS": "tcp",
            "HOLDFAST_HOST_ID": f"host{rank}",
            "HOLDFAST_DOMAIN": f"{'ab'[rank % 2]}/rack-{rank}",
            "HOLDFAST_ALGORITHM": "two_level",
        }
        processes.append(start_rank("map_ranks", "begin_in_domains", rank, 4, tmp_path, env))
    all_end_well(processes, 60)


def test_a_rank_that_comes_back_measures_nothing(tmp_path) -> None:
    function = "come_back_to_what_was_measured"
    processes = [start_on_host(function, tmp_path, r) for r in range(3)]
    assert processes[1].wait(60) == -signal.SIGKILL
    processes[1] = start_on_host(function, tmp_path, 1)
    all_end_well(processes, 60)


def test_torch_measures_its_world_and_no_group_of_some(tmp_path) -> None:
    pytest.importorskip("torch", reason="waits for torch: the backend is built against it")
    all_end_well([start_on_host("begin_measured_in_torch", tmp_path, r) for r in range(3)], 60)
