"""Jobs that are started again with the same store, and groups that are made again in a world."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from ranks import Process, all_end_well, finish, kill, run_ranks, start_rank

pytest.importorskip("torch", reason="waits for torch: the backend is built against it")

# What a rank waits for that is not to come; the tests are to fail before that.
PATIENCE = {"HOLDFAST_CONNECT_TIMEOUT": "40"}


def wait_for(process: Process, text: str) -> None:
    assert process.stdout is not None
    while text not in (line := process.stdout.readline()):
        assert line, f"a rank ended before it said {text!r}"


def end(processes: list[Process]) -> None:
    for process in processes:
        kill(process)
        process.wait()


@pytest.mark.parametrize("program", ["stay", "stay_with_torch"])
def test_a_world_whose_ranks_were_all_killed_meets_anew_in_the_same_store(program, tmp_path):
    for last in ("0", "0", "1"):
        env = {**PATIENCE, "LAST": last}
        ranks = [start_rank("life_ranks", program, r, 3, tmp_path, env) for r in range(3)]
        for process in ranks:
            wait_for(process, "ready")
        if last == "0":
            end(ranks)
    all_end_well(ranks, 30)


def test_ranks_of_one_agent_come_back_to_those_of_the_other(tmp_path):
    def run(rank: int) -> Process:
        return start_rank("life_ranks", "advance_until_all_are_there", rank, 4, tmp_path, PATIENCE)

    ranks = [run(r) for r in range(4)]
    for process in ranks:
        wait_for(process, "ready")
    end(ranks[:2])
    ranks[:2] = [run(0), run(1)]
    all_end_well(ranks, 60)


def test_ranks_that_wait_for_others_follow_them_into_a_new_life(tmp_path):
    def run(rank: int, last: str) -> Process:
        env = {**PATIENCE, "LAST": last}
        return start_rank("life_ranks", "stay", rank, 4, tmp_path, env)

    ranks = [run(r, "0") for r in range(4)]
    for process in ranks:
        wait_for(process, "ready")
    end(ranks[:2])
    ranks[:2] = [run(0, "1"), run(1, "1")]
    # Members of a world that goes on: the agent of the others has not stopped them yet.
    wait_for(ranks[0], "waits for the others' next advance()")
    end(ranks[2:])
    ranks[2:] = [run(2, "1"), run(3, "1")]
    all_end_well(ranks, 60)


def test_worlds_and_groups_are_made_again_in_the_same_processes(tmp_path):
    run_ranks("life_ranks", "meet_again_and_again", 4, tmp_path, env=PATIENCE)


def test_a_world_meets_again_with_other_options(tmp_path):
    run_ranks("life_ranks", "meet_again_with_other_options", 2, tmp_path, env=PATIENCE)


def test_torchrun_starts_a_failed_job_again_with_its_store(tmp_path):
    script = tmp_path / "fails_once.py"
    script.write_text(
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('holdfast')\n"
        "t = torch.ones(10); dist.all_reduce(t); assert t[0] == 2\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and dist.get_rank() == 1:\n"
        "    raise SystemExit(3)\n"
        "dist.barrier(); dist.destroy_process_group(); print('done', flush=True)\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", "--max-restarts", "3", str(script)],
        env={**os.environ, **PATIENCE, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Both ranks of the second attempt; the first one's may have been through before it was stopped.
    assert done.stdout.count("done") >= 2, done.stdout


# The numbers: so many milliseconds after it has begun to make it, too.
@pytest.mark.parametrize("when", ["before", "in the middle", "2", "6"])
def test_a_new_group_does_not_wait_for_the_dead(when, tmp_path):
    env = {**PATIENCE, "WHEN": when}

    def run(rank: int) -> Process:
        return start_rank("life_ranks", "new_group_after_loss", rank, 4, tmp_path, env)

    ranks = [run(r) for r in range(4)]
    ranks[2].wait(30)
    for process in (ranks[0], ranks[1], ranks[3]):
        wait_for(process, "ready")
    ranks[2] = run(2)
    all_end_well(ranks, 60)


def test_a_new_group_names_the_dead_where_a_loss_is_to_raise(tmp_path):
    env = {**PATIENCE, "HOLDFAST_ON_PEER_LOSS": "raise"}
    program = "new_group_raises_after_loss"
    ranks = [start_rank("life_ranks", program, r, 4, tmp_path, env) for r in range(4)]
    for outcome in finish(ranks, 60):
        assert outcome.rank == 2 or outcome.status == 0, outcome.output
