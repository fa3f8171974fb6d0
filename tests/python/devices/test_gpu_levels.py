"""Collectives on device memory over several hosts, in real processes, as a rule over emulated
devices (cuda_driver.py).
"""

from __future__ import annotations

import pytest
from coordinators import Coordinator
from cuda_driver import CHOSEN
from ranks import Outcome, finish, start_rank

DEVICE = {
    **CHOSEN,
    "HOLDFAST_CUDA_SLICE_BYTES": "65536",
    "HOLDFAST_CUDA_IPC_MIN_BYTES": "1",
    "HOLDFAST_ADDRESS": "127.0.0.1",
}


def run_on(hosts: str, function: str, meeting, **more: str) -> list[Outcome]:
    """Run one rank for each letter of `hosts`, which names its host."""
    processes = [
        start_rank(
            *("gpu_levels_ranks", function, rank, len(hosts), meeting),
            {**DEVICE, **more, "HOLDFAST_HOST_ID": f"host {host}"},
        )
        for rank, host in enumerate(hosts)
    ]
    return finish(processes, 150)


def succeed(outcomes: list[Outcome]) -> list[str]:
    """Require that all ranks do, and return what each of them says it has."""
    for outcome in outcomes:
        assert outcome.status == 0, (outcome.rank, outcome.output)
    return [
        "\n".join(line for line in outcome.output.splitlines() if line.startswith("HAS"))
        for outcome in outcomes
    ]


@pytest.mark.parametrize("hosts", ["aaab", "abb", "ababcc"])
def test_every_op_and_dtype_has_the_result_of_the_host(hosts, tmp_path):
    succeed(run_on(hosts, "same_as_on_the_host", tmp_path))


def test_sums_are_rounded_alike_on_all_ranks(tmp_path):
    told = succeed(run_on("aabbb", "same_bits_on_all_ranks", tmp_path))
    assert told[0]
    assert len(set(told)) == 1


@pytest.mark.parametrize("transports", ["shm,tcp", "tcp"])
def test_half_a_column_crosses_twice(transports, tmp_path):
    # Sockets inside hosts carry words only, as shared memory does.
    succeed(run_on("aabb", "count_what_crosses", tmp_path, HOLDFAST_TRANSPORTS=transports))


def test_a_block_crosses_once(tmp_path):
    succeed(run_on("aabb", "count_what_moves", tmp_path))


@pytest.mark.parametrize("hosts", ["aabb", "aaabb", "aabbcc"])
def test_ops_in_flight_keep_their_order_and_memory_is_used_again(hosts, tmp_path):
    succeed(run_on(hosts, "keep_order", tmp_path))


def test_the_option_turns_it_off(tmp_path):
    succeed(run_on("aabb", "go_through_the_host", tmp_path, HOLDFAST_CUDA_IPC="off"))


def test_small_ops_go_through_the_host(tmp_path):
    succeed(run_on("aabb", "go_through_the_host", tmp_path, HOLDFAST_CUDA_IPC_MIN_BYTES="8001"))


def _lose(hosts, lost, dies_after, path_after, tmp_path, function="lose_some"):
    outcomes = run_on(
        *(hosts, function, tmp_path),
        LOST=",".join(str(rank) for rank in lost),
        DIES_AFTER=dies_after,
        PATH_AFTER=path_after,
        ON_HOLE="zero" if dies_after == "0.002" else "raise",
    )
    for rank in lost:
        assert outcomes[rank].status == -9, outcomes[rank].output
    told = succeed([outcome for outcome in outcomes if outcome.rank not in lost])
    assert told[0]
    assert len(set(told)) == 1


@pytest.mark.parametrize("dies_after", ["0", "0.001", "0.004", "0.016"])
@pytest.mark.parametrize("lost", [1, 2])
def test_survivors_agree_when_an_owner_or_another_dies(lost, dies_after, tmp_path):
    # Of the host of three the last one owns no column.
    _lose("aaabb", [lost], dies_after, "levels", tmp_path)


@pytest.mark.parametrize("dies_after", ["0", "0.002", "0.008"])
def test_the_others_go_on_when_a_whole_host_dies(dies_after, tmp_path):
    _lose("aabbcc", [2, 3], dies_after, "levels", tmp_path)


def test_a_group_with_one_host_left_goes_from_device_to_device(tmp_path):
    _lose("aaabb", [3, 4], "0.002", "direct", tmp_path)


@pytest.mark.parametrize("dies_after", ["0", "0.002", "0.008"])
@pytest.mark.parametrize("lost", [[1], [2, 3]])
def test_blocks_of_the_dead_are_whole_or_a_hole_everywhere(lost, dies_after, tmp_path):
    _lose("aabbc", lost, dies_after, "levels", tmp_path, "lose_some_of_a_gather")


@pytest.mark.parametrize("dies_after", ["0", "0.002", "0.008"])
def test_a_broadcast_whose_root_dies_is_whole_or_lost_everywhere(dies_after, tmp_path):
    _lose("aabbc", [0], dies_after, "levels", tmp_path, "lose_the_root")


def test_a_group_that_grows_onto_another_host_goes_in_levels_from_then_on(tmp_path):
    coordinator = Coordinator(tmp_path)
    env = {
        **DEVICE,
        "URL": f"holdfast://{coordinator.address}",
        # As the group has it, so that its arrays are of its node's device.
        "HOLDFAST_COORDINATOR": coordinator.address,
        "HOLDFAST_TIMEOUT": "60",
    }

    def start(host: str):
        more = {**env, "HOLDFAST_HOST_ID": f"host {host}"}
        return start_rank("gpu_levels_ranks", "grow", 0, 1, tmp_path, more)

    try:
        processes = [start("a"), start("a")]
        for process in processes:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
        processes.append(start("b"))
        for outcome in finish(processes, 100):
            assert outcome.status == 0, outcome.output
            assert "END" in outcome.output
    finally:
        coordinator.process.terminate()
        coordinator.process.wait(10)
