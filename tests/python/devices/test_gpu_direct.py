"""Collectives from device to device past the host, in real processes, as a rule over
emulated devices (cuda_driver.py).
"""

from __future__ import annotations

import pytest
from coordinators import Coordinator
from cuda_driver import CHOSEN
from ranks import finish, run_ranks, segments_of, start_rank

import holdfast

DEVICE = {
    **CHOSEN,
    "HOLDFAST_CUDA_SLICE_BYTES": "65536",
    "HOLDFAST_CUDA_IPC_MIN_BYTES": "1",
}


def run(function, size, meeting, **more):
    env = {**DEVICE, **more}
    return run_ranks("gpu_direct_ranks", function, size, meeting, env=env, timeout_s=150)


@pytest.mark.parametrize(("size", "transports"), [(2, "shm,tcp"), (3, "shm,tcp"), (2, "tcp")])
def test_every_op_and_dtype_has_the_bits_of_the_host(size, transports, tmp_path):
    outcomes = run("same_bits_as_on_the_host", size, tmp_path, HOLDFAST_TRANSPORTS=transports)
    assert segments_of(outcomes) == set()


def test_mappings_and_memory_are_used_again(tmp_path):
    run("use_memory_again_and_again", 3, tmp_path)


def test_the_option_turns_it_off(tmp_path):
    run("go_through_the_host", 2, tmp_path, HOLDFAST_CUDA_IPC="off")


def test_small_ops_go_through_the_host(tmp_path):
    run("go_through_the_host", 2, tmp_path, HOLDFAST_CUDA_IPC_MIN_BYTES="8001")


def test_ranks_of_two_hosts_go_through_them(tmp_path):
    processes = [
        start_rank(
            "gpu_direct_ranks",
            "go_through_the_host",
            r,
            2,
            tmp_path,
            {**DEVICE, "HOLDFAST_HOST_ID": f"host{r}", "HOLDFAST_TRANSPORTS": "tcp"},
        )
        for r in range(2)
    ]
    for outcome in finish(processes, 100):
        assert outcome.status == 0, outcome.output


def test_host_memory_here_and_a_gpus_there_is_an_error_on_every_rank(tmp_path):
    run("disagree", 3, tmp_path)


# Both, and each early and late.
_HOLES = {
    "0": "raise",
    "0.0005": "zero",
    "0.001": "raise",
    "0.002": "zero",
    "0.004": "raise",
    "0.008": "zero",
}


def _kill_one(function, lost, dies_after, tmp_path):
    env = {**DEVICE, "DIES_AFTER": dies_after, "ON_HOLE": _HOLES[dies_after]}
    processes = [start_rank("gpu_direct_ranks", function, r, 4, tmp_path, env) for r in range(4)]
    outcomes = finish(processes, 100)
    assert outcomes[lost].status == -9, outcomes[lost].output
    survivors = [outcome for outcome in outcomes if outcome.rank != lost]
    for outcome in survivors:
        assert outcome.status == 0, outcome.output
    # What they have, and what they say it is made of.
    told = [line for o in survivors for line in o.output.splitlines() if line.startswith("HAS")]
    assert len(told) == 3
    assert len(set(told)) == 1


@pytest.mark.parametrize("dies_after", _HOLES)
@pytest.mark.parametrize("function", ["lose_one", "lose_one_of_a_gather"])
def test_survivors_agree_when_a_rank_dies_whose_memory_is_read(function, dies_after, tmp_path):
    _kill_one(function, 2, dies_after, tmp_path)


@pytest.mark.parametrize("dies_after", ["0", "0.001", "0.004"])
def test_a_broadcast_whose_root_dies_is_whole_or_lost_everywhere(dies_after, tmp_path):
    _kill_one("lose_the_root", 0, dies_after, tmp_path)


def test_ranks_that_come_later_agree_from_their_first_call_on(tmp_path):
    coordinator = Coordinator(tmp_path)
    env = {
        **DEVICE,
        "URL": f"holdfast://{coordinator.address}",
        # As the group has it, so that its arrays are of its node's device.
        "HOLDFAST_COORDINATOR": coordinator.address,
        "HOLDFAST_TIMEOUT": "20",
    }
    try:
        processes = [start_rank("gpu_direct_ranks", "grow", 0, 1, tmp_path, env) for _ in range(2)]
        for process in processes:
            assert process.stdout is not None
            assert "ready" in process.stdout.readline()
        processes.append(start_rank("gpu_direct_ranks", "grow", 0, 1, tmp_path, env))
        for outcome in finish(processes, 60):
            assert outcome.status == 0, outcome.output
            assert "END" in outcome.output
    finally:
        coordinator.process.terminate()
        coordinator.process.wait(10)


def test_ranks_that_set_it_differently_are_told_when_they_meet(tmp_path):
    processes = [
        start_rank("gpu_direct_ranks", "disagree", r, 2, tmp_path, {**DEVICE, name: value})
        for r, (name, value) in enumerate(
            [("HOLDFAST_CUDA_IPC", "off"), ("HOLDFAST_CUDA_IPC_MIN_BYTES", "77")]
        )
    ]
    outcomes = finish(processes, 60)
    assert all(o.status != 0 for o in outcomes)
    text = " ".join(o.output for o in outcomes)
    assert "cuda_ipc: off" in text
    assert "cuda_ipc_min_bytes: 77" in text


@pytest.mark.parametrize(
    ("option", "value"), [("cuda_ipc", "on"), ("cuda_ipc", 1), ("cuda_ipc_min_bytes", 0)]
)
def test_bad_options_name_what_is_accepted(option, value):
    with pytest.raises(holdfast.ConfigError, match=f"{option}.*accepted"):
        holdfast.Options(**{option: value})
