"""The C interface on device memory: a C program as ranks of its own, as a rule over the
emulated device (cuda_driver.py).
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from compilers import needs_compiler
from cuda_driver import CHOSEN
from ranks import Outcome, finish, segments_of
from test_c_abi import build

PROGRAM = Path(__file__).parent / "c_device_ranks.c"

pytestmark = needs_compiler

DEVICE = {
    **CHOSEN,
    "HOLDFAST_CUDA_SLICE_BYTES": "65536",
    "HOLDFAST_CUDA_IPC_MIN_BYTES": "200000",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(PROGRAM, tmp_path_factory.mktemp("program"))


def outcomes_of(program: Path, name: str, size: int, meeting: Path, **env: str) -> list[Outcome]:
    whole = {
        **os.environ,
        "WORLD_SIZE": str(size),
        "HOLDFAST_STORE": f"file://{meeting}/directory",
        **DEVICE,
        **env,
    }
    processes = [
        subprocess.Popen(
            [str(program), name],
            env={**whole, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    return finish(processes, 100)


def run(program: Path, name: str, size: int, meeting: Path, **env: str) -> None:
    outcomes = outcomes_of(program, name, size, meeting, **env)
    assert [o.status for o in outcomes] == [0] * size, [o.output for o in outcomes]
    assert segments_of(outcomes) == set()


@pytest.mark.parametrize(("size", "ipc"), [(2, "auto"), (3, "off"), (4, "auto")])
def test_every_collective_has_the_bits_of_the_host(size, ipc, program, tmp_path):
    run(program, "every_collective", size, tmp_path, HOLDFAST_CUDA_IPC=ipc)


@pytest.mark.parametrize("ipc", ["auto", "off"])
def test_streams_wait_for_ops_and_the_host_goes_on(ipc, program, tmp_path):
    run(program, "go_on", 3, tmp_path, HOLDFAST_CUDA_IPC=ipc)


def test_what_cannot_be_done_names_the_value_and_leaves_the_group_whole(program, tmp_path):
    run(program, "refuse", 2, tmp_path)


def test_host_memory_here_and_a_gpus_there_is_an_error_on_every_rank(program, tmp_path):
    run(program, "disagree", 3, tmp_path)


def test_without_a_driver_host_memory_is_served_and_devices_are_refused(program, tmp_path):
    run(program, "no_driver", 2, tmp_path, HOLDFAST_CUDA_DRIVER="none")


@pytest.mark.parametrize("ipc", ["auto", "off"])
@pytest.mark.parametrize("dies_after_us", ["0", "2000", "10000"])
def test_survivors_agree_when_a_rank_is_killed_mid_op(ipc, dies_after_us, program, tmp_path):
    outcomes = outcomes_of(
        *(program, "lose_one", 4, tmp_path), HOLDFAST_CUDA_IPC=ipc, DIES_AFTER_US=dies_after_us
    )
    assert outcomes[2].status == -signal.SIGKILL
    survivors = [outcomes[rank] for rank in (0, 1, 3)]
    assert [o.status for o in survivors] == [0, 0, 0], [o.output for o in survivors]
    assert len({o.output.split()[-1] for o in survivors}) == 1
